"""Our server in an account that is reached by ssh: one process, and any number of sessions on its standard streams.

The service runs it with a Python that has nothing of ours (`endpoints.ssh.accounts`). Its input and output carry the
channels of a tunnel (`tunnel.octet_stream`); each is the control channel of one session. It ends with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import Mapping
from typing import Any

from endpoints.gridftp.server.server import GridFtpServer
from endpoints.gridftp.server.stdio import allow_many_files, copy_input, copy_output, home_folder, host_of_ssh

from .tunnel import octet_stream
from .tunnel.bridge import CONTROL_WINDOW, Bridge, serve
from .tunnel.frames import FrameError
from .tunnel.multiplexer import Ended, Multiplexer, TunnelChannel

#: Octets that the service may send in a new channel before it is accepted: a login takes no round trip more.
EARLY_CREDIT = 4096
#: Octets that wait for the network before sessions are read no more; and those after which a service that reads nothing
#: but makes us answer is given up.
_HIGH_WATER, _MAX_UNSENT = 256 << 10, 16 << 20


class SessionStream(asyncio.Protocol):
    """The channels that the service opens. lost: done when its connection has ended."""

    def __init__(self, server: GridFtpServer) -> None:
        self._server = server
        self._unpacker = octet_stream.Unpacker()
        self._channels = Multiplexer(2, self._write, self._opened)
        self._transport: Any = None
        #: The loop alone would not keep them.
        self._servings: set[asyncio.Future[None]] = set()
        self.lost: asyncio.Future[None] = asyncio.get_event_loop().create_future()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._unpacker.feed(data):
                self._channels.receive(frame)
        except FrameError as error:
            sys.stderr.write(f"{error}\n")
            self._transport.abort()

    def pause_writing(self) -> None:
        self._channels.congest(True)

    def resume_writing(self) -> None:
        self._channels.congest(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._channels.lose(Ended.AWAY, "the ssh connection has ended")
        if not self.lost.done():
            self.lost.set_result(None)

    # ---- channels

    def _opened(self, channel: TunnelChannel, content: Mapping[str, Any]) -> None:
        if content.get("kind") != "control":
            channel.refuse(Ended.FORBIDDEN, "control channels only")
            return
        channel.granted = EARLY_CREDIT
        serving = asyncio.ensure_future(serve(Bridge(channel, CONTROL_WINDOW), self._serve_socket, EARLY_CREDIT))
        self._servings.add(serving)
        serving.add_done_callback(self._servings.discard)

    def _serve_socket(self, control: socket.socket) -> None:
        self._server.serve_socket(control, self._server.host)

    def _write(self, frame: bytes) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(octet_stream.packed(frame))
        if self._transport.get_write_buffer_size() > _MAX_UNSENT:
            self._transport.abort()  # the service reads nothing, and makes us answer


def main() -> int:
    """Serve the account on the standard streams. argv: LOW-HIGH, the ports for data connections, or nothing."""
    ports = tuple(int(word) for word in sys.argv[1].split("-", 1)) if sys.argv[1:] else ()
    server = GridFtpServer(
        "/",
        host_of_ssh() or "127.0.0.1",
        None,
        home=home_folder(),
        data_ports=(ports[0], ports[1]) if len(ports) == 2 else None,
    )
    allow_many_files()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(server))
    return 0


async def _serve(server: GridFtpServer) -> None:
    """Serve until standard input ends, or nobody reads the output. Raises OSError."""
    loop = asyncio.get_event_loop()
    ready = asyncio.Event()
    serving = asyncio.ensure_future(server.serve(ready.set))
    starting = asyncio.ensure_future(ready.wait())
    await asyncio.wait([serving, starting], return_when=asyncio.FIRST_COMPLETED)
    if not ready.is_set():
        starting.cancel()
        await serving
        return
    ours, theirs = socket.socketpair()
    _, stream = await loop.connect_accepted_socket(lambda: SessionStream(server), theirs)
    for copy in (copy_input, copy_output):
        threading.Thread(target=copy, args=(ours,), name=copy.__name__, daemon=True).start()
    await stream.lost
    server.stop()
    await serving
