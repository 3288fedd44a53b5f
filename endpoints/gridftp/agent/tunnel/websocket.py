"""WebSocket frames and the opening handshake (RFC 6455), without input and output."""

from __future__ import annotations

import base64
import enum
import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

#: RFC 6455, 1.3.
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#: The subprotocols with their versions (RFC 6455, 1.9): of the tunnel of an agent, and of its tunnels for data.
SUBPROTOCOL, DATA_SUBPROTOCOL = "waybill-tunnel-1", "waybill-data-1"
#: The most octets of the payload of a control frame (RFC 6455, 5.5).
MAX_CONTROL = 125


class Opcode(enum.IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


#: A table is quicker than a call of the class.
_OPCODES = {int(opcode): opcode for opcode in Opcode}


class CloseCode(enum.IntEnum):
    """RFC 6455, 7.4.1."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    POLICY = 1008
    TOO_BIG = 1009


class WebSocketError(Exception):
    """The peer has broken the protocol. code: for the close frame."""

    def __init__(self, reason: str, code: CloseCode = CloseCode.PROTOCOL_ERROR) -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code


class Message(NamedTuple):
    """A complete message, or a control frame."""

    opcode: Opcode
    payload: bytes


class _Head(NamedTuple):
    final: bool
    opcode: Opcode
    #: Where the payload begins, and its octets.
    begin: int
    length: int
    #: None where the payload is not masked.
    key: bytes | None


def masked(payload: bytes, key: bytes) -> bytes:
    """The payload, masked or unmasked by this key of 4 octets (RFC 6455, 5.3)."""
    length = len(payload)
    stream = (key * (length // 4 + 1))[:length]
    # One operation on long integers is a hundred times as fast as a loop over the octets.
    mixed = int.from_bytes(payload, "little") ^ int.from_bytes(stream, "little")
    return mixed.to_bytes(length, "little")


def encode(opcode: Opcode, payload: bytes, *, mask: bool) -> bytes:
    """One unfragmented frame. mask: clients must, servers must not (RFC 6455, 5.1)."""
    length, bit = len(payload), 0x80 if mask else 0
    if length < 126:
        head = bytes((0x80 | opcode, bit | length))
    elif length < 1 << 16:
        head = bytes((0x80 | opcode, bit | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, bit | 127)) + length.to_bytes(8, "big")
    if not mask:
        return head + payload
    key = os.urandom(4)
    return head + key + masked(payload, key)


def close_payload(code: CloseCode, reason: str) -> bytes:
    """The payload of a close frame (RFC 6455, 5.5.1)."""
    return int(code).to_bytes(2, "big") + reason.encode()[: MAX_CONTROL - 2]


class MessageDecoder:
    """Turns octets into messages; holds at most one message and one frame, besides the octets that are being fed.

    from_client: whether the peer is a client, and so must mask. longest: octets of a message.
    """

    def __init__(self, *, from_client: bool, longest: int) -> None:
        self._from_client, self._longest = from_client, longest
        self._received = bytearray()
        #: The message of which fragments have arrived: its opcode, and its octets.
        self._opcode: Opcode | None = None
        self._message = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete now. Raises WebSocketError."""
        held = self._received
        # Frames that arrive whole are not copied together first.
        octets: bytes | bytearray = data
        if held:
            held += data
            octets = held
        at = 0
        try:
            while (head := self._head(octets, at)) and len(octets) >= (end := head.begin + head.length):
                payload = bytes(octets[head.begin : end])
                at = end
                if head.key is not None:
                    payload = masked(payload, head.key)
                message = self._joined(head, payload)
                if message is not None:
                    yield message
        finally:
            if octets is held:
                del held[:at]
            else:
                held += data[at:]

    def _head(self, received: bytes | bytearray, at: int) -> _Head | None:
        """The head of the frame there; None where it is not complete. Refuses a long frame before it has arrived."""
        if len(received) < at + 2:
            return None
        first, second = received[at], received[at + 1]
        if first & 0x70:
            raise WebSocketError("no extension was agreed")
        opcode = _OPCODES.get(first & 0x0F)
        if opcode is None:
            raise WebSocketError("an unknown opcode")
        if bool(second & 0x80) is not self._from_client:
            raise WebSocketError("a client masks its frames, and a server does not")
        length, begin = second & 0x7F, at + 2
        if length >= 126:
            begin += 2 if length == 126 else 8
            if len(received) < begin:
                return None
            length = int.from_bytes(received[at + 2 : begin], "big")
        self._check(opcode, length, final=bool(first & 0x80))
        if not self._from_client:
            return _Head(bool(first & 0x80), opcode, begin, length, None)
        if len(received) < begin + 4:
            return None
        return _Head(bool(first & 0x80), opcode, begin + 4, length, bytes(received[begin : begin + 4]))

    def _check(self, opcode: Opcode, length: int, *, final: bool) -> None:
        if opcode >= Opcode.CLOSE:
            if length > MAX_CONTROL or not final:
                raise WebSocketError("a control frame is short and in one part")
        elif length + len(self._message) > self._longest:
            raise WebSocketError("a message is too long", CloseCode.TOO_BIG)
        elif (opcode is Opcode.CONTINUATION) is (self._opcode is None):
            raise WebSocketError("a fragment without a beginning, or a beginning within a message")

    def _joined(self, head: _Head, payload: bytes) -> Message | None:
        """The message that this frame completes."""
        if head.opcode >= Opcode.CLOSE or (head.final and self._opcode is None):
            return Message(head.opcode, payload)
        if self._opcode is None:
            self._opcode = head.opcode
        if not payload and not head.final:
            raise WebSocketError("an empty fragment")
        self._message += payload
        if not head.final:
            return None
        message = Message(self._opcode, bytes(self._message))
        self._opcode, self._message = None, bytearray()
        return message


# ---- the opening handshake (RFC 6455, 4)


def new_key() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def accept_key(key: str) -> str:
    """The value of Sec-WebSocket-Accept."""
    # SHA-1 is that of the RFC, and protects nothing.
    return base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()  # noqa: S324


def request(host: str, path: str, key: str, subprotocol: str = SUBPROTOCOL) -> bytes:
    """The head of the client's request. host: with the port where that is not the usual one."""
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {subprotocol}",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


def response(key: str, subprotocol: str = SUBPROTOCOL) -> bytes:
    """The head of the server's answer to a request that it accepts."""
    lines = (
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept_key(key)}",
        f"Sec-WebSocket-Protocol: {subprotocol}",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


class Head(NamedTuple):
    """The head of a request or an answer: its first line, and its header fields by their names in lower case."""

    first: str
    fields: dict[str, str]


def parse_head(octets: bytes) -> Head:
    """A head without its final empty line. Of a field that occurs twice the last one counts. Raises WebSocketError."""
    first, *lines = octets.decode("latin-1").split("\r\n")
    fields = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise WebSocketError("not the head of an HTTP message")
        fields[name.lower()] = value.strip()
    return Head(first, fields)


def wanted_subprotocol(fields: dict[str, str]) -> str:
    """The subprotocol of ours for which a request asks; "" where it asks for no WebSocket of one of them."""
    words = [word.strip() for word in fields.get("sec-websocket-protocol", "").split(",")]
    wanted = next((one for one in (SUBPROTOCOL, DATA_SUBPROTOCOL) if one in words), "")
    return wanted if _is_upgrade(fields) else ""


def _is_upgrade(fields: dict[str, str]) -> bool:
    return (
        fields.get("upgrade", "").lower() == "websocket"
        and "upgrade" in fields.get("connection", "").lower()
        and fields.get("sec-websocket-version") == "13"
        and _is_key(fields.get("sec-websocket-key", ""))
    )


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except ValueError:
        return False
