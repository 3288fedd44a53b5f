"""Routes of products that this service does not have: subscriptions, tunnels, streams. All answer 501.

501: clients do not try again after it, and know that the service is at fault and not what they asked for.
"""

from __future__ import annotations

from collections.abc import Callable
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


def _refusal(summary: str, what: str) -> Callable[..., Response]:
    """A method of a view."""

    @operation(f"{summary}: there are none", answer="jsonapi_errors", status=501)
    def refuse(view: JsonApiView, request: Request, **in_path: str) -> Response:
        _not_here(what)

    return refuse


class Subscription(View):
    @description.operation("Put an endpoint under a subscription: there are none", answer="error", status=501)
    def put(self, request: Request, endpoint: str) -> Response:
        registry.resolve(self.user, endpoint, Permission.MANAGE)
        _not_here("subscriptions")


class Tunnels(JsonApiView):
    get = _refusal("List tunnels", "tunnels")
    post = _refusal("Make a tunnel", "tunnels")


class TunnelDetail(JsonApiView):
    get = _refusal("Show a tunnel", "tunnels")
    patch = _refusal("Change a tunnel", "tunnels")
    delete = _refusal("Delete a tunnel", "tunnels")


class TunnelEvents(JsonApiView):
    get = _refusal("List the events of a tunnel", "tunnels")


class StreamAccessPoints(JsonApiView):
    get = _refusal("List stream access points", "stream access points")


class StreamAccessPoint(JsonApiView):
    get = _refusal("Show a stream access point", "stream access points")
