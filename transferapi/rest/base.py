"""What all views share: authentication, JSON and XML both ways, and the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

from . import fairness, streaming
from .auth import BearerAuthentication, CertificateAuthentication, HasScope, SessionAuthentication
from .errors import TooManyRequests, request_id, resource
from .formats import RENDERERS, Negotiation, TextXMLParser, XMLParser
from .front import address_of
from .parsing import MAX_BODY, StrictJSONParser


class View(APIView):
    """A resource of the API for signed-in users."""

    authentication_classes: Sequence[type[BaseAuthentication]] = (
        BearerAuthentication,
        SessionAuthentication,
        CertificateAuthentication,
    )
    permission_classes: Sequence[type[BasePermission]] = (IsAuthenticated, HasScope)
    #: What a token must be good for.
    scope = scopes.TRANSFER_ALL
    #: Octets of a body.
    max_body = MAX_BODY
    #: What a request costs of its user's fair share (`fairness`).
    cost = 1
    parser_classes: Sequence[type[BaseParser]] = (StrictJSONParser, XMLParser, TextXMLParser)
    renderer_classes: Sequence[type[BaseRenderer]] = RENDERERS
    content_negotiation_class: type[DefaultContentNegotiation] = Negotiation

    def perform_authentication(self, request: Request) -> None:
        """Who asks, and whether he has not asked too often: before anything of the body is read."""
        try:
            super().perform_authentication(request)
        except exceptions.AuthenticationFailed:
            self._count(request, None)
            raise
        belongs_to = request._request.META.get("waybill.belongs_to")
        if belongs_to and isinstance(request.user, User):
            # What waits in our web server is bounded by users (deploy/stack/web.py).
            belongs_to(request.user.pk)
        self._count(request, request.user)

    def _count(self, request: Request, user: Any) -> None:
        """Raises TooManyRequests."""
        # Our web server calls the application again with a long body that it has asked for (deploy/stack/web.py).
        if request._request.META.get("waybill.again"):
            return
        self._taken = fairness.take(user and user.pk, address_of(request._request), self.cost)
        if self._taken and self._taken.wait:
            raise TooManyRequests("You ask too often; wait a little", self._taken.wait)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        taken: fairness.Taken | None = getattr(self, "_taken", None)
        if taken:
            answer["X-RateLimit-Limit"] = str(taken.limit)
            answer["X-RateLimit-Remaining"] = str(taken.left)
        return answer

    @property
    def user(self) -> User:
        return cast(User, self.request.user)


class LargeBodies(View):
    """Takes bodies of more than `streaming.LARGE` octets, one at a time; what was read goes with the answer."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with ExitStack() as self._turn:
            try:
                return super().dispatch(request, *args, **kwargs)
            finally:
                self._forget()

    def wait_for_turn(self, octets: int) -> None:
        """Called by a parser when it has a body of so many octets. Raises TooManyRequests, ApiError (503)."""
        if octets > streaming.LARGE:
            self._turn.enter_context(streaming.turns.turn(self.user.pk))

    def _forget(self) -> None:
        """Views and requests refer to each other: without this the items would stay until the collector comes by."""
        data = getattr(self.request, "_full_data", None)
        if type(data) is dict:
            data.clear()


def result(request: Request, code: str, message: str, **more: Any) -> Response:
    """The `result` document: something was done."""
    body = {
        "DATA_TYPE": "result",
        "code": code,
        "message": message,
        "request_id": request_id(request),
        "resource": resource(request),
        **more,
    }
    return Response(body)


def listing(data_type: str, data: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A list document."""
    return {"DATA_TYPE": data_type, "length": len(data), **more, "DATA": data}


def created(request: Request, data_type: str, message: str, status: int, more: Mapping[str, Any]) -> Response:
    """Something was made (201) or accepted (202)."""
    body = {"DATA_TYPE": data_type, "code": "Created", "message": message, **more}
    body |= {"request_id": request_id(request), "resource": resource(request)}
    return Response(body, status=status)
