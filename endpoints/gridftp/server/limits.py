"""Every bound of the server in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Counts, octets and seconds. Memory for a session is bounded by its streams: 64 KiB each, and 1 MiB in common."""

    #: Octets of a command line: a path of 4096 octets, or a REST of some two thousand ranges.
    line: int = 64 * 1024
    #: Commands read ahead of the one at work; beyond it the client is simply not read from.
    queue: int = 1000
    queue_octets: int = 1024 * 1024
    sessions: int = 256
    #: Of one client address (of IPv6, one /64). None: as many as there are places left, so that half are for others.
    sessions_per_address: int | None = None
    #: Data connections of one session.
    streams: int = 64
    #: Until the login is complete, whatever is said meanwhile.
    login_seconds: float = 60.0
    #: Without a command, and with none at work.
    idle_seconds: float = 600.0
    #: For a data connection to be made, by us or by the other side.
    connect_seconds: float = 120.0
    #: Without an octet on any data connection of a transfer.
    stall_seconds: float = 120.0
    #: For a client that does not read its replies.
    reply_seconds: float = 120.0
