"""A control channel on a TCP connection: a thin asyncio driver of the pure machine in `control`."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from ssl import SSLContext, SSLError, SSLObject, SSLSession
from typing import TYPE_CHECKING, Self, cast

from identity.gsi.printable import error_text

from .commands import CommandError, encode
from .control import AS_NOOP, LONG, Answered, ControlChannel, ControlEvent, Greeting, Lost, Preliminary
from .faults import Fault, FaultError, FaultScope, Kind, classify, make_fault
from .replies import Reply
from .wire import pipelining
from .wire.fence import Fence
from .wire.fenced_socket import FencedSocket, connect

if TYPE_CHECKING:
    from .streams.tls_streams import ClientDataConnection, RelayedData, TlsClient

#: Seconds for the TCP connection. The greeting and the login have others (`wire.login_time`), at first as many.
CONNECT_TIMEOUT = 15.0
#: Seconds without an octet from the server, while an answer is due, until the connection is given up. A listing may
#: take longer (`ControlConnection.patient`); for a checksum servers send preliminary replies.
STALL_TIMEOUT = 90.0
#: TCP asks a silent peer for a sign of life after so many seconds, then at this interval, so many times: a host that is
#: gone is noticed although an answer may take long (`tcp(7)`, TCP_KEEPIDLE and the others).
KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
#: Unanswered commands on one connection; the toolkit's server disconnects a client that has 1000.
MAX_PIPELINE = 300
#: Commands that servers answer at once, so that the time of an answer is a round trip; and how many of them count.
QUICK = frozenset({"MLST", "MKD", "NOOP", "PWD"})
ROUND_TRIPS = 4
#: Seconds for which a command waits until a listing has ended (`alone`): as long as its server may be silent.
MAX_ALONE = 900.0
#: Octets that are read from a connection that was reset.
MAX_LAST_WORDS = 64 * 1024
#: The kinds of a connection that has ended.
_ENDED = frozenset({Kind.CONNECTION_BROKEN, Kind.CONNECTION_RESET})
#: The tag of the NOOP by which `ControlConnection` finds out whether a server waits for commands.
_PROBE = object()
LOST_COMMANDS = (
    "The server loses commands that are sent before it has answered earlier ones. From now on it is sent one command "
    "at a time, which takes longer."
)


class UnfinishedLoginError(FaultError):
    """The server was connected to, and has neither accepted nor refused the login.

    unanswered: commands had been sent together, which it may not expect.
    """

    def __init__(self, fault: Fault, *, unanswered: bool) -> None:
        super().__init__(fault)
        self.unanswered = unanswered


class LateLoginError(UnfinishedLoginError):
    """The login was not done in time. unanswered: the server had greeted before, too."""

    def __init__(self, late: str, *, unanswered: bool) -> None:
        super().__init__(session_fault(Kind.TIMEOUT, late), unanswered=unanswered)


class EndedLoginError(UnfinishedLoginError):
    """The connection ended during the login, without a refusal."""


@dataclass(slots=True)
class _Pending:
    """A command whose sender awaits the reply."""

    answer: asyncio.Future[Reply]
    on_preliminary: Callable[[Reply], None] | None = None


#: The connections on which the commands of this task are sent alone, within `ControlConnection.alone`.
_alone: ContextVar[frozenset[ControlConnection]] = ContextVar("alone", default=frozenset())


class ControlConnection(asyncio.Protocol):
    """A control channel on a TCP connection.

    Events of commands sent by `ask` and `request` go to their futures; all others, as many as arrived together,
    to `listener`, which also receives the loss of the connection.
    """

    def __init__(self, *, stall_timeout: float | None = STALL_TIMEOUT) -> None:
        self.channel = ControlChannel()
        self.listener: Callable[[Sequence[ControlEvent]], None] | None = None
        self.stall_timeout = stall_timeout
        #: Limits of commands under way that may take longer.
        self._patience: list[float] = []
        self.last_activity = 0.0
        #: When a command was sent while no other was unanswered: silence before it says nothing.
        self._asked_at = 0.0
        #: A NOOP was sent, and nothing has come since.
        self._probing = False
        #: Opens a data connection to a port where the server listens, through the same ssh connection; None: by TCP.
        self.forward_data: Callable[[int], Awaitable[ClientDataConnection]] | None = None
        #: Data connections through a relay, to a server that listens nowhere: one for each call; None if it listens.
        self.relayed_data: Callable[[], RelayedData] | None = None
        #: TLS of the data connections that this service opens (RFC 4217); None: FTP's TLS is not in use.
        self.data_tls: Callable[[], TlsClient] | None = None
        self.lost: Fault | None = None
        #: The socket by which its octets leave; None in tests without one.
        self.wire: FencedSocket | None = None
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        #: Seconds, of connecting and of the last commands that were sent while no other was unanswered.
        self._round_trips: deque[float] = deque(maxlen=ROUND_TRIPS)
        self._window = asyncio.Semaphore(MAX_PIPELINE)
        self._alone = False
        self._alone_lock = asyncio.Lock()
        self._others = asyncio.Event()
        self._flush_due = False
        self._watch: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> Self:
        """Connect, and do not wait for the greeting: commands may go out at once. Raises FaultError."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(limit := min(timeout, CONNECT_TIMEOUT)):
                connection = await cls.on(await connect(host, port))
                connection._note_round_trip(loop.time() - begun)
        except TimeoutError:
            raise FaultError(session_fault(Kind.TIMEOUT, f"no connection within {limit:g} s")) from None
        except (OSError, SSLError) as error:
            raise FaultError(session_fault(Kind.CONNECT_FAILED, error_text(error), FaultScope.ENDPOINT)) from None
        return connection

    @classmethod
    async def on(cls, wire: FencedSocket) -> Self:
        """A connection on this socket, which is connected. Raises OSError."""
        made = cls()
        await made.use(wire)
        return made

    async def use(self, wire: FencedSocket) -> None:
        """Begin on this socket, which is closed with the connection. Raises OSError."""
        self.wire = wire
        self.channel.one_at_a_time = pipelining.of(wire.server_address) is not None
        try:
            await self._loop.create_connection(lambda: self, sock=wire)
        except BaseException:
            wire.close()
            raise

    def set_fence(self, fence: Fence | None) -> None:
        """Nothing leaves after this fence is closed: the connection breaks. None: no slice uses it now."""
        if self.wire is not None:
            self.wire.set_fence(self, fence)

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        keep_alive(transport)
        self.last_activity = self._loop.time()
        self._watch_later()

    def data_received(self, data: bytes) -> None:
        self.last_activity = self._loop.time()
        if self._probing:
            self._probing = False
            if self._answers_probe(data):
                self._note_lost_commands()
                return
        self._dispatch(self.channel.receive(data))
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch:
            self._watch.cancel()
        if exc is not None and self.lost is None:
            self._hear_last_words()
        fault = session_fault(Kind.CONNECTION_RESET, error_text(exc)) if exc else None
        self._dispatch(self.channel.receive_eof(fault))

    def _hear_last_words(self) -> None:
        """Read what arrived before the reset: where a write fails first, the transport reads it no more."""
        transport = self._transport
        if transport is None or transport.get_extra_info("ssl_object") is not None:
            return
        with suppress(OSError, AttributeError):
            number = os.dup(transport.get_extra_info("socket").fileno())
            with socket.socket(fileno=number) as again:
                again.setblocking(False)
                self.data_received(again.recv(MAX_LAST_WORDS))

    # ---- use

    @property
    def usable(self) -> bool:
        fenced_off = self.wire is not None and self.wire.fenced_off
        return not (self.lost or fenced_off or self._transport is None or self._transport.is_closing())

    @property
    def peer_host(self) -> str:
        """The IP address of the server."""
        assert self._transport is not None
        return str(self._transport.get_extra_info("peername")[0])

    @property
    def server_address(self) -> tuple[str, int] | None:
        """The address and the port that it was connected to; None where it is reached in another way."""
        return self.wire.server_address if self.wire is not None else None

    @property
    def peer(self) -> tuple[str, int]:
        """The IP address and the port of the server; port 0 where it is reached through a program."""
        assert self._transport is not None
        name = self._transport.get_extra_info("peername")
        return self.peer_host, name[1] if isinstance(name, tuple) else 0

    async def start_tls(self, context: SSLContext, host_name: str) -> None:
        """TLS from here on, as the client. Raises FaultError for clear text that came too early, OSError."""
        assert self._transport is not None
        self.channel.check_nothing_early()
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host_name)
        if transport is None:
            raise ConnectionResetError("the server closed the connection during the handshake")
        self._transport = transport

    @property
    def _tls(self) -> SSLObject:
        assert self._transport is not None
        return cast(SSLObject, self._transport.get_extra_info("ssl_object"))

    @property
    def tls_certificate(self) -> bytes:
        """The server's certificate in DER, after `start_tls`."""
        return self._tls.getpeercert(binary_form=True) or b""

    @property
    def tls_session(self) -> SSLSession | None:
        """The TLS session, which servers want to see again on data connections."""
        return self._tls.session

    def flush(self) -> None:
        """Write what the channel holds."""
        self._flush_due = False
        data = self.channel.data_to_send()
        if data and self._transport and not self._transport.is_closing():
            self._transport.write(data)

    def flush_soon(self) -> None:
        """Write after the caller has queued all its commands: many commands, one TCP segment."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    async def request(
        self, verb: str, argument: bytes = b"", on_preliminary: Callable[[Reply], None] | None = None
    ) -> Reply:
        """Send a command and wait for its final reply, error or not. Raises FaultError when the connection is lost."""
        return await self.request_line(verb, encoded_line(verb, argument), on_preliminary)

    async def request_line(
        self, verb: str, line: bytes, on_preliminary: Callable[[Reply], None] | None = None
    ) -> Reply:
        """`request` for a line that `encode` has made already."""
        while self._alone and self not in _alone.get():
            await self._until_others_may()
        async with self._window:
            if self.lost:
                raise FaultError(self.lost)
            pending = _Pending(self._loop.create_future(), on_preliminary)
            self.channel.send_line(verb, line, tag=pending)
            alone = self.channel.unanswered == 1
            self.flush_soon()
            begun = self._loop.time()
            if alone:
                self._asked_at = begun
            reply = await pending.answer
            if alone and verb in QUICK:
                self._note_round_trip(self._loop.time() - begun)
            return reply

    @property
    def round_trip(self) -> float | None:
        """Seconds between a command and its reply: the minimum of the last few; None before the first."""
        return min(self._round_trips, default=None)

    def _note_round_trip(self, seconds: float) -> None:
        self._round_trips.append(seconds)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Only commands of this block, and of tasks begun in it, are sent meanwhile.

        ProFTPD answers commands that arrive during a listing before the 226 of that listing.
        """
        async with self._alone_lock:
            self._alone = True
            self._others.clear()
            _alone.set(_alone.get() | {self})
            try:
                yield
            finally:
                # Not by a token: a generator may be closed by another task than the one that began it.
                _alone.set(_alone.get() - {self})
                self._alone = False
                self._others.set()

    async def _until_others_may(self) -> None:
        try:
            async with asyncio.timeout(MAX_ALONE):
                await self._others.wait()
        except TimeoutError:
            text = f"a listing has kept the control connection for more than {MAX_ALONE:.0f} s"
            raise FaultError(make_fault(Kind.TIMEOUT, text)) from None

    async def ask(self, verb: str, argument: bytes = b"") -> Reply:
        """`request`; raises FaultError for an error reply too."""
        reply = await self.request(verb, argument)
        if reply.is_error:
            raise FaultError(classify(reply))
        return reply

    def abort(self, fault: Fault | None = None) -> None:
        """Close the connection at once; unanswered commands are lost with `fault`."""
        self._dispatch(self.channel.receive_eof(fault))
        if self._transport:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()

    @contextmanager
    def patient(self, seconds: float) -> Iterator[None]:
        """Within this, the server may be silent for so many seconds."""
        self._patience.append(seconds)
        try:
            yield
        finally:
            self._patience.remove(seconds)

    # ---- inside

    def _dispatch(self, events: Iterable[ControlEvent]) -> None:
        others: list[ControlEvent] = []
        for event in events:
            if isinstance(event, Lost):
                explained = self._explained(event)
                self._lose(explained)
                others.append(explained)
            elif not self._settle(event):
                others.append(event)
        if others and self.listener:
            self.listener(others)
        if self.lost and self._transport:
            self._transport.abort()

    def _settle(self, event: Answered | Preliminary | Greeting) -> bool:
        """Whether the event is handled here, and not for the listener."""
        if isinstance(event, Greeting):
            return True
        tag = event.command.tag
        if not isinstance(tag, _Pending):
            return tag is _PROBE
        if isinstance(event, Preliminary):
            if tag.on_preliminary:
                tag.on_preliminary(event.reply)
        elif not tag.answer.done():
            tag.answer.set_result(event.reply)
        return True

    def _explained(self, event: Lost) -> Lost:
        """The loss as its receivers see it. A connection of another kind may know more about it."""
        return event

    def _lose(self, event: Lost) -> None:
        self.lost = event.fault
        for command in event.unanswered:
            if isinstance(command.tag, _Pending) and not command.tag.answer.done():
                command.tag.answer.set_exception(FaultError(event.fault))

    def _watch_later(self) -> None:
        limit = self.stall_timeout
        self._watch = self._loop.call_later(5.0 if limit is None else min(5.0, limit / 2), self._check_stall)

    def _check_stall(self) -> None:
        limit = None if self.stall_timeout is None else max(self.stall_timeout, *self._patience, 0.0)
        silent = self._loop.time() - max(self.last_activity, self._asked_at)
        if self._may_have_lost and silent > pipelining.PROBE_AFTER:
            self._probing = True
            self.channel.send("NOOP", tag=_PROBE)
            self.flush()
        if limit is not None and self.channel.unanswered and silent > limit:
            self.abort(session_fault(Kind.TIMEOUT, f"no answer for {silent:.0f} s"))
        elif self.lost is None:
            self._watch_later()

    @property
    def _may_have_lost(self) -> bool:
        """Whether the server may have thrown away the commands that are unanswered."""
        channel = self.channel
        is_usual = channel.greeted and not (channel.one_at_a_time or channel.protected or self._patience)
        return is_usual and not self._probing and bool(channel.oldest) and channel.oldest not in LONG

    def _answers_probe(self, data: bytes) -> bool:
        """Whether this is the answer to NOOP, where another one was due: RFC 959 gives 200 to few commands."""
        return data.startswith(b"200 ") and data.count(b"\n") == 1 and self.channel.oldest not in AS_NOOP

    def _note_lost_commands(self) -> None:
        if server := self.server_address:
            pipelining.note(server, pipelining.Pipelining.NEVER)
        lost = f"the server answers NOOP, and not {self.channel.oldest} before it"
        self.abort(replace(session_fault(Kind.TIMEOUT, lost), advice=LOST_COMMANDS))


def encoded_line(verb: str, argument: bytes) -> bytes:
    """The line of a command. Raises FaultError (INVALID_PATH_NAME) for an argument that no command can contain."""
    try:
        return encode(verb, argument)
    except CommandError as error:
        raise FaultError(make_fault(Kind.INVALID_PATH_NAME, str(error), retryable=False)) from None


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let TCP notice that the peer is gone, as far as the operating system can (`KEEPALIVE`)."""
    sock = transport.get_extra_info("socket")
    with suppress(OSError, AttributeError):  # no TCP socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


@asynccontextmanager
async def within(connection: ControlConnection, until: float, late: str) -> AsyncIterator[None]:
    """Close the connection when the login in the body fails, or is not done at `until` (the loop's time).

    Raises LateLoginError, FaultError.
    """
    try:
        async with asyncio.timeout_at(until):
            yield
    except TimeoutError:
        connection.abort()
        channel = connection.channel
        raise LateLoginError(late, unanswered=channel.greeted and not channel.one_at_a_time) from None
    except BaseException:
        connection.abort()
        raise


@contextmanager
def ends_explained(connection: ControlConnection) -> Iterator[None]:
    """Raise EndedLoginError for the end of the connection during the login in the body."""
    try:
        yield
    except FaultError as error:
        if error.fault is not connection.lost or error.fault.kind not in _ENDED:
            raise
        channel = connection.channel
        # Programs of ours, at ssh accounts and agents, take commands that are sent together.
        is_ours = connection.forward_data is not None or connection.relayed_data is not None
        expected = channel.one_at_a_time or channel.protected or is_ours
        raise EndedLoginError(error.fault, unanswered=not expected) from None


def session_fault(kind: Kind, raw: str, scope: FaultScope = FaultScope.SESSION) -> Fault:
    """A fault of more than one file that may be over at another time."""
    return replace(make_fault(kind, raw), scope=scope)
