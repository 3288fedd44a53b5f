"""The words of `make up` to a newcomer, before and while it starts."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.install.first_command import commands_of_readme
from deploy.commands import up
from deploy.stack.errors import StartError
from deploy.stack.home import write_private
from deploy.stack.supervisor import ProgramState, RunningProgram, SupervisedProgram
from transferapi.config import CHECKOUT


def test_make_up_looks_at_its_port_before_it_installs_anything(tmp_path: Path) -> None:
    """In a checkout without an environment, and with a Python that has nothing installed."""
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    (tmp_path / "deploy/stack").mkdir(parents=True)
    for name in ("deploy/__init__.py", "deploy/stack/__init__.py", "deploy/stack/free_ports.py"):
        shutil.copy(CHECKOUT / name, tmp_path / name)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environment = {**os.environ, "WAYBILL_PORT": str(port), "PYTHON": f"{sys.executable} -S"}
        done = subprocess.run(
            ["make", "up"], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    assert done.returncode != 0
    assert f"port {port} of 127.0.0.1 is in use: choose another one with WAYBILL_PORT." in done.stderr
    assert "venv.sh" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("log", "line"), [("", "begins"), ("one\n  Applying tasks.0001... OK\n", "Applying tasks.0001... OK")]
)
def test_the_preparation_shows_what_it_does(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, log: str, line: str
) -> None:
    monkeypatch.setattr(up, "PROGRESS_SECONDS", -1.0)
    file = tmp_path / "prepare.log"
    file.write_text(log)
    running = RunningProgram(SupervisedProgram("prepare", (), file))
    progress = up.PreparationProgress(running)
    progress()
    assert capsys.readouterr().out == ""
    running.state = ProgramState.STARTING
    progress()
    assert capsys.readouterr().out == f"  prepare   {line}\n"


def test_the_command_is_shown_as_it_can_be_typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for script, shown in (
        (tmp_path / ".venv/bin/waybill", ".venv/bin/waybill"),
        (Path("/usr/bin/waybill"), "waybill"),
        (CHECKOUT / "deploy/cli.py", "waybill"),
    ):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [str(script), "up"])
        assert up.program() == shown


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "postgres.log"
    log.write_text("FATAL:  could not write\n")
    assert "no space is left" not in str(StartError("postgres", "ended", log))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    assert f"its log is {log}; no space is left for {tmp_path}\n" in str(StartError("postgres", "ended", log))


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """/dev/full gives what a full disk gives (full(4)); the open file is replaced by it."""
    full = tmp_path / "token"
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom deploy.stack import home\nreal = os.open\n"
        "os.open = lambda path, *more: real('/dev/full', os.O_WRONLY) if '.token' in str(path) else real(path, *more)\n"
        "try:\n    home.write_private(Path(sys.argv[1]), 'x' * 10)\n"
        "except OSError as error:\n    print(error.errno, error.filename)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(full)], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.stdout == f"{errno.ENOSPC} {full}\n", done.stderr
    assert list(tmp_path.iterdir()) == []
    write_private(full, "secret")
    assert full.read_text() == "secret"


def test_the_readme_names_its_two_commands_and_what_they_need() -> None:
    assert commands_of_readme() == ["make up", "make test"]
    text = (CHECKOUT / "README.md").read_text()
    assert "apt-get install git make python3-venv" in text
    assert "Python 3.11 to 3.14" in text


def test_no_page_says_to_type_a_command_of_the_environment_without_its_place() -> None:
    """The pages for operators have it installed by the package; the README and the first steps have a checkout."""
    for page in ("README.md", "docs/first-steps.md"):
        text = (CHECKOUT / page).read_text()
        assert (
            re.findall(r"(?<!\.venv/bin/)(?<![\w/.])waybill (?:user|token|password|client|credentials|status)\b", text)
            == []
        )
