"""The server: listens, keeps the books of its sessions, and stops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from endpoints.gridftp.facts import FACTS

from . import peers
from .admission import Admission
from .channel import PortRange
from .control import ControlProtocol
from .limits import Limits
from .root import Root
from .session import Service

#: Seconds for the sessions' workers to notice that the server stops.
_STOP_SECONDS = 5.0


class Server:
    """Serves the folder `root` to anonymous clients, in a thread of its own between `start` and `stop`.

    own_account: only clients of the account that it runs as (or root's) are served, on this machine.
    port 0: a free one, which `port` tells after the start. data_ports: (lowest, highest) for passive data connections,
    else any free ones. facts: what listings tell, of `FACTS`. Whatever a client asks, nothing outside `root` is opened.
    Raises OSError when the folder cannot be opened or the port not be taken.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        read_only: bool = False,
        data_ports: tuple[int, int] | None = None,
        limits: Limits | None = None,
        facts: Collection[str] = FACTS,
        own_account: bool = False,
    ) -> None:
        self.host = host
        self.port = port
        self._root = root
        self._read_only = read_only
        self._data_ports = PortRange(*data_ports) if data_ports else None
        self._limits = limits or Limits()
        self._facts = facts
        self._admits = peers.own_account if own_account else peers.everybody
        self._sessions: dict[ControlProtocol, str] = {}
        self._admission = Admission(self._limits)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._session_ended: asyncio.Event
        self._thread: threading.Thread | None = None

    @property
    def sessions(self) -> int:
        """How many clients are connected, or still being cleared away."""
        with self._lock:
            return len(self._sessions)

    def start(self) -> None:
        """Return once clients can connect."""
        started = threading.Event()
        failures: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(self.serve(started.set))
            except BaseException as error:
                failures.append(error)
                started.set()

        self._thread = threading.Thread(target=run, name="gridftp-server", daemon=True)
        self._thread.start()
        started.wait()
        if failures:
            raise failures[0]

    def stop(self) -> None:
        """End all sessions at once, with what they are doing."""
        if self._loop and self._stopping:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread:
            self._thread.join(2 * _STOP_SECONDS)

    async def serve(self, when_ready: Callable[[], None]) -> None:
        """Serve in the running loop, until `stop` or cancellation."""
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._session_ended = asyncio.Event()
        root = Root(self._root)
        try:
            service = Service(root, self._limits, self._read_only, self._data_ports, self._facts, self._admits)
            listener = await self._loop.create_server(
                lambda: ControlProtocol(service, self._admit, self._release), self.host, self.port
            )
            try:
                self.port = listener.sockets[0].getsockname()[1]
                when_ready()
                await self._stopping.wait()
            finally:
                listener.close()
                await self._end_sessions()
        finally:
            if not self.sessions:
                root.close()

    async def _end_sessions(self) -> None:
        with self._lock:
            remaining = list(self._sessions)
        for protocol in remaining:
            protocol.hang_up()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                while self.sessions:
                    await self._session_ended.wait()
                    self._session_ended.clear()

    def _admit(self, protocol: ControlProtocol, address: str) -> str:
        with self._lock:
            why_not = self._admission.enter(address)
            if not why_not:
                self._sessions[protocol] = address
            return why_not

    def _release(self, protocol: ControlProtocol) -> None:
        with self._lock:
            address = self._sessions.pop(protocol, None)
            if address is not None:
                self._admission.leave(address)
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended while this session's file system hung
            self._loop.call_soon_threadsafe(self._session_ended.set)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()
