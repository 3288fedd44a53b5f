"""Runs a server that always becomes a daemon, and ends it when this process is asked to end.

    python -m deploy.endpoint.foreground COMMAND...

A daemon leaves its parent; as its "subreaper" (prctl(2), PR_SET_CHILD_SUBREAPER) this process becomes its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def children() -> list[int]:
    """The pids of all children of this process; see proc(5), /proc/PID/task/TID/children."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            # The name in brackets may hold spaces; the parent is the second word after it.
            if int(status.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(status.parent.name))
    return found


def main(argv: list[str]) -> int:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("the kernel does not let us adopt a daemon")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        if code := subprocess.Popen(argv, stdin=subprocess.DEVNULL).wait():
            return code
        with contextlib.suppress(ChildProcessError):  # there is no child any more: the daemon has ended
            while True:
                os.wait()
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # The next look finds a session that was forked after this one; the daemon that could fork is gone by then.
        while found := children():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
