"""The page of one task, the forms that act on it, and its errors as files.

The page has the plot of the rate over time and the changes of the plan, as lines of an SVG. The files are written
while the errors are read: a task may have a million of them. The forms work without scripts.
"""

from __future__ import annotations

import csv
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from identity.error_categories import CategorizedError
from identity.gsi.printable import inert
from identity.models import User
from transferapi.tasks import causes, moves, options, queries, removal, repeat, standstill, timeline
from transferapi.tasks.causes import Outcome
from transferapi.tasks.errors import RequestError, TaskNotFoundError
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.items import overlaps, retry
from transferapi.tasks.items.retry import NewTask
from transferapi.tasks.managers import actions, pauses
from transferapi.tasks.models import File, Task
from transferapi.tasks.moves import CancelResult
from transferapi.tasks.states import Phase, TaskType
from transferapi.tasks.timeline import PlanChange, RatePoint
from transferapi.tasks.worker import deletion_requests
from webui import reasons
from webui.forms import refused, submission_id
from webui.page import problem, show, signed_in, signed_in_stream, user_of
from webui.templatetags.waybill import plain_name
from webui.transfer_options import value_words

from . import advice, same_request, summary
from .advice import CauseShown

#: Events of the page, and items that it shows.
EVENTS, ITEMS = 50, 20
#: Files of one list.
FILES = 100
#: The most items of a request that is shown as commands.
COMMAND_ITEMS = 200
#: Seconds of a task from which on its rate is drawn.
SHORTEST_PLOT = 2.0
#: Days by which a press moves the deadline.
EXTENSIONS = (1, 3, 7)
_PROTECTION = {
    "clear": gettext_lazy("not protected"),
    "authenticated": gettext_lazy("authenticated"),
    "encrypted": gettext_lazy("encrypted"),
}

_WAYS = {
    "direct": gettext_lazy("directly from the source to the destination"),
    "relayed": gettext_lazy("through this service, which stores nothing of them"),
    "streamed": gettext_lazy("through a worker of this service"),
}


@signed_in
@require_safe
def page(request: HttpRequest, task_id: uuid.UUID) -> HttpResponse:
    return of(request, task_id)


def of(
    request: HttpRequest, task_id: uuid.UUID, *, refusal: tuple[str, str] | None = None, status: int = 200
) -> HttpResponse:
    """The page, after an action that was refused with its reason."""
    try:
        task = queries.get(user_of(request), task_id)
    except TaskNotFoundError:
        return not_found(request)
    asked = request.GET.get("part", "log" if "events" in request.GET else "")
    part = asked if asked in _PARTS else ""
    addresses = {name: f"{_page(task.pk)}?part={name}" if name else _page(task.pk) for name in _PARTS}
    context = {
        **_head(task),
        **_PARTS[part][1](request, task),
        "part_template": f"webui/activity/task/{part or 'overview'}.html",
        "tabs": [(addresses[name], str(words)) for name, (words, _facts) in _PARTS.items()],
        "tab": addresses[part],
        "tabs_label": _("Parts of the page"),
        "refusal": refusal,
    }
    return show(request, "activity/task.html", context, status)


def not_found(request: HttpRequest) -> HttpResponse:
    return problem(request, 404, _("No such task"), _("There is no task of this id among yours. It may be an old one."))


def _head(task: Task) -> dict[str, Any]:
    """The facts that stand above every part of the page."""
    seen = summary.of(task)
    if task.fatal_error_code:
        end = reasons.last_event(task, task.fatal_error_code)
        seen = replace(seen, why=reasons.plain_text(end, task.fatal_error_description))
    return {
        "title": f"{seen.stall.title}: {plain_name(seen.name)}" if seen.stall else plain_name(seen.name),
        "task": task,
        "seen": seen,
        "deletion_question": _deletion_question(task),
    }


def _overview(request: HttpRequest, task: Task) -> dict[str, Any]:
    now = datetime.now(UTC)
    plans = timeline.plans(task)
    found = list(map(partial(advice.shown, task), causes.causes(task)))
    return {
        **_words(task, now),
        "plans": [(plan, reasons.plan_reason(plan)) for plan in reversed(plans)],
        "plot": plot(timeline.rates(task, now), plans) if _lasted(task, now) >= SHORTEST_PLOT else None,
        **_remedy(task, found),
        "causes": found,
        "can_retry": task.phase == Phase.DONE and task.type == TaskType.TRANSFER and bool(found),
        "can_run_again": repeat.can_run_again(task) and bool(repeat.items(task, 1)),
        "paused_by_owner": pauses.OWNER in task.admin_pauses,
        "submission_id": uuid.uuid4(),
        "extensions": EXTENSIONS,
    }


def _files(request: HttpRequest, task: Task) -> dict[str, Any]:
    """The items of the request, and the files that have arrived or have errors."""
    items = repeat.items(task, ITEMS)
    marker = request.GET.get("marker", "")
    after = int(marker) if marker.isascii() and marker.isdecimal() and len(marker) < 19 else None
    arrived = queries.successful_transfers(task.owner, task.pk, marker=after, limit=FILES)
    lost = [] if after else list(islice(causes.files(task.owner, task.pk), FILES + 1))
    return {
        "items": [] if after else items,
        "more_items": task.items_total - len(items),
        "arrived": arrived.rows,
        "next_marker": arrived.next_marker,
        "lost": [(advice.title_of(file.error_code or ""), file) for _outcome, file in lost[:FILES]],
        "more_lost": len(lost) > FILES,
    }


def _scripts(request: HttpRequest, task: Task) -> dict[str, Any]:
    every = repeat.items(task, COMMAND_ITEMS)
    return {"commands": same_request.commands(task, every) if every and len(every) == task.items_total else []}


def _words(task: Task, now: datetime) -> dict[str, Any]:
    """The task's state and options in words."""
    goes_on = task.phase != Phase.DONE and standstill.of(task) is None
    return {
        "time_left": summary.time_left(forecasts.shown(task, now)) if goes_on else "",
        "waits_at": task.waits_at.host or task.waits_at if task.waits_at else None,
        "options": _options(task),
        "protection": _PROTECTION.get(task.data_protection or "", ""),
        "data_way": _data_way(task),
    }


def _deletion_question(task: Task) -> str:
    """The question to the owner about a deletion; "" where the task does not wait for that."""
    if not deletion_requests.waits(task):
        return ""
    return reasons.plain_text(reasons.last_event(task, deletion_requests.WAITS), task.nice_status_details)


def _remedy(task: Task, found: list[CauseShown]) -> dict[str, str]:
    """The remedy where the task does not go on, and the words of the server; nothing where a cause has them below."""
    code = task.nice_status or ""
    if not summary.of(task).stall or any(cause.code == code for cause in found):
        return {"stall_do": "", "stall_details": ""}
    return {"stall_do": advice.what_to_do(code), "stall_details": task.nice_status_details or ""}


def _data_way(task: Task) -> str:
    """The way that the data went; "" while nothing was moved."""
    if task.data_way:
        return str(_WAYS.get(task.data_way, task.data_way))
    return str(_WAYS["direct"]) if task.bytes_transferred and task.type == TaskType.TRANSFER else ""


def _lasted(task: Task, now: datetime) -> float:
    return ((task.completion_time or now) - task.request_time).total_seconds()


def _events(request: HttpRequest, task: Task) -> dict[str, Any]:
    errors_only = request.GET.get("events") == "errors"
    found = queries.events(task.owner, task.pk, is_error=True if errors_only else None, limit=EVENTS)
    reasons.put_words(found.rows)
    return {"events": found.rows, "more_events": found.total - len(found.rows), "errors_only": errors_only}


#: The parts of the page: the value in its address, its words, and what gives its template the facts.
_PARTS: dict[str, tuple[Promise, Callable[[HttpRequest, Task], dict[str, Any]]]] = {
    "": (gettext_lazy("Overview"), _overview),
    "files": (gettext_lazy("Files"), _files),
    "log": (gettext_lazy("Log"), _events),
    "scripts": (gettext_lazy("Use in scripts"), _scripts),
}


def _options(task: Task) -> list[tuple[str, str]]:
    """The options that differ from their defaults, in words; of a transfer also whether it is verified."""
    found = []
    for name, one in options.of(task.type).items():
        value = task.options.get(name)
        if name == "verify_checksum" or value not in (None, one.default):
            found.append((_(one.label), value_words(one, value)))
    return found


WIDTH, HEIGHT = 720, 120
#: Room above the highest point.
_TOP = 8


@dataclass(frozen=True)
class Mark:
    x: float
    number: int
    reason: str


@dataclass(frozen=True)
class Plot:
    line: str
    area: str
    highest: float
    start: datetime
    end: datetime
    marks: list[Mark]
    width: int = WIDTH
    height: int = HEIGHT


def plot(points: list[RatePoint], plans: list[PlanChange]) -> Plot | None:
    """None where there is nothing to draw."""
    highest = max((point.rate for point in points), default=0.0)
    if not highest:
        return None
    start, end = points[0].start, max(point.end for point in points)
    seconds = max((end - start).total_seconds(), 0.001)

    def x(time: datetime) -> float:
        return round(WIDTH * min(1.0, max(0.0, (time - start).total_seconds() / seconds)), 1)

    def y(rate: float) -> float:
        return round(HEIGHT - (HEIGHT - _TOP) * rate / highest, 1)

    corners = [(x(time), y(point.rate)) for point in points for time in (point.start, point.end)]
    line = "M" + "L".join(f"{across} {down}" for across, down in corners)
    area = f"{line}L{corners[-1][0]} {HEIGHT}L{corners[0][0]} {HEIGHT}Z"
    marks = [Mark(x(plan.time), number, reasons.plain_reason(plan)) for number, plan in enumerate(plans, 1)]
    return Plot(line, area, highest, start, end, marks)


Done = tuple[str, str]


@signed_in
@require_POST
def act(request: HttpRequest, task_id: uuid.UUID, action: str) -> HttpResponse:
    """Do it, and lead to the page of the task, or show there why it was refused."""
    try:
        said, leads_to = ACTIONS[action](request, task_id)
    except TaskNotFoundError:
        return not_found(request)
    except CategorizedError as error:
        if error.category is None:
            raise
        refusal, _status = refused("task", error)
        return of(request, task_id, refusal=refusal, status=409)
    messages.success(request, said)
    return HttpResponseRedirect(leads_to)


def _cancel(request: HttpRequest, task_id: uuid.UUID) -> Done:
    said = {
        CancelResult.CANCELED: _("The task is canceled."),
        CancelResult.ACCEPTED: _("The task ends within seconds."),
        CancelResult.COMPLETE: _("The task was done before."),
    }
    return said[moves.cancel(user_of(request), task_id)], _page(task_id)


def _pause(request: HttpRequest, task_id: uuid.UUID) -> Done:
    actions.pause_own(user_of(request), task_id)
    return _("The task is paused. One that is in progress pauses within seconds."), _page(task_id)


def _resume(request: HttpRequest, task_id: uuid.UUID) -> Done:
    actions.resume_own(user_of(request), task_id)
    return _("Your pause of the task is over."), _page(task_id)


def _confirm_deletion(request: HttpRequest, task_id: uuid.UUID) -> Done:
    deletion_requests.answer(user_of(request), task_id, delete=True)
    return _("The task goes on, and deletes what the source does not have."), _page(task_id)


def _refuse_deletion(request: HttpRequest, task_id: uuid.UUID) -> Done:
    deletion_requests.answer(user_of(request), task_id, delete=False)
    return _("The task ends without a deletion."), _page(task_id)


def _rename(request: HttpRequest, task_id: uuid.UUID) -> Done:
    moves.update(user_of(request), task_id, label=request.POST.get("label", "").strip())
    return _("The task has another name."), _page(task_id)


def _extend(request: HttpRequest, task_id: uuid.UUID) -> Done:
    days = request.POST.get("days", "")
    if days not in map(str, EXTENSIONS):
        raise RequestError("days", _("This is none of the times that are offered."))
    task = queries.get(user_of(request), task_id)
    later = max(task.deadline, datetime.now(UTC)) + timedelta(days=int(days))
    moves.update(user_of(request), task_id, deadline=later)
    return _("The deadline is later now."), _page(task_id)


def _retry(request: HttpRequest, task_id: uuid.UUID) -> Done:
    return _new(request, task_id, _retry_failed)


def _retry_failed(user: User, task_id: uuid.UUID, submission_id: uuid.UUID) -> tuple[Task, bool]:
    return retry.retry(user, task_id, NewTask(submission_id))


def _new(request: HttpRequest, task_id: uuid.UUID, submit: Callable[..., tuple[Task, bool]]) -> Done:
    task, created = submit(user_of(request), task_id, submission_id(request))
    if warning := overlaps.warning(user_of(request), task) if created else None:
        messages.warning(request, warning, "bad")
    return _("A new task was accepted."), _page(task.pk)


def _remove(request: HttpRequest, task_id: uuid.UUID) -> Done:
    removal.remove(user_of(request), task_id)
    return _("The task is no longer in your list."), "/activity"


def _page(task_id: uuid.UUID) -> str:
    return f"/activity/{task_id}"


ACTIONS: dict[str, Callable[[HttpRequest, Any], Done]] = {
    "cancel": _cancel,
    "pause": _pause,
    "resume": _resume,
    "confirm-deletion": _confirm_deletion,
    "refuse-deletion": _refuse_deletion,
    "rename": _rename,
    "extend": _extend,
    "retry": _retry,
    "remove": _remove,
}


FORMS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
FIELDS = ("outcome", "code", "cause", "source_path", "destination_path", "size", "attempts", "time", "details")
#: A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class _Line:
    """The target of `csv`, which returns the line."""

    def write(self, text: str) -> str:
        return text


@signed_in_stream
@require_safe
def errors(request: HttpRequest, task_id: uuid.UUID, form: str) -> HttpResponseBase:
    try:
        rows = causes.files(user_of(request), task_id)
    except TaskNotFoundError:
        raise Http404 from None
    answer = StreamingHttpResponse(_csv(rows) if form == "csv" else _json(rows), content_type=FORMS[form])
    answer["Content-Disposition"] = f'attachment; filename="errors-{task_id}.{form}"'
    return answer


def _row(outcome: Outcome, file: File) -> dict[str, Any]:
    code = file.error_code or ""
    values = (
        outcome.value, code, advice.title_of(code), file.source_path, file.destination_path, file.size, file.attempts,
        file.error_time.isoformat() if file.error_time else None, file.error_details,
    )  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


def _csv(rows: Iterator[tuple[Outcome, File]]) -> Iterator[bytes]:
    writer = csv.writer(_Line())
    yield writer.writerow(FIELDS).encode()
    for outcome, file in rows:
        yield writer.writerow(map(_cell, _row(outcome, file).values())).encode("utf-8", "backslashreplace")


def _cell(value: object) -> object:
    """For a spreadsheet, and for a terminal."""
    if not isinstance(value, str):
        return value
    return inert(f"'{value}" if value.startswith(_FORMULA) else value, keep="\n")


def _json(rows: Iterator[tuple[Outcome, File]]) -> Iterator[bytes]:
    before = "[\n"
    for outcome, file in rows:
        yield f"{before}{json.dumps(_row(outcome, file))}".encode()
        before = ",\n"
    yield b"[]\n" if before == "[\n" else b"\n]\n"
