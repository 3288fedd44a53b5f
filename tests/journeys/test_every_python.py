"""`make up` in a fresh checkout, by each Python of this machine for which Waybill is, besides that of the tests."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.release.source import copy_commit
from deploy.release.wheels import PYTHONS
from deploy.stack.free_ports import free_port
from transferapi.config import CHECKOUT

pytestmark = pytest.mark.timeout(900)
#: The folder of versions that pyenv has, where the tests run by one of them.
PYENV = Path(sys.base_prefix).parent if Path(sys.base_prefix).parent.name == "versions" else None


def programs() -> Iterator[str]:
    """One for each minor version, the newest of pyenv's if PATH has none that runs."""
    for minor in PYTHONS:
        if minor == sys.version_info.minor:
            continue
        of_pyenv = (
            sorted(PYENV.glob(f"3.{minor}.*/bin/python3"), key=lambda one: _patch(one), reverse=True) if PYENV else []
        )
        for candidate in (shutil.which(f"python3.{minor}"), *of_pyenv):
            if candidate and _version(candidate) == minor:
                yield str(candidate)
                break


def _patch(program: Path) -> int:
    return int(re.sub(r"\D.*", "", program.parents[1].name.rpartition(".")[2]) or 0)


def _version(program: str | Path) -> int | None:
    words = [program, "-c", "import sys, ensurepip; print(sys.version_info.minor)"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    return int(done.stdout) if done.returncode == 0 else None


@pytest.mark.parametrize("program", [pytest.param(one, id=f"3.{_version(one)}") for one in programs()])
def test_make_up_runs_by_each_python_of_this_machine(program: str) -> None:
    with tempfile.TemporaryDirectory(prefix="waybill-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        checkout = copy_commit(CHECKOUT, "HEAD", Path(folder) / "checkout").folder
        environment = {**os.environ, "PYTHON": program, "WAYBILL_PORT": str(free_port())}
        for name in ("WAYBILL_HOME", "MAKELEVEL", "MAKEFLAGS", "VIRTUAL_ENV"):
            environment.pop(name, None)
        output = ""
        with subprocess.Popen(
            ["make", "up"],
            cwd=checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    output += line
                    if "Ctrl-C here" in line:
                        # As the terminal sends it, to all.
                        os.killpg(process.pid, signal.SIGINT)
            finally:
                process.kill()
        assert "source and destination are the same" in output, output
        assert output.rstrip().endswith("Stopped."), output
        used = subprocess.run(
            [checkout / ".venv/bin/python", "-c", "import sys; print(sys.version_info.minor)"],
            capture_output=True,
            text=True,
        )
        assert int(used.stdout) == _version(program)
