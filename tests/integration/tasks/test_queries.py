"""Lists of tasks, events and files: each user sees their own, with filters, orders and pages."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit, submit_delete, take
from transferapi.tasks import moves, queries, removal
from transferapi.tasks.errors import TaskNotFoundError
from transferapi.tasks.models import Event, File, Item, Task
from transferapi.tasks.queries import ORDERS, Order, TaskFilter, TextMatch, TimeRange
from transferapi.tasks.states import FileState

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    return T0 + timedelta(days=number)


@pytest.fixture
def tasks(alice: User, ep1: Endpoint, ep2: Endpoint, public: Endpoint) -> list[Task]:
    """Five tasks of alice, a day apart: the labels, and which are canceled, vary."""
    labels = ["Run 1", "run 2", None, "other (3)", "100%_done"]
    found = [submit(alice, ep1, ep2, label=label) for label in labels[:4]]
    found.append(submit_delete(alice, public, label=labels[4]))
    for number, task in enumerate(found):
        Task.objects.filter(pk=task.pk).update(request_time=day(number))
    for task in found[:2]:
        moves.cancel(alice, task.pk, now=day(10))
    return found


def numbers(tasks: list[Task], rows: Sequence[Task]) -> list[int]:
    return [[task.pk for task in tasks].index(row.pk) for row in rows]


def found_by(user: User, tasks: list[Task], **filters: Any) -> list[int]:
    page = queries.list_tasks(user, TaskFilter(**filters), [Order("request_time", descending=False)], limit=100)
    assert page.total == len(page.rows)
    return numbers(tasks, page.rows)


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"types": ["DELETE"]}, [4]),
        ({"types": ["DELETE", "TRANSFER"], "statuses": ["FAILED"]}, [0, 1]),
        ({"statuses": ["ACTIVE", "INACTIVE"]}, [2, 3, 4]),
        ({"task_ids": [uuid.uuid4()]}, []),
        ({"labels": [TextMatch("Run 1")]}, [0]),
        ({"labels": [TextMatch("run*", glob=True)]}, [0, 1]),
        ({"labels": [TextMatch("RUN ?", glob=True)]}, [0, 1]),
        ({"labels": [TextMatch("*(3)", glob=True), TextMatch("Run 1")]}, [0, 3]),
        ({"labels": [TextMatch("100%_*", glob=True)]}, [4]),
        ({"labels": [TextMatch("%", glob=True)]}, []),
        ({"labels": [TextMatch("run*", glob=True, negate=True)]}, [2, 3, 4]),
        ({"labels": [TextMatch("Run 1", negate=True)]}, [1, 2, 3, 4]),
        ({"labels": [TextMatch("\0", glob=True)]}, []),
        ({"request_time": TimeRange(day(1), day(3))}, [1, 2, 3]),
        ({"request_time": TimeRange(start=day(3))}, [3, 4]),
        ({"request_time": TimeRange(end=day(0))}, [0]),
        ({"completion_time": TimeRange(day(9))}, [0, 1]),
        ({"completion_time": TimeRange(day(11))}, []),
    ],
)
def test_tasks_are_found_by_their_filters(
    alice: User, tasks: list[Task], filters: dict[str, Any], wanted: list[int]
) -> None:
    assert found_by(alice, tasks, **filters) == wanted


def test_tasks_are_found_by_id_and_by_either_endpoint(
    alice: User, tasks: list[Task], ep2: Endpoint, public: Endpoint
) -> None:
    assert found_by(alice, tasks, task_ids=[tasks[1].pk, tasks[3].pk]) == [1, 3]
    assert found_by(alice, tasks, endpoints=[ep2.pk]) == [0, 1, 2, 3]
    assert found_by(alice, tasks, endpoints=[public.pk]) == [4]


def test_lists_are_newest_first_and_come_in_pages_with_their_total(alice: User, tasks: list[Task]) -> None:
    everything = TaskFilter()
    pages = [queries.list_tasks(alice, everything, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [numbers(tasks, page.rows) for page in pages] == [[4, 3], [2, 1], [0], []]
    assert [page.total for page in pages] == [5, 5, 5, 5]


@pytest.mark.parametrize("field", ORDERS)
@pytest.mark.parametrize("descending", [False, True])
def test_lists_can_be_ordered_by_every_order(alice: User, tasks: list[Task], field: str, descending: bool) -> None:
    page = queries.list_tasks(alice, TaskFilter(), [Order(field, descending)], limit=100)
    values = [getattr(row, ORDERS[field]) for row in page.rows]
    lowest = "" if field == "label" else datetime.min.replace(tzinfo=UTC)
    keys = [lowest if value is None else value for value in values]
    assert keys == sorted(keys, reverse=descending)


def test_for_others_there_is_nothing(charlie: User, tasks: list[Task]) -> None:
    assert queries.list_tasks(charlie, TaskFilter()).total == 0
    assert queries.list_tasks(charlie, TaskFilter(task_ids=[tasks[0].pk])).rows == []
    asks: list[Callable[[User, uuid.UUID], object]] = [
        queries.get, queries.events, queries.successful_transfers, queries.skipped_errors,
    ]  # fmt: skip
    for ask in asks:
        with pytest.raises(TaskNotFoundError):
            ask(charlie, tasks[0].pk)
        with pytest.raises(TaskNotFoundError):
            ask(charlie, uuid.uuid4())


def test_events_are_newest_first_and_can_be_only_errors(alice: User, tasks: list[Task]) -> None:
    task = tasks[2]
    for number in range(5):
        Event.objects.create(
            task=task, time=day(number), code=f"E{number}", description="", details="", is_error=number % 2 == 1
        )
    page = queries.events(alice, task.pk, limit=2, offset=1)
    assert ([event.code for event in page.rows], page.total) == (["E3", "E2"], 6)
    errors = queries.events(alice, task.pk, is_error=True)
    assert ([event.code for event in errors.rows], errors.total) == (["E3", "E1"], 2)
    assert queries.events(alice, task.pk, is_error=False).total == 4


def add_files(task: Task, number: int) -> None:
    """Files in turn done, skipped, failed, pending, pending with a fault, and a folder that is done."""
    item = Item.objects.filter(task=task).earliest("position")
    states = [(1, 0, None), (2, 0, None), (3, 0, "GONE"), (0, 0, None), (0, 0, "DENIED"), (1, 1, None)]
    File.objects.bulk_create(
        File(
            task=task, item=item, source_path=f"/{n}", key=n.to_bytes(16), state=state, kind=kind, error_code=code,
            settled_at=T0 if state else None,
        )
        for n in range(number)
        for state, kind, code in [states[n % 6]]
    )  # fmt: skip


def walk(page: Callable[[int | None], queries.MarkerPage[File]]) -> list[str]:
    """All pages, one after the other."""
    paths: list[str] = []
    marker: int | None = None
    for _ in range(100):
        got = page(marker)
        paths += [row.source_path for row in got.rows]
        marker = got.next_marker
        if marker is None:
            return paths
    raise AssertionError("the pages have no end")


def test_what_was_removed_is_neither_shown_nor_counted(alice: User, tasks: list[Task]) -> None:
    whole = queries.list_tasks(alice, TaskFilter(), limit=1).total
    gone = tasks[0]
    moves.cancel(alice, gone.pk)
    removal.remove(alice, gone.pk)
    page = queries.list_tasks(alice, TaskFilter(), limit=1)
    assert page.total == whole - 1
    assert gone not in queries.list_tasks(alice, TaskFilter(), limit=100).rows
    others = TaskFilter(task_ids=[task.pk for task in tasks[1:]])
    assert queries.list_tasks(alice, others, limit=1).total == len(tasks) - 1


def test_files_come_page_by_page_each_once(alice: User, tasks: list[Task]) -> None:
    task = tasks[2]
    add_files(task, 60)
    add_files(tasks[3], 6)
    for limit in (1, 3, 10, 100):
        moved = walk(lambda marker: queries.successful_transfers(alice, task.pk, marker=marker, limit=limit))  # noqa: B023
        assert moved == [f"/{n}" for n in range(0, 60, 6)]
        failed = walk(lambda marker: queries.skipped_errors(alice, task.pk, marker=marker, limit=limit))  # noqa: B023
        assert failed == [f"/{n}" for n in range(2, 60, 6)]


def test_when_the_task_is_done_the_files_it_was_still_trying_are_reported_too(alice: User, tasks: list[Task]) -> None:
    add_files(tasks[2], 12)
    moves.cancel(alice, tasks[2].pk)
    rows = queries.skipped_errors(alice, tasks[2].pk).rows
    assert [(row.source_path, row.error_code) for row in rows] == [
        ("/2", "GONE"),
        ("/4", "DENIED"),
        ("/8", "GONE"),
        ("/10", "DENIED"),
    ]


@pytest.mark.timeout(60)
def test_a_page_of_a_task_with_many_files_is_read_from_an_index(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    """The plans of PostgreSQL, not the time: no page and no claim reads the files of a task one by one."""
    task = submit(alice, ep1, ep2)
    grant = take(task)
    item = Item.objects.get(task=task)
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO tasks_file (task_id, item_id, kind, source_path, destination_path, key, size, state,
                attempts, ranges, bytes_done, settled_at, error_code)
            SELECT %s, %s, 0, 'a', 'b', decode(md5(n::text), 'hex'), n, state, 0, '', 0,
                CASE WHEN state > 0 THEN now() END, CASE state WHEN 3 THEN 'GONE' END
            FROM generate_series(1, 50000) AS n,
                LATERAL (SELECT CASE WHEN n %% 1000 = 0 THEN 3 ELSE n %% 2 END AS state) AS states""",
            [task.pk, item.pk],
        )
        cursor.execute("ANALYZE tasks_file")
    failed = File.objects.filter(error_code__isnull=False, task=task.pk, pk__gt=0, state=FileState.FAILED).order_by(
        "pk"
    )[:100]
    moved = File.objects.filter(state=1, kind=0, task=task.pk, pk__gt=0).order_by("pk")[:100]
    pending = File.objects.filter(state=0, next_try_at=None, task=task.pk).order_by("size", "id")[:1000]
    for query, index in ((failed, "file_with_error"), (moved, "Index Scan"), (pending, "file_pending")):
        plan = query.explain()
        assert index in plan
        assert "Seq Scan" not in plan
        assert "Sort" not in plan
    assert len(queries.skipped_errors(alice, task.pk, limit=30).rows) == 30
    assert grant.epoch == 1
