"""Programs that `tests.forking` forks behave as those that the interpreter starts."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from deploy.stack.child import spawn, stop
from tests import forking
from tests.waiting import eventually
from transferapi.config import CHECKOUT

#: The flag of unshare(2) for a network of one's own.
CLONE_NEWNET = 0x40000000

SHOWN = """
import os, sys, threading, signal
print(sys.argv, sys.path[0], sys.flags.utf8_mode, __name__, sorted(os.listdir("/proc/self/fd"))[:3], os.getcwd())
print(os.getppid(), os.getpgrp() == os.getpid(), dict(os.environ) == {"PATH": "/bin", **LANGUAGE, "A": "b"})
print(sys.stdin.read(), signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGPIPE), threading.active_count())
print(sys.stdout.line_buffering, sys.stderr.line_buffering, sys.stdout.encoding, sys.stderr.errors, file=sys.stderr)
"""


def both(*words: str, **options: object) -> list[subprocess.CompletedProcess[str]]:
    """The program as it starts by itself, and forked."""
    found = []
    for forking.allowed in (False, True):
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=60, check=False, **options
        )  # type: ignore[call-overload]
        found.append(done)
    return found


@pytest.mark.parametrize("group", [None, 0])
def test_a_program_finds_what_it_would_find(group: int | None) -> None:
    language = {name: value for name, value in os.environ.items() if name.startswith(("LANG", "LC_", "PYTHON"))}
    code = SHOWN.replace("LANGUAGE", repr(language))
    environ = {"PATH": "/bin", **language, "A": "b"}
    real, forked = both("-c", code, "one", "two", input="given", env=environ, cwd=CHECKOUT, process_group=group)
    assert real.stdout.splitlines()[1].startswith(str(os.getpid())), real.stderr
    assert (real.returncode, forked.returncode) == (0, 0), forked.stderr
    assert (forked.stdout, forked.stderr) == (real.stdout, real.stderr)


@pytest.mark.parametrize(
    "code",
    ["", "import sys; sys.exit(3)", "import sys; sys.exit('no')", "import os; os.kill(os.getpid(), 9)", "1 / 0",
     "import os, signal; os.kill(os.getpid(), signal.SIGINT)", "import atexit; atexit.register(print, 'end')",
     "import threading, time; threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()"],
)  # fmt: skip
def test_a_program_ends_as_it_would_end(code: str) -> None:
    real, forked = both("-c", code)
    assert (forked.returncode, forked.stdout) == (real.returncode, real.stdout)
    assert forked.stderr.splitlines()[-1:] == real.stderr.splitlines()[-1:]


def test_it_is_forked_only_where_an_interpreter_would_begin_as_the_one_that_forks(tmp_path: Path) -> None:
    shown = "import sys; print('django' in sys.modules)"
    for options in ({}, {"cwd": tmp_path}, {"env": {**os.environ, "PYTHONOPTIMIZE": "1"}}, {"umask": 0o77}):
        real, forked = both("-c", shown, **options)
        assert (real.stdout, forked.stdout) == ("False\n", f"{not options}\n"), options


def test_a_program_on_a_host_of_a_test_starts_in_the_network_of_that_host() -> None:
    """A thread enters a network of its own; the process that forks is in another one."""
    shown = "import os; print(os.readlink('/proc/self/ns/net'))"
    assert subprocess.run([sys.executable, "-c", "1"], check=True, timeout=60).returncode == 0
    here: list[str] = []

    def elsewhere() -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) == 0:
            here.append(os.readlink("/proc/thread-self/ns/net") + "\n")
            here.append(
                subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, timeout=60).stdout
            )

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(90)
    if not here:
        pytest.skip("a network of one's own needs root")
    assert here[0] == here[1] != os.readlink("/proc/self/ns/net") + "\n"


def test_another_process_forks_where_the_one_that_did_has_been_killed() -> None:
    words = [sys.executable, "-c", "print(1)"]
    assert subprocess.run(words, capture_output=True, check=True, timeout=60).stdout == b"1\n"
    forking._OURS._process.kill()
    forking._OURS._process.wait(60)
    with pytest.raises(OSError):
        subprocess.run(words, capture_output=True, check=True, timeout=60)
    assert subprocess.run(words, capture_output=True, check=True, timeout=60).stdout == b"1\n"


@pytest.mark.own_interpreter
def test_a_test_has_an_interpreter_of_its_own_where_it_is_marked_so() -> None:
    words = [sys.executable, "-c", "import sys; print('django' in sys.modules)"]
    assert subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout == "False\n"


def test_a_program_ends_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    """As `spawn` asks the kernel for, whose first argument is the parent."""
    code = "import time; time.sleep(600)"
    process = spawn([sys.executable, "-c", code], log=tmp_path / "log", cwd=CHECKOUT)
    assert Path(f"/proc/{process.pid}/cmdline").read_bytes().count(b"forking_process") == 1
    try:
        assert os.getpgid(process.pid) == process.pid
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: "\nState:\tT" in Path(f"/proc/{process.pid}/status").read_text())
        process.send_signal(signal.SIGCONT)
    finally:
        assert stop(process) == -signal.SIGTERM
    other = subprocess.Popen([sys.executable, "-c", code], preexec_fn=partial(os._exit, 7))
    assert other.wait(60) == 7
