"""In the maintenance mode a change is refused with the operator's message: a page for people, a document for others."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from transferapi.rest.maintenance import refusal, refused
from transferapi.tasks import maintenance

from . import language
from .page import problem
from .problems import reads_pages

_READING = ("GET", "HEAD", "OPTIONS", "TRACE")
#: Routes that change no data of users, although they are no GET: signing in and out, tokens, how pages look, checks,
#: activation with a credential that is there, renewed certificates of agents. The shell and SCIM look by themselves.
_ALLOWED = re.compile(
    r"/(signin(?!/certificate/account\Z)|saml|oauth/callback|v2/oauth2|scim)(/|\Z)"
    r"|/(signout|preferences|shell|connect/renew)\Z"
    r"|/v0\.10/(transfer|delete)/check\Z|/v0\.10/endpoint/[^/]+/autoactivate\Z"
)


class MaintenanceMiddleware:
    """Behind the middleware that knows the user and the language."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._get_response(request)

    def process_view(self, request: HttpRequest, *_: object) -> HttpResponse | None:
        if request.method in _READING or (notice := maintenance.current()) is None:
            return None
        if _ALLOWED.match(request.path) and not _links(request):
            return None
        return _in_maintenance(request, notice.sentence)


def _links(request: HttpRequest) -> bool:
    """Whether the form of a sign-in begins to link another identity."""
    return request.path.startswith("/signin/") and "link" in request.POST


def _in_maintenance(request: HttpRequest, sentence: str) -> HttpResponse:
    if not reads_pages(request):
        return refusal(request, sentence)
    language.activate(language.of(request))
    return refused(problem(request, 503, _("Maintenance"), sentence))
