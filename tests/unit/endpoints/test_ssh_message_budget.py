"""The lines and messages that an ssh server may send: bounded, and read in time that is linear in their octets."""

from __future__ import annotations

import asyncio

import pytest

from endpoints.gridftp.faults import FaultError, FaultScope
from endpoints.gridftp.wire.put_off import FIRST, FORGET, LONGEST, MOST, PutOffServers
from endpoints.ssh.accounts.remote_program import MAX_BANNER, NoMarkError, RemoteProgram
from endpoints.ssh.message_budget import (
    EARNED,
    KEY_EXCHANGE,
    LARGE,
    LOGIN_MESSAGES,
    MAX_GREETING,
    MAX_GREETING_LINES,
    MAX_VERSION,
    MESSAGES_PER_SECOND,
    SPARE_MESSAGES,
    MessageBudget,
    TooManyMessagesError,
    VersionSearch,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_the_version_is_found_behind_other_lines(piece: int) -> None:
    sent, search = b"Welcome\r\n\r\nto this host\nSSH-2.0-x\r\nbinary", VersionSearch()
    found = b"".join(search.feed(sent[at : at + piece]) for at in range(0, sent.index(b"binary"), piece))
    assert found.startswith(b"SSH-2.0-x\r\n")


@pytest.mark.parametrize(
    "sent",
    [
        b"\n" * (MAX_GREETING_LINES + 1),
        b"\r\n" * (MAX_GREETING_LINES + 1),
        b"x" * (MAX_GREETING + 1),
        b"a line\n" * MAX_GREETING,
        b"SSH-" + b"x" * MAX_VERSION,
        b"SSH-2.0-" + b"x" * MAX_VERSION + b"\n",
    ],
    ids=[
        "empty lines",
        "with CR",
        "a line without end",
        "lines",
        "a version without end",
        "a long version",
    ],
)
@pytest.mark.parametrize("piece", [16, 1 << 20])
def test_lines_without_a_version_end(sent: bytes, piece: int) -> None:
    search = VersionSearch()

    def feed() -> bytes:
        return b"".join(search.feed(sent[at : at + piece]) for at in range(0, len(sent), piece))

    with pytest.raises(TooManyMessagesError):
        feed()


def test_a_login_has_a_fixed_number_of_messages_of_any_size() -> None:
    budget = MessageBudget(Clock())
    budget.key_exchange()
    for _ in range(LOGIN_MESSAGES - 1):
        budget.sent(1000)
        budget.received(LARGE)
    with pytest.raises(TooManyMessagesError):
        budget.received(LARGE)


def test_messages_that_nobody_asked_for_are_counted_after_the_login() -> None:
    budget = MessageBudget(Clock())
    budget.logged_in()
    for _ in range(SPARE_MESSAGES):
        budget.received(20)
    budget.received(LARGE)
    with pytest.raises(TooManyMessagesError):
        budget.received(20)


def test_requests_and_time_earn_messages() -> None:
    clock = Clock()
    budget = MessageBudget(clock)
    budget.logged_in()
    for _ in range(10 * SPARE_MESSAGES):
        budget.sent(20)
        for _ in range(EARNED):
            budget.received(20)
    clock.now += 10 * SPARE_MESSAGES / MESSAGES_PER_SECOND
    for _ in range(SPARE_MESSAGES):
        budget.received(20)
    clock.now += 1.0
    for _ in range(int(MESSAGES_PER_SECOND)):
        budget.received(20)
    with pytest.raises(TooManyMessagesError):
        budget.received(20)


def test_key_exchanges_cost_more_than_other_messages() -> None:
    budget = MessageBudget(Clock())
    budget.logged_in()
    for _ in range(SPARE_MESSAGES // KEY_EXCHANGE):
        budget.key_exchange()
    with pytest.raises(TooManyMessagesError):
        budget.key_exchange()


class Channel:
    """The window of a real one ends what a server may send meanwhile."""

    def pause_reading(self) -> None: ...


@pytest.mark.timeout(20)
@pytest.mark.parametrize("line", [b"\n", b"x\n", b"\r\n", b" " * 100 + b"\n"], ids=["empty", "short", "CR", "spaces"])
async def test_a_shell_that_writes_lines_without_end_is_left_in_linear_time(line: bytes) -> None:
    program = RemoteProgram("mark")
    program.channel = Channel()  # type: ignore[assignment]
    program.data_received(line * (MAX_BANNER // len(line)), None)
    report = asyncio.ensure_future(program.report())
    await asyncio.sleep(0)
    assert not report.done()
    program.data_received(line * ((1 << 20) // len(line)), None)
    with pytest.raises(NoMarkError, match="without an end"):
        await report


async def test_marked_lines_are_found_among_others_in_pieces_of_any_size() -> None:
    program = RemoteProgram("mark")
    sent = b"\n\nHello\nmark one two\n\ngreeting without an end mark three\nrest"
    for octet in sent:
        program.data_received(bytes([octet]), None)
    assert await program.report() == ["one", "two"]
    assert await program.report() == ["three"]


# ---- servers that are put off


def refused(servers: PutOffServers) -> bool:
    try:
        servers.check("192.0.2.1", 22)
    except FaultError as error:
        return error.fault.scope is FaultScope.ENDPOINT and "it sent noise" in error.fault.advice
    return False


def test_a_server_is_put_off_for_longer_each_time() -> None:
    clock = Clock()
    servers = PutOffServers(clock)
    seconds = FIRST
    for _ in range(8):
        servers.note("192.0.2.1", 22, "it sent noise")
        servers.note("192.0.2.1", 22, "it sent noise again: the same connection")
        clock.now += seconds - 1
        assert refused(servers)
        clock.now += 2
        assert not refused(servers)
        seconds = min(LONGEST, 2 * seconds)
    clock.now += FORGET
    servers.note("192.0.2.1", 22, "it sent noise")
    clock.now += FIRST + 1
    assert not refused(servers)


def test_other_servers_are_not_put_off_and_few_are_remembered() -> None:
    servers = PutOffServers(Clock())
    servers.note("192.0.2.1", 22, "it sent noise")
    servers.check("192.0.2.1", 23)
    servers.check("192.0.2.2", 22)
    for port in range(MOST):
        servers.note("192.0.2.2", port, "it sent noise")
    assert not refused(servers)
