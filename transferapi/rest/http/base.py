"""The base of all views: authentication, JSON and XML both ways, and errors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, cast

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from identity.models import User
from identity.provider import scopes

from . import long_bodies, rate_limit
from .authentication import BearerAuthentication, CertificateAuthentication, HasScope, SessionAuthentication
from .content_negotiation import RENDERERS, Negotiation, TextXMLParser, XMLParser
from .errors import request_id, resource
from .parsing import MAX_BODY, StrictJSONParser
from .trusted_proxies import address_of


class View(APIView):
    """A resource of the API for signed-in users."""

    authentication_classes: Sequence[type[BaseAuthentication]] = (
        BearerAuthentication,
        SessionAuthentication,
        CertificateAuthentication,
    )
    permission_classes: Sequence[type[BasePermission]] = (IsAuthenticated, HasScope)
    #: The scope that a token needs.
    scope = scopes.TRANSFER_ALL
    #: The most octets of a body.
    max_body = MAX_BODY
    #: The cost of a request in the rate limit of its user (`rate_limit`).
    cost = 1
    parser_classes: Sequence[type[BaseParser]] = (StrictJSONParser, XMLParser, TextXMLParser)
    renderer_classes: Sequence[type[BaseRenderer]] = RENDERERS
    content_negotiation_class: type[DefaultContentNegotiation] = Negotiation

    def perform_authentication(self, request: Request) -> None:
        """Authenticate the request and check the rate limit, before any part of the body is read."""
        try:
            super().perform_authentication(request)
        except exceptions.AuthenticationFailed:
            self._count(request, None)
            raise
        self._count(request, request.user)

    def _count(self, request: Request, user: Any) -> None:
        """Raises TooManyRequests."""
        self._taken = rate_limit.take(user and user.pk, address_of(request._request), self.cost)
        rate_limit.check(self._taken)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        taken: rate_limit.Taken | None = getattr(self, "_taken", None)
        if taken:
            answer["X-RateLimit-Limit"] = str(taken.limit)
            answer["X-RateLimit-Remaining"] = str(taken.left)
        return answer

    @property
    def user(self) -> User:
        return cast(User, self.request.user)


class LargeBodies(View):
    """Reads bodies of more than `long_bodies.LARGE` octets, one at a time; the items are freed after the answer."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with ExitStack() as self._turn:
            try:
                return super().dispatch(request, *args, **kwargs)
            finally:
                self._forget()

    def wait_for_turn(self, octets: int) -> None:
        """A parser calls this with the length of a body in octets. Raises TooManyRequests, Unavailable."""
        if octets > long_bodies.LARGE:
            self._turn.enter_context(long_bodies.turns.turn(self.user.pk))

    def _forget(self) -> None:
        """Free the items now: views and requests refer to each other, so only the garbage collector would free them."""
        data = getattr(self.request, "_full_data", None)
        if type(data) is dict:
            data.clear()


def result(request: Request, code: str, message: str, status: int = 200, **more: Any) -> Response:
    """A `result` document: an action was done. more: further fields, and a DATA_TYPE that differs."""
    body = {
        "DATA_TYPE": "result",
        "code": code,
        "message": message,
        "request_id": request_id(request),
        "resource": resource(request),
        **more,
    }
    return Response(body, status=status)
