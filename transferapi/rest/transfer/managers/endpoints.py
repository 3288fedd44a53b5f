"""Endpoints as their managers see them (`endpoint_manager`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import managed_endpoints
from endpoints.models import Endpoint
from endpoints.sharing import roles
from transferapi.rest.http.base import View, listing
from transferapi.rest.openapi import description
from transferapi.rest.transfer.endpoints.documents import endpoints
from transferapi.rest.transfer.sharing.documents import access_by_role, access_overseen


class MonitoredEndpoints(View):
    @description.operation("List the endpoints you run", answer="endpoint_list", query=["fields"])
    def get(self, request: Request) -> Response:
        return Response(_list(self, request, managed_endpoints.monitored(self.user)))


class ManagedEndpoint(View):
    @description.operation("Show an endpoint you run", answer="endpoint", query=["fields"])
    def get(self, request: Request, endpoint: str) -> Response:
        row = managed_endpoints.get(self.user, endpoint)
        [document] = endpoints(self.user, [row], request.query_params.get("fields"))
        return Response(document)


class HostedEndpointList(View):
    @description.operation("List what is shared of an endpoint you run", answer="endpoint_list", query=["fields"])
    def get(self, request: Request, endpoint: str) -> Response:
        return Response(_list(self, request, managed_endpoints.shares_on(self.user, endpoint)))


class ManagedAccessList(View):
    @description.operation("List the access rules of a shared endpoint you run", answer="access_list")
    def get(self, request: Request, endpoint: str) -> Response:
        share, rows = managed_endpoints.access_rules(self.user, endpoint)
        found = [access_by_role(row) for row in roles.managing_access(share)]
        found += [access_overseen(row) for row in rows]
        return Response(listing("access_list", found, endpoint=str(share.pk)))


def _list(view: View, request: Request, rows: Sequence[Endpoint]) -> dict[str, Any]:
    """All rows, in the form of one page."""
    found = endpoints(view.user, rows, request.query_params.get("fields"))
    return listing("endpoint_list", found, limit=len(found), offset=0, has_next_page=False)
