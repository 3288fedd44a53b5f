"""The agent's end of one tunnel: the opening handshake, the sign-in, and the channels."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from . import frames, websocket
from .bridge import CONTROL_WINDOW, Bridge, serve
from .connection import TunnelConnection, TunnelLimits
from .data_tunnels import DATA_TUNNEL_LIMITS, DataTunnelOffer, DataTunnels
from .frames import FrameError
from .multiplexer import Ended, TunnelChannel
from .service import ServiceAddress, check_peer, open_tunnel, relay_of, tls_context
from .sign_in import VERSION, SigningIdentity, text_to_sign
from .websocket import DATA_SUBPROTOCOL, SUBPROTOCOL

PATH = "/connect/tunnel"
_MAX_HEAD = 16 << 10
#: Seconds for the connection, and for handshake and sign-in: many agents may come at the same time.
CONNECT_SECONDS, WELCOME_SECONDS = 15.0, 40.0
#: Seconds after which the relay may be tried again, where it says so; at most this.
MAX_RETRY = 300.0


class TunnelEndedError(Exception):
    """There is no tunnel, or no more. code: of `Refused`, or "". retry: seconds that the relay asks to wait.

    relay: the address to which the service has redirected the agent, or "".
    """

    def __init__(self, reason: str, code: str = "", retry: float | None = None, relay: str = "") -> None:
        super().__init__(reason)
        self.reason, self.code, self.retry, self.relay = reason, code, retry, relay


class AgentFacts(NamedTuple):
    """The words of an agent about itself."""

    version: str = ""
    platform: str = ""


class TunnelState:
    """The part that outlives one tunnel of a running agent. instance: distinguishes it from a clone."""

    def __init__(self) -> None:
        self.instance = secrets.token_hex(16)
        self.epoch = 0
        self.paused = False


class ClientEnd(TunnelConnection):
    """One tunnel, from the request of the WebSocket to its end. Subclasses implement `welcomed`."""

    def __init__(self, service: ServiceAddress, subprotocol: str, limits: TunnelLimits) -> None:
        super().__init__(is_client=True, limits=limits)
        self._service, self._subprotocol = service, subprotocol
        self._key = websocket.new_key()
        self._head: bytearray | None = bytearray()
        self.welcome: asyncio.Future[None] = self._loop.create_future()
        self._retry: float | None = None
        self._code = self._relay = ""

    def begin(self) -> None:
        assert self.transport is not None
        self.transport.write(websocket.request(self._service.authority, PATH, self._key, self._subprotocol))

    def error(self) -> TunnelEndedError:
        """Why there is no tunnel any more."""
        return TunnelEndedError(self.why_lost, self._code, self._retry, self._relay)

    # ---- the handshake

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            super().data_received(data)
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > _MAX_HEAD:
                self.abort("the service does not answer as a web server does")
            return
        head, rest = bytes(self._head[:end]), bytes(self._head[end + 4 :])
        self._head = None
        try:
            self._check_answer(websocket.parse_head(head))
        except websocket.WebSocketError as error:
            self.abort(error.reason)
        else:
            self.answered()
            super().data_received(rest)

    def answered(self) -> None:
        """The WebSocket is open."""

    def _check_answer(self, head: websocket.Head) -> None:
        """Check that the answer opens the WebSocket of this request. Raises WebSocketError."""
        status = head.first.split(" ")[1:2]
        if status != ["101"]:
            if status == ["307"]:
                self._relay = relay_of(self._service, head.fields.get("location", ""))
            self._retry = _seconds(head.fields.get("retry-after", ""))
            raise websocket.WebSocketError(f"the service has no relay now: {head.first[:100]}")
        if head.fields.get("sec-websocket-accept") != websocket.accept_key(self._key):
            raise websocket.WebSocketError("the service answers another request")

    # ---- documents

    @abstractmethod
    def welcomed(self, content: Mapping[str, Any]) -> None:
        """The relay has accepted the tunnel. Raises FrameError."""

    def document_received(self, content: Mapping[str, Any]) -> None:
        if "welcome" in content:
            self.welcomed(content)
            self.signed_in = True
            if not self.welcome.done():
                self.welcome.set_result(None)
        elif "refused" in content or "goodbye" in content:
            self._code = frames.text_of(content, "refused", 20)
            retry = content.get("retry")
            self._retry = min(float(retry), MAX_RETRY) if isinstance(retry, (int, float)) and retry >= 0 else None
            self.close(frames.text_of(content, "reason") or frames.text_of(content, "goodbye"))

    def tunnel_lost(self) -> None:
        if not self.welcome.done():
            self.welcome.set_exception(self.error())
            self.welcome.exception()  # it may be nobody's who waits


class AgentEnd(ClientEnd):
    """The tunnel that an agent keeps, which it signs in."""

    def __init__(
        self,
        service: ServiceAddress,
        identity: SigningIdentity,
        facts: AgentFacts,
        state: TunnelState,
        on_control: Callable[[socket.socket], None],
    ) -> None:
        super().__init__(service, SUBPROTOCOL, TunnelLimits())
        self._identity, self._facts, self._state = identity, facts, state
        self._on_control = on_control
        self._data = DataTunnels(self, DataTunnelOffer("", 0), self._open_data_tunnel)
        #: The loop alone would not keep them.
        self._servings: set[asyncio.Future[None]] = set()

    # ---- documents

    def document_received(self, content: Mapping[str, Any]) -> None:
        if "challenge" in content:
            self._sign_in(content)
        else:
            super().document_received(content)

    def welcomed(self, content: Mapping[str, Any]) -> None:
        if self.signed_in:
            raise FrameError("a second welcome")
        if isinstance(content["welcome"], int):
            self._state.epoch = content["welcome"]
        self._data = DataTunnels(self, DataTunnelOffer.read(content), self._open_data_tunnel)

    def _sign_in(self, content: Mapping[str, Any]) -> None:
        if self.signed_in:
            raise FrameError("a second challenge")
        try:
            nonce = bytes.fromhex(frames.text_of(content, "challenge"))
        except ValueError:
            raise FrameError("a challenge that is no number") from None
        state = self._state
        self.send_document(
            {
                "chain": self._identity.chain,
                "signature": self._identity.sign(text_to_sign(nonce, self._service.host)).hex(),
                "instance": state.instance,
                "epoch": state.epoch,
                "version": self._facts.version,
                "platform": self._facts.platform,
                "paused": state.paused,
                "protocol": VERSION,
            }
        )

    # ---- channels

    def channel_opened(self, channel: TunnelChannel, content: Mapping[str, Any]) -> None:
        if content.get("kind") != "control":
            channel.refuse(Ended.FORBIDDEN, "an agent accepts control channels only")
            return
        serving = asyncio.ensure_future(serve(Bridge(channel, CONTROL_WINDOW), self._on_control))
        self._servings.add(serving)
        serving.add_done_callback(self._servings.discard)

    async def open_data(self, token: str) -> socket.socket:
        """One end of a relayed data channel, which may wait for its other end still. Raises OSError."""
        if self.why_lost or not self.signed_in:
            raise ConnectionError("the service is not connected")
        near, far = socket.socketpair()
        try:
            await self._data.carry(token, near)
        except BaseException:
            near.close()
            far.close()
            raise
        return far

    def tick(self) -> None:
        """Look after the tunnels for data; called at intervals."""
        self._data.tick()

    def tunnel_lost(self) -> None:
        self._data.close()
        super().tunnel_lost()

    async def wait_closed(self) -> None:
        """Wait until this tunnel, which was ended, and its tunnels for data are closed."""
        await self.lost
        await self._data.wait_closed()

    async def _open_data_tunnel(self, key: str) -> TunnelConnection:
        """Open a tunnel for data with this key, signed in. Raises OSError."""
        try:
            end = await connect_end(self._service, lambda: DataTunnelEnd(self._service, key))
        except TunnelEndedError as error:
            raise ConnectionError(error.reason) from None
        try:
            await asyncio.wait_for(asyncio.shield(end.welcome), CONNECT_SECONDS)
        except (TunnelEndedError, asyncio.TimeoutError) as error:
            end.abort("given up")
            raise ConnectionError(str(error)) from None
        except asyncio.CancelledError:
            end.abort("given up")
            raise
        return end


class DataTunnelEnd(ClientEnd):
    """A tunnel for data (`data_tunnels`)."""

    def __init__(self, service: ServiceAddress, key: str) -> None:
        super().__init__(service, DATA_SUBPROTOCOL, DATA_TUNNEL_LIMITS)
        self._secret = key

    def welcomed(self, content: Mapping[str, Any]) -> None:
        pass

    def answered(self) -> None:
        self.send_document({"key": self._secret})

    def channel_opened(self, channel: TunnelChannel, content: Mapping[str, Any]) -> None:
        """The relay opens no channel in a tunnel for data."""
        channel.refuse(Ended.FORBIDDEN, "an agent opens the channels of this tunnel")


End = TypeVar("End", bound=ClientEnd)


class _Dialed:
    """A connection that a thread makes. It is closed where nobody waits for it any more when it is there."""

    def __init__(self, service: ServiceAddress) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._is_given_up = False

    def dial(self) -> socket.socket:
        """In the thread. Raises OSError."""
        sock = open_tunnel(self._service, CONNECT_SECONDS)
        with self._lock:
            if not self._is_given_up:
                self._sock = sock
                return sock
        sock.close()
        raise ConnectionAbortedError("given up")

    def taken_by(self, make: Callable[[], End]) -> End:
        """The protocol of a transport, which closes the socket from now on."""
        self._sock = None
        return make()

    def give_up(self) -> None:
        with self._lock:
            self._is_given_up = True
            if self._sock is not None:
                self._sock.close()


async def connect_end(service: ServiceAddress, make: Callable[[], End]) -> End:
    """A connection to the service whose certificate was checked, with the request sent. Raises TunnelEndedError."""
    loop = asyncio.get_event_loop()
    dialed = _Dialed(service)
    try:
        plain = await loop.run_in_executor(None, dialed.dial)
        tls = tls_context(service)
        name = service.host if tls else None
        connecting = loop.create_connection(lambda: dialed.taken_by(make), sock=plain, ssl=tls, server_hostname=name)
        _, end = await asyncio.wait_for(connecting, CONNECT_SECONDS)
    except (OSError, ssl.SSLError, asyncio.TimeoutError) as error:
        raise TunnelEndedError(str(error) or type(error).__name__) from None
    finally:
        dialed.give_up()
    if end.transport is None:
        raise end.error()
    try:
        check_peer(service, end.transport.get_extra_info("ssl_object"))
    except OSError as error:
        end.abort(str(error))
        raise TunnelEndedError(str(error)) from None
    end.begin()
    return end


def _seconds(text: str) -> float | None:
    """The seconds of Retry-After (RFC 9110, 10.2.3)."""
    return min(float(text), MAX_RETRY) if text.isascii() and text.isdigit() else None
