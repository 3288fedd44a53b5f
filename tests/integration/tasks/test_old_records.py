"""Deletion of completed tasks, of rows of deleted endpoints, and of what is known of pairs of endpoints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from endpoints import registry
from endpoints.connect import presence
from endpoints.models import Endpoint, RelayedOctets, Server
from endpoints.sharing import shares
from identity.models import User
from tests.integration.cast import make_endpoint, make_user, submit, transfer_request
from transferapi.config.limits import RequestLimits
from transferapi.tasks import moves, removal, submission
from transferapi.tasks.errors import TooMuchError
from transferapi.tasks.models import Item, Lease, Mail, PathMemory, RemovedTask, Run, Space, Task
from transferapi.tasks.upkeep import old_records, retention
from transferapi.timers.models import Timer
from workers.rounds import JOBS

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def ep1(alice: User) -> Endpoint:
    return make_endpoint(alice, "ep1")


@pytest.fixture
def ep2(alice: User) -> Endpoint:
    return make_endpoint(alice, "ep2")


def ended(user: User, source: Endpoint, destination: Endpoint, days: float) -> Task:
    """A task that ended so many days ago, after the rounds that delete its history."""
    task = submit(user, source, destination)
    moves.cancel(user, task.pk)
    Task.objects.filter(pk=task.pk).update(request_time=ago(days), completion_time=ago(days))
    for step in (retention.give_back, retention.forget_old):
        step()
    task.refresh_from_db()
    return task


def upkeep() -> None:
    """The periodic jobs that delete old rows, as the workers have them."""
    for job in JOBS:
        if job.name in ("tidy", "tidy_endpoints"):
            for step in job.steps:
                step()


# ---- tasks


def test_a_task_goes_with_all_that_hangs_on_it_once_it_is_old(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    settings.TASK_DAYS = 100
    old, young = ended(alice, ep1, ep2, 101), ended(alice, ep1, ep2, 99)
    running = submit(alice, ep1, ep2)
    for task in (old, young):
        removal.remove(alice, task.pk)
        Run.objects.create(
            task=task, source=ep1, destination=ep2, ended_at=NOW, seconds=1, files=1, bytes=1, concurrency=1,
            parallelism=1, pipelining=1,
        )  # fmt: skip
        Lease.objects.get_or_create(task=task)
        Mail.objects.create(user=alice, task=task, key=str(task.pk), subject="s", body="b", created_at=NOW)
    timer = Timer.objects.create(owner=alice, schedule={}, body="{}", submitted_at=NOW, last_task=old)
    upkeep()
    assert set(Task.objects.values_list("pk", flat=True)) == {young.pk, running.pk}
    for model in (RemovedTask, Run, Lease):
        assert list(model._default_manager.values_list("task_id", flat=True)) == [young.pk]
    timer.refresh_from_db()
    assert timer.last_task_id is None
    assert sorted(Mail.objects.values_list("task_id", flat=True), key=str) == [young.pk, None], "a mail is kept longer"
    assert Space.objects.get(owner=alice).tasks == 2, "the user may have as many new ones"


def test_the_operator_may_keep_tasks_for_ever(alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any) -> None:
    settings.TASK_DAYS = 0
    ended(alice, ep1, ep2, 5000)
    upkeep()
    assert Task.objects.count() == 1


def test_a_task_whose_files_and_events_are_not_deleted_yet_stays(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    settings.TASK_DAYS = 31
    task = ended(alice, ep1, ep2, 40)
    Task.objects.filter(pk=task.pk).update(history_deleted=False)
    assert old_records.delete_tasks() == 0
    assert Task.objects.count() == 1


def test_who_has_many_tasks_loses_the_oldest_and_can_go_on(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    """Such as who has a timer for each minute: once the limit was reached, nothing could be submitted ever again."""
    bob = make_user("bob")
    bobs = ended(bob, make_endpoint(bob, "ep1"), make_endpoint(bob, "ep2"), 300)
    tasks = [ended(alice, ep1, ep2, days) for days in (50, 40, 35, 29)]
    settings.LIMITS = RequestLimits(user_tasks=4)
    with pytest.raises(TooMuchError):
        submission.submit_transfer(alice, transfer_request(ep1, ep2))
    upkeep()
    left = set(Task.objects.values_list("pk", flat=True))
    assert left == {bobs.pk, tasks[2].pk, tasks[3].pk}
    assert Space.objects.get(owner=alice).tasks == 2
    submit(alice, ep1, ep2)


def test_a_flood_of_tasks_removes_none_of_the_last_days(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    """Managers of the endpoints can see for 30 days what was done there, whatever its owner does after it."""
    for _ in range(4):
        ended(alice, ep1, ep2, 29)
    Task.objects.update(history_deleted=True)
    settings.LIMITS = RequestLimits(user_tasks=2)
    assert old_records.delete_tasks() == 0
    assert Task.objects.count() == 4


def test_a_call_is_bounded_and_the_next_one_continues(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TASK_DAYS = 31
    oldest = [ended(alice, ep1, ep2, days).pk for days in (70, 60, 50)]
    monkeypatch.setattr(old_records, "BATCH", 2)
    assert old_records.delete_tasks() == 2
    assert list(Task.objects.values_list("pk", flat=True)) == oldest[2:]
    assert old_records.delete_tasks() == 1
    assert not Item.objects.exists()


# ---- endpoints


def deleted(user: User, endpoint: Endpoint, days: float) -> Endpoint:
    registry.delete(user, str(endpoint.pk))
    Endpoint.objects.exclude(deleted_at=None).filter(deleted_at__gt=ago(1)).update(deleted_at=ago(days))
    return endpoint


def test_the_row_of_a_deleted_endpoint_goes_when_nothing_refers_to_it(alice: User, ep1: Endpoint) -> None:
    """Before, it stayed for ever: 2,000 more a day for each user who creates and deletes endpoints."""
    share = shares.create(alice, str(ep1.pk), "/a/", {})
    gone = deleted(alice, make_endpoint(alice, "gone"), 31)
    recent = deleted(alice, make_endpoint(alice, "recent"), 29)
    PathMemory.objects.create(source=gone, destination=ep1, updated_at=NOW)
    upkeep()
    assert set(Endpoint.objects.values_list("pk", flat=True)) == {ep1.pk, share.pk, recent.pk}
    assert not Server.objects.filter(endpoint=gone.pk).exists()
    assert not PathMemory.objects.exists()
    deleted(alice, ep1, 31)
    upkeep()
    upkeep()
    assert set(Endpoint.objects.values_list("pk", flat=True)) == {recent.pk}, "first the shares, then their host"


@pytest.mark.parametrize("end", ["source", "destination"])
def test_the_row_of_a_deleted_endpoint_stays_for_its_tasks_and_goes_with_the_last(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any, end: str
) -> None:
    settings.TASK_DAYS = 100
    share = shares.create(alice, str(ep1.pk), "/", {})
    task = ended(alice, *((share, ep2) if end == "source" else (ep2, share)), 99)
    deleted(alice, ep1, 60)
    upkeep()
    assert Endpoint.objects.count() == 3, "the task names the share, and its host"
    Task.objects.filter(pk=task.pk).update(completion_time=ago(101))
    for _ in range(2):
        upkeep()
    assert set(Endpoint.objects.values_list("pk", flat=True)) == {ep2.pk}


def test_octets_of_the_relay_are_kept_for_their_own_time(alice: User, ep1: Endpoint) -> None:
    RelayedOctets.objects.create(endpoint=ep1, day=ago(50).date(), octets=1)
    deleted(alice, ep1, 40)
    upkeep()
    assert RelayedOctets.objects.count() == 1
    RelayedOctets.objects.update(day=ago(presence.METER_DAYS + 2).date())
    presence.forget_old()
    upkeep()
    assert not Endpoint.objects.exists()


def test_what_is_known_of_a_pair_that_nobody_uses_goes(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    PathMemory.objects.create(source=ep1, destination=ep2, updated_at=ago(366))
    PathMemory.objects.create(source=ep2, destination=ep1, updated_at=ago(364))
    upkeep()
    assert list(PathMemory.objects.values_list("source_id", flat=True)) == [ep2.pk]


def test_a_deletion_reads_no_whole_table() -> None:
    """PostgreSQL looks for the rows that refer to a deleted one: each such column is the first of an index."""
    with connection.cursor() as cursor:
        cursor.execute(_WITHOUT_INDEX)
        assert cursor.fetchall() == []


_WITHOUT_INDEX = """
    SELECT c.conrelid::regclass::text, a.attname FROM pg_constraint c
    JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
    WHERE c.contype = 'f' AND c.confrelid IN ('tasks_task'::regclass, 'endpoints_endpoint'::regclass) AND NOT EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1] AND i.indisvalid
            AND (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) = '(' || a.attname || ' IS NOT NULL)')
    )"""
