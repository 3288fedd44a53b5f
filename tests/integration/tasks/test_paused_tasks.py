"""Paused tasks: rules and managers stop them, wherever they are, and let them go on; whatever happens beside it."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from endpoints import pause_rules, registry
from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint, PauseRule
from identity.models import User
from tests.integration.cast import all_at_once, later, make_endpoint, submit, submit_delete, take
from transferapi.tasks import moves, queries
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.managers import pauses
from transferapi.tasks.models import Event, File, Item, Task
from transferapi.tasks.moves import FAILED, PAUSED, QUEUED, RUNNING, SUSPENDED, CancelResult
from transferapi.tasks.worker import leases, slice_end

DAY = timedelta(days=1)


def state(task: Task) -> moves.State:
    return moves.state_of(Task.objects.get(pk=task.pk))


def rule(user: User, endpoint: Endpoint, *flags: str, **fields: Any) -> PauseRule:
    """A rule with these flags alone; without any, one that stops everything."""
    wanted: dict[str, object] = {flag: flag in flags for flag in pause_rules.FLAGS} if flags else {}
    return pause_rules.create(user, str(endpoint.pk), {"message": "Maintenance until noon.", **wanted, **fields})


def codes(task: Task) -> list[str]:
    return list(Event.objects.filter(task=task).order_by("id").values_list("code", flat=True))


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


@pytest.fixture
def share(bob: User, public: Endpoint) -> Endpoint:
    """A share of bob, of a folder of the public endpoint, which bob owns."""
    made = registry.create(bob, {"name": "share", "display_name": "share", "public": True})
    Endpoint.objects.filter(pk=made.pk).update(host=public, host_path="/folder/")
    return Endpoint.objects.get(pk=made.pk)


def test_a_task_that_is_submitted_under_a_rule_is_accepted_and_paused_at_once(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    rule(alice, ep1, "pause_task_transfer_read")
    task = submit(alice, ep1, ep2)
    found = queries.get(alice, task.pk)
    assert state(task) == PAUSED
    assert found.nice_status == "PAUSED"
    told = "A manager of alice#ep1 has paused transfers from it: Maintenance until noon."
    assert found.nice_status_details == told
    assert codes(task) == ["SUBMITTED", "PAUSED"]
    assert Event.objects.get(task=task, code="PAUSED").description == told
    assert leases.acquire(task.pk, "worker") is leases.LeaseRefusal.NOT_RUNNABLE
    assert leases.next_runnable() == ([], [])
    assert forecasts.during(found) is None


@pytest.mark.parametrize("flag", pause_rules.FLAGS)
def test_each_flag_pauses_what_it_names(alice: User, ep1: Endpoint, ep2: Endpoint, flag: str) -> None:
    rule(alice, ep1, flag)
    stops = {
        "pause_task_transfer_read": submit(alice, ep1, ep2),
        "pause_task_transfer_write": submit(alice, ep2, ep1),
        "pause_task_delete": submit_delete(alice, ep1),
    }
    free = submit(alice, ep2, make_endpoint(alice, "ep3"))
    assert {name for name, task in stops.items() if state(task) == PAUSED} == stops.keys() & {flag}
    assert state(free) == QUEUED


@pytest.mark.django_db(transaction=True)
def test_a_rule_pauses_at_once_what_is_queued_and_taking_it_back_lets_it_go_on(alice: User, task: Task) -> None:
    made = rule(alice, task.source)
    assert state(task) == PAUSED
    pause_rules.update(alice, str(made.pk), {"pause_task_transfer_read": False})
    assert state(task) == QUEUED
    pause_rules.update(alice, str(made.pk), {"pause_task_transfer_read": True})
    assert state(task) == PAUSED
    pause_rules.delete(alice, str(made.pk))
    assert state(task) == QUEUED
    assert codes(task) == ["SUBMITTED", "PAUSED", "UNPAUSED", "PAUSED", "UNPAUSED"]
    found = queries.get(alice, task.pk)
    assert (found.nice_status, found.paused_at) == (None, None)
    take(task)


def test_what_nobody_did_at_once_the_sweep_does(alice: User, task: Task) -> None:
    made = rule(alice, task.source)
    assert state(task) == QUEUED, "within the test's transaction no signal is sent"
    assert pauses.settle() == 1
    assert (state(task), pauses.settle()) == (PAUSED, 0)
    pause_rules.delete(alice, str(made.pk))
    assert (pauses.settle(), state(task)) == (1, QUEUED)


def test_a_worker_is_not_given_a_task_that_a_rule_stops(alice: User, task: Task) -> None:
    rule(alice, task.source)
    assert leases.acquire(task.pk, "worker") is leases.LeaseRefusal.PAUSED
    assert state(task) == PAUSED


def test_a_running_task_learns_of_a_rule_by_its_heartbeat_and_is_paused_when_it_is_given_back(
    alice: User, task: Task
) -> None:
    grant = take(task)
    assert not leases.heartbeat(task.pk, grant.epoch).pause_requested
    made = rule(alice, task.source, "pause_task_transfer_read")
    assert leases.heartbeat(task.pk, grant.epoch).pause_requested
    assert pauses.settle() == 0, "its worker has it"
    assert state(task) == RUNNING
    slice_end.release(task.pk, grant.epoch, datetime.now(UTC))
    assert state(task) == PAUSED
    pause_rules.delete(alice, str(made.pk))
    pauses.settle()
    again = take(task)
    assert again.epoch == grant.epoch + 1
    assert not leases.heartbeat(task.pk, again.epoch).pause_requested


def test_a_rule_is_for_one_user_or_for_all(alice: User, bob: User, ep1: Endpoint, public: Endpoint) -> None:
    rule(bob, public, "pause_task_transfer_write", identity_id=alice.pk)
    alices, bobs = submit(alice, ep1, public), submit(bob, make_endpoint(bob, "own"), public)
    assert (state(alices), state(bobs)) == (PAUSED, QUEUED)
    assert leases.heartbeat(bobs.pk, take(bobs).epoch).pause_requested is False


def test_a_rule_holds_from_its_time_on(alice: User, task: Task) -> None:
    rule(alice, task.source, start_time=later(100))
    assert (pauses.settle(), state(task)) == (0, QUEUED)
    grant = take(task)
    assert not leases.heartbeat(task.pk, grant.epoch).pause_requested
    slice_end.release(task.pk, grant.epoch, datetime.now(UTC))
    assert (pauses.settle(later(101)), state(task)) == (1, PAUSED)


def test_a_rule_of_the_host_holds_on_what_is_shared_of_it(
    alice: User, bob: User, ep1: Endpoint, public: Endpoint, share: Endpoint
) -> None:
    task = submit(bob, share, make_endpoint(bob, "own"))
    made = rule(bob, public, "pause_task_transfer_read")
    assert (pauses.settle(), state(task)) == (1, PAUSED)
    told = Task.objects.get(pk=task.pk).nice_status_details
    assert told == "A manager of bob#public has paused transfers from it: Maintenance until noon."
    pause_rules.delete(bob, str(made.pk))
    assert (pauses.settle(), state(task)) == (1, QUEUED)


def test_the_rules_of_an_endpoint_that_is_deleted_hold_nothing_up(alice: User, task: Task) -> None:
    rule(alice, task.source)
    pauses.settle()
    registry.delete(alice, str(task.source_id))
    assert (pauses.settle(), state(task)) == (1, QUEUED)


def test_a_paused_task_lives_for_ninety_days_and_has_a_day_when_it_goes_on(alice: User, task: Task) -> None:
    before = Task.objects.get(pk=task.pk).deadline
    made = rule(alice, task.source)
    pauses.settle()
    now = datetime.now(UTC)
    assert abs(Task.objects.get(pk=task.pk).deadline - (now + 90 * DAY)) < timedelta(minutes=1)
    assert moves.expire_overdue(now + 89 * DAY) == 0
    pause_rules.delete(alice, str(made.pk))
    pauses.settle(now + 2 * DAY)
    found = Task.objects.get(pk=task.pk)
    assert found.deadline == now + 3 * DAY
    assert before < found.deadline


def test_a_pause_takes_nothing_from_a_deadline_that_is_later(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    far = later(100 * 86400)
    task = submit(alice, ep1, ep2, deadline=far)
    made = rule(alice, ep1)
    pauses.settle()
    assert Task.objects.get(pk=task.pk).deadline == far
    pause_rules.delete(alice, str(made.pk))
    pauses.settle()
    assert Task.objects.get(pk=task.pk).deadline == far


def test_a_deadline_that_is_named_during_a_pause_holds_in_it_and_after_it(alice: User, task: Task) -> None:
    made = rule(alice, task.source)
    pauses.settle()
    named = later(2 * 86400)
    moves.update(alice, task.pk, deadline=named)
    assert Task.objects.get(pk=task.pk).deadline == named
    pause_rules.delete(alice, str(made.pk))
    pauses.settle()
    assert Task.objects.get(pk=task.pk).deadline == named


def test_a_paused_task_ends_at_its_deadline(alice: User, task: Task) -> None:
    rule(alice, task.source)
    pauses.settle()
    assert moves.expire_overdue(later(91 * 86400)) == 1
    assert state(task) == FAILED
    assert queries.get(alice, task.pk).fatal_error_code == "EXPIRED"


def test_a_paused_task_can_be_canceled(alice: User, task: Task) -> None:
    rule(alice, task.source)
    pauses.settle()
    assert moves.cancel(alice, task.pk) is CancelResult.CANCELED
    assert state(task) == FAILED


def test_a_cancel_comes_before_a_pause(alice: User, task: Task) -> None:
    grant = take(task)
    rule(alice, task.source)
    moves.cancel(alice, task.pk)
    slice_end.release(task.pk, grant.epoch, datetime.now(UTC))
    assert state(task) == FAILED


def test_what_waits_for_a_credential_goes_on_waiting_for_that_and_is_paused_afterwards(alice: User, task: Task) -> None:
    grant = take(task)
    slice_end.suspend(task.pk, grant.epoch, Fault(Kind.NO_CREDENTIALS, Side.SOURCE, advice="none", raw=""))
    rule(alice, task.source)
    assert (pauses.settle(), state(task)) == (0, SUSPENDED)
    moves.resume(alice, task.pk)
    assert (pauses.settle(), state(task)) == (1, PAUSED)


def test_a_task_whose_worker_died_is_paused_and_its_files_stay_suspect(alice: User, task: Task) -> None:
    now = datetime.now(UTC)
    take(task, "dead", now=now)
    item = Item.objects.get(task=task)
    file = File.objects.create(task=task, item=item, source_path="/a", destination_path="/b", key=b"k" * 16)
    made = rule(alice, task.source)
    assert leases.acquire(task.pk, "heir", now=now + timedelta(seconds=30)) is leases.LeaseRefusal.PAUSED
    pause_rules.delete(alice, str(made.pk))
    pauses.settle(now + timedelta(seconds=31))
    assert take(task, now=now + timedelta(seconds=32)).spec.suspect_up_to == file.pk


def test_many_reasons_are_reported_in_few_words(alice: User, task: Task) -> None:
    for number in range(8):
        rule(alice, task.source, message=f"Reason {number}.")
    pauses.settle()
    text = Task.objects.get(pk=task.pk).nice_status_details
    assert text is not None
    assert text.count("Reason") == 5
    assert text.endswith("There are 3 more reasons.")


def test_a_look_at_many_tasks_asks_no_question_for_each(
    alice: User, ep1: Endpoint, ep2: Endpoint, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(20):
        submit(alice, ep1, ep2)
    with django_assert_num_queries(2):  # the time, and what is to be moved: nothing
        pauses.settle()
    rule(alice, ep1)
    with CaptureQueriesContext(connection) as captured:
        assert pauses.settle() == 20
    asked = [query["sql"] for query in captured if "endpoints_pauserule" in query["sql"]]
    assert len(asked) == 3, "which tasks, by which rules, and what these say"
    with django_assert_num_queries(2):
        assert pauses.settle() == 0


def test_one_look_moves_a_bounded_number(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    for _ in range(7):
        submit(alice, ep1, ep2)
    made = rule(alice, ep1)
    assert [pauses.settle(limit=3) for _ in range(4)] == [3, 3, 1, 0]
    pause_rules.delete(alice, str(made.pk))
    assert [pauses.settle(limit=3) for _ in range(4)] == [3, 3, 1, 0]


# ---- at the same time


@pytest.mark.django_db(transaction=True)
def test_a_rule_that_comes_while_a_worker_takes_the_task_is_not_lost(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    for _ in range(10):
        task = submit(alice, ep1, ep2)
        results = all_at_once([
            partial(leases.acquire, task.pk, "worker"),
            partial(rule, alice, ep1),
            pauses.settle,
        ])  # fmt: skip
        assert not [result for result in results if isinstance(result, Exception)], results
        taken = results[0]
        if isinstance(taken, leases.Grant):
            assert leases.heartbeat(task.pk, taken.epoch).pause_requested
            slice_end.release(task.pk, taken.epoch, datetime.now(UTC))
        else:
            # Which one depends on how much of the pause was written by then: a paused task is in no line, either.
            assert taken in (leases.LeaseRefusal.PAUSED, leases.LeaseRefusal.NOT_RUNNABLE, leases.LeaseRefusal.QUOTA)
        assert state(task) == PAUSED
        moves.cancel(alice, task.pk)
        PauseRule.objects.all().delete()


@pytest.mark.django_db(transaction=True)
def test_a_rule_that_goes_while_the_worker_gives_the_task_back_holds_nothing_up(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    for _ in range(10):
        task = submit(alice, ep1, ep2)
        grant = take(task)
        made = rule(alice, ep1)
        results = all_at_once([
            partial(slice_end.release, task.pk, grant.epoch, datetime.now(UTC)),
            partial(pause_rules.delete, alice, str(made.pk)),
        ])  # fmt: skip
        assert not [result for result in results if isinstance(result, Exception)], results
        pauses.settle()
        assert state(task) == QUEUED
        moves.cancel(alice, task.pk)


@pytest.mark.django_db(transaction=True)
def test_a_rule_that_comes_during_a_submission_is_not_lost(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    for _ in range(5):
        results = all_at_once([partial(submit, alice, ep1, ep2), partial(rule, alice, ep1)])
        task = results[0]
        assert isinstance(task, Task), results
        assert leases.acquire(task.pk, "worker") in (leases.LeaseRefusal.PAUSED, leases.LeaseRefusal.NOT_RUNNABLE)
        assert state(task) == PAUSED
        moves.cancel(alice, task.pk)
        PauseRule.objects.all().delete()


@pytest.mark.django_db(transaction=True)
def test_cancels_pauses_and_workers_in_any_order_leave_every_task_where_it_belongs(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    dice = random.Random(5)
    for _ in range(8):
        tasks = [submit(alice, ep1, ep2) for _ in range(3)]
        made = rule(alice, ep1, start_time=later(-1)) if dice.random() < 0.5 else None
        actions: list[Any] = [pauses.settle, pauses.settle]
        actions += [partial(leases.acquire, task.pk, "worker") for task in tasks]
        actions.append(partial(moves.cancel, alice, tasks[0].pk))
        actions.append(partial(pause_rules.delete, alice, str(made.pk)) if made else partial(rule, alice, ep1))
        dice.shuffle(actions)
        results = all_at_once(actions)
        assert not [result for result in results if isinstance(result, Exception)], results
        for result in results:
            if isinstance(result, leases.Grant):
                slice_end.release(result.task_id, result.epoch, datetime.now(UTC))
        pauses.settle()
        expected = QUEUED if made else PAUSED
        assert [state(task) for task in tasks] == [FAILED, expected, expected]
        PauseRule.objects.all().delete()
        for task in tasks:
            moves.cancel(alice, task.pk)


def test_the_sweep_reads_what_is_not_done_and_not_the_history(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    submit(alice, ep1, ep2)
    rule(alice, ep1, start_time=later(100))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan TO off")
        cursor.execute("EXPLAIN " + pauses._UNSETTLED, {"now": later(101), "limit": 10})
        plan = "\n".join(line for (line,) in cursor.fetchall())
    used = set(re.findall(r"Index (?:Only )?Scan (?:Backward )?(?:using|on) (task_\w+)", plan))
    # Which of them depends on what other tests have left in the tables.
    assert used, plan
    assert used <= {index.name for index in Task._meta.indexes if index.condition is not None}, plan
    assert "Seq Scan on tasks_task" not in plan
