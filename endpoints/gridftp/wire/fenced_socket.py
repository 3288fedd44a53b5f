"""A socket towards a server that asks the fences of its users before each piece that leaves.

It is below asyncio, TLS, ssh and all their buffers: a loop that wakes runs writable sockets before timers, and would
send what waits in those buffers before anything of ours is asked.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from .fence import Fence, FenceClosedError, in_force

#: Octets of `sendall` between two checks.
_PIECE = 16 * 1024
#: For SO_LINGER: `close` sends a reset, and nothing that still waits in the kernel (socket(7)).
_RESET = struct.pack("ii", 1, 0)


class FencedSocket(socket.socket):
    """Lets octets out while all its fences are open. Raises FenceClosedError, an OSError, where one is closed.

    It is opened behind the fence in force, until `set_fence` names its users. Once fenced off it stays so: buffers
    above it may hold octets of a user that is gone.
    """

    def __init__(self, family: int = socket.AF_INET) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        opener = in_force()
        #: Replaced as a whole, because threads of ssh read it.
        self._fences: tuple[Fence, ...] = (opener,) if opener else ()
        self._by_user: dict[object, Fence] = {}
        self._off = False
        #: Host and port that it was connected to.
        self.server_address: tuple[str, int] | None = None

    def set_fence(self, user: object, fence: Fence | None) -> None:
        """The fence of one user of this socket; None if it has none now. Sessions may share a connection of ssh."""
        self._off = self.fenced_off
        self._by_user.pop(user, None)
        if fence is not None:
            self._by_user[user] = fence
        self._fences = tuple(self._by_user.values())

    @property
    def fenced_off(self) -> bool:
        """Whether a fence is closed, or was when its user left."""
        return self._off or any(fence.closed for fence in self._fences)

    def _check(self) -> None:
        if self.fenced_off:
            raise FenceClosedError

    # ---- socket.socket, all that makes something leave

    def connect(self, address: Any) -> None:
        self._check()
        super().connect(address)

    def connect_ex(self, address: Any) -> int:
        self._check()
        return super().connect_ex(address)

    def send(self, data: Any, flags: int = 0) -> int:
        self._check()
        return super().send(data, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """In pieces, each of which is checked."""
        view = memoryview(data).cast("B")
        while view:
            view = view[self.send(view[:_PIECE], flags) :]

    def sendmsg(self, buffers: Iterable[Any], *more: Any) -> int:
        self._check()
        return super().sendmsg(buffers, *more)

    def sendto(self, *words: Any) -> int:
        self._check()
        return super().sendto(*words)

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Not supported: the kernel would send without asking."""
        raise NotImplementedError

    def shutdown(self, how: int) -> None:
        """The end of the data is a message, too: to a server in MODE S it means that the file is complete."""
        if not self.fenced_off:
            super().shutdown(how)
        elif how == socket.SHUT_WR:
            raise FenceClosedError
        else:
            super().shutdown(socket.SHUT_RD)  # ends the waiting of a thread, and sends nothing

    def close(self) -> None:
        if self.fenced_off:
            with suppress(OSError):
                self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        super().close()


async def connect(host: str, port: int) -> FencedSocket:
    """A connected socket that does not block. host: an address, or a name with one of IPv4. Raises OSError."""
    # Imported where it is used: programs that only parse the address of a relay need not load it.
    import asyncio

    connected = FencedSocket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, (host, port))
        connected.server_address = host, port
    except BaseException:
        connected.close()
        raise
    return connected
