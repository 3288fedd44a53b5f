"""The time that a server has for its greeting and the login.

Servers that look up names, or start under load, greet after up to a minute. But nobody knows before whether a silent
port will ever say anything, and sessions are limited: so the time is short at first, and twice as long after each try
that was too late. It stays as long as the server needed it.
"""

from __future__ import annotations

from .server_memory import Server, ServerMemory

#: Seconds: at first, and at most.
FIRST, LONGEST = 15.0, 60.0

_memory: ServerMemory[float] = ServerMemory()


def of(server: Server) -> float:
    """Seconds for the next login, after the connection was made."""
    return _memory.get(server) or FIRST


def was_late(server: Server, seconds: float) -> None:
    """A login took longer than these seconds."""
    _memory.note(server, min(2 * max(seconds, FIRST), LONGEST))


def was_in_time(server: Server) -> None:
    """It is known to need this time: the memory lasts from now on."""
    if known := _memory.get(server):
        _memory.note(server, known)
