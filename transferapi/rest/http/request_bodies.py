"""Bodies of requests before a view reads them: their length is known, and a front server asks whether to read one.

Threads of the web server read bodies, so a server in front reads them first. It keeps a long one, on its disk, only for
a user that may send it: nginx asks `LongBodies` by the head of the request (`auth_request` in deploy/front).
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints.error_meanings import ApiError
from transferapi.rest.metrics.shared_counts import COUNTS
from transferapi.rest.middleware import Middleware

from . import parsing
from .base import View
from .content_negotiation import FirstRenderer
from .errors import answer

#: Headers of a refusal for the front server, which sends them as its own answer: status, and document.
STATUS, DOCUMENT = "X-Waybill-Refusal-Status", "X-Waybill-Refusal"


class KnownLengths(Middleware):
    """Refuses bodies without a Content-Length (411), which Django takes for empty ones (RFC 9110 section 15.5.12)."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "HTTP_TRANSFER_ENCODING" in request.META:
            refusal = ApiError(411, "ClientError.LengthRequired", "A request with a body needs a Content-Length")
            status, headers, document = answer(refusal, request)
            COUNTS.refused(str(status))
            return JsonResponse(document, status=status, headers=headers)
        return self._get_response(request)


class LongBodies(View):
    """204: this user may send `length` octets to `resource`. Else 401 or 403, with headers for the server in front."""

    content_negotiation_class = FirstRenderer

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        # The document of a refusal names the resource that the client has asked for.
        request.path = unquote(request.GET.get("resource", ""))[:200] or request.path
        return super().dispatch(request, *args, **kwargs)

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """Raises RequestTooLarge, ApiError."""
        length = request.query_params.get("length", "")
        if not (length.isascii() and length.isdecimal()):
            raise ApiError(411, "ClientError.LengthRequired", "A request with a body needs a Content-Length")
        most = parsing.longest_body(_view_of(request.path))
        if len(length) > 18 or int(length) > most:
            raise parsing.too_long(most)
        return HttpResponse(status=204)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        made = super().finalize_response(request, response, *args, **kwargs)
        if request.method == "GET" and made.status_code >= 400 and isinstance(made, Response):
            COUNTS.refused(str(made.status_code))
            made[STATUS], made[DOCUMENT] = str(made.status_code), json.dumps(made.data)
            # nginx takes any other status for a failure of its own.
            made.status_code = 401 if made.status_code == 401 else 403
        return made


def _view_of(path: str) -> Any:
    """The view of a path of the API. Raises ApiError where there is none."""
    try:
        found = getattr(resolve(path).func, "cls", None)
    except Resolver404:
        found = None
    if not (isinstance(found, type) and issubclass(found, View)):
        raise ApiError(404, "ClientError.NotFound", "There is no such resource in this API")
    return found
