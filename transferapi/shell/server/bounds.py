"""Limits of the ssh server: what strangers, users and all clients together can take. See docs/security.md, Limits."""

from __future__ import annotations

from dataclasses import dataclass

KB = 1 << 10


@dataclass(frozen=True, slots=True)
class ShellBounds:
    """Numbers of connections, channels and calls; octets; seconds."""

    #: Connections that have signed in: in all, of one network, of one user.
    sessions: int = 500
    sessions_of_network: int = 400
    sessions_of_user: int = 250
    #: Connections that have not signed in yet: in all, of one network.
    strangers: int = 192
    strangers_of_network: int = 48
    #: Connections of one network that end without a sign-in: so many at once, and so many more in a second.
    failures: int = 100
    failures_per_second: float = 1.0
    #: Key exchanges of connections that have not signed in: at once, and more of them in a second.
    key_exchanges: int = 100
    key_exchanges_per_second: float = 50.0
    #: Attempts and questions of one connection before it has signed in.
    attempts: int = 20
    #: Channels that are open: of one connection, of one user, in all; and in the life of one connection.
    channels: int = 10
    channels_of_user: int = 300
    channels_in_all: int = 1200
    channels_ever: int = 10_000
    #: Calls of the services at a time: in all, of one user; and of sign-ins, in all and from one network.
    calls: int = 16
    calls_of_user: int = 6
    calls_of_sign_ins: int = 4
    calls_of_sign_ins_of_network: int = 2
    #: Seconds that a call waits for its turn.
    turn_seconds: float = 30.0
    #: Octets that the client may send before a command reads them.
    window: int = 128 * KB
    packet: int = 32 * KB
    #: Octets of one packet (RFC 4253, 6.1, asks for 35000); of all packets before the sign-in; of the first lines.
    largest_packet: int = 256 * KB
    before_sign_in: int = 512 * KB
    banner: int = 4 * KB
    #: Octets of output that wait for more output before they are sent.
    output: int = 16 * KB
    #: Seconds for the key exchange, and until the sign-in (a person types a password and a code).
    handshake_seconds: float = 15.0
    sign_in_seconds: float = 90.0
    #: Seconds without input and without a command that works; seconds of a session.
    idle_seconds: float = 1800.0
    session_seconds: float = 7 * 24 * 3600.0
    #: Seconds that a client may read nothing of what is to be sent.
    write_seconds: float = 300.0
    #: Seconds that a client has to end a channel by itself after an error of the protocol of rcp.
    client_end_seconds: float = 5.0
    #: Seconds between two messages that keep routers from forgetting the connection.
    keepalive_seconds: int = 30
    #: Seconds for commands to end when the server stops.
    stop_seconds: float = 0.6
