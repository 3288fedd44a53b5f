"""The account of a client on this machine, by the kernel's tables (proc(5), /proc/net/tcp).

With it a server on loopback without credentials can serve its own account only, on control and data connections. TCP
has no SO_PEERCRED, but the kernel lists the owner of every socket.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from pathlib import Path

log = logging.getLogger(__name__)

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
#: Attempts: the table is read in pieces, and a line can be missed while others appear and vanish.
_LOOKS = 3


def everybody(client: socket.socket) -> bool:
    """Every client."""
    return True


def own_account(client: socket.socket) -> bool:
    """Whether the other end of this connection is a process of our account on this machine, or of root."""
    try:
        owner = owner_of_peer(client)
    except OSError as error:
        log.warning("a client was refused, because its account is unknown: %s", error.strerror)
        return False
    if owner in (os.geteuid(), 0):
        return True
    log.warning("a client was refused: it is of %s", "no process any more" if owner is None else f"uid {owner}")
    return False


def owner_of_peer(client: socket.socket) -> int | None:
    """The uid of the other end. None: it is not on this machine, or closed already. Raises OSError.

    A socket that its process has closed has no inode, and is listed with the uid of root: such a line does not count.
    """
    ends = f" {_listed(client.getpeername())} {_listed(client.getsockname())} "
    for _ in range(_LOOKS):
        for line in _TABLES[client.family].read_text("ascii").splitlines():
            if ends in line:
                words = line.split()
                return int(words[7]) if words[9] != "0" else None
    return None


def _listed(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    """An address as the kernel lists it: words of 4 octets in the machine's order, then the port."""
    host, port = address[:2]
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host.partition("%")[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
