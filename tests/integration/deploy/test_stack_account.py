"""The system account that root's `make up` creates, by the real `useradd` in an /etc of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from transferapi.config import CHECKOUT

SECONDS = 120
AT_ONCE = 6
FILES = ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")

#: Run in a mount namespace of its own: `useradd` renames its files, so the whole folder is covered.
COVERED = 'mount --bind "$1" /etc && shift && exec "$@"'
#: One write for the line: `print` makes two where Python does not buffer, and lines of processes would mix.
CREATE = "import os; from deploy.stack.account import own_account; os.write(1, b'%d\\n' % own_account().pw_uid)"


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """A copy of /etc without the account."""
    folder = tmp_path / "etc"
    shutil.copytree("/etc", folder, symlinks=True, ignore=lambda _, names: [n for n in names if n == "letsencrypt"])
    for name in FILES:
        file = folder / name
        if file.exists():
            lines = file.read_text().splitlines(keepends=True)
            file.write_text("".join(line for line in lines if not line.startswith("waybill:")))
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root creates accounts")
def test_processes_that_start_at_once_create_one_account(etc: Path) -> None:
    """`useradd` alone lets the second replace the account of the first by one with another uid."""
    many = f'for i in $(seq {AT_ONCE}); do "$@" & done; wait'
    words = ["unshare", "--mount", "sh", "-c", COVERED, "sh", str(etc), "sh", "-c", many, "sh"]
    done = subprocess.run(
        [*words, sys.executable, "-c", CREATE],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    uids = done.stdout.split()
    [line] = [line for line in (etc / "passwd").read_text().splitlines() if line.startswith("waybill:")]
    assert uids == [line.split(":")[2]] * AT_ONCE, done.stderr
