"""Cookies of the pages. No script reads them, and no form of another site sends them."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect

from identity import link_codes


def keep(answer: HttpResponse, name: str, value: str, seconds: int, path: str = "/") -> None:
    """Let the browser keep a value for so long. It is sent below `path` only."""
    answer.set_cookie(
        name, value, max_age=seconds, path=path, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax"
    )


def keep_code(code: str, name: str, seconds: int, after: str, path: str) -> HttpResponse:
    """Go to the page `after`: the code of a link by mail leaves the address of the page at once."""
    answer = HttpResponseRedirect(after)
    if link_codes.is_possible(code):
        keep(answer, name, code, seconds, path)
    answer["Referrer-Policy"] = "no-referrer"
    answer["Cache-Control"] = "no-store"
    return answer
