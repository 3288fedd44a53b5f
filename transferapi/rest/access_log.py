"""One log line for each request: its method, route, status, time, client and user.

It names the route (`/task/<uuid:task>/cancel`) in place of the path, and no query: paths and queries may hold the
secrets of one-time links and sign-ins.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch

from identity.models import User
from transferapi.logs import context

from .http.errors import request_id
from .http.trusted_proxies import address_of
from .middleware import Middleware

log = logging.getLogger("waybill.access")

#: Parts of paths that name something which operators search for.
_NAMED = ("task", "endpoint")


class AccessLog(Middleware):
    """Middleware, directly after `TrustedProxies`. The time of an answer that streams is that until its begin."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = time.monotonic()
        with context.bound(request=request_id(request), client=address_of(request)):
            answer = self._get_response(request)
            context.add(**_facts(request))
            taken = 1000 * (time.monotonic() - began)
            log.info("%s %s %d in %.0f ms", request.method, route_of(request), answer.status_code, taken)
        return answer


def route_of(request: HttpRequest) -> str:
    """The route; one that is a regular expression without its ends."""
    return route_of_match(request.resolver_match)


def route_of_match(found: ResolverMatch | None) -> str:
    """The same of what Django has resolved."""
    route = found.route.removeprefix("^").removesuffix(r"\Z") if found else ""
    return f"/{route}" if found else "(no such route)"


def _facts(request: HttpRequest) -> dict[str, Any]:
    """The user, if the request was authenticated, without a query; and what the path names."""
    user = vars(request).get("_cached_user") or vars(request).get("user")
    facts = {"user": user.username} if type(user) is User and user.username else {}
    found = request.resolver_match
    given = found.kwargs if found else {}
    return facts | {name: given[name] for name in _NAMED if name in given}
