"""The shares of clients in the threads of a web process: bursts wait, and what lasts is refused."""

from __future__ import annotations

import threading

import pytest

from transferapi.rest.http.thread_shares import WAIT_SECONDS, Shares

ALICE, BOB = ("192.0.2.1", 1), ("192.0.2.1", 2)
ELSEWHERE = ("192.0.2.2", 1)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shares(clock: Clock) -> Shares:
    return Shares(8, clock)


def begin(shares: Shares, client: tuple[str, int], count: int) -> list[float]:
    found = [shares.take(*client) for _ in range(count)]
    assert None not in found
    return [one for one in found if one is not None]


def test_a_client_whose_requests_last_has_three_quarters_of_the_threads(shares: Shares, clock: Clock) -> None:
    begun = begin(shares, ALICE, 6)
    clock.now += WAIT_SECONDS + 0.1
    assert shares.take(*ALICE) is None
    begin(shares, BOB, 1)
    shares.leave(*ALICE, begun[0])
    begin(shares, ALICE, 1)


def test_all_clients_of_a_network_leave_a_thread_to_others(shares: Shares, clock: Clock) -> None:
    begin(shares, ALICE, 4)
    begin(shares, BOB, 3)
    clock.now += WAIT_SECONDS + 0.1
    assert shares.take(*ALICE) is None
    assert shares.take(*BOB) is None
    begin(shares, ELSEWHERE, 1)


def test_a_request_of_a_burst_waits_until_another_one_leaves(shares: Shares) -> None:
    begun = begin(shares, ALICE, 6)
    found: list[float | None] = []
    waiting = threading.Thread(target=lambda: found.append(shares.take(*ALICE)))
    waiting.start()
    shares.leave(*ALICE, begun[0])
    waiting.join(60)
    assert found != [None]
    assert len(found) == 1


def test_a_request_of_a_burst_does_not_wait_for_longer_than_it_may(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = Shares(8, clock)

    def pass_time(seconds: float) -> bool:
        clock.now += seconds
        return False

    begin(shares, ALICE, 6)
    monkeypatch.setattr(shares._changed, "wait", pass_time)
    before = clock.now
    assert shares.take(*ALICE) is None
    assert clock.now == before + WAIT_SECONDS


@pytest.mark.parametrize("threads", [1, 2])
def test_who_has_few_threads_serves_a_client_all_the_same(threads: int) -> None:
    shares = Shares(threads, Clock())
    for _ in range(3):
        [begun] = begin(shares, ALICE, 1)
        shares.leave(*ALICE, begun)


def test_nothing_is_kept_of_clients_that_have_left(shares: Shares) -> None:
    for number in range(100):
        [begun] = begin(shares, (f"192.0.2.{number}", number), 1)
        shares.leave(f"192.0.2.{number}", number, begun)
    assert not shares._begun
