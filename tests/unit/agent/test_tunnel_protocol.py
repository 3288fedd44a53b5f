"""The frames of WebSockets and of channels, without any connection: what is right, and what a peer must not do."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from endpoints.gridftp.agent.tunnel import frames, websocket
from endpoints.gridftp.agent.tunnel.agent_end import TunnelEndedError
from endpoints.gridftp.agent.tunnel.frames import FrameError, FrameType
from endpoints.gridftp.agent.tunnel.multiplexer import (
    MAX_CHANNELS,
    MAX_CREDIT,
    ChannelHandler,
    Multiplexer,
    TunnelChannel,
)
from endpoints.gridftp.agent.tunnel.tunnel import LONGEST_PAUSE, _pause
from endpoints.gridftp.agent.tunnel.websocket import CloseCode, MessageDecoder, Opcode, WebSocketError


def decoder(*, from_client: bool = True) -> MessageDecoder:
    return MessageDecoder(from_client=from_client, longest=frames.MAX_MESSAGE)


def test_the_example_of_the_rfc() -> None:
    """RFC 6455, 1.3 and 5.7."""
    assert websocket.accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    hello = bytes.fromhex("818537fa213d7f9f4d5158")
    assert list(decoder().feed(hello)) == [(Opcode.TEXT, b"Hello")]
    fragments = bytes.fromhex("010348656c80026c6f")
    assert list(decoder(from_client=False).feed(fragments)) == [(Opcode.TEXT, b"Hello")]


@pytest.mark.parametrize("mask", [True, False])
def test_messages_of_every_length_arrive_however_they_are_cut(mask: bool) -> None:
    draw = random.Random(7)
    sent = [draw.randbytes(length) for length in (0, 1, 3, 125, 126, 127, 4096, frames.MAX_MESSAGE)]
    octets = b"".join(websocket.encode(Opcode.BINARY, one, mask=mask) for one in sent)
    reading, found = decoder(from_client=mask), []
    while octets:
        cut = draw.choice([1, 2, 7, 100, 50_000])
        found += [message.payload for message in reading.feed(octets[:cut])]
        octets = octets[cut:]
    assert found == sent


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (bytes((0x82, 0x01)) + b"x", CloseCode.PROTOCOL_ERROR),  # a client that does not mask
        (bytes((0xC2, 0x80)) + b"keyk", CloseCode.PROTOCOL_ERROR),  # an extension
        (bytes((0x83, 0x80)) + b"keyk", CloseCode.PROTOCOL_ERROR),  # an unknown opcode
        (bytes((0x89, 0xFE, 0x00, 0x7E)), CloseCode.PROTOCOL_ERROR),  # a long ping
        (bytes((0x09, 0x80)), CloseCode.PROTOCOL_ERROR),  # a ping in parts
        (bytes((0x80, 0x80)) + b"keyk", CloseCode.PROTOCOL_ERROR),  # a fragment without a beginning
        (bytes((0x02, 0x80)) + b"keyk", CloseCode.PROTOCOL_ERROR),  # an empty fragment
        (bytes((0x82, 0xFF)) + (1 << 62).to_bytes(8, "big"), CloseCode.TOO_BIG),
        (bytes((0x82, 0xFE)) + (0xFFFF).to_bytes(2, "big"), CloseCode.TOO_BIG),
        (b"GET / HTTP/1.1\r\n\r\n", CloseCode.PROTOCOL_ERROR),
    ],
)
def test_a_wrong_frame_is_refused_by_its_head(octets: bytes, code: CloseCode) -> None:
    with pytest.raises(WebSocketError) as refused:
        list(decoder().feed(octets))
    assert refused.value.code is code


def test_a_message_in_fragments_is_not_longer_than_one_in_one_part() -> None:
    reading = decoder()
    part = bytes((0x00, 0x80 | 126)) + (16384).to_bytes(2, "big") + bytes(4) + b"x" * 16384
    first = bytes((0x02,)) + part[1:]
    with pytest.raises(WebSocketError, match="too long"):
        list(reading.feed(first + part * 3))


def test_garbage_never_raises_anything_else() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        reading = decoder(from_client=draw.random() < 0.5)
        try:
            for message in reading.feed(draw.randbytes(draw.randrange(1, 300))):
                frames.decode(message.payload)
        except (WebSocketError, FrameError):
            pass


def test_heads_of_http_messages() -> None:
    head = websocket.parse_head(websocket.request("example.org", "/connect/tunnel", websocket.new_key())[:-4])
    assert head.first == "GET /connect/tunnel HTTP/1.1"
    assert websocket.wanted_subprotocol(head.fields) == websocket.SUBPROTOCOL
    for name in ("upgrade", "connection", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol"):
        assert not websocket.wanted_subprotocol({**head.fields, name: "x"}), name
    with pytest.raises(WebSocketError):
        websocket.parse_head(b"GET / HTTP/1.1\r\nno field")


# ---- channels


class Recorder(ChannelHandler):
    def __init__(self) -> None:
        self.events: list[Any] = []

    def accepted(self) -> None:
        self.events.append("accepted")

    def data(self, octets: bytes) -> None:
        self.events.append(octets)

    def finished(self) -> None:
        self.events.append("finished")

    def reset(self, code: str, reason: str) -> None:
        self.events.append(("reset", code))


class Ends:
    """Two multiplexers that are joined: the agent's and the relay's."""

    def __init__(self) -> None:
        self.opened: list[TunnelChannel] = []
        self.to_relay: list[bytes] = []
        self.agent = Multiplexer(1, self.to_relay.append, self.arrived)
        self.relay = Multiplexer(2, lambda frame: self.agent.receive(frame), self.arrived)

    def arrived(self, channel: TunnelChannel, content: Any) -> None:
        channel.handler = Recorder()
        self.opened.append(channel)

    def flush(self) -> None:
        while self.to_relay:
            self.relay.receive(self.to_relay.pop(0))


def opened() -> tuple[Ends, TunnelChannel, TunnelChannel]:
    """Two ends, and both ends of a channel that the relay has opened and the agent accepted, with 10 octets each."""
    ends = Ends()
    near = ends.relay.open({"kind": "control"}, Recorder())
    (far,) = ends.opened
    far.accept(10)
    ends.flush()
    near.grant(10)
    return ends, near, far


def events(channel: TunnelChannel) -> list[Any]:
    assert isinstance(channel.handler, Recorder)
    return channel.handler.events


def test_a_channel_carries_as_many_octets_as_there_is_credit() -> None:
    ends, near, far = opened()
    near.send(b"0123456789")
    assert near.credit == 0
    with pytest.raises(ValueError, match="credit"):
        near.send(b"x")
    far.grant(3)
    ends.flush()
    near.send(b"abc")
    assert events(far) == [b"0123456789", b"abc"]


def test_a_channel_ends_when_both_ends_have_finished() -> None:
    ends, near, far = opened()
    near.finish()
    far.send(b"late")
    far.finish()
    ends.flush()
    assert events(near) == ["accepted", b"late", "finished"]
    assert events(far) == ["finished"]
    assert not ends.agent.channels
    assert not ends.relay.channels


def test_a_lost_tunnel_ends_every_channel_once() -> None:
    ends, near, far = opened()
    ends.agent.lose("away", "")
    ends.agent.lose("away", "")
    assert events(far) == [("reset", "away")]
    near.reset()
    assert events(near) == ["accepted"]


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\x04\x00\x00",
        bytes((99,)) + bytes(4),
        frames.encode(FrameType.DATA, 2, b"x" * 11),  # more than the credit
        frames.encode(FrameType.DATA, 2),
        frames.encode(FrameType.ACCEPT, 2),  # a second time
        frames.encode(FrameType.CREDIT, 2, b"\x00\x00\x00\x00"),
        frames.encode(FrameType.CREDIT, 2, b"\x01"),
        frames.credit(2, MAX_CREDIT),
        frames.encode(FrameType.DATA, 4, b"x"),  # never opened
        frames.encode(FrameType.DATA, 0, b"x"),
        frames.encode(FrameType.DATA, 1, b"x"),
        frames.document(FrameType.OPEN, 2, {}),  # the number of the relay
        frames.encode(FrameType.OPEN, 1, b"[]"),
        frames.encode(FrameType.OPEN, 1, b"{" * 20),
        frames.encode(FrameType.OPEN, 1, b"[" * 10_000),
        frames.encode(FrameType.OPEN, 1, b" " * 20_000 + b"{}"),
        frames.encode(FrameType.RESET, 2, b"\xff"),
    ],
)
def test_a_peer_that_breaks_the_rules_of_channels_is_found_out(wrong: bytes) -> None:
    ends, _, _ = opened()
    with pytest.raises(FrameError):
        ends.relay.receive(wrong)


def test_frames_of_a_channel_that_has_just_ended_are_ignored() -> None:
    ends, near, _ = opened()
    near.reset()
    ends.relay.receive(frames.encode(FrameType.DATA, 2, b"x"))


def test_a_flood_of_channels_is_refused_one_by_one() -> None:
    ends = Ends()
    handlers = [Recorder() for _ in range(MAX_CHANNELS + 5)]
    for handler in handlers:
        ends.agent.open({}, handler)
    ends.flush()
    assert len(ends.opened) == MAX_CHANNELS
    assert [handler.events for handler in handlers[MAX_CHANNELS:]] == [[("reset", "busy")]] * 5
    # There is room again when one has ended.
    ends.opened[0].refuse("failed", "")
    ends.agent.open({}, Recorder())
    ends.flush()
    assert len(ends.opened) == MAX_CHANNELS + 1


def test_the_number_of_a_channel_is_used_once() -> None:
    ends = Ends()
    ends.agent.open({}, Recorder())
    again = list(ends.to_relay)
    ends.flush()
    with pytest.raises(FrameError):
        ends.relay.receive(again[0])


# ---- coming back


@pytest.mark.parametrize("down", [0.0, 3.0, 60.0])
def test_all_agents_of_a_relay_come_back_within_15_s_and_not_at_the_same_moment(down: float) -> None:
    random.seed(1)
    lost = TunnelEndedError("the connection was closed")
    back = []
    for _ in range(500):
        failures, at = 0, _pause(0, lost)
        while at < down:
            failures += 1
            at += _pause(failures, lost)
        back.append(at - down)
    assert max(back) <= LONGEST_PAUSE < 15
    # A tenth of a second never has more than a tenth of them.
    assert max(Counter(int(at * 10) for at in back).values()) < 50


def test_an_agent_waits_as_long_as_the_service_asks() -> None:
    assert 30 <= _pause(0, TunnelEndedError("busy", "busy", 30.0)) <= 32
    assert _pause(0, TunnelEndedError("cloned", "cloned")) >= 15
