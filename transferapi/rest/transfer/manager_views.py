"""The routes for managers of endpoints: their endpoints, pause rules, and the tasks of all users at them.

They begin with `endpoint_manager`; a user reads the pause rules of an endpoint, too.
"""

from __future__ import annotations

import uuid

from django.http import QueryDict
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import managed_endpoints, pause_rules
from transferapi.rest.http.base import View, result
from transferapi.rest.http.errors import BadRequest, NotFound
from transferapi.rest.http.parsing import parse_id, parse_moment, query_limit, query_number
from transferapi.rest.openapi import description
from transferapi.tasks.managers import actions, managed_tasks, pauses
from transferapi.tasks.managers.managed_tasks import LastKey, ManagedTaskFilter
from transferapi.tasks.queries import TimeRange
from transferapi.tasks.states import Status

from . import filters, manager_documents
from .endpoint_documents import endpoint_list, endpoints
from .manager_documents import ShownRule
from .sharing_documents import access_list, access_overseen
from .task_documents import EVENT_LIST, MANAGED_SKIPPED_ERRORS, MANAGED_SUCCESSFUL_TRANSFERS
from .task_views import MAX_LIMIT, limits, marker_and_limit, task_id


class MonitoredEndpoints(View):
    @description.operation("List the endpoints you run", answer="endpoint_list", query="fields")
    def get(self, request: Request) -> Response:
        rows = managed_endpoints.monitored(self.user)
        return Response(endpoint_list(self.user, rows, request.query_params.get("fields")))


class ManagedEndpoint(View):
    @description.operation("Show an endpoint you run", answer="endpoint", query="fields")
    def get(self, request: Request, endpoint: str) -> Response:
        row = managed_endpoints.get(self.user, endpoint)
        [document] = endpoints(self.user, [row], request.query_params.get("fields"))
        return Response(document)


class HostedEndpointList(View):
    @description.operation("List what is shared of an endpoint you run", answer="endpoint_list", query="fields")
    def get(self, request: Request, endpoint: str) -> Response:
        rows = managed_endpoints.shares_on(self.user, endpoint)
        return Response(endpoint_list(self.user, rows, request.query_params.get("fields")))


class ManagedAccessList(View):
    @description.operation("List the access rules of a shared endpoint you run", answer="access_list")
    def get(self, request: Request, endpoint: str) -> Response:
        share, rows = managed_endpoints.access_rules(self.user, endpoint)
        return Response(access_list(share, map(access_overseen, rows)))


class MyEffectivePauseRules(View):
    @description.operation("List the pause rules that hold for you at an endpoint", answer="pause_rule_limited_list")
    def get(self, request: Request, endpoint: str) -> Response:
        found, rules = pause_rules.effective_by_ref(self.user, endpoint)
        shown = (ShownRule(rule, at={found.pk}) for rule in rules)
        return Response(manager_documents.PAUSE_RULE_LIMITED_LIST.of(shown))


class PauseInfo(View):
    @description.operation("Show why a task is paused", answer="pause_info_limited")
    def get(self, request: Request, task: str) -> Response:
        return Response(manager_documents.pause_info_limited(*pauses.info(self.user, task_id(task))))


class PauseRuleList(View):
    @description.operation(
        "List the pause rules of endpoints you run", answer="pause_rule_list", query="filter_endpoint"
    )
    def get(self, request: Request) -> Response:
        rules = pause_rules.listed(self.user, request.query_params.get("filter_endpoint") or None)
        mine = pause_rules.editable_ones(self.user, rules)
        return Response(manager_documents.PAUSE_RULE_LIST.of(ShownRule(rule, rule.pk in mine) for rule in rules))


class PauseRuleCreate(View):
    @description.operation("Pause things at an endpoint", body="pause_rule", answer="pause_rule", status=201)
    def post(self, request: Request) -> Response:
        fields = manager_documents.PAUSE_RULE_REQUEST.read(request.data)
        rule = pause_rules.create(self.user, fields.pop("endpoint_id"), fields)
        return Response(manager_documents.PAUSE_RULE.document(ShownRule(rule, True)), status=201)


class PauseRuleDetail(View):
    @description.operation("Show a pause rule", answer="pause_rule")
    def get(self, request: Request, pause_rule: str) -> Response:
        rule = pause_rules.get(self.user, pause_rule)
        return Response(manager_documents.PAUSE_RULE.document(ShownRule(rule, pause_rules.editable(self.user, rule))))

    @description.operation("Change a pause rule", body="pause_rule_change", answer="pause_rule")
    def put(self, request: Request, pause_rule: str) -> Response:
        rule = pause_rules.update(self.user, pause_rule, manager_documents.PAUSE_RULE_CHANGE.read(request.data))
        return Response(manager_documents.PAUSE_RULE.document(ShownRule(rule, True)))

    @description.operation("Take a pause rule back", answer="result")
    def delete(self, request: Request, pause_rule: str) -> Response:
        rule = pause_rules.delete(self.user, pause_rule)
        return result(request, "Deleted", "Pause rule deleted successfully", id=str(rule.pk))


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
        found = [filters.pick(manager_documents.managed_task(row), query.get("fields")) for row in rows]
        more = {"has_next_page": last is not None, "last_key": manager_documents.last_key(last)}
        return Response(manager_documents.MANAGED_TASK_LIST.of_documents(found, **more))


class ManagedTaskDetail(View):
    @description.operation("Show a task at an endpoint you run", answer="managed_task", query="fields")
    def get(self, request: Request, task: str) -> Response:
        document = manager_documents.managed_task(managed_tasks.get(self.user, task_id(task)))
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
        return Response(manager_documents.pause_info(*managed_tasks.pause_info(self.user, task_id(task))))


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
        given = manager_documents.ADMIN_CANCEL_REQUEST.read(request.data)
        row = actions.cancel(self.user, _task_ids(given["task_id_list"]), given["message"] or "")
        return Response(manager_documents.ADMIN_CANCEL.document((row, managed_tasks.is_done(row))))


class AdminCancelDetail(View):
    @description.operation("Show whether tasks have ended as you asked", answer="admin_cancel")
    def get(self, request: Request, admin_cancel: str) -> Response:
        row, done = managed_tasks.cancel_status(self.user, admin_cancel)
        return Response(manager_documents.ADMIN_CANCEL.document((row, done)))


class AdminPause(View):
    @description.operation("Pause tasks at endpoints you run", body="admin_pause", answer="result")
    def post(self, request: Request) -> Response:
        given = manager_documents.ADMIN_PAUSE.read(request.data)
        number = actions.pause(self.user, _task_ids(given["task_id_list"]), given["message"] or "")
        return result(request, "Accepted", f"{number} task(s) are paused until you resume them")


class AdminResume(View):
    @description.operation("Let tasks at endpoints you run go on", body="admin_resume", answer="result")
    def post(self, request: Request) -> Response:
        number = actions.resume(self.user, _task_ids(manager_documents.ADMIN_RESUME.read(request.data)["task_id_list"]))
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
