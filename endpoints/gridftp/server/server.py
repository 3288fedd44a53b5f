"""The server: listens, keeps its sessions, and stops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from endpoints.gridftp.facts import FACTS

from . import peers
from .admission import SessionLimits
from .capabilities import give_up_capabilities
from .control import ControlProtocol
from .data.connector import OpenRelayed, PortRange
from .data.files_moved import OnFile, OnProgress
from .limits import ServerLimits
from .roots.parts import RootPart, open_parts
from .security.control_security import ControlSecurity
from .session import Service
from .strangers import Strangers

#: Seconds for the sessions' workers to end when the server stops.
_STOP_SECONDS = 5.0


class GridFtpServer:
    """Serves the folder `root`, or the parts `roots`, in a thread of its own between `start` and `stop`.

    Clients that connect are anonymous, or with `security` users with certificates (gsiftp); those of `serve_socket`
    have been let in by the program. port: None if nobody can connect, and `serve_socket` alone brings clients.
    open_relayed: opens data connections for SITE WAYBILL DATA; without it the command is refused.

    on_file: learns of each file that was moved. on_progress: of large ones, while they are moved.
    own_account: serve only clients on this machine that run as our account or as root, and with the rights of this
    account alone: `serve` opens the folders, and then gives up the capabilities of its thread.
    home: the folder of the tree in which sessions begin.
    port 0: a free port, which is in `port` after the start. data_ports: (lowest, highest) for passive data connections,
    else any free ports. facts: those that listings offer, of `FACTS`. Nothing outside `root` is ever opened.
    Raises OSError when the folder cannot be opened or the port is not free.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int | None = 0,
        *,
        roots: Sequence[RootPart] = (),
        read_only: bool = False,
        data_ports: tuple[int, int] | None = None,
        limits: ServerLimits | None = None,
        facts: Collection[str] = FACTS,
        on_file: OnFile | None = None,
        on_progress: OnProgress | None = None,
        own_account: bool = False,
        home: str = "/",
        open_relayed: OpenRelayed | None = None,
        security: ControlSecurity | None = None,
    ) -> None:
        self.host = host
        self._listens = port is not None
        self.port = port or 0
        self._parts = [*roots, *([RootPart(os.fspath(root))] if root is not None else ())]
        limits = limits or ServerLimits()
        alone_read_only = len(self._parts) == 1 and not self._parts[0].writable
        #: `Service`, but for the root, which is open while this serves.
        self._new_service = partial(
            Service,
            limits=limits,
            read_only=read_only or alone_read_only,
            data_ports=PortRange(*data_ports) if data_ports else None,
            open_relayed=open_relayed,
            security=security,
            facts=facts,
            admits=peers.own_account if own_account else peers.everybody,
            home=os.fsencode(home),
            on_file=on_file,
            on_progress=on_progress,
        )
        self._own_account = own_account
        #: With the addresses whose places they have; None: the place was given to another one.
        self._sessions: dict[ControlProtocol, str | None] = {}
        self._strangers: Strangers[ControlProtocol] = Strangers(limits.sessions)
        self._admission = SessionLimits(limits)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._session_ended: asyncio.Event
        self._service: Service
        #: Sockets of `serve_socket` on their way to a session.
        self._taking: set[asyncio.Task[Any]] = set()
        self._thread: threading.Thread | None = None

    @property
    def sessions(self) -> int:
        """The number of sessions, with those that are still ending."""
        with self._lock:
            return len(self._sessions)

    def start(self) -> None:
        """Start the thread; return when clients can connect."""
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
        """End all sessions at once, with their running commands."""
        if self._loop and self._stopping:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread:
            self._thread.join(2 * _STOP_SECONDS)

    async def serve(self, when_ready: Callable[[], None]) -> None:
        """Serve in the running loop, until `stop` or cancellation."""
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._session_ended = asyncio.Event()
        root = open_parts(self._parts)
        try:
            self._service = self._new_service(root)
            if self._own_account:
                give_up_capabilities()
            listener = await self._listen()
            try:
                when_ready()
                await self._stopping.wait()
            finally:
                if listener:
                    listener.close()
                await self._end_sessions()
        finally:
            if not self.sessions:
                root.close()

    def serve_socket(self, sock: socket.socket, own_host: str = "") -> None:
        """Serve a connected socket as a control channel, from any thread, after `start`. The socket is ours then.

        Its client may log in by any name. own_host: our address for its passive data connections; "" for none.
        Raises RuntimeError when the server has stopped.
        """
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._take_socket, sock, own_host)

    async def _listen(self) -> asyncio.AbstractServer | None:
        if not self._listens:
            return None
        assert self._loop is not None
        listener = await self._loop.create_server(self._new_protocol, self.host, self.port)
        self.port = listener.sockets[0].getsockname()[1]
        return listener

    def _new_protocol(self, own_host: str | None = None) -> ControlProtocol:
        return ControlProtocol(self._service, self._admit, self._release, own_host)

    def _take_socket(self, sock: socket.socket, own_host: str) -> None:
        assert self._loop is not None
        taking = self._loop.create_task(self._loop.connect_accepted_socket(lambda: self._new_protocol(own_host), sock))
        self._taking.add(taking)
        taking.add_done_callback(lambda task: self._taken(task, sock))

    def _taken(self, task: asyncio.Task[object], sock: socket.socket) -> None:
        self._taking.discard(task)
        if task.cancelled() or task.exception():
            sock.close()

    async def _end_sessions(self) -> None:
        with self._lock:
            remaining = list(self._sessions)
        for protocol in remaining:
            protocol.hang_up()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._all_ended(), _STOP_SECONDS)

    async def _all_ended(self) -> None:
        while self.sessions:
            await self._session_ended.wait()
            self._session_ended.clear()

    def _admit(self, protocol: ControlProtocol, address: str) -> str:
        with self._lock:
            why_not = self._admission.enter(address)
            while why_not and self._make_room(address):
                why_not = self._admission.enter(address)
            if not why_not:
                self._sessions[protocol] = address
                if address:
                    self._strangers.enter(protocol, address)
            return why_not

    def _make_room(self, address: str) -> bool:
        """End a session without a login of a network that has more of them than this address; False without one."""
        for one in self._sessions:
            if one.logged_in:
                self._strangers.leave(one)
        late = self._strangers.next_to_go(address)
        if late is None:
            return False
        self._strangers.leave(late)
        given_up = self._sessions[late]
        assert given_up is not None
        self._admission.leave(given_up)
        # It stays among the sessions until it has ended.
        self._sessions[late] = None
        late.hang_up()
        return True

    def _release(self, protocol: ControlProtocol) -> None:
        with self._lock:
            address = self._sessions.pop(protocol, None)
            self._strangers.leave(protocol)
            if address is not None:
                self._admission.leave(address)
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended while this session's file system hung
            self._loop.call_soon_threadsafe(self._session_ended.set)

    def __enter__(self) -> GridFtpServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()
