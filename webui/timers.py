"""The page of timers: transfers that begin at a time, once or repeatedly."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from identity.error_categories import CategorizedError
from identity.models import User
from transferapi.tasks.submission import TransferItem, TransferRequest
from transferapi.timers import schedule, services
from transferapi.timers.errors import TimerInvalidError
from transferapi.timers.models import Timer
from transferapi.timers.schedule import Schedule

from . import transfer_options
from .forms import question, refused
from .page import show, signed_in, user_of

HOUR = 3600
#: Seconds between two runs; "": once.
INTERVALS = {
    "": gettext_lazy("once"),
    str(HOUR): gettext_lazy("every hour"),
    str(24 * HOUR): gettext_lazy("every day"),
    str(7 * 24 * HOUR): gettext_lazy("every week"),
}
STATES = {
    "new": gettext_lazy("waits for its first run"),
    "loaded": gettext_lazy("waits for its next run"),
    "inactive": gettext_lazy("paused"),
    "ended": gettext_lazy("ended"),
}
#: A timer has no submission id: each of its runs gets its own.
_NO_SUBMISSION = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class TimerRow:
    timer: Timer
    #: None: of a newer version.
    plan: Schedule | None

    @property
    def state(self) -> object:
        if self.timer.inactive_reason == services.HELD:
            return _("held by the operator of this service")
        return STATES.get(self.timer.status, self.timer.status)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def timers(request: HttpRequest) -> HttpResponse:
    """The list; a POST makes a timer."""
    if request.method != "POST":
        return _page(request)
    try:
        _create(user_of(request), {name: request.POST[name].strip() for name in request.POST})
    except CategorizedError as error:
        return _page(request, *refused("new", error))
    messages.success(request, _("The timer was made."))
    return HttpResponseRedirect("/timers")


@signed_in
@require_POST
def change(request: HttpRequest, timer: uuid.UUID, action: str) -> HttpResponse:
    """action: one of ACTIONS."""
    text = _("It begins no more transfers. Those that it has begun go on.")
    if action == "delete" and (ask := question(request, _("Delete this timer?"), text, _("Delete"), "/timers")):
        return ask
    try:
        ACTIONS[action](user_of(request), timer)
    except CategorizedError as error:
        return _page(request, *refused("timers", error))
    messages.success(request, _("It is done."))
    return HttpResponseRedirect("/timers")


ACTIONS: dict[str, Callable[[User, uuid.UUID], Timer]] = {
    "pause": services.pause,
    "resume": services.resume,
    "delete": services.delete,
}


def _page(request: HttpRequest, refusal: tuple[str, str] | None = None, status: int = 200) -> HttpResponse:
    rows = [TimerRow(timer, schedule.read_if_known(timer.schedule)) for timer in services.all_of(user_of(request))]
    context = {
        "title": _("Timers"),
        "rows": rows,
        "intervals": INTERVALS.items(),
        "given": request.POST,
        "levels": transfer_options.levels(),
        "level": request.POST.get("sync_level", "2"),
        "refusal": refusal,
    }
    return show(request, "timers/list.html", context, status)


def _create(user: User, given: dict[str, str]) -> Timer:
    source, source_path = _place("source", given)
    destination, destination_path = _place("destination", given)
    request = TransferRequest(
        submission_id=_NO_SUBMISSION,
        source_endpoint=source,
        destination_endpoint=destination,
        items=[TransferItem(source_path, destination_path, source_path.endswith("/"))],
        label=given.get("name") or None,
        options={"sync_level": int(given["sync_level"])} if given.get("sync_level") in ("0", "1", "2", "3") else {},
    )
    return services.create(user, name=given.get("name"), plan=_plan(given), request=request)


def _place(field: str, given: dict[str, str]) -> tuple[str, str]:
    """`ENDPOINT:/path`. Raises TimerInvalidError."""
    endpoint, colon, path = given.get(field, "").partition(":")
    if not colon or not endpoint or not path:
        raise TimerInvalidError(field, _("Write it as ENDPOINT:/path, such as go#ep1:/~/data/."))
    return endpoint, path


def _plan(given: dict[str, str]) -> Schedule:
    interval = given.get("interval", "")
    start = _moment("start", given) or datetime.now(UTC).replace(microsecond=0)
    if interval not in INTERVALS:
        raise TimerInvalidError("interval", _("There is no such interval."))
    return Schedule(start, int(interval) if interval else None, _moment("end", given) if interval else None)


def _moment(field: str, given: dict[str, str]) -> datetime | None:
    """A time in UTC, as a field of type datetime-local sends it. Raises TimerInvalidError."""
    if not given.get(field):
        return None
    try:
        return datetime.fromisoformat(given[field]).replace(tzinfo=UTC)
    except ValueError:
        raise TimerInvalidError(field, _("Expected a date with a time.")) from None
