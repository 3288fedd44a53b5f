"""The frames of the channels of a tunnel: type (1 octet) | channel (4 octets, big-endian) | payload.

Each is the payload of one binary WebSocket message. Messages about the tunnel itself are JSON in text messages
(`sign_in`). The two ends open channels with numbers of their own: the agent odd ones, the relay even ones.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

HEAD = 5
#: The most octets of data in one frame, of a document in a frame, and of a message.
MAX_DATA = 32 << 10
#: The same in a tunnel that carries data only (`data_tunnels`): nothing in it waits for a place behind large frames.
MAX_BULK_DATA = 128 << 10
MAX_DOCUMENT = 16 << 10
MAX_MESSAGE = HEAD + MAX_DATA


class FrameType(enum.IntEnum):
    OPEN = 1  # a document: what the channel is for
    ACCEPT = 2  # nothing
    REFUSE = 3  # a document: code, reason
    DATA = 4  # octets, at most as many as there is credit
    CREDIT = 5  # 4 octets: how many more octets the peer may send
    FINISH = 6  # nothing: no more data follow in this direction
    RESET = 7  # a document: code, reason; the channel has ended


_TYPES = {int(type_): type_ for type_ in FrameType}


class FrameError(Exception):
    """The peer has broken the protocol of the channels."""


class Frame(NamedTuple):
    type: FrameType
    channel: int
    payload: bytes


def encode(type_: FrameType, channel: int, payload: bytes = b"") -> bytes:
    return bytes((type_,)) + channel.to_bytes(4, "big") + payload


def credit(channel: int, octets: int) -> bytes:
    return encode(FrameType.CREDIT, channel, octets.to_bytes(4, "big"))


def document(type_: FrameType, channel: int, content: Mapping[str, Any]) -> bytes:
    return encode(type_, channel, json.dumps(content).encode())


def decode(message: bytes) -> Frame:
    """Parse one message. Raises FrameError."""
    if len(message) < HEAD:
        raise FrameError("a frame without a head")
    type_ = _TYPES.get(message[0])
    if type_ is None:
        raise FrameError("a frame of an unknown type")
    return Frame(type_, int.from_bytes(message[1:HEAD], "big"), message[HEAD:])


def octets_of_credit(payload: bytes) -> int:
    """Parse the payload of a CREDIT. Raises FrameError."""
    if len(payload) != 4 or not any(payload):
        raise FrameError("a credit without a number")
    return int.from_bytes(payload, "big")


def parse_document(payload: bytes) -> dict[str, Any]:
    """A JSON object. Raises FrameError."""
    if len(payload) > MAX_DOCUMENT:
        raise FrameError("a document is too long")
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        raise FrameError("a document is not JSON") from None
    if not isinstance(found, dict):
        raise FrameError("a document is no JSON object")
    return found


def text_of(content: Mapping[str, Any], name: str, longest: int = 500) -> str:
    """A text of a document, cut; "" where there is none."""
    value = content.get(name)
    return value[:longest] if isinstance(value, str) else ""
