"""The list of tasks: filters in the address, pages, and orders; it works without scripts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.models import User
from transferapi.tasks import names, queries
from transferapi.tasks.display_state import DisplayState
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.queries import Order, TaskFilter, TimeRange
from webui.page import part, show, signed_in, user_of
from webui.states import SHOWN, ShownState

from . import summary

#: Tasks of one page, pages that can be opened, and characters of a text to search.
ROWS, MOST_PAGES, MAX_TEXT = 25, 400, 128
#: Tasks below the panes of the Transfer page.
LATEST = 4
ENDPOINT_DAYS = 90
_ORDERS = ("request_time", "label", "status", "bytes_transferred", "completion_time")


@dataclass(frozen=True)
class TaskListFilter:
    """The filters of the address, checked; what makes no sense is left out."""

    states: tuple[DisplayState, ...]
    endpoint: uuid.UUID | None
    text: str
    since: str
    until: str
    order: Order
    page: int

    @property
    def is_filtered(self) -> bool:
        return bool(self.states or self.endpoint or self.text or self.since or self.until)

    def filter(self) -> TaskFilter:
        ids = _uuid(self.text)
        last = _day(self.until)
        return TaskFilter(
            task_ids=[ids] if ids else None,
            text="" if ids else self.text,
            endpoints=[self.endpoint] if self.endpoint else None,
            request_time=TimeRange(_day(self.since), last + timedelta(days=1) if last else None),
            states=self.states or None,
        )

    def address(self, **changes: object) -> str:
        """The address of the same list with other values; a change of the filter leads to the first page."""
        sort = ("" if not self.order.descending else "-") + self.order.field
        values: dict[str, object] = {
            "state": [state.value for state in self.states],
            "endpoint": self.endpoint or "",
            "q": self.text,
            "from": self.since,
            "to": self.until,
            "sort": "" if sort == "-request_time" else sort,
            **changes,
        }
        return f"?{urlencode({name: value for name, value in values.items() if value}, doseq=True)}"


@dataclass(frozen=True)
class Chip:
    """A state as a filter, with the number of tasks; href: "" if there is none of them."""

    state: ShownState
    count: int
    href: str
    chosen: bool


@dataclass(frozen=True)
class SortableColumn:
    """A column. href: "" where it cannot be sorted. direction: of the present order, for `aria-sort`."""

    title: str
    href: str
    direction: str
    classes: str = ""


@signed_in
@require_safe
def activity(request: HttpRequest) -> HttpResponse:
    user, asked = user_of(request), question(request.GET)
    limits = {"limit": ROWS, "offset": ROWS * (asked.page - 1)}
    ends = _endpoints(user)
    text = asked.text.casefold()
    named = [uuid.UUID(id_) for id_, name in ends if text and text in name.casefold()]
    filters = replace(asked.filter(), text_endpoints=named)
    found = queries.list_tasks(user, filters, [asked.order], **limits)
    now = datetime.now(UTC)
    names.read(found.rows)
    last = min(MOST_PAGES, max(1, -(-found.total // ROWS)))
    context = {
        "title": _("Activity"),
        "asked": asked,
        "tasks": [(seen, _time_left(seen, now)) for seen in (summary.of(task, now) for task in found.rows)],
        "now": now,
        "total": found.total,
        "chips": _chips(asked, queries.state_counts(user, filters)),
        "endpoints": ends,
        "columns": _columns(asked),
        "last": last,
        "earlier": asked.address(page=asked.page - 1) if asked.page > 1 else "",
        "later": asked.address(page=asked.page + 1) if asked.page < last else "",
    }
    return show(request, "activity/list.html", context)


@signed_in
@require_safe
def latest(request: HttpRequest) -> HttpResponse:
    """The latest tasks, as the Transfer page shows them below its panes."""
    found = queries.list_tasks(user_of(request), TaskFilter(), limit=LATEST).rows
    names.read(found)
    return part(request, "activity/latest.html", {"tasks": list(map(summary.of, found))})


def question(given: Mapping[str, Any]) -> TaskListFilter:
    sort = str(given.get("sort", "-request_time"))
    field = sort.lstrip("-")
    known = {state.value: state for state in DisplayState}
    states = given.getlist("state") if hasattr(given, "getlist") else []
    return TaskListFilter(
        states=tuple(known[word] for word in dict.fromkeys(states[:20]) if word in known),
        endpoint=_uuid(str(given.get("endpoint", ""))),
        text=str(given.get("q", "")).strip()[:MAX_TEXT],
        since=_day_text(given.get("from", "")),
        until=_day_text(given.get("to", "")),
        order=Order(field, sort.startswith("-")) if field in _ORDERS else Order(),
        page=page_number(str(given.get("page", "1"))),
    )


def _chips(asked: TaskListFilter, counts: Mapping[DisplayState, int]) -> list[Chip]:
    chips = []
    for state, shown in SHOWN.items():
        chosen = state in asked.states
        others = [one.value for one in asked.states if one is not state]
        href = asked.address(state=others if chosen else [*others, state.value])
        chips.append(Chip(shown, counts[state], href if counts[state] or chosen else "", chosen))
    return chips


def _time_left(seen: summary.TaskSummary, now: datetime) -> str:
    """The time that is left, as a range; "" where nothing moves or it is not known."""
    return "" if seen.stands else summary.time_range(forecasts.shown(seen.task, now))


def _columns(asked: TaskListFilter) -> list[SortableColumn]:
    titles = (
        ("label", _("Task"), ""),
        ("", _("From and to"), ""),
        ("status", _("State"), ""),
        ("bytes_transferred", _("Progress"), ""),
        ("", _("Rate"), "right"),
        ("", _("Time left"), "right"),
        ("request_time", _("Age"), "right"),
    )
    return [_column(asked, field, title, classes) for field, title, classes in titles]


def _column(asked: TaskListFilter, field: str, title: str, classes: str) -> SortableColumn:
    if not field:
        return SortableColumn(title, "", "", classes)
    present = asked.order.field == field
    descending = not asked.order.descending if present else field != "label"
    direction = ("descending" if asked.order.descending else "ascending") if present else "none"
    return SortableColumn(title, asked.address(sort=("-" if descending else "") + field), direction, classes)


def _endpoints(user: User) -> list[tuple[str, str]]:
    """The endpoints of the user's latest tasks, by name."""
    ids = queries.endpoints_of(user, unfinished=False, days=ENDPOINT_DAYS)
    found = Endpoint.objects.select_related("owner").filter(pk__in=ids)
    return sorted(((str(row.pk), canonical_name(row)) for row in found), key=lambda pair: pair[1].casefold())


# ---- values of the address


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text) if len(text) <= 45 else None
    except ValueError:
        return None


def _day(text: str) -> datetime | None:
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) if text else None


def _day_text(given: object) -> str:
    """A date as fields for dates write it, or ""."""
    text = str(given)
    try:
        return text if len(text) == 10 and _day(text) and "1970" < text < "2200" else ""
    except ValueError:
        return ""


def page_number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 1
    return max(1, min(number, MOST_PAGES))
