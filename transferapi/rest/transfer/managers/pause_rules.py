"""Pause rules, as users see them and as managers of endpoints write them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import pause_rules
from transferapi.rest.http.base import View, result
from transferapi.rest.openapi import description
from transferapi.rest.transfer.tasks.views import task_id
from transferapi.tasks.managers import pauses

from . import documents
from .documents import ShownRule


class MyEffectivePauseRules(View):
    @description.operation("List the pause rules that hold for you at an endpoint", answer="pause_rule_limited_list")
    def get(self, request: Request, endpoint: str) -> Response:
        found, rules = pause_rules.effective_by_ref(self.user, endpoint)
        shown = (ShownRule(rule, at={found.pk}) for rule in rules)
        return Response(documents.PAUSE_RULE_LIMITED_LIST.of(shown))


class PauseInfo(View):
    @description.operation("Show why a task is paused", answer="pause_info_limited")
    def get(self, request: Request, task: str) -> Response:
        return Response(documents.pause_info_limited(*pauses.info(self.user, task_id(task))))


class PauseRuleList(View):
    @description.operation(
        "List the pause rules of endpoints you run", answer="pause_rule_list", query="filter_endpoint"
    )
    def get(self, request: Request) -> Response:
        rules = pause_rules.listed(self.user, request.query_params.get("filter_endpoint") or None)
        mine = pause_rules.editable_ones(self.user, rules)
        return Response(documents.PAUSE_RULE_LIST.of(ShownRule(rule, rule.pk in mine) for rule in rules))


class PauseRuleCreate(View):
    @description.operation("Pause things at an endpoint", body="pause_rule", answer="pause_rule", status=201)
    def post(self, request: Request) -> Response:
        fields = documents.PAUSE_RULE_REQUEST.read(request.data)
        rule = pause_rules.create(self.user, fields.pop("endpoint_id"), fields)
        return Response(documents.PAUSE_RULE.document(ShownRule(rule, True)), status=201)


class PauseRuleDetail(View):
    @description.operation("Show a pause rule", answer="pause_rule")
    def get(self, request: Request, pause_rule: str) -> Response:
        rule = pause_rules.get(self.user, pause_rule)
        return Response(documents.PAUSE_RULE.document(ShownRule(rule, pause_rules.editable(self.user, rule))))

    @description.operation("Change a pause rule", body="pause_rule_change", answer="pause_rule")
    def put(self, request: Request, pause_rule: str) -> Response:
        rule = pause_rules.update(self.user, pause_rule, documents.PAUSE_RULE_CHANGE.read(request.data))
        return Response(documents.PAUSE_RULE.document(ShownRule(rule, True)))

    @description.operation("Take a pause rule back", answer="result")
    def delete(self, request: Request, pause_rule: str) -> Response:
        rule = pause_rules.delete(self.user, pause_rule)
        return result(request, "Deleted", "Pause rule deleted successfully", id=str(rule.pk))
