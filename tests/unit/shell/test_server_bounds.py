"""The parts of the ssh server that need no socket: admission, input of a channel, calls, the log of failures."""

from __future__ import annotations

import logging
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from endpoints.error_meanings import Unavailable
from tests.waiting import eventually
from transferapi.shell.context import Signal
from transferapi.shell.errors import DisconnectedError, InterruptedByUserError, UsageError
from transferapi.shell.server import admission as admission_module
from transferapi.shell.server import host_key
from transferapi.shell.server.admission import MOST_LINES, WINDOW, FailureLog, ShellConnectionLimits, Ticket
from transferapi.shell.server.bounds import ShellBounds
from transferapi.shell.server.calls import Calls
from transferapi.shell.server.input import ChannelInput
from transferapi.shell.server.key_exchanges import KeyExchanges
from transferapi.shell.words import MAX_LINE


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def admission(clock: Clock, **bounds: float) -> ShellConnectionLimits:
    return ShellConnectionLimits(ShellBounds(**bounds), clock)  # type: ignore[arg-type]


def arrive(admitted: ShellConnectionLimits, network: str, ended: list[str] | None = None) -> Ticket | None:
    return admitted.arrive(network, lambda: (ended if ended is not None else []).append(network))


# ---- admission


def test_a_network_has_a_bounded_number_of_connections_that_have_not_signed_in(clock: Clock) -> None:
    admitted, ended = admission(clock, strangers_of_network=2), list[str]()
    first, second = arrive(admitted, "a", ended), arrive(admitted, "a", ended)
    assert first is not None
    assert second is not None
    assert arrive(admitted, "b", ended) is not None
    assert ended == []
    assert arrive(admitted, "a", ended) is not None
    assert ended == ["a"]
    assert not admitted.sign_in(first, "alice")
    assert admitted.sign_in(second, "alice")


def test_eight_networks_without_an_account_keep_nobody_out(clock: Clock) -> None:
    admitted = admission(clock, strangers=48, failures=1000)
    for number in range(8 * 48):
        arrive(admitted, f"198.51.{number % 8}.1")
    for _ in range(17):
        honest = arrive(admitted, "192.0.2.1")
        assert honest is not None
        for number in range(8):
            arrive(admitted, f"198.51.{number}.1")
        assert admitted.sign_in(honest, "alice")


def test_where_there_are_too_many_the_network_with_most_of_them_gives_way(clock: Clock) -> None:
    admitted, ended = admission(clock, strangers=3), list[str]()
    arrive(admitted, "quiet", ended)
    arrive(admitted, "loud", ended)
    arrive(admitted, "loud", ended)
    assert arrive(admitted, "newcomer", ended) is not None
    assert ended == ["loud"]
    assert admitted.strangers == 3


class Crowd:
    """Clients that wait for their key exchanges, each in a thread; those that had a turn are in `served`."""

    def __init__(self, clock: Clock, **bounds: float) -> None:
        self.exchanges = KeyExchanges(ShellBounds(**bounds), clock)  # type: ignore[arg-type]
        self.served: list[str] = []
        self.wanted = True
        self.refused = 0
        self._threads: list[threading.Thread] = []

    def come(self, network: str) -> None:
        self._threads.append(threading.Thread(target=self._wait, args=(network,), daemon=True))
        self._threads[-1].start()
        eventually(lambda: self.waiting + len(self.served) + self.refused == len(self._threads))

    @property
    def waiting(self) -> int:
        return sum(map(len, self.exchanges._waiting.values()))

    def has_served(self, number: int) -> bool:
        return len(self.served) == number

    def _wait(self, network: str) -> None:
        if self.exchanges.wait(network, lambda: self.wanted):
            self.served.append(network)
        else:
            self.refused += 1

    def end(self) -> None:
        self.wanted = False
        for thread in self._threads:
            thread.join(30)


def test_key_exchanges_of_strangers_are_so_many_in_a_second(clock: Clock) -> None:
    crowd = Crowd(clock, key_exchanges=2, key_exchanges_per_second=10.0)
    for number in range(9):
        crowd.come(f"network {number}")
    assert (len(crowd.served), crowd.waiting) == (2, 7)
    for number in range(3, 6):
        clock.now += 0.1001
        eventually(partial(crowd.has_served, number))
    assert crowd.waiting == 4
    crowd.end()
    assert (crowd.refused, crowd.waiting) == (4, 0)
    clock.now += 10.0
    assert crowd.exchanges.wait("network", lambda: True)


def test_key_exchanges_take_turns_between_networks(clock: Clock) -> None:
    crowd = Crowd(clock, key_exchanges=1, key_exchanges_per_second=10.0)
    for _ in range(12):
        crowd.come("loud")
    crowd.come("quiet")
    for number in (2, 3):
        clock.now += 0.1001
        eventually(partial(crowd.has_served, number))
    assert "quiet" in crowd.served
    crowd.end()


def test_a_network_that_fails_to_sign_in_is_slowed_down_and_others_are_not(clock: Clock) -> None:
    admitted = admission(clock, failures=3, failures_per_second=1.0)
    for _ in range(3):
        ticket = arrive(admitted, "attacker")
        assert ticket is not None
        admitted.leave(ticket)
    assert [arrive(admitted, "attacker") for _ in range(1000)] == [None] * 1000
    assert arrive(admitted, "user") is not None
    clock.now = 1.0
    assert arrive(admitted, "attacker") is not None
    assert arrive(admitted, "attacker") is None


def test_sign_ins_cost_a_network_nothing(clock: Clock) -> None:
    admitted = admission(clock, failures=2)
    for _ in range(100):
        ticket = arrive(admitted, "a")
        assert ticket is not None
        assert admitted.sign_in(ticket, "alice")
        admitted.leave(ticket)
        admitted.leave(ticket)
    assert (admitted.sessions, admitted.strangers) == (0, 0)


@pytest.mark.parametrize(
    ("bound", "network", "user"),
    [("sessions_of_user", "other", "alice"), ("sessions_of_network", "a", "other"), ("sessions", "other", "other")],
)
def test_sessions_are_bounded_of_a_user_of_a_network_and_in_all(
    clock: Clock, bound: str, network: str, user: str
) -> None:
    admitted = admission(clock, **{bound: 1})
    first, second = arrive(admitted, "a"), arrive(admitted, network)
    assert first is not None
    assert second is not None
    assert admitted.sign_in(first, "alice")
    assert not admitted.sign_in(second, user)
    admitted.leave(first)
    third = arrive(admitted, network)
    assert third is not None
    assert admitted.sign_in(third, user)


def test_a_connection_that_gave_way_cannot_sign_in(clock: Clock) -> None:
    admitted = admission(clock, strangers=1)
    first = arrive(admitted, "a")
    assert first is not None
    assert arrive(admitted, "b") is not None
    assert not admitted.sign_in(first, "alice")


def test_channels_of_a_user_are_bounded(clock: Clock) -> None:
    admitted = admission(clock, channels_of_user=2, channels_in_all=3)
    assert [admitted.open_channel("alice") for _ in range(3)] == [True, True, False]
    assert [admitted.open_channel("bob") for _ in range(2)] == [True, False]
    admitted.close_channel("alice")
    assert admitted.open_channel("bob")


def test_networks_are_forgotten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_module, "MOST_NETWORKS", 100)
    admitted = admission(clock, strangers=10, failures=10)
    for number in range(1000):
        ticket = arrive(admitted, f"network {number}")
        assert ticket is not None
        admitted.leave(ticket)
    assert len(admitted._tokens) <= 100
    assert admitted.strangers == 0


# ---- input


def test_lines_come_without_their_ends() -> None:
    given = ChannelInput()
    given.feed(b"one\r\ntwo\n\nthr")
    given.feed(b"ee")
    given.end()
    assert [given.line() for _ in range(5)] == [(b"one", 5), (b"two", 4), (b"", 1), (b"three", 5), (None, 0)]


def test_a_line_that_is_too_long_can_be_skipped() -> None:
    given = ChannelInput()
    given.feed(b"x" * (MAX_LINE + 1))
    with pytest.raises(UsageError):
        given.line()
    assert given.skip() == (False, MAX_LINE + 1)
    given.feed(b"xx\nnext\n")
    assert given.skip() == (True, 3)
    assert given.line() == (b"next", 5)


def test_a_closed_channel_has_no_input() -> None:
    given = ChannelInput()
    given.feed(b"one\n")
    given.close()
    with pytest.raises(DisconnectedError):
        given.line()
    with pytest.raises(DisconnectedError):
        given.read(0)
    assert given.wait(60) is Signal.DISCONNECTED


def test_a_wait_ends_by_a_signal_and_by_a_word() -> None:
    given = ChannelInput()
    assert given.wait(0, b"bg") is None
    given.feed(b"bg\nmore\n")
    assert given.wait(60, b"bg") is Signal.BACKGROUND
    assert given.wait(0, b"bg") is None
    given.signal(Signal.INTERRUPT)
    assert given.wait(60) is Signal.INTERRUPT
    given.signal(Signal.INTERRUPT)
    with pytest.raises(InterruptedByUserError):
        given.line()
    given.signal(Signal.INTERRUPT)
    assert given.interrupted()
    assert not given.interrupted()
    assert given.line() == (b"more", 5)


def test_a_read_ends_when_the_window_changes() -> None:
    given = ChannelInput()
    given.resize()
    assert given.read(60) is None
    given.feed(b"key")
    assert given.read(None) == b"key"
    given.end()
    assert given.read(None) == b""


# ---- calls


def test_calls_return_and_raise() -> None:
    calls = Calls(2, 2, 1.0)
    assert calls.call("alice", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        calls.call("alice", lambda: 1 // 0)
    calls.close()


def test_one_user_does_not_take_all_threads() -> None:
    calls, go, begun = Calls(3, 2, 0.05), threading.Event(), threading.Semaphore(0)

    def hold() -> bool:
        begun.release()
        return go.wait(60)

    with ThreadPoolExecutor(3) as users:
        held = [users.submit(calls.call, "alice", hold) for _ in range(2)]
        for _ in held:
            assert begun.acquire(timeout=30)
        with pytest.raises(Unavailable):
            calls.call("alice", lambda: None)
        assert calls.call("bob", lambda: "served") == "served"
        held.append(users.submit(calls.call, "bob", hold))
        assert begun.acquire(timeout=30)
        with pytest.raises(Unavailable):
            calls.call("charlie", lambda: None)
        go.set()
        assert all(one.result() for one in held)
    assert calls.call("alice", lambda: "again") == "again"
    calls.close()


# ---- log and host key


def test_failures_fill_no_log(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    failures = FailureLog(clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            failures.failed("192.0.2.1", "not signed in")
        assert len(caplog.records) == MOST_LINES
        clock.now = WINDOW
        failures.failed("192.0.2.1", "not signed in")
    assert f"{1000 - MOST_LINES} more connections" in caplog.text


def test_the_host_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    first = host_key.load_or_make(tmp_path / "home")
    file = tmp_path / "home" / host_key.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert host_key.load_or_make(tmp_path / "home") == first
    assert (tmp_path / "home" / f"{host_key.FILE}.pub").read_text() == f"ssh-ed25519 {first.get_base64()}\n"
    file.unlink()
    assert host_key.load_or_make(tmp_path / "home") != first


@pytest.mark.parametrize("content", [b"", b"not a key", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_a_damaged_host_key_is_an_error_with_advice(tmp_path: Path, content: bytes) -> None:
    host_key.write_new(tmp_path / host_key.FILE, content)
    with pytest.raises(host_key.HostKeyFileError, match="delete it"):
        host_key.load_or_make(tmp_path)


def test_a_host_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    host_key.load_or_make(tmp_path)
    (tmp_path / host_key.FILE).chmod(0o640)
    with pytest.raises(host_key.HostKeyFileError, match="chmod 600"):
        host_key.load_or_make(tmp_path)
