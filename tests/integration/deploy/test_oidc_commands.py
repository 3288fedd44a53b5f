"""`waybill oidc rotate --to`: the new content of a file that root alone may replace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.stack.home import new_rsa_key
from identity.provider import signing_key_file
from transferapi.config import CHECKOUT


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "oidc-key.pem"
    path.write_text(new_rsa_key())
    return path


def oidc(key: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("WAYBILL_", "DATABASE_URL"))}
    environ = {**kept, "WAYBILL_HOME": str(key.parent / "home"), "WAYBILL_OIDC_KEY_FILE": str(key)}
    environ["WAYBILL_SECRET_KEY"] = "x" * 50
    return subprocess.run(
        [sys.executable, "-m", "deploy.cli", "oidc", *words], cwd=CHECKOUT, env=environ, timeout=120,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_new_content_is_printed_and_the_file_stays(key: Path) -> None:
    before = key.read_text()
    done = oidc(key, "rotate", "--to", "-")
    assert (done.returncode, key.read_text()) == (0, before), done.stderr
    old, new = signing_key_file.parse(done.stdout)
    assert old.pem == before.strip()
    assert new.signs_from is not None
    assert [words.split()[1] for words in done.stderr.splitlines()] == ["signs,", "signs"]
    leaked = oidc(key, "rotate", "--leaked", "--to", "-")
    [only] = signing_key_file.parse(leaked.stdout)
    assert only.pem not in (old.pem, new.pem)


def test_the_new_content_goes_to_another_file(key: Path) -> None:
    before, target = key.read_text(), key.parent / "oidc-key.new"
    done = oidc(key, "rotate", "--to", str(target))
    assert (done.returncode, key.read_text(), "PRIVATE" in done.stdout) == (0, before, False), done.stderr
    assert len(signing_key_file.parse(target.read_text())) == 2
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_one_sentence(key: Path) -> None:
    done = oidc(key, "rotate", "--to", "/nonexistent/key")
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot be written (No such file or directory): `waybill oidc rotate --to -` prints" in done.stderr
    assert "Traceback" not in done.stderr
