"""Tasks: look, list, change, cancel; their events and files."""

from __future__ import annotations

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.tasks import moves, outlook, queries, removal

from . import documents, filters, schemas
from .base import View, listing, result
from .errors import NotFound
from .parsing import Document, query_limit, query_number

MAX_LIMIT = 1000


def task_id(text: str) -> uuid.UUID:
    """An id that is none is an unknown one."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise NotFound(f"No such task '{text.encode('utf-8', 'backslashreplace').decode()[:100]}'") from None


def limits(request: Request) -> tuple[int, int]:
    query = request.query_params
    return query_limit(request, 10, MAX_LIMIT), query_number(query.get("offset"), "offset", 0, most=10**9)


class TaskList(View):
    @schemas.operation("List your tasks", answer="task_list", query=["filter", "orderby", "limit", "offset", "fields"])
    def get(self, request: Request) -> Response:
        query = request.query_params
        wanted = filters.task_filter(query.get("filter") or "")
        order = filters.task_order(query.get("orderby"))
        limit, offset = limits(request)
        page = queries.list_tasks(self.user, wanted, order, limit=limit, offset=offset)
        rows = [filters.pick(documents.task(row), query.get("fields")) for row in page.rows]
        return Response(listing("task_list", rows, limit=limit, offset=offset, total=page.total))


class TaskDetail(View):
    @schemas.operation("Show a task", answer="task", query=["fields"])
    def get(self, request: Request, task: str) -> Response:
        row = queries.get(self.user, task_id(task))
        fields = request.query_params.get("fields")
        rest = outlook.during(row) if not fields or "forecast" in fields else None
        return Response(filters.pick(documents.task(row, rest), fields))

    @schemas.operation("Change the label or the deadline of a task", body="task", answer="result")
    def put(self, request: Request, task: str) -> Response:
        document = Document(request.data, "task")
        label, deadline = document.text("label"), document.moment("deadline")
        moves.update(self.user, task_id(task), label=label, deadline=deadline)
        return result(request, "Updated", "Updated task successfully")

    @schemas.operation("Change a task, as the oldest clients ask for it", body="task", answer="result")
    def post(self, request: Request, task: str) -> Response:
        return self.put(request, task)


class TaskRemove(View):
    @schemas.operation("Put a task that is done out of your sight", answer="result")
    def post(self, request: Request, task: str) -> Response:
        removal.remove(self.user, task_id(task))
        return result(request, "Removed", "The task was removed from your tasks")


class TaskCancel(View):
    _MESSAGES = {  # noqa: RUF012 - never changed
        moves.CancelResult.CANCELED: "The task has been cancelled successfully.",
        moves.CancelResult.ACCEPTED: "The cancellation has been accepted; the task ends within seconds.",
        moves.CancelResult.COMPLETE: "The task completed before the cancel request was processed.",
    }

    @schemas.operation("Cancel a task", answer="result")
    def post(self, request: Request, task: str) -> Response:
        outcome = moves.cancel(self.user, task_id(task))
        return result(request, outcome.value, self._MESSAGES[outcome])


class EventList(View):
    @schemas.operation("List the events of a task", answer="event_list", query=["filter", "limit", "offset"])
    def get(self, request: Request, task: str) -> Response:
        errors = filters.event_filter(request.query_params.get("filter") or "")
        limit, offset = limits(request)
        page = queries.events(self.user, task_id(task), is_error=errors, limit=limit, offset=offset)
        rows = [documents.event(row) for row in page.rows]
        return Response(listing("event_list", rows, limit=limit, offset=offset, total=page.total))


class SuccessfulTransfers(View):
    @schemas.operation("List the files that were moved", answer="successful_transfers", query=["marker", "limit"])
    def get(self, request: Request, task: str) -> Response:
        marker, limit = marker_and_limit(request)
        page = queries.successful_transfers(self.user, task_id(task), marker=marker, limit=limit)
        rows = [documents.successful_transfer(row) for row in page.rows]
        return Response(
            {"DATA_TYPE": "successful_transfers", "marker": marker, "next_marker": page.next_marker, "DATA": rows}
        )


class SkippedErrors(View):
    @schemas.operation("List what was given up or passed over", answer="skipped_errors", query=["marker", "limit"])
    def get(self, request: Request, task: str) -> Response:
        marker, limit = marker_and_limit(request)
        page = queries.skipped_errors(self.user, task_id(task), marker=marker, limit=limit)
        rows = [documents.skipped_error(row) for row in page.rows]
        return Response(
            {"DATA_TYPE": "skipped_errors", "marker": marker, "next_marker": page.next_marker, "DATA": rows}
        )


def marker_and_limit(request: Request) -> tuple[int | None, int]:
    marker = query_number(request.query_params.get("marker"), "marker", None, most=2**62)
    return marker, query_limit(request, 100, MAX_LIMIT)
