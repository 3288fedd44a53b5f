"""The rehearsal of the README's commands, and its measure of an idle instance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.install import first_command, idle
from bench.install.first_command import SYSTEMS, BareSystem, CommandError, commands_of_readme, make_up, running
from tests.waiting import eventually

#: Under a shell: 50 MB of octets that are in use, and what looks like a session of PostgreSQL.
TREE = """
"$0" -c 'held = bytearray(50_000_000); print("ready", flush=True); import time; time.sleep(1000)' &
(exec -a "postgres: waybill waybill [local] idle" sleep 1000) &
(exec -a "postgres: checkpointer " sleep 1000) &
wait
"""


def test_memory_processor_and_sessions_are_those_of_all_processes_below_the_supervisor() -> None:
    with subprocess.Popen(["bash", "-c", TREE, sys.executable], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            eventually(lambda: idle.measure(process.pid, 0.01).connections == 1)
            found = idle.measure(process.pid, 0.2)
            assert 50 < found.memory < 150
            assert (found.connections, found.processes) == (1, 4)
            assert 0 <= found.processor < 100 * 64
        finally:
            for pid in reversed(idle.tree(process.pid)):
                os.kill(pid, signal.SIGKILL)
    with pytest.raises(ProcessLookupError):
        idle.measure(process.pid, 0.01)


def test_a_busy_process_is_measured_as_such() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            assert idle.measure(process.pid, 1.0).processor > 1
        finally:
            process.kill()


def test_the_commands_are_run_in_the_checkout_of_the_account(tmp_path: Path) -> None:
    assert commands_of_readme() == ["make up", "make test"]
    assert {"bookworm", "trixie"} < set(SYSTEMS.values())
    root, user = (BareSystem("Debian 13", account, tmp_path) for account in ("root", "user"))
    assert root.words("make up")[-1] == "cd /root/waybill && exec make up"
    assert "setpriv" not in root.words("make up")
    assert user.words("make up")[-1] == "cd /home/alice/waybill && exec make up"
    assert "--reuid=1000" in user.words("make up")


class Instead(BareSystem):
    """A command of this machine in place of one in a system."""

    def words(self, command: str, tests: str = "") -> list[str]:
        return ["sh", "-c", command]


def test_a_command_that_fails_is_reported_with_its_output(tmp_path: Path) -> None:
    system = Instead("Debian 13", "user", tmp_path)
    with pytest.raises(CommandError, match="it ended before: source and destination are the same") as refused:
        make_up(system, "echo no wheel", 0.01)
    assert refused.value.output == "no wheel\n"
    with pytest.raises(CommandError, match="status 3") as refused:
        first_command.make_test(system, "echo 1 failed; exit 3")
    assert refused.value.output == "1 failed\n"
    assert first_command.make_test(system, "echo; echo '=== 7 passed ==='").result == "7 passed"


def test_what_runs_ends_with_the_rehearsal() -> None:
    with running(["sh", "-c", "echo begun; exec sleep 1000"]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
    assert process.returncode == -9
