"""Activation: give a credential for an endpoint, see how one stands there, take it back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.views.decorators.debug import sensitive_variables
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import activating
from endpoints.activating import Outcome
from endpoints.activation import Standing
from endpoints.forms import Given, Requirement
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.hidden import Secret

from . import documents, schemas
from .base import View, result
from .errors import BadRequest
from .parsing import Document, query_number

MAX_ROWS = 100
#: A century, in seconds.
MAX_SECONDS = 100 * 365 * 86400


def _requirement(row: Requirement) -> dict[str, Any]:
    """A row that is private has no value of ours, and never shows one."""
    return {
        "DATA_TYPE": "activation_requirement",
        "type": str(row.form),
        "name": row.name,
        "ui_name": row.ui_name,
        "description": row.description,
        "value": None if row.private else row.value,
        "required": row.required,
        "private": row.private,
    }


def _place(endpoint: Endpoint, standing: Standing, rows: tuple[Requirement, ...]) -> dict[str, Any]:
    data = [_requirement(row) for row in rows]
    return {
        "endpoint": canonical_name(endpoint),
        **documents.standing(standing, datetime.now(UTC)),
        "oauth_server": endpoint.oauth_server or None,
        "length": len(data),
        "DATA": data,
    }


def _answer(request: Request, outcome: Outcome) -> Response:
    more = _place(outcome.endpoint, outcome.standing, outcome.rows)
    # Of a shared endpoint it is its owner's credential, and nobody else's business whom that is for.
    known = outcome.standing.held if outcome.endpoint.host_id is None else None
    subject = known.subject if known else None
    more |= {"DATA_TYPE": "activation_result", "subject": subject}
    return result(request, outcome.code, outcome.message, **more)


@sensitive_variables()
def _given(document: Document) -> Iterator[Given]:
    for number, row in enumerate(document.documents("DATA", "activation_requirement")):
        if number >= MAX_ROWS:
            raise BadRequest(f"DATA: at most {MAX_ROWS} requirements are wanted here")
        yield Given(row.required_text("type"), row.required_text("name"), _secret(row.text_or_number("value")))


@sensitive_variables()
def _secret(value: str | None) -> Secret | None:
    return None if value is None else Secret(value)


class Requirements(View):
    @schemas.operation("Show what an endpoint wants to be activated", answer="activation_requirements")
    def get(self, request: Request, endpoint: str) -> Response:
        found = activating.requirements(self.user, endpoint)
        more = _place(found.endpoint, found.standing, found.rows)
        more["auto_activation_supported"] = activating.shares(found.endpoint)
        return Response({"DATA_TYPE": "activation_requirements", **more})


class AutoActivate(View):
    @schemas.operation(
        "Activate an endpoint with a credential that is there", answer="activation_result", query=["if_expires_in"]
    )
    def post(self, request: Request, endpoint: str) -> Response:
        seconds = query_number(request.query_params.get("if_expires_in"), "if_expires_in", None, most=MAX_SECONDS)
        return _answer(request, activating.autoactivate(self.user, endpoint, seconds))


class Activate(View):
    @schemas.operation("Activate an endpoint", body="activation_requirements", answer="activation_result")
    def post(self, request: Request, endpoint: str) -> Response:
        given = _given(Document(request.data, "activation_requirements"))
        return _answer(request, activating.activate(self.user, endpoint, given))


class Deactivate(View):
    @schemas.operation("Forget the credential for an endpoint", answer="activation_result")
    def post(self, request: Request, endpoint: str) -> Response:
        return _answer(request, activating.deactivate(self.user, endpoint))
