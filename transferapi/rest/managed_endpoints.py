"""Endpoints, as those see them who run them (`endpoint_manager`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import overseeing, roles
from endpoints.models import Endpoint

from . import documents_sharing, schemas
from .base import View, listing


class MonitoredEndpoints(View):
    @schemas.operation("List the endpoints you run", answer="endpoint_list", query=["fields"])
    def get(self, request: Request) -> Response:
        return Response(_list(self, request, overseeing.monitored(self.user)))


class ManagedEndpoint(View):
    @schemas.operation("Show an endpoint you run", answer="endpoint", query=["fields"])
    def get(self, request: Request, endpoint: str) -> Response:
        row = overseeing.get(self.user, endpoint)
        [document] = documents_sharing.endpoints(self.user, [row], request.query_params.get("fields"))
        return Response(document)


class HostedEndpointList(View):
    @schemas.operation("List what is shared of an endpoint you run", answer="endpoint_list", query=["fields"])
    def get(self, request: Request, endpoint: str) -> Response:
        return Response(_list(self, request, overseeing.hosted(self.user, endpoint)))


class ManagedAccessList(View):
    @schemas.operation("List the access rules of a shared endpoint you run", answer="access_list")
    def get(self, request: Request, endpoint: str) -> Response:
        share, rows = overseeing.access(self.user, endpoint)
        found = [documents_sharing.access_by_role(row) for row in roles.managing_access(share)]
        found += [documents_sharing.access_overseen(row) for row in rows]
        return Response(listing("access_list", found, endpoint=str(share.pk)))


def _list(view: View, request: Request, rows: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole of it, in the form of a page."""
    found = documents_sharing.endpoints(view.user, rows, request.query_params.get("fields"))
    return listing("endpoint_list", found, limit=len(found), offset=0, has_next_page=False)
