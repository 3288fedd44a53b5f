"""Webhooks: addresses that receive the events of the user's tasks. An extension of ours."""

from __future__ import annotations

from django.views.decorators.debug import sensitive_variables
from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.rest.http.base import View, result
from transferapi.rest.http.parsing import query_page
from transferapi.rest.openapi import description
from transferapi.tasks.notify import webhooks

from . import documents

MAX_LIMIT = 1000


class WebhookCreate(View):
    @description.operation("Add a webhook", body="webhook", answer="webhook_create_result", status=201)
    @sensitive_variables()
    def post(self, request: Request) -> Response:
        row, secret = webhooks.create(self.user, **documents.WEBHOOK_REQUEST.read(request.data))
        return documents.WEBHOOK_CREATED.answer(request, id=str(row.pk), secret=secret.value)


class WebhookList(View):
    @description.operation("List your webhooks", answer="webhook_list")
    def get(self, request: Request) -> Response:
        return Response(documents.WEBHOOK_LIST.of(webhooks.listing(self.user)))


class WebhookDetail(View):
    @description.operation("Show a webhook", answer="webhook")
    def get(self, request: Request, webhook: str) -> Response:
        return Response(documents.WEBHOOK.document(webhooks.get(self.user, webhook)))

    @description.operation("Change a webhook, or enable it again", body="webhook_change", answer="webhook")
    def put(self, request: Request, webhook: str) -> Response:
        row = webhooks.update(self.user, webhook, **documents.WEBHOOK_CHANGE.read(request.data))
        return Response(documents.WEBHOOK.document(row))

    @description.operation("Delete a webhook", answer="result")
    def delete(self, request: Request, webhook: str) -> Response:
        webhooks.delete(self.user, webhook)
        return result(request, "Deleted", "Webhook deleted successfully")


class WebhookTest(View):
    @description.operation("Send something to a webhook, to try it", answer="webhook_test_result", status=202)
    def post(self, request: Request, webhook: str) -> Response:
        made = webhooks.send_test(self.user, webhook)
        return documents.WEBHOOK_TEST.answer(request, 202, delivery_id=str(made.pk))


class DeliveryList(View):
    @description.operation("List the calls of a webhook", answer="webhook_delivery_list", query="limit offset")
    def get(self, request: Request, webhook: str) -> Response:
        limit, offset = query_page(request.query_params, 10, MAX_LIMIT, 10**9)
        page = webhooks.deliveries(self.user, webhook, limit=limit, offset=offset)
        return Response(documents.DELIVERY_LIST.of(page.rows, limit=limit, offset=offset, total=page.total))
