"""Which of an endpoint's servers is asked next: the pool's choice, with a clock of the test's own."""

from __future__ import annotations

import pytest

from workers.sessions.pool import (
    FIRST_ABSENCE,
    FORGET_SECONDS,
    LONGEST_ABSENCE,
    Absences,
    Address,
    SessionPool,
    tiers_of,
)

A, B, C, SIX = (
    Address("192.0.2.1", 2811),
    Address("192.0.2.2", 2811),
    Address("192.0.2.1", 2812),
    Address("2001:db8::1", 1),
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_each_failure_leaves_a_server_out_for_twice_as_long_up_to_a_limit(clock: Clock) -> None:
    absences = Absences(clock)
    waits = []
    for _ in range(10):
        absences.note_failure(A)
        waits.append(absences.due(A) - clock.now)
        clock.now = absences.due(A)
        assert not absences.left_out(A)
    assert waits[:4] == [FIRST_ABSENCE, 2 * FIRST_ABSENCE, 4 * FIRST_ABSENCE, 8 * FIRST_ABSENCE]
    assert waits[-3:] == [LONGEST_ABSENCE] * 3


def test_what_fails_at_the_same_time_counts_once(clock: Clock) -> None:
    absences = Absences(clock)
    for _ in range(8):
        absences.note_failure(A)
    assert absences.due(A) == clock.now + FIRST_ABSENCE


def test_a_server_that_answers_again_has_no_past(clock: Clock) -> None:
    absences = Absences(clock)
    for _ in range(5):
        absences.note_failure(A)
        clock.now = absences.due(A)
    absences.note_success(A)
    absences.note_failure(A)
    assert absences.due(A) == clock.now + FIRST_ABSENCE


def test_a_past_of_long_ago_is_forgotten(clock: Clock) -> None:
    absences = Absences(clock)
    absences.note_failure(A)
    clock.now += FORGET_SECONDS
    absences.expire()
    assert absences.due(A)
    clock.now += FIRST_ABSENCE + 1
    absences.expire()
    assert not absences.due(A)


def test_servers_that_nobody_uses_are_taken_in_turn(clock: Clock) -> None:
    pool = SessionPool(clock)
    assert {pool.choose([[A, B, C]]) for _ in range(3)} == {A, B, C}


def test_a_server_that_is_left_out_is_asked_again_when_its_time_is_up(clock: Clock) -> None:
    pool = SessionPool(clock)
    pool.absences.note_failure(A)
    assert {pool.choose([[A, B]]) for _ in range(4)} == {B}
    clock.now += FIRST_ABSENCE
    assert {pool.choose([[A, B]]) for _ in range(4)} == {A, B}


def test_where_all_are_left_out_only_the_one_that_is_due_first_is_asked(clock: Clock) -> None:
    pool = SessionPool(clock)
    pool.absences.note_failure(B)
    clock.now += 1
    pool.absences.note_failure(A)
    assert pool.choose([[A, B]]) == B
    assert pool.choose([[A, B]], {B}) is None


def test_each_server_is_tried_once(clock: Clock) -> None:
    pool = SessionPool(clock)
    assert pool.choose([[A, B]], {A}) == B
    assert pool.choose([[A, B]], {A, B}) is None
    assert pool.choose([[], []]) is None


def test_the_second_tier_is_for_when_the_first_is_out(clock: Clock) -> None:
    pool = SessionPool(clock)
    assert {pool.choose([[A], [SIX]]) for _ in range(4)} == {A}
    pool.absences.note_failure(A)
    assert pool.choose([[A], [SIX]]) == SIX


def test_all_addresses_of_a_name_count_and_another_family_comes_last() -> None:
    first, other = tiers_of([(["192.0.2.1", "192.0.2.2", "2001:db8::1"], 2811), (["192.0.2.1"], 2812)])
    assert list(first) == [A, B, C]
    assert list(other) == [Address("2001:db8::1", 2811)]
    assert tiers_of([(["2001:db8::1"], 1), (["192.0.2.1", "2001:db8::1"], 1)]) == ([SIX, Address("192.0.2.1", 1)], [])
