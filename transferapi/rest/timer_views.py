"""Timers (Timers API): transfers that begin at a time, once or repeatedly."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.urls import path
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from identity.error_categories import NOT_SUPPORTED, NotFoundError
from identity.provider import scopes
from transferapi.timers import schedule, services
from transferapi.timers.models import Timer
from transferapi.timers.schedule import Schedule

from . import timer_documents
from .http.base import LargeBodies
from .http.errors import BadRequest
from .http.parsing import Document, parse_id, part
from .openapi import description
from .transfer.submission_views import transfer_request

#: A timer has no submission id: each of its runs gets its own.
_NO_SUBMISSION = uuid.UUID(int=0)
_MAX_SECONDS = 10**11


class TimersView(LargeBodies):
    """The base of the views: the token is for the Timers API."""

    scope = scopes.TIMERS_ALL
    #: The document around the transfer, and what JSON escapes add to its names.
    max_body = 4 * services.MAX_BODY


def _id(text: str) -> uuid.UUID:
    return parse_id(text, NotFoundError(text[:100], "timer"))


def _moment(document: Document, name: str, default: datetime) -> datetime:
    return (document.moment(name) or default).replace(microsecond=0)


def _plan(document: Document) -> Schedule:
    """A `schedule`: {"type": "once", "datetime"} or {"type": "recurring", "interval_seconds", "start", "end"}."""
    now, kind = timezone.now(), document.required_text("type")
    if kind == "once":
        return Schedule(_moment(document, "datetime", now))
    if kind != "recurring":
        raise BadRequest(f"{document.where}type: expected once or recurring")
    interval = document.number("interval_seconds")
    if interval is None:
        document.refuse_missing("interval_seconds")
    plan = Schedule(_moment(document, "start", now), interval)
    return _until(plan, part(document, "end")) if document.has("end") else plan


def _until(plan: Schedule, end: Document) -> Schedule:
    """`condition` time or iterations; some clients name the number `count`, and some send no condition."""
    moment, count = end.moment("datetime"), end.number("iterations") or end.number("count")
    condition = end.text("condition") or ("time" if moment else "iterations")
    if condition == "time" and moment is not None:
        return replace(plan, end=moment.replace(microsecond=0))
    if condition == "iterations" and count is not None:
        return replace(plan, iterations=count)
    raise BadRequest(f"{end.where}condition: expected time (with datetime) or iterations (with iterations)")


class TimerCreate(TimersView):
    @description.operation("Make a timer", body="timer", answer="timer_created", status=201)
    def post(self, request: Request) -> Response:
        asked = part(Document(request.data), "timer")
        if (asked.text("timer_type") or "transfer") != "transfer":
            raise BadRequest(f"{asked.where}timer_type: there are timers of transfers only", NOT_SUPPORTED)
        timer = services.create(
            self.user,
            name=asked.text("name"),
            plan=_plan(part(asked, "schedule")),
            request=transfer_request(part(asked, "body", "transfer"), _NO_SUBMISSION),
        )
        return Response({"timer": timer_documents.TIMER.document(timer)}, status=201)


class TimerList(TimersView):
    @description.operation("List your timers, without what they transfer", answer="timer_list", query="order")
    def get(self, request: Request) -> Response:
        found = services.all_of(self.user)
        if "desc" in (request.query_params.get("order") or "").lower().split():
            found.reverse()
        return Response({"jobs": [timer_documents.TIMER_IN_LIST.document(timer) for timer in found]})

    @description.operation("Make a timer, in the older form", body="timer_job", answer="timer", status=201)
    def post(self, request: Request) -> Response:
        asked = Document(request.data)
        # An address of this form means "transfer"; it is never called.
        if not asked.required_text("callback_url").rstrip("/").endswith("/transfer/run"):
            raise BadRequest("callback_url: there are timers of transfers only", NOT_SUPPORTED)
        timer = services.create(
            self.user,
            name=asked.text("name"),
            plan=_older_plan(asked),
            request=transfer_request(
                _older_body(part(part(asked, "callback_body"), "body", "transfer")), _NO_SUBMISSION
            ),
        )
        return Response(timer_documents.TIMER.document(timer), status=201)


def _older_body(asked: Document) -> Document:
    """The body in the form of the action provider for transfers, which has other names for some fields."""
    given = dict(asked.fields)
    for ours, theirs in (
        ("source_endpoint", "source_endpoint_id"),
        ("destination_endpoint", "destination_endpoint_id"),
        ("DATA", "transfer_items"),
    ):
        given.setdefault(ours, given.get(theirs))
    return Document(given, "transfer", where=asked.where)


def _older_plan(asked: Document, before: Schedule | None = None) -> Schedule:
    """Read `start`, `interval` (null: once), `stop_after` and `stop_after_n`. Absent values stay as in `before`."""
    plan = Schedule(_moment(asked, "start", before.start if before else timezone.now()))
    seconds = _seconds(asked)
    interval = seconds if seconds is not None else before.interval if before else None
    if interval is None:
        return plan
    plan = replace(plan, interval=interval)
    end, count = _stop_after(asked)
    if end is None and count is None and before is not None:
        return replace(plan, end=before.end, iterations=before.iterations)
    return replace(plan, end=end, iterations=count)


def _stop_after(asked: Document) -> tuple[datetime | None, int | None]:
    value = asked.fields.get("stop_after")
    if isinstance(value, dict):
        inner = Document(value, where="stop_after.")
        return inner.moment("date"), inner.number("n_runs")
    return asked.moment("stop_after"), asked.number("stop_after_n")


def _seconds(asked: Document) -> int | None:
    """Whole seconds, which some clients write as 864000.0."""
    value: Any = asked.fields.get("interval")
    if isinstance(value, float) and abs(value) < _MAX_SECONDS and value.is_integer():
        return int(value)
    return asked.number("interval")


class TimerDetail(TimersView):
    @description.operation("Show a timer", answer="timer")
    def get(self, request: Request, timer: str) -> Response:
        return Response(timer_documents.TIMER.document(services.get(self.user, _id(timer))))

    @description.operation("Change a timer's name or schedule", body="timer_change", answer="timer")
    def patch(self, request: Request, timer: str) -> Response:
        asked, timer_id = Document(request.data), _id(timer)
        before = services.get(self.user, timer_id)
        changed = services.update(self.user, timer_id, name=asked.text("name"), plan=_changed_plan(asked, before))
        return Response(timer_documents.TIMER.document(changed))

    @description.operation("Delete a timer; what it has submitted goes on", answer="timer")
    def delete(self, request: Request, timer: str) -> Response:
        return Response(timer_documents.TIMER.document(services.delete(self.user, _id(timer))))


def _changed_plan(asked: Document, before: Timer) -> Schedule | None:
    if asked.has("schedule"):
        return _plan(part(asked, "schedule"))
    if any(asked.has(name) for name in ("start", "interval", "stop_after", "stop_after_n")):
        return _older_plan(asked, schedule.read(before.schedule))
    return None


class TimerPause(TimersView):
    @description.operation("Keep a timer from running", answer="timer_message")
    def post(self, request: Request, timer: str) -> Response:
        found = services.pause(self.user, _id(timer))
        return Response({"message": f"Successfully paused job {found.pk}."})


class TimerResume(TimersView):
    @description.operation("Let a timer run again", answer="timer_message")
    def post(self, request: Request, timer: str) -> Response:
        found = services.resume(self.user, _id(timer))
        return Response({"message": f"Successfully resumed job {found.pk}."})


J = "jobs/<str:timer>"

urlpatterns = [
    path("v2/timer", TimerCreate.as_view()),
    path("jobs/", TimerList.as_view()),
    path(J, TimerDetail.as_view()),
    path(f"{J}/pause", TimerPause.as_view()),
    path(f"{J}/resume", TimerResume.as_view()),
]
