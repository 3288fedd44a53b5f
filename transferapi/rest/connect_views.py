"""Agents over REST. The first three routes are open: the agent has no account, and proves itself by what it sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints.connect import setup, setup_keys
from endpoints.connect.presence import presence_of
from endpoints.connect.program import program
from endpoints.connect.setup import AgentVersion
from identity.hidden import Secret
from identity.networks import is_loopback
from transferapi.config.values import host_and_port

from . import connect_documents
from .http.base import View, result
from .openapi import description


class _OpenView(View):
    """Open to everybody; counted by address, like a failed sign-in."""

    authentication_classes = ()
    permission_classes = ()
    cost = 5
    max_body = 64 << 10


class SetUp(_OpenView):
    @description.operation(
        "Exchange a setup key for the certificate of an agent", body="agent_setup", answer="agent_certificate"
    )
    @sensitive_variables()
    def post(self, request: Request) -> Response:
        given = connect_documents.SETUP_REQUEST.read(request.data)
        issued = setup.set_up(Secret(given["secret"]), given["request"], _program(given))
        return Response(connect_documents.CERTIFICATE.document(issued))


class Renew(_OpenView):
    @description.operation("Renew the certificate of an agent", body="agent_renewal", answer="agent_certificate")
    def post(self, request: Request) -> Response:
        given = connect_documents.RENEW_REQUEST.read(request.data)
        issued = setup.renew(given["chain"], given["signature"], _program(given))
        return Response(connect_documents.CERTIFICATE.document(issued))


class Version(_OpenView):
    cost = 1

    @description.operation("The program of agents that this service offers", answer="agent_program")
    def get(self, request: Request) -> Response:
        return Response(connect_documents.PROGRAM.document(program()))


class RelayRedirect(_OpenView):
    """The tunnel of an agent ends at the relay, to which a server in front passes this path."""

    cost = 1

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        relay = settings.CONFIG.relay
        if not is_loopback(relay.host):
            text = "The server in front of this service must pass this path to the relay.\n"
            return HttpResponse(text, status=503, content_type="text/plain", headers={"Retry-After": "5"})
        location = f"http://{host_and_port(relay.host, relay.port)}{request.path}"
        return HttpResponse(status=307, headers={"Location": location})


class NewSetupKey(View):
    @description.operation("Make a setup key for a personal endpoint", answer="setup_key_create_result", status=201)
    @sensitive_variables()
    def post(self, request: Request, endpoint: str) -> Response:
        key = setup_keys.new_key(self.user, endpoint)
        return connect_documents.SETUP_KEY_CREATED.answer(
            request, globus_connect_setup_key=key.text.value, expire_time=key.expires_at.isoformat()
        )


class AgentDetail(View):
    @description.operation("Show the agent of a personal endpoint", answer="agent")
    def get(self, request: Request, endpoint: str) -> Response:
        found = setup.agent_of_endpoint(self.user, endpoint)
        shown = connect_documents.ShownAgent(found, presence_of([found.endpoint_id])[found.endpoint_id])
        return Response(connect_documents.AGENT.document(shown))

    @description.operation("Revoke the agent of a personal endpoint", answer="result")
    def delete(self, request: Request, endpoint: str) -> Response:
        found = setup.revoke(self.user, endpoint)
        return result(request, "Deleted", "The agent is refused from now on", id=str(found.pk))


def _program(given: Mapping[str, Any]) -> AgentVersion:
    return AgentVersion(given["version"] or "", given["platform"] or "")


E = "v0.10/endpoint/<str:endpoint>"

urlpatterns: list[URLPattern] = [
    path("connect/setup", SetUp.as_view()),
    path("connect/renew", Renew.as_view()),
    path("connect/version", Version.as_view()),
    path("connect/tunnel", RelayRedirect.as_view()),
    path(f"{E}/setup_key", NewSetupKey.as_view()),
    path(f"{E}/agent", AgentDetail.as_view()),
]
