"""Connections of agents, which the web server passes on to the relay octet by octet, in one thread of a worker.

The web server owns the port and ends TLS; the relay decides who may stay. Each direction holds at most BUFFER octets.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import ssl
import threading
import time
from collections import Counter
from typing import Any

from endpoints.connect.relay_address import RelayAddress
from endpoints.gridftp.agent.tunnel.websocket import DATA_SUBPROTOCOL
from identity.networks import network_of

from .early_answer import EarlyAnswer

log = logging.getLogger(__name__)

PATH = "/connect/tunnel"
#: Octets that wait in one direction.
BUFFER = 128 << 10
#: Connections of one worker, and of one network: many laptops of an institute have one address. Agents have further
#: ones for data, which must not take the places of the others.
MOST, MOST_OF_NETWORK = 1500, 1000
MOST_FOR_DATA, MOST_FOR_DATA_OF_NETWORK = 512, 256
#: Seconds for the relay's socket, and without an octet in either direction: the relay pings every 1.5 s.
CONNECT_SECONDS, IDLE_SECONDS = 3.0, 20.0
_TICK = 1.0
_FIELDS = ("HOST", "UPGRADE", "CONNECTION", "SEC-WEBSOCKET-KEY", "SEC-WEBSOCKET-VERSION", "SEC-WEBSOCKET-PROTOCOL")
_BUSY = EarlyAnswer(
    "503 Service Unavailable", "The relay of this service does not answer.", headers={"Retry-After": "3"}
)
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def is_tunnel(request: Any) -> bool:
    """Whether an agent asks for a tunnel. request: gunicorn's."""
    upgrade = [value.lower() for name, value in request.headers if name == "UPGRADE"]
    return bool(request.path == PATH and request.method == "GET" and upgrade == ["websocket"])


def head_for_relay(request: Any, address: str) -> bytes:
    """The head of the request with the fields that the relay reads, and the address of the client."""
    lines = [f"GET {PATH} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in request.headers if name in _FIELDS]
    lines += [f"X-Forwarded-For: {address}"] if address else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class _Pair:
    """A client's connection and the one to the relay. Neither blocks."""

    def __init__(self, client: socket.socket, head: bytes, network: str) -> None:
        self.client = client
        self.is_data = DATA_SUBPROTOCOL.encode() in head
        #: Its kind and network: the limits are of both.
        self.network = (self.is_data, network)
        self.relay: socket.socket | None = None
        self.up, self.down = bytearray(head), bytearray()
        self.connected = False
        self.since = time.monotonic()
        #: Which directions have ended: from the client, from the relay.
        self.up_ended = self.down_ended = False

    def dial(self, address: RelayAddress) -> None:
        """Begin to connect. Raises OSError."""
        if address.path:
            self.relay = socket.socket(socket.AF_UNIX)
            self.relay.setblocking(False)
            # It is connected at once, or too many wait for the relay.
            self.relay.connect(address.path)
            return
        family, _, _, _, target = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        self.relay = socket.socket(family)
        self.relay.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.relay.connect(target)

    def is_late(self, now: float) -> bool:
        return now - self.since > (IDLE_SECONDS if self.connected else CONNECT_SECONDS)

    def pump(self) -> None:
        """Move what can be moved. Raises OSError where a connection is lost."""
        assert self.relay is not None
        if not self._is_connected():
            return
        moved = True
        while moved:
            moved = self._move(self.client, self.up, self.relay) | self._move(self.relay, self.down, self.client)

    def _is_connected(self) -> bool:
        """Raises OSError where the relay does not answer."""
        assert self.relay is not None
        if not self.connected:
            error = self.relay.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, "the relay does not answer")
            with contextlib.suppress(OSError):  # not connected yet
                self.relay.getpeername()
                self.connected = True
        return self.connected

    def _move(self, source: socket.socket, buffer: bytearray, target: socket.socket) -> bool:
        """Whether octets were read or written."""
        data = b""
        if len(buffer) < BUFFER and not (self.up_ended if source is self.client else self.down_ended):
            with contextlib.suppress(*_AGAIN):
                data = source.recv(BUFFER - len(buffer))
                self._note_end(source, ended=not data)
        moved = self._send(data, buffer, target) or bool(data)
        if moved:
            self.since = time.monotonic()
        return moved

    def _send(self, data: bytes, buffer: bytearray, target: socket.socket) -> bool:
        """Send what waits, and then the data; what the target does not take waits. Whether it took any."""
        if buffer:
            buffer += data
        waiting = buffer or data
        sent = 0
        if waiting:
            with contextlib.suppress(*_AGAIN):
                sent = target.send(waiting)
        if buffer:
            del buffer[:sent]
        elif sent < len(data):
            buffer += memoryview(data)[sent:]
        return bool(sent)

    def _note_end(self, source: socket.socket, *, ended: bool) -> None:
        if source is self.client:
            self.up_ended = ended
        else:
            self.down_ended = ended

    @property
    def is_over(self) -> bool:
        """One side has ended, and the other has what it sent: a WebSocket has no half."""
        return (self.up_ended and not self.up) or (self.down_ended and not self.down)

    def wanted(self, sock: socket.socket) -> int:
        """The events of this socket that the pair waits for."""
        incoming, outgoing = (self.up, self.down) if sock is self.client else (self.down, self.up)
        ended = self.up_ended if sock is self.client else self.down_ended
        read = selectors.EVENT_READ if len(incoming) < BUFFER and not ended else 0
        waits = outgoing or (sock is self.relay and not self.connected)
        return read | (selectors.EVENT_WRITE if waits else 0)

    def close(self) -> None:
        for sock in (self.client, self.relay):
            if sock is not None:
                sock.close()


class TunnelForwarder:
    """One thread that passes on all tunnels of this process; it begins with the first one."""

    def __init__(self, address: RelayAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._new: list[_Pair] = []
        self._pairs: dict[_Pair, dict[socket.socket, int]] = {}
        #: By kind and network, and by kind.
        self._networks: Counter[tuple[bool, str]] = Counter()
        self._kinds: Counter[bool] = Counter()
        self._selector: selectors.BaseSelector | None = None
        self._near, self._far = socket.socketpair()

    def take(self, client: socket.socket, head: bytes, address: str) -> None:
        """Pass this connection on, and own it. address: of the client. Never waits."""
        client.setblocking(False)
        pair = _Pair(client, head, network_of(address))
        with self._lock:
            self._new.append(pair)
            if self._selector is None:
                self._selector = selectors.DefaultSelector()
                self._near.setblocking(False)
                self._far.setblocking(False)
                self._selector.register(self._near, selectors.EVENT_READ)
                threading.Thread(target=self._run, name="tunnels", daemon=True).start()
        with contextlib.suppress(OSError):
            self._far.send(b"x")

    @property
    def count(self) -> int:
        return len(self._pairs)

    def _run(self) -> None:
        assert self._selector is not None
        next_tick = time.monotonic() + _TICK
        while True:
            for key, _ in self._selector.select(max(0.0, next_tick - time.monotonic())):
                if key.data is None:
                    with contextlib.suppress(OSError):
                        self._near.recv(4096)
                elif key.data in self._pairs:
                    self._serve(key.data)
            with self._lock:
                new, self._new = self._new, []
            for pair in new:
                self._begin(pair)
            if (now := time.monotonic()) >= next_tick:
                next_tick = now + _TICK
                for pair in [pair for pair in self._pairs if pair.is_late(now)]:
                    self._end(pair)

    def _begin(self, pair: _Pair) -> None:
        most, of_network = (MOST_FOR_DATA, MOST_FOR_DATA_OF_NETWORK) if pair.is_data else (MOST, MOST_OF_NETWORK)
        if self._kinds[pair.is_data] >= most or self._networks[pair.network] >= of_network:
            _refuse(pair)
            return
        try:
            pair.dial(self._address)
        except OSError as error:
            log.warning("the relay does not answer: %s", error.strerror)
            _refuse(pair)
            return
        self._networks[pair.network] += 1
        self._kinds[pair.is_data] += 1
        self._pairs[pair] = {}
        self._serve(pair)

    def _serve(self, pair: _Pair) -> None:
        try:
            pair.pump()
        except OSError:
            if not pair.connected:
                pair.down += _BUSY.octets()
                with contextlib.suppress(OSError):
                    pair.client.send(pair.down)
            self._end(pair)
            return
        if pair.is_over:
            self._end(pair)
        else:
            self._wait(pair)

    def _wait(self, pair: _Pair) -> None:
        assert self._selector is not None
        known = self._pairs[pair]
        for sock in (pair.client, pair.relay):
            assert sock is not None
            wanted = pair.wanted(sock)
            before = known.get(sock, 0)
            if wanted and not before:
                self._selector.register(sock, wanted, pair)
            elif before and not wanted:
                self._selector.unregister(sock)
            elif wanted != before:
                self._selector.modify(sock, wanted, pair)
            known[sock] = wanted

    def _end(self, pair: _Pair) -> None:
        assert self._selector is not None
        for sock, wanted in self._pairs.pop(pair).items():
            if wanted:
                self._selector.unregister(sock)
        self._networks[pair.network] -= 1
        self._kinds[pair.is_data] -= 1
        if not self._networks[pair.network]:
            del self._networks[pair.network]
        pair.close()


def _refuse(pair: _Pair) -> None:
    with contextlib.suppress(OSError):
        pair.client.send(_BUSY.octets())
    pair.close()
