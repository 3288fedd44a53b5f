"""Ports of this machine on which a server can listen."""

from __future__ import annotations

import contextlib
import random
import socket

HOST = "127.0.0.1"
#: Ports that `free_port` chooses from.
_FREE_PORTS = (15_000, 30_000)


def is_free(port: int) -> bool:
    """Whether a server can listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return True
    return False


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free at present.

    It lies below the ephemeral ports of Linux: a connection of another process cannot take it before it is used.
    """
    while True:
        port = random.randrange(*_FREE_PORTS)  # noqa: S311 - a choice, and no secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
