"""Reads the events of tasks as they come, without a gap, and goes on where a reader was.

Ids of events are given out when they are written, and seen when their transaction ends: in another order. So a
reader's place is not an id but a snapshot of PostgreSQL (`pg_current_snapshot()`), which tells of every transaction
whether it had ended, and each event knows its transaction (`Event.written_by`). See docs/decisions/0029-push.md.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import Q

from .models import Event, Task
from .states import Phase

#: Events that are read at a time, and at most in all for a reader that comes back: older ones it asks the list for.
PAGE, MOST_REPLAYED = 200, 5000
#: Events of all users that are looked through for one who comes back to all of his tasks.
MOST_LOOKED_THROUGH = 100_000
#: A snapshot names who was writing: with very many of them it is kept shorter, and some events come twice.
MAX_SNAPSHOT = 1000
MAX_CURSOR = 2 * MAX_SNAPSHOT + 64
_SNAPSHOT = r"\d{1,19}:\d{1,19}:(?:\d{1,19}(?:,\d{1,19})*)?"
_CURSOR = re.compile(rf"(\d{{1,18}})(?:@({_SNAPSHOT})(?:@({_SNAPSHOT}))?)?")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which transactions have ended: all below `xmin`, and those below `xmax` that are not `running`."""

    xmin: int
    xmax: int
    running: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """-> ValueError"""
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


#: Sees nothing: no transaction has a number below 1.
NOTHING = Snapshot(1, 1)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a reader is: it has all that `seen` sees and, of what `within` sees beyond that, the ids up to `last`."""

    last: int
    seen: Snapshot
    within: Snapshot | None = None

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        """None: it is no cursor. A number alone is a place by id: 0 is the beginning."""
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

    def __str__(self) -> str:
        return "@".join(map(str, (self.last, self.seen, *([self.within] if self.within else []))))


class Line(NamedTuple):
    """An event, with what a reader needs to know about it."""

    event: Event
    owner_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose events: of one task, or of all tasks of one user."""

    owner_id: uuid.UUID
    task_id: uuid.UUID | None = None


@contextmanager
def look() -> Iterator[Snapshot]:
    """All that is read inside is of one moment; gives its snapshot."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SELECT pg_current_snapshot()::text")
            (text,) = cursor.fetchone()
        yield Snapshot.parse(text)


def news(seen: Snapshot, now: Snapshot, owners: Collection[uuid.UUID], after: int = 0) -> list[Line]:
    """Up to PAGE events of these users that `now` sees and `seen` did not, by id, from above `after`."""
    return _lines(_BETWEEN + " AND t.owner_id = ANY(%(owners)s::uuid[])", seen, now, after, owners=list(owners))


def replay(scope: Scope, at: Cursor, now: Snapshot) -> tuple[list[Line], Cursor]:
    """Up to PAGE events that a reader at this place has not had, and where he is then.

    now: of this `look`. When the place has no `within`, he has all that there was at this moment.
    """
    within = at.within or now
    condition = " AND e.task_id = %(task)s" if scope.task_id else " AND t.owner_id = %(owner)s"
    more = {"task": scope.task_id, "owner": scope.owner_id}
    lines = _lines(_BETWEEN + condition, at.seen, within, at.last if at.within else _floor(at), **more)
    last = max(at.last, lines[-1].event.pk) if lines else at.last
    if len(lines) == PAGE:
        return lines, Cursor(lines[-1].event.pk, at.seen, within)
    return lines, Cursor(last, within)


def _floor(at: Cursor) -> int:
    """The id from above which is read: of a place that is a number alone, that number."""
    return at.last if at.seen == NOTHING else 0


def start(scope: Scope, at: Cursor | None, now: Snapshot) -> tuple[Cursor, bool]:
    """Where a reader who comes with this cursor goes on, and whether he has missed more than is brought after.

    None: he wants what comes from now on. A cursor of another database, as before it was restored, is no place here.
    """
    if at is None:
        return Cursor(_last(scope), now), False
    if max(at.seen.xmax, at.within.xmax if at.within else 0) > now.xmax:
        at = Cursor(0, NOTHING)
    if scope.task_id is None and _is_too_far(at):
        return Cursor(0, now), True
    most: dict[str, Any] = {"seen": str(at.seen), "after": at.last if at.within else _floor(at), "most": MOST_REPLAYED}
    condition = " AND e.task_id = %(task)s" if scope.task_id else " AND t.owner_id = %(owner)s"
    with connection.cursor() as cursor:
        cursor.execute(_TOO_MANY.format(condition), {**most, "task": scope.task_id, "owner": scope.owner_id})
        row = cursor.fetchone()
    if row is None:
        return at, False
    # What is left out is as good as had: up to that id, of all that there is at this moment.
    return Cursor(row[0], at.seen, now), True


def _is_too_far(at: Cursor) -> bool:
    """Whether too much was written since. The events of a task have an index of their own; those of a user have none,
    and nobody who listens is to wait while somebody's are sought among all that there ever were."""
    if at.seen == NOTHING:
        return True
    with connection.cursor() as cursor:
        cursor.execute(_SINCE, {"seen": str(at.seen), "most": MOST_LOOKED_THROUGH + 1})
        return bool(cursor.fetchone()[0] > MOST_LOOKED_THROUGH)


def _last(scope: Scope) -> int:
    """The id of the latest event of the task, for people who read cursors."""
    if scope.task_id is None:
        return 0
    return Event.objects.filter(task=scope.task_id).order_by("-id").values_list("id", flat=True).first() or 0


def tasks(
    *, ids: Collection[uuid.UUID] = (), running: Collection[uuid.UUID] = (), unfinished: Collection[uuid.UUID] = ()
) -> list[Task]:
    """Those of these ids, and of these users those that run, or that are not done."""
    found = Q(pk__in=list(ids))
    if running:
        found |= Q(owner__in=list(running), phase=Phase.RUNNING) & ~Q(phase=Phase.DONE)
    if unfinished:
        found |= Q(owner__in=list(unfinished)) & ~Q(phase=Phase.DONE)
    return list(Task.objects.select_related("owner", "source__owner", "destination__owner").filter(found))


def forget_foreign() -> int:
    """Events that came with a database from elsewhere have transactions of there: here they are of long ago.

    What can be seen was written before the end of the snapshot; what says otherwise is not from here.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tasks_event SET written_by = '3' WHERE written_by >= pg_snapshot_xmax(pg_current_snapshot())"
        )
        return int(cursor.rowcount)


def _lines(condition: str, seen: Snapshot, now: Snapshot, after: int, **more: object) -> list[Line]:
    parameters: dict[str, Any] = {"seen": str(seen), "now": str(now), "after": after, "page": PAGE, **more}
    with connection.cursor() as cursor:
        cursor.execute(f"{_SELECT} WHERE {condition} ORDER BY e.id LIMIT %(page)s", parameters)
        return [_line(*row) for row in cursor.fetchall()]


def _line(
    id_: int,
    written_by: str,
    task_id: uuid.UUID,
    owner_id: uuid.UUID,
    time: datetime,
    code: str,
    is_error: bool,
    description: str,
    details: str,
) -> Line:
    event = Event(id=id_, task_id=task_id, time=time, code=code, is_error=is_error, description=description)
    event.details, event.written_by = details, int(written_by)
    return Line(event, owner_id)


_SELECT = """
    SELECT e.id, e.written_by::text, e.task_id, t.owner_id, e.time, e.code, e.is_error, e.description, e.details
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
