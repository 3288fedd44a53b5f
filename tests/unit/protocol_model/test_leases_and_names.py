"""Two workers, one file, and every order of events: what the lease, the fence and the names promise together.

Each rule that is left out has a counter-example, so that the proof for the whole of them proves something.
"""

from __future__ import annotations

import pytest

from .explorer import Exploration, explore
from .world import Model, Rules, World

SPOILED = "what the user wrote after SUCCEEDED was touched"


def explored(rules: Rules) -> Exploration[World]:
    model = Model(rules)
    return explore(model.start(), model.moves, model.problem)


def assert_safe(rules: Rules) -> None:
    """No counter-example, and the states in which there could be one were all reached."""
    found = explored(rules)
    assert (found.problem, found.steps) == ("", None)
    taken_over = [world for world in found.reached if len(world.slices) == rules.leases and world.succeeded]
    assert any(world.filled for world in taken_over)
    assert any(one.session.busy for world in taken_over if world.filled for one in world.slices) == rules.late_servers


def counter_example(rules: Rules) -> tuple[str, ...]:
    found = explored(rules)
    assert found.steps is not None, f"{len(found.reached)} states, and nothing is wrong"
    return found.steps


def of_worker_0_after_success(steps: tuple[str, ...]) -> list[str]:
    """The steps of worker 0, and of servers for it, after worker 1 has taken the task."""
    return [step for step in steps[steps.index("worker 1 takes the task") :] if "worker 0" in step or "of 0 is" in step]


# ---- transfers


@pytest.mark.parametrize("replaces", [False, True])
def test_own_names_behind_a_fence_keep_what_succeeded_promises_whatever_servers_do_later(replaces: bool) -> None:
    assert_safe(Rules(replaces=replaces))


def test_real_names_without_a_fence_cut_a_file_that_another_worker_has_settled() -> None:
    """Prompt servers are enough: the worker that stood still sends STOR by itself."""
    steps = counter_example(Rules(own_names=False, fence=False, late_servers=False))
    assert of_worker_0_after_success(steps)[0] == "worker 0 sends STOR the real name"


def test_behind_a_fence_a_command_that_waits_at_a_server_still_cuts_a_file_that_is_written_in_place() -> None:
    """The risk that remains: an entry was there at a server of others, which stands still."""
    steps = counter_example(Rules(own_names=False))
    assert of_worker_0_after_success(steps) == ["STOR the real name of 0 is executed"]


def test_behind_a_fence_files_are_written_in_place_safely_at_servers_that_do_not_stand_still() -> None:
    assert_safe(Rules(own_names=False, late_servers=False))


def test_own_names_without_a_fence_are_not_enough() -> None:
    steps = counter_example(Rules(fence=False, late_servers=False))
    assert "worker 0 sends RNFR the own name of 0, RNTO the real name" in of_worker_0_after_success(steps)


def test_the_names_of_a_lost_worker_must_be_removed_before_its_files_are_sent_again() -> None:
    """Or a rename of it that waits at a server replaces what the user has written since."""
    steps = counter_example(Rules(removes_lost=False))
    assert steps[-2:] == ("the user writes", "RNTO the real name of 0 is executed")


def test_a_fence_must_count_from_the_beginning_of_a_heartbeat() -> None:
    """One that counts from the answer, which may be late, is open after the lease."""
    steps = counter_example(Rules(from_beginning=False))
    assert any(step.startswith("worker 0 sends") for step in of_worker_0_after_success(steps))


# ---- the lease after a failover


@pytest.mark.parametrize(("nonce", "both"), [(True, ""), (False, "the database hears slices [0, 1]")])
def test_after_a_failover_the_nonce_decides_which_of_two_leases_of_one_epoch_counts(nonce: bool, both: str) -> None:
    model = Model(Rules(failover=True, nonce=nonce))
    assert explore(model.start(), model.moves, model.two_hold).problem == both


def test_a_failover_that_loses_a_lease_leaves_its_worker_the_rest_of_its_fence() -> None:
    """The nonce closes it at the next heartbeat, and not at once; and nobody knows the names that it has used.

    The risk that remains: a task that another worker takes and ends within the 3.5 s of the fence, or a server that
    stands still, together with a database that has lost a commit.
    """
    steps = counter_example(Rules(failover=True))
    assert "a standby without the last lease takes over" in steps


# ---- deletions


def test_a_deletion_without_a_fence_removes_what_came_after_it() -> None:
    """Prompt servers are enough: the worker that stood still sends DELE by itself."""
    steps = counter_example(Rules(delete=True, fence=False, late_servers=False))
    assert of_worker_0_after_success(steps)[0] == "worker 0 sends DELE the real name"
    assert steps[-2:] == ("the user writes", "DELE the real name of 0 is executed")


def test_behind_a_fence_a_deletion_removes_nothing_that_came_after_it_at_servers_that_do_not_stand_still() -> None:
    assert_safe(Rules(delete=True, late_servers=False))


def test_a_server_that_executes_what_a_client_that_has_hung_up_had_sent_removes_what_came_after_a_deletion() -> None:
    steps = counter_example(Rules(delete=True, all_hang_up=True))
    assert "worker 0 dies" in steps
    assert of_worker_0_after_success(steps) == ["DELE the real name of 0 is executed"]


def test_a_server_that_does_nothing_for_a_client_that_has_hung_up_removes_nothing_of_a_killed_worker() -> None:
    assert_safe(Rules(delete=True, all_hang_up=True, executes_for_the_gone=False))


def test_a_deletion_at_a_server_that_stands_still_with_the_host_of_its_worker_is_what_remains() -> None:
    """The host has not disconnected, so the server cannot know (docs/decisions/leases-and-fence.md)."""
    steps = counter_example(Rules(delete=True, executes_for_the_gone=False))
    assert "worker 0 dies" not in steps
    assert of_worker_0_after_success(steps) == ["DELE the real name of 0 is executed"]
