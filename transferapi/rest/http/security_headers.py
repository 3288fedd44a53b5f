"""Security headers of every answer, unless its view sets them."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from transferapi.rest.middleware import Middleware

#: Documents are for programs. A browser that shows one loads nothing, runs nothing, and cannot embed it in a page.
POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; sandbox"


class SecurityHeaders(Middleware):
    """Middleware: no cache stores answers, and no content is active. Pages and their files set their own headers."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self._get_response(request)
        answer.headers.setdefault("Content-Security-Policy", POLICY)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer
