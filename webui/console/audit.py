"""The audit log, for staff: filters in the address, pages from the newest row on, and a download."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from identity import audit_export, users
from identity.audit_export import Selection
from identity.error_categories import CategorizedError
from identity.models import AuditEvent
from identity.users import check_staff
from transferapi.rest.http.long_answers import paced
from transferapi.tasks.errors import RequestError
from webui.forms import refused
from webui.page import signed_in, signed_in_stream, user_of

from .page import AUDIT, show_section, staff_only
from .words import ACTS, act_words, way_words

#: Rows of one page, and characters of a value in the address.
ROWS, MAX_VALUE = 100, 150
FORMS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
_FILTERS = ("user", "what", "since", "until")


@dataclass(frozen=True)
class AuditFilter:
    """The filters of the address, as they were typed. before: the id of the row after which the page begins."""

    user: str
    what: str
    since: str
    until: str
    before: str

    @property
    def is_filtered(self) -> bool:
        return any(getattr(self, name) for name in _FILTERS)

    def address(self, **changes: object) -> str:
        """The query of the same rows with other values."""
        values = {name: getattr(self, name) for name in (*_FILTERS, "before")} | changes
        return f"?{urlencode({name: value for name, value in values.items() if value})}"

    def selection(self) -> Selection:
        """Raises RequestError."""
        return Selection(_time("since", self.since), _time("until", self.until), _user_id(self.user), self.what)

    @property
    def last(self) -> int | None:
        """A position that we did not give leads to the newest rows."""
        return int(self.before) if self.before.isascii() and self.before.isdecimal() and len(self.before) < 19 else None


@signed_in
@staff_only
@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    asked, rows, refusal, status = _asked(request), list[AuditEvent](), None, 200
    try:
        rows = audit_export.page(user_of(request), asked.selection(), asked.last, ROWS + 1)
    except CategorizedError as error:
        refusal, status = refused("list", error)
    has_more, rows = len(rows) > ROWS, rows[:ROWS]
    context = {
        "asked": asked,
        "times": {name: _field_value(getattr(asked, name)) for name in ("since", "until")},
        "rows": [_shown(row) for row in rows],
        "acts": sorted(((name, str(words)) for name, words in ACTS.items()), key=lambda one: one[1].casefold()),
        "first": asked.address(before="") if asked.before else "",
        "later": asked.address(before=rows[-1].pk) if has_more else "",
        "downloads": [(form, asked.address(before="")) for form in FORMS],
        "refusal": refusal,
    }
    return show_section(request, AUDIT, "audit.html", context, status)


@signed_in_stream
@require_safe
def download(request: HttpRequest, form: str) -> HttpResponseBase:
    """All rows of the filter, the oldest first. It is written while it is read."""
    actor = user_of(request)
    try:
        check_staff(actor)
        parts = audit_export.export(actor, _asked(request).selection(), form)
    except CategorizedError:
        # The page says why.
        return audit(request)
    answer = StreamingHttpResponse(paced(part.encode() for part in parts), content_type=FORMS[form])
    answer["Content-Disposition"] = f'attachment; filename="audit.{form}"'
    answer["Cache-Control"] = "no-store"
    return answer


def _asked(request: HttpRequest) -> AuditFilter:
    values = {name: request.GET.get(name, "").strip()[:MAX_VALUE] for name in (*_FILTERS, "before")}
    return AuditFilter(**{**values, "what": values["what"].replace("\0", "")})


def _user_id(text: str) -> uuid.UUID | None:
    """The user with this name or id; the id finds also a deleted one. Raises RequestError."""
    if not text:
        return None
    if found := users.named(text):
        return found.pk
    try:
        return uuid.UUID(text)
    except ValueError:
        raise RequestError("user", _("There is no user with this name.")) from None


def _time(name: str, text: str) -> datetime | None:
    """A time in UTC. Raises RequestError."""
    try:
        found = datetime.fromisoformat(text) if text else None
        return found.astimezone(UTC) if found and found.tzinfo else found and found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise RequestError(name, _("Expected a time such as 2027-01-31T12:00.")) from None


def _field_value(text: str) -> str:
    """The time as a field of browsers takes it; "" for a time that is none."""
    try:
        found = _time("", text)
    except RequestError:
        return ""
    return found.strftime("%Y-%m-%dT%H:%M") if found else ""


def _shown(row: AuditEvent) -> dict[str, Any]:
    return {"row": row, "act": act_words(row.what), "way": way_words(row.way), "details": row.details.items()}
