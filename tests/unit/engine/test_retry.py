"""The decision after a fault: retry, wait, give up or suspend."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.faults import AWAY_KINDS, Kind, make_fault
from transferapi.tasks.records import FileRow, SettledFile
from workers.engine.retry import (
    CREDENTIAL_KINDS,
    HOPELESS_KINDS,
    LONGEST_DELAY,
    TRIES_OF_CHANGING,
    TRIES_OF_UNKNOWN,
    EndpointBackoff,
    Fail,
    Retry,
    Skip,
    Suspend,
    Wait,
    decide,
    delay,
    unless_changing,
)
from workers.engine.settle.arrival import can_continue, compare_sizes, moved_now

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
KINDS = st.sampled_from(Kind)
JITTER = st.floats(0, 1, exclude_max=True)


@given(KINDS, st.booleans(), st.integers(0, 10**6), st.floats(-100, 10**6), JITTER)
def test_every_fault_has_its_decision_and_no_try_is_put_off_past_the_deadline(
    kind: Kind, retryable: bool, attempts: int, left: float, jitter: float
) -> None:
    deadline = NOW + timedelta(seconds=left)
    decision = decide(make_fault(kind, retryable=retryable), attempts, NOW, deadline, jitter)
    if kind in CREDENTIAL_KINDS or kind is Kind.HOST_KEY_CHANGED:
        assert isinstance(decision, Suspend)
    elif kind in AWAY_KINDS:
        assert isinstance(decision, Wait)
        assert NOW <= decision.at <= max(deadline, NOW)
    elif not retryable or kind in HOPELESS_KINDS or (kind is Kind.UNSUPPORTED and attempts >= TRIES_OF_UNKNOWN - 1):
        assert isinstance(decision, Fail)
    else:
        assert isinstance(decision, Retry)
        assert NOW <= decision.at <= max(deadline, NOW)


@given(st.integers(0, 100), JITTER)
def test_the_wait_doubles_up_to_five_minutes(attempts: int, jitter: float) -> None:
    step = min(LONGEST_DELAY, 2.0**attempts)
    assert step / 2 <= delay(attempts, jitter) <= step
    assert delay(attempts, jitter) <= delay(attempts + 1, jitter)


def test_files_that_failed_together_do_not_come_back_together() -> None:
    tries = {decide(make_fault(Kind.UNKNOWN), 3, NOW, LATER, jitter / 10) for jitter in range(10)}
    assert len(tries) == 10


def test_an_unknown_fault_is_tried_again() -> None:
    decision = decide(make_fault(Kind.UNKNOWN), 0, NOW, LATER, 0.5)
    assert decision == Retry(NOW + timedelta(seconds=0.75))


def test_credentials_suspend_even_when_the_fault_says_that_nothing_helps() -> None:
    fault = make_fault(Kind.NO_CREDENTIALS, retryable=False)
    assert decide(fault, 0, NOW, LATER, 0.5) == Suspend(fault.advice)


def test_what_the_user_passes_over_is_passed_over() -> None:
    fault = make_fault(Kind.FILE_NOT_FOUND)
    assert decide(fault, 0, NOW, LATER, 0.5, skip={Kind.FILE_NOT_FOUND}) == Skip()


def test_a_command_that_a_server_does_not_know_for_one_file_is_not_tried_until_the_deadline() -> None:
    decisions = [
        decide(make_fault(Kind.UNSUPPORTED), attempts, NOW, LATER, 0.5) for attempts in range(TRIES_OF_UNKNOWN)
    ]
    assert [isinstance(one, Retry) for one in decisions] == [True, True, False]


def test_a_file_that_is_changed_again_and_again_is_given_up() -> None:
    changed = make_fault(Kind.FILE_SIZE_CHANGED)
    first = [unless_changing(changed, attempts, "FILE_SIZE_CHANGED") for attempts in range(TRIES_OF_CHANGING)]
    assert [fault.retryable for fault in first] == [True, True, True, True, False]
    assert "in each of 5 tries" in first[-1].advice
    assert isinstance(decide(first[-1], TRIES_OF_CHANGING - 1, NOW, LATER, 0.5), Fail)


def test_a_file_that_changes_once_after_other_faults_is_tried_again() -> None:
    changed = make_fault(Kind.FILE_SIZE_CHANGED)
    assert unless_changing(changed, 50, "CONNECTION_BROKEN") is changed
    assert unless_changing(make_fault(Kind.PERMISSION_DENIED), 50, "FILE_SIZE_CHANGED").retryable


def test_giving_up_has_a_reason() -> None:
    fault = replace(make_fault(Kind.UNSUPPORTED, "no such command", retryable=False), advice="")
    assert decide(fault, 0, NOW, LATER, 0.5) == Fail("no such command")


# ---- the endpoints' backoff


def test_lanes_that_fail_together_count_once() -> None:
    backoff = EndpointBackoff()
    assert backoff.failed(NOW, 0.9)
    assert not backoff.failed(NOW, 0.9)
    assert backoff.failures == 1
    assert 0.5 <= backoff.seconds_left(NOW) <= 1
    assert backoff.seconds_left(NOW + timedelta(seconds=1)) == 0


def test_the_backoff_goes_on_where_the_last_slice_left_it() -> None:
    backoff = EndpointBackoff(failures=20)
    backoff.failed(NOW, 0.0)
    assert backoff.seconds_left(NOW) == LONGEST_DELAY / 2


def test_success_ends_the_backoff() -> None:
    backoff = EndpointBackoff(failures=3)
    backoff.failed(NOW, 0.5)
    backoff.succeeded()
    assert (backoff.failures, backoff.seconds_left(NOW)) == (0, 0.0)


# ---- what arrived


def file(size: int, ranges: str = "") -> FileRow:
    return FileRow(1, 1, "/s", "/d", size, ranges=ranges)


@pytest.mark.parametrize(
    ("size", "ranges", "received", "expected"),
    [
        (10, "", 10, 10),
        (0, "", 0, 0),
        (0, "", None, None),
        (10, "", 9, None),
        (10, "", 11, None),
        (10, "", None, None),
        (10, "0-4", 6, 6),
        (10, "0-4", 10, 6),
        (10, "0-4", 5, None),
        (10, "rubbish", 10, None),
    ],
)
def test_what_was_moved_is_known_when_it_makes_the_file_whole(
    size: int, ranges: str, received: int | None, expected: int | None
) -> None:
    assert moved_now(file(size, ranges), received) == expected


def test_a_file_that_changed_before_it_was_read_is_settled_with_its_new_size() -> None:
    assert compare_sizes(file(10), 7, 7, 7) == SettledFile(file(10), 7, new_size=7)


def test_a_server_without_markers_is_believed_by_the_size() -> None:
    assert compare_sizes(file(10), None, 10, 10) == SettledFile(file(10), 10)
    assert compare_sizes(file(10), 0, 10, 10) == SettledFile(file(10), 10)


@pytest.mark.parametrize(
    ("ranges", "received", "source", "destination"),
    [("", 7, 8, 7), ("", 10, 12, 10), ("0-4", 5, 10, 10), ("0-4", None, 12, 12)],
)
def test_anything_else_is_done_again(ranges: str, received: int | None, source: int, destination: int) -> None:
    assert isinstance(compare_sizes(file(10, ranges), received, source, destination), str)


@pytest.mark.parametrize(
    ("ranges", "on_disk", "expected"),
    [("0-4", 4, True), ("0-4", 3, False), ("0-4,8-9", 8, False), ("0-4,8-9", 20, True), ("x", 20, False)],
)
def test_only_what_can_be_there_is_continued(ranges: str, on_disk: int, expected: bool) -> None:
    assert can_continue(file(10, ranges), on_disk) is expected
