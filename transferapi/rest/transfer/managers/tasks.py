"""Tasks at an endpoint, as its managers see, pause and cancel them (`endpoint_manager`)."""

from __future__ import annotations

import uuid

from django.http import QueryDict
from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.rest.http.base import View, result
from transferapi.rest.http.errors import BadRequest, NotFound
from transferapi.rest.http.parsing import parse_id, parse_moment, query_limit, query_number
from transferapi.rest.openapi import description
from transferapi.rest.transfer import filters
from transferapi.rest.transfer.tasks.documents import EVENT_LIST, MANAGED_SKIPPED_ERRORS, MANAGED_SUCCESSFUL_TRANSFERS
from transferapi.rest.transfer.tasks.views import MAX_LIMIT, limits, marker_and_limit, task_id
from transferapi.tasks.managers import actions, managed_tasks
from transferapi.tasks.managers.managed_tasks import LastKey, ManagedTaskFilter
from transferapi.tasks.queries import TimeRange
from transferapi.tasks.states import Status

from . import documents

_FLAGS = {"1": True, "true": True, "0": False, "false": False}


class ManagedTaskList(View):
    @description.operation(
        "List the tasks at endpoints you run",
        answer="managed_task_list",
        query="filter_status filter_task_id filter_owner_id filter_endpoint filter_endpoint_use "
        "filter_is_paused filter_completion_time filter_min_faults filter_local_user last_key limit fields",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        after = query.get("last_key")
        limit = query_limit(query, 100, MAX_LIMIT)
        rows, last = managed_tasks.list_tasks(self.user, _filter(query), read_last_key(after) if after else None, limit)
        found = [filters.pick(documents.managed_task(row), query.get("fields")) for row in rows]
        more = {"has_next_page": last is not None, "last_key": documents.last_key(last)}
        return Response(documents.MANAGED_TASK_LIST.of_documents(found, **more))


class ManagedTaskDetail(View):
    @description.operation("Show a task at an endpoint you run", answer="managed_task", query="fields")
    def get(self, request: Request, task: str) -> Response:
        document = documents.managed_task(managed_tasks.get(self.user, task_id(task)))
        return Response(filters.pick(document, request.query_params.get("fields")))


class ManagedEventList(View):
    @description.operation(
        "List the events of a task at an endpoint you run",
        answer="event_list",
        query="filter_is_error limit offset",
    )
    def get(self, request: Request, task: str) -> Response:
        wanted = _flag(request.query_params, "filter_is_error")
        limit, offset = limits(request)
        page = managed_tasks.events(self.user, task_id(task), is_error=wanted, limit=limit, offset=offset)
        return Response(EVENT_LIST.of(page.rows, limit=limit, offset=offset, total=page.total))


class ManagedPauseInfo(View):
    @description.operation("Show why a task at an endpoint you run is paused", answer="pause_info")
    def get(self, request: Request, task: str) -> Response:
        return Response(documents.pause_info(*managed_tasks.pause_info(self.user, task_id(task))))


class ManagedSuccessfulTransfers(View):
    @description.operation(
        "List the files that a task at an endpoint you run has moved",
        answer="managed_successful_transfers",
        query="marker limit",
    )
    def get(self, request: Request, task: str) -> Response:
        marker, limit = marker_and_limit(request)
        page = managed_tasks.successful_transfers(self.user, task_id(task), marker=marker, limit=limit)
        return Response(MANAGED_SUCCESSFUL_TRANSFERS.of(page.rows, marker=marker, next_marker=page.next_marker))


class ManagedSkippedErrors(View):
    @description.operation(
        "List what a task at an endpoint you run has given up or passed over",
        answer="managed_skipped_errors",
        query="marker limit",
    )
    def get(self, request: Request, task: str) -> Response:
        marker, limit = marker_and_limit(request)
        page = managed_tasks.skipped_errors(self.user, task_id(task), marker=marker, limit=limit)
        return Response(MANAGED_SKIPPED_ERRORS.of(page.rows, marker=marker, next_marker=page.next_marker))


# ---- what managers do


class AdminCancelCreate(View):
    @description.operation("End tasks at endpoints you run", body="admin_cancel", answer="admin_cancel")
    def post(self, request: Request) -> Response:
        given = documents.ADMIN_CANCEL_REQUEST.read(request.data)
        row = actions.cancel(self.user, _task_ids(given["task_id_list"]), given["message"] or "")
        return Response(documents.ADMIN_CANCEL.document((row, managed_tasks.is_done(row))))


class AdminCancelDetail(View):
    @description.operation("Show whether tasks have ended as you asked", answer="admin_cancel")
    def get(self, request: Request, admin_cancel: str) -> Response:
        row, done = managed_tasks.cancel_status(self.user, admin_cancel)
        return Response(documents.ADMIN_CANCEL.document((row, done)))


class AdminPause(View):
    @description.operation("Pause tasks at endpoints you run", body="admin_pause", answer="result")
    def post(self, request: Request) -> Response:
        given = documents.ADMIN_PAUSE.read(request.data)
        number = actions.pause(self.user, _task_ids(given["task_id_list"]), given["message"] or "")
        return result(request, "Accepted", f"{number} task(s) are paused until you resume them")


class AdminResume(View):
    @description.operation("Let tasks at endpoints you run go on", body="admin_resume", answer="result")
    def post(self, request: Request) -> Response:
        number = actions.resume(self.user, _task_ids(documents.ADMIN_RESUME.read(request.data)["task_id_list"]))
        return result(request, "Accepted", f"{number} task(s) go on, unless something else pauses them")


def _task_ids(value: object) -> list[uuid.UUID]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadRequest("task_id_list: expected a list of task ids")
    return [task_id(one) for one in value[: managed_tasks.MAX_TASKS + 1]]


# ---- the query


def _filter(query: QueryDict) -> ManagedTaskFilter:
    owner = query.get("filter_owner_id")
    return ManagedTaskFilter(
        statuses=_statuses(query.get("filter_status")),
        task_ids=_ids(query.get("filter_task_id")),
        owner_id=parse_id(owner, NotFound("No such user", "UserNotFound")) if owner else None,
        endpoint=query.get("filter_endpoint") or None,
        use=_use(query.get("filter_endpoint_use")),
        is_paused=_flag(query, "filter_is_paused"),
        completion_time=_times(query.get("filter_completion_time")),
        min_faults=query_number(query, "filter_min_faults", None, most=2**62),
        local_user=query.get("filter_local_user") or None,
    )


def _statuses(text: str | None) -> list[str] | None:
    words = text.split(",") if text else None
    if words and set(words) - set(Status.values):
        raise BadRequest(f"filter_status: is one of {', '.join(Status.values)}, or several with commas")
    return words


def _ids(text: str | None) -> list[uuid.UUID] | None:
    if not text:
        return None
    refusal = BadRequest("filter_task_id: expected ids of tasks, with commas")
    return [parse_id(word, refusal) for word in text.split(",")[: managed_tasks.MAX_TASKS + 1]]


def _use(text: str | None) -> str | None:
    if text and text not in managed_tasks.SIDES:
        raise BadRequest("filter_endpoint_use: is source or destination")
    return text or None


def _flag(query: QueryDict, name: str) -> bool | None:
    text = query.get(name)
    if not text:
        return None
    if text.lower() not in _FLAGS:
        raise BadRequest(f"{name}: is 0 or 1")
    return _FLAGS[text.lower()]


def _times(text: str | None) -> TimeRange | None:
    if not text:
        return None
    found = filters.time_range("filter_completion_time", text)
    if found == TimeRange():
        raise BadRequest("filter_completion_time: has a beginning or an end")
    return found


def read_last_key(text: str) -> LastKey:
    """Raises BadRequest for a key that we did not give."""
    kind, *parts = text.split(",")
    moments = [moment for part in parts[:-1] if (moment := parse_moment(part))]
    refusal = BadRequest("last_key: is not one of a page before")
    if len(moments) + 1 != len(parts) or len(parts) != {"active": 2, "complete": 3}.get(kind):
        raise refusal
    completed = moments[0] if kind == "complete" else None
    return LastKey(completed, moments[-1], parse_id(parts[-1], refusal))
