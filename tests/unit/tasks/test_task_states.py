"""The table of task states."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transferapi.tasks.states import MOVES, Phase, Status, may_move

#: Pairs of status and phase that the constraint in the database allows.
PAIRS = [
    (Status.ACTIVE, Phase.QUEUED),
    (Status.ACTIVE, Phase.RUNNING),
    (Status.ACTIVE, Phase.PAUSED),
    (Status.INACTIVE, Phase.SUSPENDED),
    (Status.SUCCEEDED, Phase.DONE),
    (Status.FAILED, Phase.DONE),
]
states = st.sampled_from(PAIRS)


def test_every_state_has_its_row_and_no_other_is_named() -> None:
    assert set(MOVES) == set(PAIRS)
    assert {new for moves in MOVES.values() for new in moves} <= set(PAIRS)


@given(states, states)
def test_what_is_done_never_moves(old: tuple[Status, Phase], new: tuple[Status, Phase]) -> None:
    if old[1] is Phase.DONE:
        assert not may_move(old, new)


@given(states, states)
def test_only_a_worker_makes_a_task_succeed(old: tuple[Status, Phase], new: tuple[Status, Phase]) -> None:
    if new[0] is Status.SUCCEEDED and may_move(old, new):
        assert old[1] is Phase.RUNNING


@given(states, states)
def test_only_its_worker_suspends_a_task(old: tuple[Status, Phase], new: tuple[Status, Phase]) -> None:
    if new[1] is Phase.SUSPENDED and may_move(old, new):
        assert old[1] is Phase.RUNNING


@given(states)
def test_whatever_is_not_done_can_be_ended(old: tuple[Status, Phase]) -> None:
    assert may_move(old, (Status.FAILED, Phase.DONE)) == (old[1] is not Phase.DONE)


@given(states, states)
def test_a_task_runs_only_out_of_the_queue_or_after_a_lost_worker(
    old: tuple[Status, Phase], new: tuple[Status, Phase]
) -> None:
    if new[1] is Phase.RUNNING and may_move(old, new):
        assert old[1] in (Phase.QUEUED, Phase.RUNNING)


@given(states)
def test_every_state_leads_to_an_end(start: tuple[Status, Phase]) -> None:
    reached, edge = {start}, {start}
    while edge:
        edge = {new for old in edge for new in MOVES[old]} - reached
        reached |= edge
    assert any(phase is Phase.DONE for _, phase in reached)
