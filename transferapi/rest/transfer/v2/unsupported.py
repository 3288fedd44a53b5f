"""Routes of products that this service does not have: subscriptions, tunnels, streams. All answer 501.

501: clients do not try again after it, and know that the service is at fault and not what they asked for.
"""

from __future__ import annotations

from typing import NoReturn

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import registry
from endpoints.permissions import Permission
from transferapi.rest.http.base import View
from transferapi.rest.http.errors import ApiError
from transferapi.rest.openapi import description

from .jsonapi import JsonApiView, operation


def _not_here(what: str) -> NoReturn:
    raise ApiError(501, "ServiceError.NotSupported", f"This service has no {what}")


class Subscription(View):
    @description.operation("Put an endpoint under a subscription: there are none", answer="error", status=501)
    def put(self, request: Request, endpoint: str) -> Response:
        registry.resolve(self.user, endpoint, Permission.MANAGE)
        _not_here("subscriptions")


class Tunnels(JsonApiView):
    @operation("List tunnels: there are none", answer="jsonapi_errors", status=501)
    def get(self, request: Request) -> Response:
        _not_here("tunnels")

    @operation("Make a tunnel: there are none", answer="jsonapi_errors", status=501)
    def post(self, request: Request) -> Response:
        _not_here("tunnels")


class TunnelDetail(JsonApiView):
    @operation("Show a tunnel: there are none", answer="jsonapi_errors", status=501)
    def get(self, request: Request, tunnel: str) -> Response:
        _not_here("tunnels")

    @operation("Change a tunnel: there are none", answer="jsonapi_errors", status=501)
    def patch(self, request: Request, tunnel: str) -> Response:
        _not_here("tunnels")

    @operation("Delete a tunnel: there are none", answer="jsonapi_errors", status=501)
    def delete(self, request: Request, tunnel: str) -> Response:
        _not_here("tunnels")


class TunnelEvents(JsonApiView):
    @operation("List the events of a tunnel: there are none", answer="jsonapi_errors", status=501)
    def get(self, request: Request, tunnel: str) -> Response:
        _not_here("tunnels")


class StreamAccessPoints(JsonApiView):
    @operation("List stream access points: there are none", answer="jsonapi_errors", status=501)
    def get(self, request: Request) -> Response:
        _not_here("stream access points")


class StreamAccessPoint(JsonApiView):
    @operation("Show a stream access point: there are none", answer="jsonapi_errors", status=501)
    def get(self, request: Request, stream: str) -> Response:
        _not_here("stream access points")
