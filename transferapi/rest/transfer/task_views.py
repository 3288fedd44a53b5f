"""Tasks: show, list, change, cancel; their events, files and forecasts (an extension of ours)."""

from __future__ import annotations

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.rest.http.base import View, result
from transferapi.rest.http.errors import BadRequest, NotFound
from transferapi.rest.http.parsing import parse_id, query_limit, query_number, query_page
from transferapi.rest.openapi import description
from transferapi.tasks import moves, queries, removal, repeat
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.forecast.model import ForecastWork
from transferapi.tasks.items.retry import NewTask, retry
from transferapi.tasks.managers import actions
from transferapi.tasks.worker import deletion_requests

from . import filters, task_documents
from . import submission_documents as submissions
from .submission_views import accepted

MAX_LIMIT = 1000

CANCEL_MESSAGES = {
    moves.CancelResult.CANCELED: "The task has been cancelled successfully.",
    moves.CancelResult.ACCEPTED: "The cancellation has been accepted; the task ends within seconds.",
    moves.CancelResult.COMPLETE: "The task completed before the cancel request was processed.",
}


def task_id(text: str) -> uuid.UUID:
    return parse_id(text, NotFound(f"No such task '{filters.shown(text)}'"))


def limits(request: Request) -> tuple[int, int]:
    return query_page(request.query_params, 10, MAX_LIMIT, 10**9)


class TaskList(View):
    @description.operation("List your tasks", answer="task_list", query="filter orderby limit offset fields")
    def get(self, request: Request) -> Response:
        query = request.query_params
        wanted = filters.task_filter(query.get("filter") or "")
        order = filters.task_order(query.get("orderby"))
        limit, offset = limits(request)
        page = queries.list_tasks(self.user, wanted, order, limit=limit, offset=offset)
        rows = [filters.pick(task_documents.task(row), query.get("fields")) for row in page.rows]
        return Response(task_documents.TASK_LIST.of_documents(rows, limit=limit, offset=offset, total=page.total))


class TaskDetail(View):
    @description.operation("Show a task", answer="task", query="fields")
    def get(self, request: Request, task: str) -> Response:
        row = queries.get(self.user, task_id(task))
        fields = request.query_params.get("fields")
        rest = forecasts.shown(row) if not fields or "forecast" in fields else None
        return Response(filters.pick(task_documents.task(row, rest), fields))

    @description.operation("Change the label or the deadline of a task", body="task", answer="result")
    def put(self, request: Request, task: str) -> Response:
        moves.update(self.user, task_id(task), **task_documents.TASK_CHANGE.read(request.data))
        return result(request, "Updated", "Updated task successfully")

    @description.operation("Change a task, as the oldest clients ask for it", body="task", answer="result")
    def post(self, request: Request, task: str) -> Response:
        return self.put(request, task)


class TaskRemove(View):
    @description.operation("Put a task that is done out of your sight", answer="result")
    def post(self, request: Request, task: str) -> Response:
        removal.remove(self.user, task_id(task))
        return result(request, "Removed", "The task was removed from your tasks")


class TaskCancel(View):
    @description.operation("Cancel a task", answer="result")
    def post(self, request: Request, task: str) -> Response:
        outcome = moves.cancel(self.user, task_id(task))
        return result(request, outcome.value, CANCEL_MESSAGES[outcome])


class TaskPause(View):
    @description.operation("Pause a task", answer="result")
    def post(self, request: Request, task: str) -> Response:
        actions.pause_own(self.user, task_id(task))
        return result(request, "Paused", "The task is paused; one that is in progress pauses within seconds")


class TaskResume(View):
    @description.operation("End your pause of a task", answer="result")
    def post(self, request: Request, task: str) -> Response:
        actions.resume_own(self.user, task_id(task))
        return result(request, "Resumed", "Your pause of the task is over")


class ConfirmDeletion(View):
    @description.operation("Let a mirror delete what it has asked about", answer="result")
    def post(self, request: Request, task: str) -> Response:
        deletion_requests.answer(self.user, task_id(task), delete=True)
        return result(request, "Confirmed", "The task is queued again, and deletes what the source does not have")


class RefuseDeletion(View):
    @description.operation("End a mirror without the deletion that it has asked about", answer="result")
    def post(self, request: Request, task: str) -> Response:
        deletion_requests.answer(self.user, task_id(task), delete=False)
        return result(request, "Refused", "The task is queued again, and ends without a deletion")


class RetryTask(View):
    @description.operation("Submit the failed files of a task anew", body="retry", answer="retry_result", status=202)
    def post(self, request: Request, task: str) -> Response:
        new = NewTask(**submissions.RETRY.read(request.data or {}))
        return accepted(request, "retry", *retry(self.user, task_id(task), new))


class RunAgain(View):
    @description.operation(
        "Submit the whole request of a task anew", body="run_again", answer="run_again_result", status=202
    )
    def post(self, request: Request, task: str) -> Response:
        given = submissions.RUN_AGAIN.read(request.data or {})
        submission_id = given["submission_id"] or uuid.uuid4()
        return accepted(request, "run_again", *repeat.run_again(self.user, task_id(task), submission_id))


class EventList(View):
    @description.operation("List the events of a task", answer="event_list", query="filter limit offset")
    def get(self, request: Request, task: str) -> Response:
        errors = filters.event_filter(request.query_params.get("filter") or "")
        limit, offset = limits(request)
        page = queries.events(self.user, task_id(task), is_error=errors, limit=limit, offset=offset)
        return Response(task_documents.EVENT_LIST.of(page.rows, limit=limit, offset=offset, total=page.total))


class SuccessfulTransfers(View):
    @description.operation("List the files that were moved", answer="successful_transfers", query="marker limit")
    def get(self, request: Request, task: str) -> Response:
        marker, limit = marker_and_limit(request)
        page = queries.successful_transfers(self.user, task_id(task), marker=marker, limit=limit)
        return Response(task_documents.SUCCESSFUL_TRANSFERS.of(page.rows, marker=marker, next_marker=page.next_marker))


class SkippedErrors(View):
    @description.operation("List what was given up or passed over", answer="skipped_errors", query="marker limit")
    def get(self, request: Request, task: str) -> Response:
        marker, limit = marker_and_limit(request)
        page = queries.skipped_errors(self.user, task_id(task), marker=marker, limit=limit)
        return Response(task_documents.SKIPPED_ERRORS.of(page.rows, marker=marker, next_marker=page.next_marker))


def marker_and_limit(request: Request) -> tuple[int | None, int]:
    query = request.query_params
    return query_number(query, "marker", None, most=2**62), query_limit(query, 100, MAX_LIMIT)


MOST = 10**18


class ForecastDetail(View):
    @description.operation(
        "Foretell how long a transfer would take",
        answer="forecast",
        query="source_endpoint destination_endpoint files bytes fields",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        for name in ("source_endpoint", "destination_endpoint", "bytes"):
            if not query.get(name):
                raise BadRequest(f"{name}: is missing")
        work = ForecastWork(query_number(query, "files", 1, most=MOST), query_number(query, "bytes", 0, most=MOST))
        places = forecasts.before(self.user, query["source_endpoint"], query["destination_endpoint"], work)
        return Response(filters.pick(task_documents.FORECAST.document(places), query.get("fields")))
