"""The account of a client on this machine, by the kernel's tables: sock_diag(7), or proc(5), /proc/net/tcp.

With it a server on loopback without credentials can serve its own account only, on control and data connections. TCP
has no SO_PEERCRED, but the kernel lists the owner of every socket.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
#: Attempts: the table is read in pieces, and a line can be missed while others appear and vanish.
_LOOKS = 3
#: Of linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_SOCK_DIAG, _BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_ALL_STATES, _NO_COOKIE = 0xFFFFFFFF, 0xFFFFFFFF
#: struct nlmsghdr; and uid and inode of struct inet_diag_msg, behind 4 octets, the two ends, and three numbers.
_HEADER, _MESSAGE = struct.Struct("=IHHII"), struct.Struct("=4x48x12xII")
_SECONDS = 1.0


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
    """The uid of the other end. None if it is not on this machine, or closed already. Raises OSError.

    A socket that its process has closed has no inode, and is listed with the uid of root: such a line does not count.
    """
    found = _asked(client)
    if found is None:
        found = _read(client)
    if found is None:
        return None
    uid, inode = found
    return uid if inode else None


def _asked(client: socket.socket) -> tuple[int, int] | None:
    """The uid and the inode of the other end by sock_diag, which looks for one socket. None if it gives none.

    The table of a busy machine takes milliseconds, in which a client may close its socket.
    """
    theirs, ours = client.getpeername(), client.getsockname()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diagnosis:
            diagnosis.settimeout(_SECONDS)
            diagnosis.send(_request(client.family, theirs, ours))
            answer = diagnosis.recv(4096)
    except (AttributeError, OSError):  # another system than Linux, or the kernel or a filter does not allow it
        return None
    if len(answer) < _HEADER.size + _MESSAGE.size or _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    uid, inode = _MESSAGE.unpack_from(answer, _HEADER.size)
    return uid, inode


def _request(family: int, source: Sequence[object], target: Sequence[object]) -> bytes:
    """For the socket with these ends; struct inet_diag_req_v2 of linux/inet_diag.h."""
    ports = struct.pack("!HH", source[1], target[1])
    addresses = b"".join(_packed(str(host)).ljust(16, b"\0") for host in (source[0], target[0]))
    body = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, _ALL_STATES) + ports + addresses
    body += struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    return _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body


def _read(client: socket.socket) -> tuple[int, int] | None:
    """The uid and the inode of the other end by the table. Raises OSError."""
    ends = f" {_listed(client.getpeername())} {_listed(client.getsockname())} "
    for _ in range(_LOOKS):
        for line in _TABLES[client.family].read_text("ascii").splitlines():
            if ends in line:
                words = line.split()
                return int(words[7]), int(words[9])
    return None


def _listed(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    """An address as the kernel lists it: words of 4 octets in the machine's order, then the port."""
    host, port = address[:2]
    packed = _packed(host)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _packed(host: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host.partition("%")[0])
