"""Pause rules, as users are told of them and as managers of endpoints write them."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import pausing
from transferapi.tasks import pauses

from . import documents_manage, schemas
from .base import View, listing, result
from .parsing import Document
from .tasks import task_id


def _fields(document: Document) -> dict[str, Any]:
    return {
        "message": document.text("message"),
        "start_time": document.moment("start_time"),
        **{str(flag): document.flag(flag) for flag in pausing.FLAGS},
    }


def _identity(document: Document) -> uuid.UUID | None:
    return document.identifier("identity_id") if document.has("identity_id") else None


class MyEffectivePauseRules(View):
    @schemas.operation("List the pause rules that hold for you at an endpoint", answer="pause_rule_limited_list")
    def get(self, request: Request, endpoint: str) -> Response:
        found, rules = pausing.effective_by_ref(self.user, endpoint)
        rows = [documents_manage.pause_rule_limited(rule, {found.pk}) for rule in rules]
        return Response(listing("pause_rule_limited_list", rows))


class PauseInfo(View):
    @schemas.operation("Show why a task is paused", answer="pause_info_limited")
    def get(self, request: Request, task: str) -> Response:
        return Response(documents_manage.pause_info_limited(*pauses.info(self.user, task_id(task))))


class PauseRuleList(View):
    @schemas.operation("List the pause rules of endpoints you run", answer="pause_rule_list", query=["filter_endpoint"])
    def get(self, request: Request) -> Response:
        rules = pausing.listed(self.user, request.query_params.get("filter_endpoint") or None)
        mine = pausing.editable_ones(self.user, rules)
        rows = [documents_manage.pause_rule(rule, editable=rule.pk in mine) for rule in rules]
        return Response(listing("pause_rule_list", rows))


class PauseRuleCreate(View):
    @schemas.operation("Pause things at an endpoint", body="pause_rule", answer="pause_rule", status=201)
    def post(self, request: Request) -> Response:
        document = Document(request.data, "pause_rule")
        fields = {**_fields(document), "identity_id": _identity(document)}
        rule = pausing.create(self.user, document.required_text("endpoint_id"), fields)
        return Response(documents_manage.pause_rule(rule, editable=True), status=201)


class PauseRuleDetail(View):
    @schemas.operation("Show a pause rule", answer="pause_rule")
    def get(self, request: Request, pause_rule: str) -> Response:
        rule = pausing.get(self.user, pause_rule)
        return Response(documents_manage.pause_rule(rule, editable=pausing.editable(self.user, rule)))

    @schemas.operation("Change a pause rule", body="pause_rule_change", answer="pause_rule")
    def put(self, request: Request, pause_rule: str) -> Response:
        rule = pausing.update(self.user, pause_rule, _fields(Document(request.data, "pause_rule")))
        return Response(documents_manage.pause_rule(rule, editable=True))

    @schemas.operation("Take a pause rule back", answer="result")
    def delete(self, request: Request, pause_rule: str) -> Response:
        rule = pausing.delete(self.user, pause_rule)
        return result(request, "Deleted", "Pause rule deleted successfully", id=str(rule.pk))
