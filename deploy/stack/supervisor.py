"""A supervisor in one thread: it starts programs in order, restarts them after crashes, and stops all in bounded time.

It imports no large package itself: who wants programs forked (`work`) has loaded what they need. The kernel signals
each child when the supervisor is gone (see child.py).
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from .child import Child, describe_exit, fork, spawn, stop_all, trim_log
from .errors import StartError

#: Seconds after which a crashed program is started again; twice as many after each further crash.
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
#: A program that ran this long has recovered: its next crash counts as the first one.
RECOVERED_AFTER = 30.0
#: A program that crashes more often than this during the start makes the start fail.
START_TRIES = 5
#: Seconds after its start until a program must be ready.
READY_SECONDS = 60.0
#: Seconds between two checks of the size of logs.
TRIM_SECONDS = 60.0
#: Ctrl-C ends everything in two rounds: first the users of the servers, then the servers.
STOP_SECONDS = (0.9, 0.6)


@dataclass(frozen=True)
class SupervisedProgram:
    """One program to keep running.

    ready: called every few hundredths of a second with the log's text since the start; whether the program works.
    after: names of programs that must be ready before this one starts.
    work: in place of a program, a function that a child runs; see `child.fork`.
    once: it is expected to end by itself, and is ready when it has ended well.
    server: others depend on it until the end, so it is stopped after them.
    """

    name: str
    argv: Sequence[str]
    log: Path
    work: Callable[[], int] | None = None
    env: Mapping[str, str] | None = None
    cwd: Path | None = None
    ready: Callable[[bytes], bool] = lambda text: True
    after: tuple[str, ...] = ()
    once: bool = False
    server: bool = False
    stop: signal.Signals = signal.SIGTERM


class ProgramState(Enum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    CRASHED = "crashed"
    DONE = "done"


@dataclass
class RunningProgram:
    """The state of one program."""

    program: SupervisedProgram
    state: ProgramState = ProgramState.WAITING
    process: Child | None = None
    started_at: float = 0.0
    log_start: int = 0
    crashes: int = 0
    restart_at: float = 0.0
    last_end: str = ""

    @property
    def is_up(self) -> bool:
        return self.state in (ProgramState.READY, ProgramState.DONE)

    def text(self) -> bytes:
        """The log of this run; its first 64 KB are enough to see that it is ready."""
        try:
            with self.program.log.open("rb") as log:
                log.seek(self.log_start)
                return log.read(65536)
        except FileNotFoundError:  # a forked child creates it later
            return b""


@dataclass
class Supervisor:
    """Keeps `programs` running: start(), watch() until `stopping`, stop().

    on_change: called with a program that became ready, or crashed, or ended.
    on_wait: called many times a second until all are ready for the first time.
    """

    programs: Sequence[SupervisedProgram]
    on_change: Callable[[RunningProgram], None] = lambda changed: None
    on_wait: Callable[[], None] = lambda: None
    stop_seconds: tuple[float, float] = STOP_SECONDS
    running: dict[str, RunningProgram] = field(init=False)
    stopping: bool = field(default=False, init=False)
    _everything_was_up: bool = field(default=False, init=False)
    _trimmed_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.running = {program.name: RunningProgram(program) for program in self.programs}
        self._wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask_to_stop)

    def _ask_to_stop(self, number: int, frame: object) -> None:
        self.stopping = True

    def pids(self) -> dict[str, int]:
        """The pids of the running processes, by name."""
        return {
            name: running.process.pid
            for name, running in self.running.items()
            if running.process is not None and running.process.returncode is None
        }

    def start(self, *, timeout: float) -> bool:
        """Start all programs. Returns False when it was asked to stop before the end. Raises StartError."""
        until = time.monotonic() + timeout
        while not self.stopping:
            self._tick()
            if all(running.is_up for running in self.running.values()):
                self._everything_was_up = True
                return True
            if time.monotonic() > until:
                late = next(running for running in self.running.values() if not running.is_up)
                raise StartError(late.program.name, f"not ready after {timeout:g} s", late.program.log)
            self.on_wait()
            self._sleep(0.02)
        return False

    def watch(self) -> None:
        """Check all programs once, and sleep until something happens; at most a second."""
        self._tick()
        self._trim_logs()
        settled = all(running.is_up for running in self.running.values())
        self._sleep(1.0 if settled else 0.1)

    def stop(self) -> None:
        """Stop all: first the users of the servers, then the servers; in at most `stop_seconds`."""
        for of_servers, seconds in zip((False, True), self.stop_seconds, strict=True):
            stop_all(
                [
                    (running.process, running.program.stop)
                    for running in self.running.values()
                    if running.process is not None and running.program.server is of_servers
                ],
                timeout=seconds,
            )

    def _sleep(self, seconds: float) -> None:
        """Sleep until a signal arrives (also that of a child that ended), at most `seconds`."""
        if select.select([self._wake], [], [], seconds)[0]:
            os.read(self._wake, 4096)

    def _tick(self) -> None:
        for running in self.running.values():
            match running.state:
                case ProgramState.WAITING if all(self.running[name].is_up for name in running.program.after):
                    self._launch(running)
                case ProgramState.CRASHED if time.monotonic() >= running.restart_at:
                    self._launch(running)
                case ProgramState.STARTING:
                    self._look_whether_ready(running)
                case ProgramState.READY:
                    self._look_whether_alive(running)

    def _trim_logs(self) -> None:
        if time.monotonic() > self._trimmed_at + TRIM_SECONDS:
            self._trimmed_at = time.monotonic()
            for program in self.programs:
                trim_log(program.log)

    def _launch(self, running: RunningProgram) -> None:
        program = running.program
        trim_log(program.log)
        running.started_at = time.monotonic()
        running.state = ProgramState.STARTING
        try:
            running.log_start = program.log.stat().st_size if program.log.exists() else 0
            if program.work is not None:
                running.process = fork(program.work, name=program.name, log=program.log, cwd=program.cwd)
            else:
                running.process = spawn(program.argv, log=program.log, env=program.env, cwd=program.cwd)
        except OSError as error:
            # A full disk, or no process to be had, may pass: what runs goes on.
            running.process = None
            self._failed(running, f"{error.strerror or error} ({error.filename or program.log})")

    def _look_whether_ready(self, running: RunningProgram) -> None:
        assert running.process is not None
        code = running.process.poll()
        if running.program.once:
            if code == 0:
                self._change(running, ProgramState.DONE)
            elif code is not None:
                raise StartError(running.program.name, f"ended with {describe_exit(code)}", running.program.log)
        elif code is not None:
            self._crashed(running, code)
        elif running.program.ready(running.text()):
            self._change(running, ProgramState.READY)
        elif time.monotonic() > running.started_at + READY_SECONDS:
            running.process.kill()

    def _look_whether_alive(self, running: RunningProgram) -> None:
        assert running.process is not None
        if (code := running.process.poll()) is not None:
            self._crashed(running, code)

    def _crashed(self, running: RunningProgram, code: int) -> None:
        self._failed(running, describe_exit(code))

    def _failed(self, running: RunningProgram, how: str) -> None:
        """Start it again after a pause. Raises StartError where it failed too often before all were up once."""
        now = time.monotonic()
        if now > running.started_at + RECOVERED_AFTER:
            running.crashes = 0
        running.crashes += 1
        running.last_end = how
        if not self._everything_was_up and running.crashes >= START_TRIES:
            raise StartError(
                running.program.name,
                f"ended with {running.last_end}, {running.crashes} times, before it was ready",
                running.program.log,
            )
        running.restart_at = now + min(FIRST_PAUSE * 2.0 ** (running.crashes - 1), LONGEST_PAUSE)
        self._change(running, ProgramState.CRASHED)

    def _change(self, running: RunningProgram, state: ProgramState) -> None:
        running.state = state
        self.on_change(running)
