"""`scp` in the foreground, by the real OpenSSH client: the progress line, CTRL-C, `bg`, and a lost connection."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from deploy.stack.free_ports import free_port
from tests.instance import Api

TASK_ID = re.compile(rb"Task ID: ([0-9a-f-]{36})\r?\n")
HINT = "Type <CTRL-C> to cancel or bg<ENTER> to background"


@pytest.fixture(scope="module")
def ssh(service: Api, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the sample user, without the remote command."""
    access, known = service.connection["ssh"], tmp_path_factory.mktemp("ssh") / "known_hosts"
    known.write_text(f"[{access['host']}]:{access['port']} {access['host_key']}\n")
    options = ("-o", f"UserKnownHostsFile={known}", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR")
    key = ("-p", str(access["port"]), "-i", access["identity_file"])
    return ["ssh", "-F", "none", *key, *options, f"{access['user']}@{access['host']}"]


@pytest.fixture(scope="module")
def endless(service: Api) -> str:
    """A copy that does not end: nothing answers at the source, and the service tries again until the deadline."""
    source = service.endpoint(f"away-{uuid.uuid4().hex[:8]}", free_port())
    return f"scp {source}:/file go#ep2:~/never-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def terminal(ssh: list[str]) -> Iterator[pexpect.spawn[bytes]]:
    child: pexpect.spawn[bytes] = pexpect.spawn(
        ssh[0], [*ssh[1:-1], "-tt", ssh[-1]], timeout=60, dimensions=(24, 80), echo=False
    )
    child.expect_exact("Type 'help' for help.\r\n$ ")
    yield child
    child.close(force=True)


def begun(terminal: pexpect.spawn[bytes], line: str) -> str:
    """Type the line, and wait for the first progress line; the task's id."""
    terminal.sendline(line)
    terminal.expect(TASK_ID.pattern)
    assert isinstance(terminal.match, re.Match)
    task_id = terminal.match[1].decode()
    terminal.expect_exact(f"{HINT}\r\n\r[")
    terminal.expect(rb" 0/\d+ 0\.00 mbps")
    return str(task_id)


def status(service: Api, task_id: str) -> str:
    return str(service.call("GET", f"/task/{task_id}?fields=status")["status"])


def test_ctrl_c_cancels_the_task_and_the_prompt_comes_back(
    service: Api, terminal: pexpect.spawn[bytes], endless: str
) -> None:
    task_id = begun(terminal, endless)
    terminal.send("\x03")
    terminal.expect_exact(f"You have canceled the task {task_id}\r\n$ ")
    assert service.wait(task_id)["status"] == "FAILED"
    terminal.send("exit\r")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 130


def test_bg_and_enter_leave_the_task_running(service: Api, terminal: pexpect.spawn[bytes], endless: str) -> None:
    task_id = begun(terminal, endless)
    terminal.send("bg\r")
    terminal.expect_exact("\r\n$ ")
    terminal.send(f"status -f status {task_id}\r")
    terminal.expect_exact("Status: ACTIVE\r\n$ ")
    terminal.send(f"cancel {task_id}\r")
    terminal.expect_exact("$ ")
    assert service.wait(task_id)["status"] == "FAILED"


def test_a_lost_connection_leaves_the_task_running(service: Api, terminal: pexpect.spawn[bytes], endless: str) -> None:
    task_id = begun(terminal, endless)
    terminal.close(force=True)
    assert status(service, task_id) == "ACTIVE"
    service.call("POST", f"/task/{task_id}/cancel", {})
    assert service.wait(task_id)["status"] == "FAILED"


def test_the_progress_line_is_in_a_file_too_and_has_79_columns(ssh: list[str], tmp_path: Path) -> None:
    name = f"copy-{uuid.uuid4().hex[:8]}"
    with (tmp_path / "out").open("wb") as out:
        line = f"scp go#ep1:/share/godata/file1.txt go#ep2:~/{name}"
        found = subprocess.run([*ssh, line], stdout=out, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    first, hint, progress, rest = (tmp_path / "out").read_bytes().split(b"\n")
    assert TASK_ID.fullmatch(first + b"\n")
    assert (hint.decode(), rest) == (HINT, b"")
    nothing, *drawn = progress.decode().split("\r")
    assert nothing == ""
    assert {len(line) for line in drawn} == {79}
    assert re.fullmatch(r"\[X+\] 1/1 \d+\.\d\d mbps", drawn[-1])
