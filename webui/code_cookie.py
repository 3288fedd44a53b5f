"""The code of a link by mail leaves the address of the page at once: it goes into a cookie of the pages for it."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect

from identity import link_codes


def keep(code: str, cookie: str, seconds: int, after: str, path: str) -> HttpResponse:
    """Go to the page `after`; the cookie is sent below `path` only."""
    answer = HttpResponseRedirect(after)
    if link_codes.is_possible(code):
        answer.set_cookie(
            cookie, code, seconds, path=path, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax"
        )
    answer["Referrer-Policy"] = "no-referrer"
    answer["Cache-Control"] = "no-store"
    return answer
