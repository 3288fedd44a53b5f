"""The control channel: every state and input, pipelining, and the end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.control import (
    MAX_PRELIMINARIES,
    TRANSITIONS,
    Answered,
    ControlChannel,
    ControlEvent,
    ControlInput,
    ControlState,
    Greeting,
    Lost,
    Preliminary,
)
from endpoints.gridftp.faults import Kind

WORDS = {
    ControlInput.PRELIMINARY: b"150 opening\r\n",
    ControlInput.FINAL: b"220 fine\r\n",
    ControlInput.CLOSING: b"421 good bye\r\n",
    ControlInput.GARBAGE: b"garbage\r\n",
}


def apply(channel: ControlChannel, what: ControlInput) -> list[ControlEvent]:
    return list(channel.receive_eof() if what is ControlInput.EOF else channel.receive(WORDS[what]))


def ready() -> ControlChannel:
    channel = ControlChannel()
    assert isinstance(channel.receive(b"220 hello\r\n")[0], Greeting)
    return channel


def test_the_table_knows_every_state_and_input() -> None:
    assert set(TRANSITIONS) == set(itertools.product(ControlState, ControlInput))


@given(st.lists(st.one_of(st.sampled_from(list(ControlInput)), st.just("command")), max_size=30))
def test_any_sequence_loses_the_channel_once_and_gives_each_command_one_end(steps: list[ControlInput | str]) -> None:
    channel, sent, ended, lost = ControlChannel(), 0, 0, 0
    for step in steps:
        if isinstance(step, str):
            sent += channel.state is not ControlState.BROKEN
            channel.send("NOOP")
            continue
        for event in apply(channel, step):
            if isinstance(event, Answered):
                ended += 1
            elif isinstance(event, Lost):
                lost += 1
                ended += len(event.unanswered)
    assert lost == (channel.state is ControlState.BROKEN)
    assert lost <= 1
    assert ended + channel.unanswered == sent


def test_replies_belong_to_the_commands_in_their_order() -> None:
    channel = ready()
    for tag in "abc":
        channel.send("STOR", b"/" + tag.encode(), tag=tag)
    assert channel.data_to_send() == b"STOR /a\r\nSTOR /b\r\nSTOR /c\r\n"
    assert channel.data_to_send() == b""
    events = list(channel.receive(b"150 go\r\n226 done\r\n550 no\r\n125 go\r\n"))
    assert [(type(event), event.command.tag) for event in events if isinstance(event, Answered | Preliminary)] == [
        (Preliminary, "a"),
        (Answered, "a"),
        (Answered, "b"),
        (Preliminary, "c"),
    ]


def test_a_reply_to_nothing_breaks_the_channel() -> None:
    (event,) = ready().receive(b"226 done\r\n")
    assert isinstance(event, Lost)
    assert event.fault.kind is Kind.ENDPOINT_ERROR


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (b"421 too many users\r\n", Kind.ENDPOINT_TOO_BUSY),
        (b"SSH-2.0-x\r\n", Kind.ENDPOINT_ERROR),
        (b"530 no\r\n", Kind.ENDPOINT_ERROR),
    ],
)
def test_a_server_that_does_not_greet_is_a_typed_fault(words: bytes, kind: Kind) -> None:
    (event,) = ControlChannel().receive(words)
    assert isinstance(event, Lost)
    assert event.fault.kind is kind


def test_nothing_is_believed_after_the_end() -> None:
    channel = ready()
    channel.send("NOOP")
    assert [type(event) for event in channel.receive(b"garbage\r\n200 ok\r\n")] == [Lost]
    assert list(channel.receive(b"200 ok\r\n")) == []
    assert list(channel.receive_eof()) == []
    channel.send("NOOP")
    assert channel.data_to_send() == b""


@pytest.mark.parametrize(("verb", "lost"), [("MKD", True), ("MLST", True), ("STOR", False), ("MLSC", False)])
def test_only_what_takes_long_may_say_again_and_again_how_far_it_is(verb: str, lost: bool) -> None:
    channel = ready()
    channel.send(verb, b"/x")
    events = [event for _ in range(2 * MAX_PRELIMINARIES) for event in channel.receive(b"150 soon\r\n")]
    assert (channel.state is ControlState.BROKEN) is lost
    if lost:
        assert len(events) == MAX_PRELIMINARIES + 1
        assert isinstance(events[-1], Lost)
        assert events[-1].fault.kind is Kind.ENDPOINT_ERROR


def test_only_a_listing_may_be_a_long_reply() -> None:
    lines = b" Type=file; x\r\n" * 10_000
    for verb, whole in (("MLSC", True), ("FEAT", False)):
        channel = ready()
        channel.send(verb)
        (event,) = channel.receive(b"250-Contents\r\n" + lines + b"250 End.\r\n")
        assert isinstance(event, Answered) is whole


@pytest.mark.parametrize(
    "words", ["500 OOPS: vsftpd: cannot change directory", "530 Sorry, not today", "451 Local error"]
)
def test_what_a_server_says_before_it_hangs_up_is_in_the_fault(words: str) -> None:
    channel = ready()
    channel.send("USER", b"alice")
    channel.send("PASS", b"secret")
    (answered,) = channel.receive(words.encode() + b"\r\n")
    assert isinstance(answered, Answered)

    (lost,) = channel.receive_eof()

    assert isinstance(lost, Lost)
    assert words in lost.fault.raw
    assert "secret" not in repr(lost)


def test_a_full_server_that_hangs_up_is_busy() -> None:
    channel = ready()
    channel.send("USER", b"alice")
    channel.send("PASS", b"secret")
    list(channel.receive(b"530 Too many users, try later\r\n"))

    (lost,) = channel.receive_eof()

    assert isinstance(lost, Lost)
    assert lost.fault.kind is Kind.ENDPOINT_TOO_BUSY


def test_the_refusal_of_a_file_is_no_reason_for_a_lost_connection() -> None:
    channel = ready()
    channel.send("DELE", b"/a")
    channel.send("DELE", b"/b")
    list(channel.receive(b"550 /a: No such file or directory\r\n"))

    (lost,) = channel.receive_eof()

    assert isinstance(lost, Lost)
    assert "No such file" not in lost.fault.raw
