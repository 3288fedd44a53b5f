"""Child processes that never outlive their parent, and bounded waits for them."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from .errors import StartError

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
#: Octets after which a log begins anew; one old copy is kept.
LOG_LIMIT = 16 * 1024 * 1024

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent(parent: int, death: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel for the signal `death` when our parent ends; see prctl(2), PR_SET_PDEATHSIG.

    The second check of the parent closes the gap in which it may have ended before the request.
    """
    _prctl(PR_SET_PDEATHSIG, int(death), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def no_core_dumps() -> None:
    """Disable core dumps of this process and its children: their memory holds keys."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def spawn(
    argv: Sequence[str | Path],
    *,
    log: Path | int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    death: signal.Signals = signal.SIGKILL,
    pipe_output: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a child that gets the signal `death` when this thread's process ends.

    The kernel watches the *thread* that forks: call this from one that lives as long as the process.
    """
    parent = os.getpid()
    with contextlib.ExitStack() as stack:
        out: int = subprocess.DEVNULL
        if isinstance(log, Path):
            out = stack.enter_context(open_log(log)).fileno()
        elif log is not None:
            out = log
        return subprocess.Popen(
            [os.fspath(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipe_output else out,
            stderr=out,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            # Ctrl-C in the terminal goes to the supervisor, which then stops its children in order.
            process_group=0,
            preexec_fn=functools.partial(die_with_parent, parent, death),
        )


class Forked:
    """A child that runs a function of this program. It has the interface of Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status as Popen has it; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Raises subprocess.TimeoutExpired after `timeout` seconds."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(0.005)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


#: Both kinds of children; they end with this process.
Child = subprocess.Popen[bytes] | Forked


def fork(work: Callable[[], int], *, name: str, log: Path, cwd: Path | None = None) -> Forked:
    """Run `work` in a child that has all of our modules loaded; its result, or its SystemExit, is the exit status.

    This process must have one thread and no connection. The child gets SIGKILL when this process ends.
    name: what `ps` and `top` show as the command of the child; at most 15 octets of it.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Forked(pid)
    code = 1
    try:
        _detach(parent, name, log)
        if cwd is not None:
            os.chdir(cwd)
        # Without the context of the parent, such as whom its audit log names.
        code = contextvars.Context().run(work)
    except SystemExit as end:
        code = exit_status(end)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Not sys.exit: the frames below are those of the parent.
        os._exit(code)


def _detach(parent: int, name: str, log: Path) -> None:
    """Let a forked child have what `spawn` gives: signals, a process group, and no file of its parent but its log.

    A lock of the parent, too, would be held as long as the child has its file open.
    """
    die_with_parent(parent)
    _prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)
    with open_log(log) as file, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def exit_status(end: SystemExit) -> int:
    """As the interpreter makes it: a text goes to standard error."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return 1


def open_log(path: Path) -> io.FileIO:
    """Open a log for appending, readable by its owner only."""
    return io.FileIO(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def trim_log(path: Path) -> None:
    """Begin a large log anew. Its writer appends, so it need not know. Never raises, also where the disk is full."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > LOG_LIMIT:
            old = path.with_suffix(path.suffix + ".1")
            old.unlink(missing_ok=True)
            old.touch(mode=0o600)
            shutil.copyfile(path, old)
            os.truncate(path, 0)


def wait_ready(
    name: str,
    process: subprocess.Popen[bytes],
    ready: Callable[[], bool],
    *,
    timeout: float,
    log: Path | None = None,
) -> None:
    """Wait until `ready` returns true. Raises StartError when the process ends first, or after `timeout` seconds."""
    until = time.monotonic() + timeout
    pause = 0.005
    while not ready():
        if (code := process.poll()) is not None:
            raise StartError(name, f"ended with {describe_exit(code)} before it was ready", log)
        if time.monotonic() > until:
            raise StartError(name, f"not ready after {timeout:g} s", log)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def command_of(pid: int) -> list[bytes] | None:
    """The command line of a process, without words where it is a zombie; None if there is none to be read."""
    try:
        octets = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return octets.rstrip(b"\0").split(b"\0") if octets else []


def describe_exit(code: int) -> str:
    """`exit status 3`, or `signal SIGSEGV`."""
    if code >= 0:
        return f"exit status {code}"
    return f"signal {signal.Signals(-code).name}"


def stop(process: Child, how: signal.Signals = signal.SIGTERM, *, timeout: float = 5.0) -> int:
    """Send `how`, then SIGKILL after `timeout` seconds; returns the exit status as Popen has it."""
    if process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
    if isinstance(process, subprocess.Popen) and process.stdout is not None:
        process.stdout.close()
    assert process.returncode is not None
    return process.returncode


def stop_all(processes: Iterable[tuple[Child, signal.Signals]], *, timeout: float = 1.0) -> None:
    """Send SIGTERM to all at once, wait `timeout` seconds in total, then send SIGKILL."""
    asked = [(process, how) for process, how in processes if process.poll() is None]
    for process, how in asked:
        process.send_signal(how)
    until = time.monotonic() + timeout
    for process, _ in asked:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
    for process, how in asked:
        stop(process, how, timeout=0)
