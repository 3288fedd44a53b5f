"""How many lanes a task opens to a server that takes few connections."""

from __future__ import annotations

from workers.engine.tuning.lane_backoff import QUIET, QUIET_FACTOR, LaneLimit


def test_a_server_that_was_never_full_takes_all_lanes() -> None:
    assert LaneLimit().allowed(0.0, 8) == 8


def test_a_full_server_keeps_the_lanes_that_are_open() -> None:
    limit = LaneLimit()
    assert limit.refused(1.0, 2)
    assert not limit.refused(1.1, 2), "lanes are refused together"
    assert (limit.allowed(2.0, 8), limit.allowed(2.0, 1)) == (2, 1)


def test_one_more_lane_is_tried_at_longer_and_longer_intervals() -> None:
    limit, at = LaneLimit(), 0.0
    limit.refused(at, 1)
    for quiet in (QUIET, QUIET * QUIET_FACTOR, QUIET * QUIET_FACTOR**2):
        assert limit.allowed(at + quiet - 1, 8) == 1
        at += quiet
        assert limit.allowed(at, 8) == 2
        assert limit.refused(at, 1)


def test_a_server_with_still_fewer_connections_takes_fewer_lanes() -> None:
    limit = LaneLimit()
    limit.refused(1.0, 3)
    assert limit.refused(2.0, 1)
    assert limit.allowed(3.0, 8) == 1
