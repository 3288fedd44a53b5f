"""What every answer says to browsers that come upon it, unless its view says otherwise."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

#: Documents are for programs: shown by a browser they load nothing, run nothing, and are no part of another page.
POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; sandbox"


class ConfinedAnswers:
    """Middleware: caches keep nothing, and nothing is active content. Pages and their files have rules of their own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self._get_response(request)
        answer.headers.setdefault("Content-Security-Policy", POLICY)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer
