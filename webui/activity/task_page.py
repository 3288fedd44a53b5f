"""The page of one task, with the plot of its rate over time and the changes of its plan, as lines of an SVG."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from transferapi.tasks import options, queries
from transferapi.tasks.errors import TaskNotFoundError
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.history import causes, repeat, timeline
from transferapi.tasks.history.timeline import PlanChange, RatePoint
from transferapi.tasks.managers import pauses
from transferapi.tasks.models import Task
from transferapi.tasks.states import Phase, TaskType
from transferapi.tasks.worker import deletion_requests
from webui.page import problem, show, signed_in, user_of
from webui.transfer_options import value_words

from . import advice, same_request, summary

#: Events of the page, and items that it shows.
EVENTS, ITEMS = 50, 20
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
    context = {**_context(task), **_events(request, task), "refusal": refusal}
    return show(request, "activity/task.html", context, status)


def not_found(request: HttpRequest) -> HttpResponse:
    return problem(request, 404, _("No such task"), _("There is no task of this id among yours. It may be an old one."))


def _context(task: Task) -> dict[str, Any]:
    now = datetime.now(UTC)
    seen, plans = summary.of(task), timeline.plans(task)
    found = list(map(partial(advice.shown, task), causes.causes(task)))
    trouble = advice.of_endpoint(task, now)
    every = repeat.items(task, COMMAND_ITEMS)
    items = every[:ITEMS]
    over = task.phase == Phase.DONE
    return {
        "title": task.label or seen.source + (f" → {seen.destination}" if seen.destination else ""),
        "task": task,
        "seen": seen,
        **_words(task, now),
        "plans": list(reversed(plans)),
        "plot": plot(timeline.rates(task, now), plans) if _lasted(task, now) >= SHORTEST_PLOT else None,
        "trouble": trouble,
        "causes": found,
        "items": items,
        "more_items": task.items_total - len(items),
        "commands": same_request.commands(task, every) if every and len(every) == task.items_total else [],
        "can_retry": over and task.type == TaskType.TRANSFER and bool(found),
        "can_run_again": repeat.can_run_again(task) and bool(items),
        "paused_by_owner": pauses.OWNER in task.admin_pauses,
        "submission_id": uuid.uuid4(),
        "extensions": EXTENSIONS,
    }


def _words(task: Task, now: datetime) -> dict[str, Any]:
    """The task's state and options in words."""
    return {
        "time_left": "" if task.phase == Phase.DONE else summary.time_left(forecasts.during(task, now)),
        "deletion_waits": deletion_requests.waits(task),
        "waits_at": task.waits_at.host or task.waits_at if task.waits_at else None,
        "options": _options(task),
        "protection": _PROTECTION.get(task.data_protection or "", ""),
        "data_way": _WAYS.get(task.data_way or "", ""),
    }


def _lasted(task: Task, now: datetime) -> float:
    return ((task.completion_time or now) - task.request_time).total_seconds()


def _events(request: HttpRequest, task: Task) -> dict[str, Any]:
    errors_only = request.GET.get("events") == "errors"
    found = queries.events(task.owner, task.pk, is_error=True if errors_only else None, limit=EVENTS)
    return {"events": found.rows, "more_events": found.total - len(found.rows), "errors_only": errors_only}


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
    plan: PlanChange


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
    marks = [Mark(x(plan.time), number, plan) for number, plan in enumerate(plans, 1)]
    return Plot(line, area, highest, start, end, marks)
