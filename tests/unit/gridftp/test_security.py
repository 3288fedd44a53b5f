"""The protected channel without a socket: any cut of what arrives, and what must not be believed."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.control import Answered, ControlChannel, ControlEvent, ControlState, Greeting, Lost, Preliminary
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.gsi_context import MAX_PROTECTED_LINE, GsiInitiator, MessageProtection
from endpoints.gridftp.replies import MAX_LINE, Reply, ReplyParser
from tests.hostile_certificates import Holder, certificate_pem, key_pem, person

DAY = timedelta(days=1)


@cache
def holder() -> Holder:
    now = datetime.now(UTC)
    return person(None, begins=now - DAY, ends=now + DAY)


def context(protocol: int) -> ssl.SSLContext:
    made = ssl.SSLContext(protocol)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        made.num_tickets = 0
        descriptor = os.memfd_create("credential")
        os.write(descriptor, certificate_pem(holder().certificate) + key_pem(holder().key))
        made.load_cert_chain(f"/proc/self/fd/{descriptor}")
        os.close(descriptor)
    return made


class Server:
    """The other end, in memory."""

    def __init__(self) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context(ssl.PROTOCOL_TLS_SERVER).wrap_bio(self.incoming, self.outgoing, server_side=True)

    def answer(self, octets: bytes) -> Reply:
        """To one ADAT line of the handshake."""
        self.incoming.write(base64.b64decode(octets.removeprefix(b"ADAT ")))
        try:
            self.tls.do_handshake()
            self.tls.write(b"\0")
        except ssl.SSLWantReadError:
            pass
        return Reply(335, (b"ADAT=" + base64.b64encode(self.outgoing.read()),))

    def say(self, text: bytes) -> bytes:
        """Lines of replies, each in a record of its own, as the toolkit has it."""
        lines = [line + b"\n" for line in text.split(b"\n")[:-1]]
        records = [self.seal(line) for line in lines]
        return b"".join(b"632-" + record + b"\r\n" for record in records[:-1]) + b"632 " + records[-1] + b"\r\n"

    def seal(self, data: bytes) -> bytes:
        self.tls.write(data)
        return base64.b64encode(self.outgoing.read())

    def hear(self, octets: bytes) -> list[bytes]:
        heard = []
        for line in octets.splitlines():
            self.incoming.write(base64.b64decode(line.removeprefix(b"ENC "), validate=True))
            heard.append(self.tls.read(65536))
        return heard


def established() -> tuple[Server, MessageProtection]:
    server = Server()
    checked: list[Sequence[x509.Certificate]] = []
    initiator = GsiInitiator(context(ssl.PROTOCOL_TLS_CLIENT), "localhost", check=checked.append)
    auth, hello = initiator.begin()
    assert auth.octets == b"AUTH GSSAPI\r\n"
    assert not initiator.receive(Reply(334, (b"go on",)))
    finished, flag = initiator.receive(server.answer(hello.octets))
    assert [chain[0] for chain in checked] == [holder().certificate]
    assert not initiator.receive(server.answer(finished.octets))
    assert server.hear(flag.octets.removeprefix(b"ADAT ")) == [b"0"]
    assert not initiator.done
    assert not initiator.receive(Reply(235, (b"welcome",)))
    assert initiator.done
    return server, initiator.protection()


def channel_of(protection: MessageProtection) -> ControlChannel:
    channel = ControlChannel()
    assert isinstance(channel.receive(b"220 hello\r\n")[0], Greeting)
    channel.protect(protection)
    return channel


TEXT = b'150-Contents of /a\r\n Type=file; \xc3\xa9\r\n150 End.\r\n226 done\r\n257 "/" is it\r\n'


def cuts(data: bytes, at: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(edge % len(data) for edge in at), len(data)]
    return (data[start:end] for start, end in pairwise(edges))


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_replies_are_the_same_however_they_are_cut(at: list[int]) -> None:
    server, protection = established()
    parser = ReplyParser()

    replies = [r for piece in cuts(server.say(TEXT), at) for r in parser.feed(protection.unwrap(piece))]

    assert [reply.code for reply in replies] == [150, 226, 257]
    assert replies[0].lines[1] == " Type=file; é".encode()


def test_commands_go_out_one_by_one_in_their_order_and_none_in_clear() -> None:
    server, protection = established()
    channel = channel_of(protection)
    for number in range(300):
        channel.send("STOR", b"/folder/f%d \xc3\xa9" % number)

    octets = channel.data_to_send()

    assert octets.count(b"\r\n") == 300
    assert b"STOR" not in octets
    assert server.hear(octets) == [b"STOR /folder/f%d \xc3\xa9\r\n" % number for number in range(300)]


def test_events_are_those_of_a_clear_channel() -> None:
    server, protection = established()
    channel = channel_of(protection)
    channel.send("MLSC", b"/a")
    channel.send("PWD")
    server.hear(channel.data_to_send())

    events: list[ControlEvent] = list(channel.receive(server.say(TEXT)))

    assert [type(event) for event in events] == [Preliminary, Answered, Answered]


@pytest.mark.parametrize(
    "words",
    [
        b"226 done\r\n",
        b"421 good bye\r\n",
        b"631 QUJD\r\n",
        b"633 QUJD\r\n",
        b"632_QUJD\r\n",
        b"632 QUJDREVG\r\n",
        b"632 Q\r\n",
        b"632 QUJD QUJD\r\n",
        b"632 \xff\r\n",
        b"\r\n",
        b"632 " + b"A" * MAX_PROTECTED_LINE,
        b"632 " + b"A" * (MAX_PROTECTED_LINE + 4) + b"\r\n",
    ],
)
def test_what_is_not_protected_breaks_the_channel(words: bytes) -> None:
    _, protection = established()
    channel = channel_of(protection)
    channel.send("NOOP")
    channel.data_to_send()

    (event,) = channel.receive(words)

    assert isinstance(event, Lost)
    assert event.fault.kind is Kind.INSECURE_SERVER
    assert [command.verb for command in event.unanswered] == ["NOOP"]
    assert channel.state is ControlState.BROKEN


def test_a_protected_line_that_never_ends_is_given_up() -> None:
    server, protection = established()
    channel = channel_of(protection)
    channel.send("NOOP")
    events: list[ControlEvent] = []
    sent = 0
    while not events:
        sent += 16_000
        assert sent < 3 * MAX_LINE
        events = list(channel.receive(b"632-" + server.seal(b"2" * 16_000) + b"\r\n"))

    assert isinstance(events[0], Lost)


@pytest.mark.parametrize(
    "before", [b"220 hello\r\n230 wel", b"220 hello\r\n230-wel\r\n", b"", b"220 hello\r\n421 bye\r\n"]
)
def test_protection_begins_on_a_clean_channel_only(before: bytes) -> None:
    _, protection = established()
    channel = ControlChannel()
    list(channel.receive(before))

    with pytest.raises(FaultError) as caught:
        channel.protect(protection)

    assert caught.value.fault.kind is Kind.INSECURE_SERVER
    assert not channel.protected


@given(st.binary(max_size=400))
def test_any_octets_for_a_token_are_a_fault_and_nothing_else(token: bytes) -> None:
    initiator = GsiInitiator(context(ssl.PROTOCOL_TLS_CLIENT), "localhost", check=lambda _: None)
    initiator.begin()
    initiator.receive(Reply(334, (b"",)))

    with pytest.raises(FaultError):
        initiator.receive(Reply(335, (b"ADAT=" + base64.b64encode(token),)))
    assert not initiator.done


@given(st.integers(100, 659), st.lists(st.binary(max_size=40), min_size=1, max_size=3))
def test_any_reply_but_the_right_one_is_a_fault(code: int, lines: list[bytes]) -> None:
    initiator = GsiInitiator(context(ssl.PROTOCOL_TLS_CLIENT), "localhost", check=lambda _: None)
    initiator.begin()
    if code != 334:
        with pytest.raises(FaultError):
            initiator.receive(Reply(code, tuple(lines)))
    else:
        initiator.receive(Reply(code, tuple(lines)))
        with pytest.raises(FaultError):
            initiator.receive(Reply(235, tuple(lines)))
    assert not initiator.done


def test_what_check_refuses_gets_no_token_more() -> None:
    class RefusedError(Exception):
        pass

    def check(_: object) -> None:
        raise RefusedError

    server = Server()
    initiator = GsiInitiator(context(ssl.PROTOCOL_TLS_CLIENT), "localhost", check=check)
    _, hello = initiator.begin()
    initiator.receive(Reply(334, (b"",)))

    with pytest.raises(RefusedError):
        initiator.receive(server.answer(hello.octets))
    assert not initiator.done
