"""Endpoints as their managers see them (`endpoint_manager`)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import managed_endpoints
from transferapi.rest.http.base import View
from transferapi.rest.openapi import description
from transferapi.rest.transfer.endpoints.documents import endpoint_list, endpoints
from transferapi.rest.transfer.sharing.documents import access_list, access_overseen


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
