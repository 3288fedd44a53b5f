"""Whether a client is gone whose last commands wait still: this process, or its host, may have stood still.

The kernel gives out queued octets also after the end of the connection, even after a reset. A client that is gone has
long had its work done by others: a DELE or STOR of it would hit what they have made.
"""

from __future__ import annotations

import select
import socket
import time

from .polling import POLLIN

#: Linux counts the sleep of the machine in CLOCK_BOOTTIME alone, macOS in CLOCK_MONOTONIC, Windows in time.monotonic.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", None) or getattr(time, "CLOCK_MONOTONIC", None)
#: Seconds for which the last look at a connection counts. Nobody does a client's work anew so soon.
FRESH_SECONDS = 0.01
#: Whether the system has poll(2). Windows has not.
POLLS = hasattr(select, "poll")
#: The other side has closed at least its sending half: Linux; macOS says POLLHUP.
_ENDED: int = getattr(select, "POLLRDHUP", 0) | getattr(select, "POLLHUP", 0) | getattr(select, "POLLERR", 0)


def steady_seconds() -> float:
    """Seconds of a clock that is never set, and that goes on while the machine sleeps."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class DisconnectWatch:
    """Looks at the connection of one client. A client that only closes its sending half counts as gone, as ever."""

    def __init__(self, sock: socket.socket) -> None:
        """sock: of asyncio, which never blocks."""
        self._sock = sock
        self._looked_at = -FRESH_SECONDS

    def has_disconnected(self) -> bool:
        """Whether the client has closed the connection, or lost it. A system call at most each `FRESH_SECONDS`."""
        now = steady_seconds()
        if now < self._looked_at + FRESH_SECONDS:
            return False
        if self._has_ended():
            return True
        self._looked_at = now
        return False

    def _has_ended(self) -> bool:
        fd = self._sock.fileno()
        if fd < 0 or POLLS:
            return fd < 0 or has_ended(fd)
        try:
            # As far as Windows shows it: where nothing waits to be read.
            with self._sock.dup() as second:
                return not second.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True


def has_ended(fd: int) -> bool:
    """Whether the other side has closed its sending half of this socket or pipe, whatever waits to be read before that.

    False where the system has no poll(2).
    """
    return bool(_poll(fd, _ENDED | POLLIN, 0) & _ENDED)


def has_no_reader(fd: int, seconds: float | None = 0) -> bool:
    """Whether nobody will ever read what is written to this socket or pipe; waits so long for that (None: for ever).

    False at once where the system has no poll(2).
    """
    # POLLERR (a pipe) and POLLHUP (a socket) are reported without being asked for.
    return bool(_poll(fd, 0, seconds))


def _poll(fd: int, events: int, seconds: float | None) -> int:
    if not POLLS:
        return 0
    poll = select.poll()
    poll.register(fd, events)
    return sum(event for _, event in poll.poll(None if seconds is None else seconds * 1000))
