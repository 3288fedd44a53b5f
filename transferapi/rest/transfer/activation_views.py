"""Activation: give a credential for an endpoint, show its status, take it back."""

from __future__ import annotations

from collections.abc import Iterator

from django.views.decorators.debug import sensitive_variables
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints.activation import services
from endpoints.activation.forms import GivenField
from endpoints.activation.services import ActivationResult
from transferapi.rest.http.base import View, result
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.http.parsing import Document, query_number
from transferapi.rest.openapi import description

from . import activation_documents

MAX_ROWS = 100
#: A century, in seconds.
MAX_SECONDS = 100 * 365 * 86400


def _answer(request: Request, outcome: ActivationResult) -> Response:
    return result(request, outcome.code, outcome.message, **activation_documents.outcome(outcome))


@sensitive_variables()
def _given(document: Document) -> Iterator[GivenField]:
    for number, row in enumerate(document.documents("DATA", "activation_requirement")):
        if number >= MAX_ROWS:
            raise BadRequest(f"DATA: expected at most {MAX_ROWS} requirements")
        yield GivenField(**activation_documents.GIVEN_REQUIREMENT.values(row))


class RequirementsView(View):
    @description.operation("Show what an endpoint requires to be activated", answer="activation_requirements")
    def get(self, request: Request, endpoint: str) -> Response:
        found = services.requirements(self.user, endpoint)
        more = activation_documents.place(found.endpoint, found.activation_status, found.rows)
        more["auto_activation_supported"] = services.shares(found.endpoint)
        return Response({"DATA_TYPE": "activation_requirements", **more})


class AutoActivate(View):
    @description.operation(
        "Activate an endpoint with a credential that is there", answer="activation_result", query="if_expires_in"
    )
    def post(self, request: Request, endpoint: str) -> Response:
        seconds = query_number(request.query_params, "if_expires_in", None, most=MAX_SECONDS)
        return _answer(request, services.autoactivate(self.user, endpoint, seconds))


class Activate(View):
    @description.operation("Activate an endpoint", body="activation_requirements", answer="activation_result")
    def post(self, request: Request, endpoint: str) -> Response:
        given = _given(activation_documents.GIVEN_REQUIREMENTS.open(request.data))
        return _answer(request, services.activate(self.user, endpoint, given))


class Deactivate(View):
    @description.operation("Forget the credential for an endpoint", answer="activation_result")
    def post(self, request: Request, endpoint: str) -> Response:
        return _answer(request, services.deactivate(self.user, endpoint))
