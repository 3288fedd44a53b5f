"""Security headers of every answer, unless its view sets them."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

#: Documents are for programs. A browser that shows one loads nothing, runs nothing, and cannot embed it in a page.
POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; sandbox"


class SecurityHeaders:
    """Middleware: no cache stores answers, and no content is active. Pages and their files set their own headers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self._get_response(request)
        answer.headers.setdefault("Content-Security-Policy", POLICY)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer
