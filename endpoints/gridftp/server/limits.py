"""All limits of the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    """Counts, octets and seconds. The memory of a session is limited by its streams: 64 KiB each, and 1 MiB for all."""

    #: Octets of a command line: a path of 4096 octets, or a REST of some two thousand ranges.
    line: int = 64 * 1024
    #: Commands read in advance, behind the running one; then reading from the client pauses.
    queue: int = 1000
    queue_octets: int = 1024 * 1024
    sessions: int = 256
    #: Sessions of one client address (IPv6: of one /64). None: at most as many as there are free places, so that half
    #: of the places remain for other clients.
    sessions_per_address: int | None = None
    #: Data connections of one session.
    streams: int = 64
    #: The maximum time until the login is complete, whatever other commands arrive.
    login_seconds: float = 60.0
    #: The maximum time without a command, while none is running.
    idle_seconds: float = 600.0
    #: The maximum time to open a data connection, by us or by the other side.
    connect_seconds: float = 120.0
    #: The maximum time of one data connection from its first octet until it is authenticated.
    handshake_seconds: float = 30.0
    #: The maximum time of a transfer without an octet on any of its data connections.
    stall_seconds: float = 120.0
    #: The maximum time for which a client does not read its replies.
    reply_seconds: float = 120.0
