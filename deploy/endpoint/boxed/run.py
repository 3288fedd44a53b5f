"""Both servers of a box in the foreground: for containers, and for machines without systemd."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from deploy.endpoint.boxed.errors import BoxError
from deploy.endpoint.toolkit import clean_environment
from deploy.stack.child import describe_exit, die_with_parent, stop

from .services import Box, box_of
from .setup import READY_SECONDS, RUN_LOCK


def run(options: argparse.Namespace) -> Iterator[str]:
    """Run until SIGTERM or Ctrl-C, or until one of them ends. Raises BoxError."""
    box = box_of(options.folder)
    if box.settings.systemd:
        raise BoxError("systemd runs this one: systemctl start waybill-gridftp waybill-myproxy")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with (options.folder / RUN_LOCK).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BoxError("it runs already") from None
        yield from _serve(box)


def _serve(box: Box) -> Iterator[str]:
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in box.foreground_commands().items():
            processes[name] = _spawn(command)
        until = time.monotonic() + READY_SECONDS
        while not all(box.listens().values()):
            _check(processes)
            if time.monotonic() > until:
                raise BoxError(f"not ready after {READY_SECONDS} s")
            time.sleep(0.05)
        yield "ready"
        while True:
            _check(processes)
            time.sleep(0.5)
    except KeyboardInterrupt:
        yield "ended"
    finally:
        for process in processes.values():
            stop(process, timeout=2)


def _spawn(command: list[str]) -> subprocess.Popen[bytes]:
    """Set SIGTERM as the signal for the death of the parent: the wrapper of MyProxy must be able to end its daemon."""
    parent = os.getpid()
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        env=clean_environment(),
        process_group=0,
        preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM),
    )


def _check(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, process in processes.items():
        if (code := process.poll()) is not None:
            raise BoxError(f"{name} ended with {describe_exit(code)}")
