"""Reads new events of tasks without gaps, and resumes where a reader stopped.

An event gets its id when it is written, and becomes visible when its transaction commits: in another order. So the
position of a reader is not an id but a snapshot of PostgreSQL (`pg_current_snapshot()`), which shows for each
transaction whether it had ended, and each event has its transaction (`Event.written_by`). See
docs/decisions/webhooks-and-streams.md.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q

from identity.database_rows import execute, query_rows
from transferapi.tasks.models import WITH_OWNERS, Event, Task
from transferapi.tasks.states import Phase

#: Events that are read at a time, and in all for a reader that resumes: older ones are in the list of events.
PAGE, MOST_REPLAYED = 200, 5000
#: Events of all users that are searched for a reader who resumes the feed of all their tasks.
MOST_LOOKED_THROUGH = 100_000
#: A snapshot lists the running transactions: a very long list is cut, and some events then come twice.
MAX_SNAPSHOT = 1000
MAX_CURSOR = 2 * MAX_SNAPSHOT + 64
_SNAPSHOT = r"\d{1,19}:\d{1,19}:(?:\d{1,19}(?:,\d{1,19})*)?"
_CURSOR = re.compile(rf"(\d{{1,18}})(?:@({_SNAPSHOT})(?:@({_SNAPSHOT}))?)?")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ended transactions: all below `xmin`, and those below `xmax` that are not `running`."""

    xmin: int
    xmax: int
    running: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Read a snapshot from PostgreSQL's text. Raises ValueError."""
        xmin, xmax, running = text.split(":")
        found = cls(int(xmin), int(xmax), frozenset(int(one) for one in running.split(",") if one))
        if not 1 <= found.xmin <= found.xmax < 2**63 or any(
            not found.xmin <= one < found.xmax for one in found.running
        ):
            raise ValueError(text)
        return found

    def __str__(self) -> str:
        text = f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"
        return text if len(text) <= MAX_SNAPSHOT else f"{self.xmin}:{self.xmin}:"

    def sees(self, transaction_id: int) -> bool:
        return transaction_id < self.xmin or (transaction_id < self.xmax and transaction_id not in self.running)


#: An empty snapshot: no transaction has a number below 1.
NOTHING = Snapshot(1, 1)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A reader's position: it has the events in `seen` and, of those that `within` adds, the ids up to `last`."""

    last: int
    seen: Snapshot
    within: Snapshot | None = None

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        """Read a cursor; None: the text is none. A number alone is a position by id: 0 is the beginning."""
        found = _CURSOR.fullmatch(text) if len(text) <= MAX_CURSOR and text.isascii() else None
        if found is None:
            return None
        last, seen, within = found.groups()
        if seen is None:
            return cls(int(last), NOTHING, within=None)
        try:
            return cls(int(last), Snapshot.parse(seen), Snapshot.parse(within) if within else None)
        except ValueError:
            return None

    @property
    def floor(self) -> int:
        """The id above which events are read; 0 where `seen` alone decides which ones the reader has."""
        return self.last if self.within or self.seen == NOTHING else 0

    def __str__(self) -> str:
        return "@".join(map(str, (self.last, self.seen, *([self.within] if self.within else []))))


class FeedLine(NamedTuple):
    """An event with its task, its owner and its transaction."""

    event: Event
    owner_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class FeedScope:
    """The events of a feed: of one task, or of all tasks of one user."""

    owner_id: uuid.UUID
    task_id: uuid.UUID | None = None

    @property
    def condition(self) -> str:
        """SQL, with the parameters of `parameters`."""
        return " AND e.task_id = %(task)s" if self.task_id else " AND t.owner_id = %(owner)s"

    @property
    def parameters(self) -> dict[str, object]:
        return {"task": self.task_id, "owner": self.owner_id}


@contextmanager
def look() -> Iterator[Snapshot]:
    """A transaction in which all reads see one snapshot; yields the snapshot."""
    with transaction.atomic():
        execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        [(text,)] = query_rows("SELECT pg_current_snapshot()::text")
        yield Snapshot.parse(text)


def news(seen: Snapshot, now: Snapshot, owners: Collection[uuid.UUID]) -> list[FeedLine]:
    """Up to PAGE events of these users that are in `now` and not in `seen`, by id."""
    return _lines(_BETWEEN + " AND t.owner_id = ANY(%(owners)s::uuid[])", seen, now, 0, owners=list(owners))


def replay(scope: FeedScope, at: Cursor, now: Snapshot) -> tuple[list[FeedLine], Cursor]:
    """Up to PAGE events that a reader at this position does not have, and the reader's new position.

    now: the snapshot of this `look`. A new position without `within` includes all events of this snapshot.
    """
    within = at.within or now
    lines = _lines(_BETWEEN + scope.condition, at.seen, within, at.floor, **scope.parameters)
    last = max(at.last, lines[-1].event.pk) if lines else at.last
    if len(lines) == PAGE:
        return lines, Cursor(lines[-1].event.pk, at.seen, within)
    return lines, Cursor(last, within)


def start(scope: FeedScope, at: Cursor | None, now: Snapshot) -> tuple[Cursor, bool]:
    """The position where a reader with this cursor resumes, and whether more events were missed than are replayed.

    None: only events from now on. A cursor of another database, such as one before a restore, is not valid here.
    """
    if at is None:
        return Cursor(_last(scope), now), False
    if max(at.seen.xmax, at.within.xmax if at.within else 0) > now.xmax:
        at = Cursor(0, NOTHING)
    if scope.task_id is None and _is_too_far(at):
        return Cursor(0, now), True
    most = {"seen": str(at.seen), "after": at.floor, "most": MOST_REPLAYED}
    found = query_rows(_TOO_MANY.format(scope.condition), {**most, **scope.parameters})
    if not found:
        return at, False
    # Events that are left out count as delivered: up to that id, in this snapshot.
    return Cursor(found[0][0], at.seen, now), True


def _is_too_far(at: Cursor) -> bool:
    """Whether too many events were written since. The events of a user have no index, unlike those of a task.

    No other reader should wait while they are searched among all events.
    """
    if at.seen == NOTHING:
        return True
    [(number,)] = query_rows(_SINCE, {"seen": str(at.seen), "most": MOST_LOOKED_THROUGH + 1})
    return bool(number > MOST_LOOKED_THROUGH)


def _last(scope: FeedScope) -> int:
    """The id of the latest event of the task."""
    if scope.task_id is None:
        return 0
    return Event.objects.filter(task=scope.task_id).order_by("-id").values_list("id", flat=True).first() or 0


def tasks(
    *, ids: Collection[uuid.UUID] = (), running: Collection[uuid.UUID] = (), unfinished: Collection[uuid.UUID] = ()
) -> list[Task]:
    """The tasks with these ids, and the running or unfinished tasks of these users."""
    found = Q(pk__in=list(ids))
    if running:
        found |= Q(owner__in=list(running), phase=Phase.RUNNING) & ~Q(phase=Phase.DONE)
    if unfinished:
        found |= Q(owner__in=list(unfinished)) & ~Q(phase=Phase.DONE)
    return list(Task.objects.select_related(*WITH_OWNERS).filter(found))


def forget_foreign() -> int:
    """Mark events that came with a database from another server, whose transaction ids mean nothing here, as old.

    A visible event was written before the end of the snapshot; one with a later transaction id is from elsewhere.
    """
    return execute(
        "UPDATE tasks_event SET written_by = '3' WHERE written_by >= pg_snapshot_xmax(pg_current_snapshot())"
    )


def _lines(condition: str, seen: Snapshot, now: Snapshot, after: int, **more: object) -> list[FeedLine]:
    parameters: dict[str, Any] = {"seen": str(seen), "now": str(now), "after": after, "page": PAGE, **more}
    query = f"{_SELECT} WHERE {condition} ORDER BY e.id LIMIT %(page)s"
    return [_line(*row) for row in query_rows(query, parameters)]


def _line(owner_id: uuid.UUID, written_by: str, *values: Any) -> FeedLine:
    return FeedLine(Event(written_by=int(written_by), **dict(zip(_FIELDS, values, strict=True))), owner_id)


#: The fields of an event behind the first two columns of `_SELECT`, in its order.
_FIELDS = ("id", "task_id", "time", "code", "is_error", "description", "details")
_SELECT = """
    SELECT t.owner_id, e.written_by::text, e.id, e.task_id, e.time, e.code, e.is_error, e.description, e.details
    FROM tasks_event e JOIN tasks_task t ON t.id = e.task_id"""
_UNSEEN = """
    e.written_by >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
    AND NOT pg_visible_in_snapshot(e.written_by, %(seen)s::pg_snapshot) AND e.id > %(after)s"""
_BETWEEN = f"{_UNSEEN} AND pg_visible_in_snapshot(e.written_by, %(now)s::pg_snapshot)"
_TOO_MANY = (
    "SELECT e.id FROM tasks_event e JOIN tasks_task t ON t.id = e.task_id "  # noqa: S608 (constants)
    f"WHERE {_UNSEEN}{{}} ORDER BY e.id DESC OFFSET %(most)s LIMIT 1"
)
_SINCE = """
    SELECT count(*) FROM (
        SELECT FROM tasks_event WHERE written_by >= pg_snapshot_xmin(%(seen)s::pg_snapshot) LIMIT %(most)s
    ) since"""
