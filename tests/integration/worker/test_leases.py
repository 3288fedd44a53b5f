"""Leases: one worker a task, quotas that hold under races, and turns that come to everybody."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from endpoints.gridftp.faults import Kind, Side, make_fault
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, make_endpoint, make_user, submit, submit_delete, take
from transferapi.tasks import locks, moves, queries
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import Event, File, Item, Lease, Task
from transferapi.tasks.states import TaskType
from transferapi.tasks.worker import measurements, slice_end, troubles
from transferapi.tasks.worker.fair_share import MAX_PER_USER, MAX_SILENT
from transferapi.tasks.worker.leases import TTL, Grant, LeaseRefusal, acquire, heartbeat, next_runnable

T0 = datetime.now(UTC)


def at(seconds: float) -> datetime:
    """A moment of the test's own clock."""
    return T0 + timedelta(seconds=seconds)


def runnable(limit: int = 100, now: datetime | None = None) -> list[uuid.UUID]:
    found = next_runnable(limit, now)
    return [*found.lost, *found.others]


def submit_at(seconds: float, user: User, source: Endpoint, destination: Endpoint) -> Task:
    return submit(user, source, destination, now=at(seconds), deadline=at(1_000_000))


def sessions_of(endpoint: Endpoint, now: datetime) -> int:
    """Sessions to this endpoint that live leases hold, by the simplest count."""
    live = Lease.objects.filter(expires_at__gt=now).select_related("task")
    sides = [(lease.sessions, lease.task.source_id, lease.task.destination_id) for lease in live]
    return sum(sessions * ends.count(endpoint.pk) for sessions, *ends in sides)


def test_a_lease_gives_the_worker_all_that_does_not_change(alice: User, ep1: Endpoint, public: Endpoint) -> None:
    task = submit(alice, ep1, public, options={"perf_cc": 3})
    grant = take(task)
    assert (grant.epoch, grant.spec.max_sessions, grant.spec.is_delete, grant.spec.started) == (1, 9, False, False)
    assert (grant.spec.source.name, grant.spec.destination and grant.spec.destination.name) == (
        "alice#ep1",
        "bob#public",
    )
    assert grant.spec.options["perf_cc"] == 3
    assert queries.get(alice, task.pk).phase == "running"


def test_a_held_task_is_not_given_to_another_worker(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    take(task, "one")
    assert acquire(task.pk, "two") is LeaseRefusal.HELD
    assert runnable() == []


def test_an_unknown_or_a_done_task_is_not_given_out(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    moves.cancel(alice, task.pk)
    assert acquire(task.pk, "worker") is LeaseRefusal.NOT_RUNNABLE
    assert acquire(uuid.uuid4(), "worker") is LeaseRefusal.NOT_RUNNABLE


def test_a_task_in_backoff_runs_when_its_time_has_come(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit_at(0, alice, ep1, ep2)
    grant = take(task, now=at(0))
    slice_end.release(task.pk, grant.epoch, at(60), 4, now=at(1))
    assert acquire(task.pk, "worker", now=at(59)) is LeaseRefusal.NOT_DUE
    assert runnable(now=at(59)) == []
    assert runnable(now=at(60)) == [task.pk]
    again = take(task, now=at(60))
    assert (again.epoch, again.spec.connection_failures, again.spec.suspect_up_to) == (2, 4, 0)


def test_a_task_in_backoff_runs_at_its_deadline_at_the_latest(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2, now=at(0), deadline=at(30))
    grant = take(task, now=at(0))
    slice_end.release(task.pk, grant.epoch, at(60), now=at(1))
    assert runnable(now=at(30)) == [task.pk]


def test_a_heartbeat_keeps_the_lease_alive(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit_at(0, alice, ep1, ep2)
    grant = take(task, now=at(0))
    for second in range(1, 20):
        heartbeat(task.pk, grant.epoch, now=at(second))
        assert acquire(task.pk, "thief", now=at(second)) is LeaseRefusal.HELD
    beat = heartbeat(task.pk, grant.epoch, now=at(20))
    assert (beat.cancel_requested, beat.deadline) == (False, at(1_000_000))


def test_a_lease_that_ran_out_is_not_renewed_even_when_nobody_took_it(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task = submit_at(0, alice, ep1, ep2)
    grant = take(task, now=at(0))
    with pytest.raises(LeaseLostError) as lost:
        heartbeat(task.pk, grant.epoch, now=at(0) + TTL)
    assert lost.value.args == (task.pk, grant.epoch)


def test_the_task_of_a_dead_worker_is_taken_over_with_a_new_epoch_and_its_files_are_suspect(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task = submit_at(0, alice, ep1, ep2)
    old = take(task, "dead", now=at(0))
    item = Item.objects.get(task=task)
    file = File.objects.create(task=task, item=item, source_path="/a", destination_path="/b", key=b"k" * 16)
    assert acquire(task.pk, "heir", now=at(-0.1) + TTL) is LeaseRefusal.HELD
    assert runnable(now=at(0) + TTL) == [task.pk]
    new = take(task, "heir", now=at(6))
    assert (new.epoch, new.spec.suspect_up_to) == (old.epoch + 1, file.pk)
    with pytest.raises(LeaseLostError):
        heartbeat(task.pk, old.epoch, now=at(6))
    heartbeat(task.pk, new.epoch, now=at(7))
    told = Event.objects.filter(task=task).latest("id")
    assert (told.code, told.is_error) == ("RESUMED", False)


def test_a_started_event_is_remembered_for_the_next_slice(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    grant = take(task)
    measurements.add_event(task.pk, grant.epoch, NewEvent("STARTED", "begun", {"concurrency": 2}))
    slice_end.release(task.pk, grant.epoch, datetime.now(UTC))
    assert take(task).spec.started


def test_a_user_has_three_transfers_and_three_deletes_under_way(alice: User, bob: User, ep1: Endpoint) -> None:
    wide = make_endpoint(bob, "wide", public=True, max_sessions=100)
    transfers = [submit(alice, wide, make_endpoint(alice, f"end{number}")) for number in range(5)]
    deletes = [submit_delete(alice, ep1) for _ in range(5)]
    for tasks in (transfers, deletes):
        results = [acquire(task.pk, "worker") for task in tasks]
        assert [isinstance(result, Grant) for result in results] == [True, True, True, False, False]
        assert results[3] is results[4] is LeaseRefusal.QUOTA
    take(submit(bob, wide, wide, ("/a", "/b")))


def test_tasks_that_wait_for_a_silent_server_hold_up_no_other_of_the_user(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    silent = make_endpoint(alice, "silent", max_sessions=100)
    held = [take(submit(alice, silent, ep2)) for number in range(MAX_PER_USER)]
    waiting = submit(alice, ep1, ep2)
    assert runnable() == []
    no_answer = make_fault(Kind.TIMEOUT, "no answer for 15 s", side=Side.SOURCE)
    for grant in held:
        troubles.endpoint_failed(grant.task_id, grant.epoch, no_answer, at(60))
    assert runnable() == [waiting.pk]
    assert queries.get(alice, held[0].task_id).nice_status == "TIMEOUT"
    # All together hold as many places more, and no others.
    take(waiting)
    for number in range(MAX_PER_USER + MAX_SILENT - len(held) - 1):
        grant = take(submit(alice, silent, make_endpoint(alice, f"to{number}")))
        troubles.endpoint_failed(grant.task_id, grant.epoch, no_answer, at(60))
    assert acquire(submit(alice, ep1, make_endpoint(alice, "last")).pk, "worker") is LeaseRefusal.QUOTA


def test_the_oldest_waiting_tasks_of_a_user_come_first(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    tasks = [submit_at(number, alice, ep1, ep2) for number in range(6)]
    assert acquire(tasks[5].pk, "worker", now=at(10)) is LeaseRefusal.QUOTA
    assert acquire(tasks[3].pk, "worker", now=at(10)) is LeaseRefusal.QUOTA
    assert runnable(now=at(10)) == [task.pk for task in tasks[:3]]
    grants = [take(task, now=at(10)) for task in (tasks[2], tasks[0], tasks[1])]
    slice_end.release(tasks[2].pk, grants[0].epoch, at(11), now=at(11))
    assert runnable(now=at(12)) == [tasks[3].pk]
    assert acquire(tasks[2].pk, "worker", now=at(12)) is LeaseRefusal.QUOTA
    take(tasks[3], now=at(12))


@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
def test_a_task_behind_others_is_refused_without_the_locks(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    """Messages for a thousand tasks that wait must not keep workers from those that may run."""
    tasks = [submit(alice, ep1, ep2) for _ in range(MAX_PER_USER + 1)]
    with transaction.atomic():
        locks.take(f"turns of {alice.pk} {TaskType.TRANSFER}", f"sessions of {ep1.pk}", f"sessions of {ep2.pk}")
        assert all_at_once([partial(acquire, tasks[-1].pk, "worker")]) == [LeaseRefusal.QUOTA]


def test_a_task_whose_worker_ends_goes_on_before_those_that_came_later(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    tasks = [submit_at(number, alice, ep1, ep2) for number in range(6)]
    grants = [take(task, now=at(10)) for task in tasks[:3]]
    slice_end.release(tasks[1].pk, grants[1].epoch, None, now=at(11))
    assert runnable(now=at(12)) == [tasks[1].pk]
    assert acquire(tasks[3].pk, "worker", now=at(12)) is LeaseRefusal.QUOTA
    take(tasks[1], now=at(12))


def test_tasks_of_a_lost_worker_come_before_those_of_users_with_fewer_tasks(
    alice: User, bob: User, public: Endpoint
) -> None:
    own = make_endpoint(alice, "own")
    tasks = [submit_at(number, alice, public, own) for number in range(4)]
    grants = [take(task, now=at(10)) for task in tasks[:3]]
    for grant in grants[:2]:
        heartbeat(grant.task_id, grant.epoch, now=at(13))
    bobs = submit_at(14, bob, public, make_endpoint(bob, "own"))
    assert next_runnable(now=at(10) + TTL) == ([tasks[2].pk], [bobs.pk])
    assert next_runnable(1, now=at(10) + TTL) == ([tasks[2].pk], [])


def test_a_thousand_tasks_of_one_user_do_not_hide_those_of_another(alice: User, bob: User, public: Endpoint) -> None:
    template = submit_at(0, alice, public, make_endpoint(alice, "x"))
    copies = []
    for number in range(1000):
        copy = Task.objects.get(pk=template.pk)
        copy.pk, copy.submission_id = uuid.uuid4(), uuid.uuid4()
        copy.request_time = copy.next_run_at = at(1 + number / 1000)
        copies.append(copy)
    Task.objects.bulk_create(copies)
    late = submit_at(100, bob, public, make_endpoint(bob, "y"))
    found = runnable(4, now=at(101))
    assert found == [template.pk, late.pk, *found[2:]]
    assert len(found) == 4
    assert len(runnable(100, now=at(101))) == 4


def test_an_endpoint_gives_no_more_sessions_than_it_has(alice: User, ep1: Endpoint) -> None:
    small = make_endpoint(alice, "small", max_sessions=20)
    users = [make_user(f"user{number}") for number in range(5)]
    ends = [make_endpoint(user, "own") for user in users]
    Endpoint.objects.filter(pk=small.pk).update(public=True)
    tasks = [submit_at(number, user, small, end) for number, (user, end) in enumerate(zip(users, ends, strict=True))]
    results = [acquire(task.pk, "worker", now=at(10)) for task in tasks]
    assert [result.spec.max_sessions if isinstance(result, Grant) else result for result in results] == [
        9,
        5,
        3,
        3,
        LeaseRefusal.QUOTA,
    ]
    assert sessions_of(small, at(10)) == 20


@pytest.mark.parametrize(("most", "sessions"), [(32, 16), (100, 50), (500, 65), (8, 4)])
def test_a_task_from_a_server_to_an_agent_gets_more_sessions_yet_half_of_the_free_ones(
    alice: User, most: int, sessions: int
) -> None:
    server = make_endpoint(alice, "server", max_sessions=most)
    laptop = make_endpoint(alice, "laptop", max_sessions=500)
    Endpoint.objects.filter(pk=laptop.pk).update(personal=True)
    grant = take(submit(alice, server, laptop))
    assert grant.spec.max_sessions == sessions
    assert take(submit(alice, laptop, make_endpoint(alice, "other", max_sessions=500))).spec.max_sessions == 9


def test_a_task_within_one_endpoint_counts_on_both_sides(alice: User) -> None:
    small = make_endpoint(alice, "small", max_sessions=7)
    task = submit(alice, small, small, ("/a", "/b"), now=at(0))
    grant = take(task, now=at(1))
    assert grant.spec.max_sessions == 3
    assert sessions_of(small, at(1)) == 6
    assert acquire(submit_at(2, alice, small, make_endpoint(alice, "z")).pk, "worker", now=at(3)) is LeaseRefusal.QUOTA


def test_what_waits_for_a_full_endpoint_holds_up_only_one_place_of_its_user(
    alice: User, bob: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    full = make_endpoint(bob, "full", public=True, max_sessions=6)
    bobs = [take(submit_at(0, bob, full, make_endpoint(bob, f"own{number}")), now=at(0)) for number in range(2)]
    waiting = [submit_at(1 + number, alice, full, ep1) for number in range(5)]
    others = [submit_at(10 + number, alice, ep1, ep2) for number in range(3)]
    for second in (4, 8):
        for grant in bobs:
            heartbeat(grant.task_id, grant.epoch, now=at(second))
    assert acquire(waiting[0].pk, "worker", now=at(10)) is LeaseRefusal.QUOTA
    heartbeat(bobs[0].task_id, bobs[0].epoch, now=at(10))
    heartbeat(bobs[1].task_id, bobs[1].epoch, now=at(10))
    assert runnable(now=at(13)) == [others[0].pk, others[1].pk]
    assert acquire(others[2].pk, "worker", now=at(13)) is LeaseRefusal.QUOTA
    take(others[0], now=at(13))
    take(others[1], now=at(13))
    slice_end.fail(bobs[0].task_id, bobs[0].epoch, "TEST", "done", now=at(14))
    heartbeat(bobs[1].task_id, bobs[1].epoch, now=at(14))
    assert runnable(now=at(14)) == [waiting[0].pk]
    take(waiting[0], now=at(14))


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_one_gets_the_task(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    results = all_at_once([partial(acquire, task.pk, f"w{number}") for number in range(8)])
    assert sum(isinstance(result, Grant) for result in results) == 1
    assert sum(result is LeaseRefusal.HELD for result in results) == 7


@pytest.mark.django_db(transaction=True)
def test_quotas_hold_when_all_ask_at_once(alice: User, bob: User, ep1: Endpoint) -> None:
    small = make_endpoint(bob, "small", public=True, max_sessions=20)
    own = make_endpoint(bob, "own")
    tasks = [submit(alice, small, ep1) for _ in range(6)] + [submit(bob, own, small) for _ in range(6)]
    random.shuffle(tasks)
    results = all_at_once([partial(acquire, task.pk, "worker") for task in tasks])
    assert not [result for result in results if isinstance(result, Exception)]
    granted = [result for result in results if isinstance(result, Grant)]
    assert granted
    for user in (alice, bob):
        assert sum(grant.owner_id == user.pk for grant in granted) <= 3
    assert sum(grant.spec.max_sessions for grant in granted) == sessions_of(small, datetime.now(UTC)) <= 20
    assert all(grant.spec.max_sessions >= 3 for grant in granted)


def test_nobody_starves_between_two_endpoints_that_others_keep_full(alice: User, bob: User, charlie: User) -> None:
    """The task that needs both ends gets them, though others always have something newer for each of the two."""
    left = make_endpoint(alice, "left", public=True, max_sessions=6)
    right = make_endpoint(alice, "right", public=True, max_sessions=6)
    bobs, charlies = make_endpoint(bob, "own"), make_endpoint(charlie, "own")
    busy = [take(submit_at(0, bob, left, bobs), now=at(0)), take(submit_at(0, charlie, right, charlies), now=at(0))]
    patient = submit_at(1, alice, left, right)
    for round_ in range(2, 40):
        now = at(round_)
        submit_at(round_, bob, left, bobs)
        submit_at(round_, charlie, right, charlies)
        for grant in busy:
            heartbeat(grant.task_id, grant.epoch, now=now)
        done = busy.pop(0)
        slice_end.fail(done.task_id, done.epoch, "TEST", "its slice is over", now=now)
        for task_id in runnable(now=now):
            grant_ = acquire(task_id, "worker", now=now)
            if isinstance(grant_, Grant):
                busy.append(grant_)
        if patient.pk in [grant.task_id for grant in busy]:
            return
    pytest.fail("it never had its turn")


@pytest.mark.parametrize("seed", range(3))
def test_in_a_random_crowd_quotas_hold_and_everything_ends(alice: User, seed: int) -> None:
    """Slices of random length, random endpoints, workers that die: all tasks come to their end, within all bounds."""
    dice = random.Random(seed)
    users = [make_user(f"user{number}") for number in range(4)]
    ends = [
        make_endpoint(alice, f"e{number}", public=True, max_sessions=dice.choice([6, 7, 12])) for number in range(4)
    ]
    slices_left = {}
    for number in range(30):
        task = submit_at(number / 100, dice.choice(users), *dice.sample(ends, 2))
        slices_left[task.pk] = dice.choice([1, 1, 2])
    running: dict[uuid.UUID, tuple[Grant, int]] = {}
    for second in range(1, 2000):
        now = at(second)
        for task_id, (grant, end) in list(running.items()):
            if second < end:
                heartbeat(task_id, grant.epoch, now=now)
                continue
            del running[task_id]
            slices_left[task_id] -= 1
            if not slices_left[task_id]:
                slice_end.fail(task_id, grant.epoch, "TEST", "done", now=now)
            elif dice.random() < 0.7:
                slice_end.release(task_id, grant.epoch, now, now=now)
        for task_id in runnable(10, now=now):
            got = acquire(task_id, "worker", now=now)
            if isinstance(got, Grant):
                running[task_id] = (got, second + dice.randrange(1, 20))
        for end_ in ends:
            assert sessions_of(end_, now) <= Endpoint.objects.get(pk=end_.pk).max_sessions
        for user in users:
            assert Lease.objects.filter(task__owner=user, expires_at__gt=now).count() <= 3
        if not any(slices_left.values()):
            return
    pytest.fail(f"left over: {sum(map(bool, slices_left.values()))}")
