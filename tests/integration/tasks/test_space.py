"""Rows and octets of tasks in the database are counted and bounded, and deleted after the task ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, later, submit, take, transfer_request
from tests.integration.rest import Answer, Api, assert_error
from transferapi.tasks import events, moves, queries, submission
from transferapi.tasks.errors import TooMuchError
from transferapi.tasks.events import NewEvent
from transferapi.tasks.items import copying
from transferapi.tasks.items.copying import CopiedRows
from transferapi.tasks.models import Event, File, Item, Space, Task
from transferapi.tasks.records import FaultedFile, FileRow, FoundFile, SettledFile, Settlement, SkippedSource
from transferapi.tasks.upkeep import retention, space
from transferapi.tasks.worker import measurements, scan_results, settling, slice_end
from transferapi.tasks.worker.leases import Grant

pytestmark = pytest.mark.django_db

DENIED = Fault(Kind.PERMISSION_DENIED, Side.SOURCE, advice="", raw="550 no")
Limit = Callable[..., None]


@pytest.fixture
def limit(settings: Any) -> Limit:
    def change(**limits: int) -> None:
        settings.LIMITS = replace(settings.LIMITS, **limits)

    return change


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2, ("/from/", "/to/"))


def find(grant: Grant, *names: str, skipped: bool = False) -> list[FileRow]:
    item = Item.objects.get(task=grant.task_id)
    found = [FoundFile(f"/from/{name}", f"/to/{name}", 1, None, 0, skipped) for name in names]
    return scan_results.add_found(grant.task_id, grant.epoch, item.pk, found)


def kept(user: User) -> tuple[int, int, int]:
    return Space.objects.values_list("tasks", "rows", "octets").get(owner=user)


def octets(*paths: str) -> int:
    return sum(len(path.encode()) for path in paths)


def test_rows_and_octets_are_counted_as_they_are_written(alice: User, task: Task) -> None:
    items = octets("/from/", "/to/")
    assert kept(alice) == (1, 1, items)
    grant = take(task)
    find(grant, "a", "é")
    files = octets("/from/a", "/to/a", "/from/é", "/to/é")
    assert kept(alice) == (1, 3, items + files)
    find(grant, "a", "é")
    assert kept(alice) == (1, 3, items + files), "what was found before is not counted again"
    skipped = [SkippedSource("/from/no", "/to/no", 0, DENIED)]
    settling.skip_sources(task.pk, grant.epoch, Item.objects.get().pk, skipped)
    assert kept(alice) == (1, 4, items + files + octets("/from/no", "/to/no"))
    task.refresh_from_db()
    assert (task.kept_rows, task.kept_octets) == kept(alice)[1:]


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        ({"task_files": 3}, "WAYBILL_MAX_TASK_FILES"),
        ({"task_octets": 40}, "WAYBILL_MAX_TASK_OCTETS"),
        ({"user_files": 4}, "WAYBILL_MAX_USER_FILES"),
        ({"user_octets": 50}, "WAYBILL_MAX_USER_OCTETS"),
    ],
)
def test_what_is_found_beyond_a_limit_is_refused_and_not_written(
    alice: User, ep1: Endpoint, ep2: Endpoint, task: Task, limit: Limit, limits: dict[str, int], name: str
) -> None:
    submit(alice, ep2, ep1, ("/x", "/y"))
    grant = take(task)
    find(grant, "a", "b")
    limit(**limits)
    before = kept(alice)
    with pytest.raises(TooMuchError) as refused:
        find(grant, "c", "d")
    assert name in refused.value.reason
    assert str(next(iter(limits.values()))) in refused.value.reason
    assert kept(alice) == before
    assert File.objects.count() == 2


def test_a_submission_beyond_what_a_user_may_keep_is_refused(
    alice: User, bob: User, ep1: Endpoint, ep2: Endpoint, task: Task, limit: Limit
) -> None:
    api = Api(alice)

    def submitted() -> Answer:
        body = {
            "DATA_TYPE": "transfer",
            "submission_id": api.get("/submission_id").body["value"],
            "source_endpoint": str(ep1.pk),
            "destination_endpoint": str(ep2.pk),
            "DATA": [{"DATA_TYPE": "transfer_item", "source_path": f"/{n}", "destination_path": f"/{n}"} for n in "ab"],
        }
        return api.post("/transfer", body)

    def is_refused(code: str, name: str) -> None:
        answer = submitted()
        assert_error(answer, 400 if name == "WAYBILL_MAX_ITEMS" else 409, code)
        assert name in answer.body["message"]

    limit(user_files=2)
    is_refused("ClientError.LimitExceeded", "WAYBILL_MAX_USER_FILES")
    limit(user_files=100, user_tasks=1)
    is_refused("ClientError.LimitExceeded", "WAYBILL_MAX_USER_TASKS")
    assert kept(alice)[:2] == (1, 1)
    limit(user_tasks=2, items=1)
    is_refused("ClientError.BadRequest", "WAYBILL_MAX_ITEMS")
    limit(items=2)
    assert submitted().status == 202
    assert kept(alice)[:2] == (2, 3)


@pytest.mark.django_db(transaction=True)
def test_tasks_of_one_user_that_find_at_the_same_time_are_counted_together(
    alice: User, ep1: Endpoint, ep2: Endpoint, limit: Limit
) -> None:
    grants = [take(submit(alice, ep1, ep2, ("/from/", "/to/"))) for _ in range(3)]
    limit(user_files=11)
    answers = all_at_once([lambda grant=grant: find(grant, *"abcd") for grant in grants])  # type: ignore[misc]
    assert sorted(isinstance(one, TooMuchError) for one in answers) == [False, False, True]
    assert kept(alice)[:2] == (3, 11)
    assert File.objects.count() == 8


def test_events_of_a_task_have_an_end_and_its_own_end_is_reported(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "MAX_EVENTS", 3000)
    grant = take(task)
    for number in range(40):
        measurements.add_event(task.pk, grant.epoch, NewEvent("PROGRESS", f"number {number}"))
    codes = list(Event.objects.filter(task=task).order_by("id").values_list("code", "description"))
    assert codes[-1] == ("LIMIT_EXCEEDED", events.ENOUGH)
    assert len(codes) < 20
    slice_end.fail(task.pk, grant.epoch, "CANCELED", "over")
    assert Event.objects.filter(task=task, code="CANCELED").exists()


# ---- what goes


def ended(task: Task) -> Grant:
    """A task with files of every fate: moved, in place, given up, tried in vain, never tried."""
    grant = take(task)
    moved, lost, tried, _ = find(grant, "moved", "lost", "tried", "never")
    find(grant, "there", skipped=True)
    faulted = [FaultedFile(lost, DENIED, None)]
    faulted.append(FaultedFile(tried, DENIED, later(60)))
    settling.write(task.pk, grant.epoch, Settlement(settled=[SettledFile(moved, 0)], faulted=faulted))
    slice_end.fail(task.pk, grant.epoch, "CANCELED", "over")
    return grant


def test_of_a_task_that_is_done_only_what_lists_show_is_kept(alice: User, task: Task) -> None:
    ended(task)

    def lists() -> list[list[str]]:
        pages = queries.successful_transfers(alice, task.pk), queries.skipped_errors(alice, task.pk)
        return [[str(row.source_path) for row in page.rows] for page in pages]

    before = lists()
    assert before == [["/from/moved"], ["/from/lost", "/from/tried"]]
    assert kept(alice)[1] == 6
    assert retention.give_back() == 1
    assert lists() == before
    assert {str(path) for path in File.objects.values_list("source_path", flat=True)} == {
        "/from/moved", "/from/lost", "/from/tried",
    }  # fmt: skip
    [item] = Item.objects.all()
    left = octets(*(f"/{end}/{name}" for end in ("from", "to") for name in ("moved", "lost", "tried")))
    left += octets(item.source_path, item.destination_path or "")
    assert kept(alice) == (1, 4, left)
    assert retention.give_back() == 0
    assert Event.objects.filter(task=task, code="CANCELED").exists()
    assert retention.forget_old(later(31 * 86400)) == 1
    assert kept(alice) == (1, 0, 0)
    assert not File.objects.exists()
    assert not Item.objects.exists()


def test_what_a_task_keeps_goes_in_parts_and_a_part_that_fails_is_done_again(
    alice: User, ep1: Endpoint, ep2: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = retention.KEPT_ITEMS
    task = submit(alice, ep1, ep2, *((f"/{n}", f"/{n}") for n in range(first + 10)))
    other = submit(alice, ep1, ep2, *((f"/{n}", f"/{n}") for n in range(10)))
    moves.cancel(alice, task.pk)
    monkeypatch.setattr(retention, "PART", first + 4)
    whole, calls = space.give_back, []

    def dies(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        whole(*args)

    monkeypatch.setattr(space, "give_back", dies)
    with pytest.raises(KeyboardInterrupt):
        retention.give_back()
    assert Item.objects.filter(task=task).count() > first, "a part, and no other"
    assert retention.give_back() == 1
    assert [item.position for item in Item.objects.filter(task=task).order_by("position")] == list(range(first))
    assert (Item.objects.filter(task=other).count(), kept(alice)[:2]) == (10, (2, 10 + first))


def test_what_was_looked_at_is_not_looked_at_again(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(task)
    monkeypatch.setattr(retention, "PART", 1)
    clock = iter([0.0, *[1.0] * 5, 9.0])
    monkeypatch.setattr(retention, "time", SimpleNamespace(monotonic=lambda: next(clock, 9.0)))
    assert retention.give_back(seconds=5.0) == 0, "the time is over in the midst of the files"
    task.refresh_from_db()
    ids = list(File.objects.filter(task=task).order_by("pk").values_list("pk", flat=True))
    assert ids[0] <= task.tidied_up_to < ids[-1]
    monkeypatch.undo()
    assert retention.give_back() == 1
    assert File.objects.filter(task=task).count() == 3


def test_tasks_from_before_the_count_take_nothing_from_others(alice: User, task: Task) -> None:
    old = submit(alice, task.source, task.source, ("/a", "/b"))
    Task.objects.filter(pk=old.pk).update(kept_rows=0, kept_octets=0)
    Space.objects.filter(owner=alice).update(rows=1, octets=octets("/from/", "/to/"))
    moves.cancel(alice, old.pk)
    retention.give_back()
    assert kept(alice) == (2, 1, octets("/from/", "/to/"))


def test_who_keeps_much_loses_the_oldest_histories_first_and_nobody_else_does(
    alice: User, bob: User, ep1: Endpoint, ep2: Endpoint, public: Endpoint, limit: Limit
) -> None:
    mine = [submit(alice, ep1, ep2, ("/from/", "/to/")) for _ in range(3)]
    bobs = submit(bob, public, public, ("/from/", "/to/"))
    for task in (*mine, bobs):
        ended(task)
        retention.give_back()
    assert (kept(alice)[1], kept(bob)[1]) == (12, 4)
    limit(user_files=18)
    assert retention.forget_old() == 1
    assert [Task.objects.get(pk=task.pk).history_deleted for task in (*mine, bobs)] == [True, False, False, False]
    assert (kept(alice)[1], kept(bob)[1]) == (8, 4)
    assert retention.forget_old() == 0


def test_a_submission_that_is_refused_leaves_nothing(alice: User, ep1: Endpoint, ep2: Endpoint, limit: Limit) -> None:
    limit(user_octets=3)
    with pytest.raises(TooMuchError):
        submission.submit_transfer(alice, transfer_request(ep1, ep2, ("/from", "/to")))
    assert not Task.objects.exists()
    assert not Space.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_items_are_written_while_other_tasks_of_the_user_go_on(
    alice: User, ep1: Endpoint, ep2: Endpoint, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(alice, ep1, ep2, ("/from/", "/to/"))
    before, answers = kept(alice), []
    copy = copying.copy

    def finds() -> int:
        """Lock the row as another task of the user does; with NOWAIT, so that it fails instead of waiting."""
        with transaction.atomic():
            return Space.objects.select_for_update(nowait=True).get(owner=alice).tasks

    def watched(*args: Any) -> CopiedRows:
        written = copy(*args)
        answers.extend(all_at_once([finds]))
        return written

    monkeypatch.setattr(copying, "copy", watched)
    limit(user_tasks=1)
    with pytest.raises(TooMuchError):
        submission.submit_transfer(alice, transfer_request(ep1, ep2, ("/a", "/b")))
    assert answers == [1]
    assert kept(alice) == before
    assert (Task.objects.count(), Item.objects.count()) == (1, 1), "what is refused leaves nothing"
