"""Read the audit log: a page of it, and all of it in bounded memory, as lines of JSON or as CSV (RFC 4180)."""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import Q, QuerySet

from . import audit
from .audit import What
from .clock import moment
from .database_rows import delete_first
from .gsi.printable import inert
from .models import AuditEvent, User
from .users import check_staff

#: Rows that are in memory at a time; rows of one page; rows that one call of `forget_old` deletes.
BATCH, MAX_PAGE, AT_ONCE = 500, 500, 5000
FORMATS = ("jsonl", "csv")
COLUMNS = ("id", "time", "what", "user_id", "username", "actor_id", "actor", "way", "address", "details")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows: from `since`, before `until`; about this user or by this user; of this act. None and "": all."""

    since: datetime | None = None
    until: datetime | None = None
    user: uuid.UUID | None = None
    what: str = ""

    def rows(self) -> QuerySet[AuditEvent]:
        found = AuditEvent.objects.all()
        found = found.filter(at__gte=self.since) if self.since else found
        found = found.filter(at__lt=self.until) if self.until else found
        found = found.filter(what=self.what) if self.what else found
        return found.filter(Q(user_id=self.user) | Q(actor_id=self.user)) if self.user else found


def page(actor: User | None, wanted: Selection, before: int | None = None, limit: int = 100) -> list[AuditEvent]:
    """The newest rows, or those before the row with this id. Raises NOT_STAFF."""
    check_staff(actor)
    found = wanted.rows() if before is None else wanted.rows().filter(pk__lt=before)
    return list(found.order_by("-pk")[: max(1, min(limit, MAX_PAGE))])


def export(actor: User | None, wanted: Selection, form: str) -> Iterator[str]:
    """The rows in order, in parts of some rows each. The export itself is recorded. Raises NOT_STAFF."""
    check_staff(actor)
    assert form in FORMATS
    audit.record(What.AUDIT_EXPORTED, None, {"since": wanted.since, "until": wanted.until, "format": form}, actor=actor)
    # Rows that are written meanwhile are not exported: the export ends.
    last = AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    return _parts(wanted.rows().filter(pk__lte=last), form)


def _parts(found: QuerySet[AuditEvent], form: str) -> Iterator[str]:
    if form == "csv":
        yield _csv([COLUMNS])
    after = 0
    while batch := list(found.filter(pk__gt=after).order_by("pk")[:BATCH]):
        after = batch[-1].pk
        documents = [document(row) for row in batch]
        if form == "csv":
            yield _csv([_cell(one[name]) for name in COLUMNS] for one in documents)
        else:
            yield "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in documents)


def document(row: AuditEvent) -> dict[str, object]:
    """The row as a document of COLUMNS; times in UTC (ISO 8601)."""
    values: dict[str, object] = {name: getattr(row, name) for name in COLUMNS if name != "time"}
    values |= {name: str(values[name]) if values[name] else None for name in ("user_id", "actor_id")}
    return {"id": row.pk, "time": row.at.astimezone(UTC).isoformat(timespec="microseconds"), **values}


def delete_old(now: datetime | None = None) -> int:
    """Delete rows older than the operator keeps them (AUDIT_DAYS; 0: none is deleted); return their number."""
    days = int(settings.AUDIT_DAYS)
    if not days:
        return 0
    old = AuditEvent.objects.filter(at__lt=moment(now) - timedelta(days=days))
    return delete_first(old.order_by("at", "pk"), AT_ONCE)


def _cell(value: object) -> str:
    """A cell that no spreadsheet takes for a formula (OWASP, CSV injection)."""
    text = "" if value is None else json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
    return inert(f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text, keep="\n")


def _csv(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
