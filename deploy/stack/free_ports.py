"""Ports of this machine on which a server can listen.

python -m deploy.stack.free_ports PORT     status 1, and a sentence, where it is in use
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sys
from collections import deque

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


#: How many of the newest ports of this process no other process is given; each takes one open file.
RESERVED_AT_ONCE = 64
_reservations: deque[int] = deque()
# A forked child may have closed these files; their numbers are then those of other files.
os.register_at_fork(after_in_child=_reservations.clear)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free at present, and that this function returns to no other process for a while.

    It lies below the ephemeral ports of Linux: a connection of another process cannot take it before it is used.
    """
    while True:
        port = random.randrange(*_FREE_PORTS)  # noqa: S311 - a choice, and no secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            if _reserve(port):
                return port


def _reserve(port: int) -> bool:
    """Whether nobody has this port reserved; then this process has.

    The reservation is a name in the abstract namespace of unix(7): one process has it, and it ends with that process.
    """
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0waybill-port-{port}")
    except OSError:
        name.close()
        return False
    _reservations.append(name.detach())
    if len(_reservations) > RESERVED_AT_ONCE:
        os.close(_reservations.popleft())
    return True


def in_use(port: int, variable: str) -> str:
    """The sentence for a user whose server cannot have the port."""
    return f"port {port} of {HOST} is in use: choose another one with {variable}"


def main(words: list[str]) -> int:
    """`make up` asks before it installs anything: by the Python of the system, with its standard library."""
    if not words[0].isdecimal() or not 0 < int(words[0]) < 65536 or is_free(int(words[0])):
        return 0
    sys.stderr.write(f"{in_use(int(words[0]), 'WAYBILL_PORT')}.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
