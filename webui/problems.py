"""Pages of errors, and the refusal of changes in the maintenance mode: pages for people, documents for others."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.translation import gettext as _

from transferapi.outages.log_filter import is_told
from transferapi.rest import error_pages, other_services
from transferapi.rest.http import errors
from transferapi.rest.maintenance import refusal, refused
from transferapi.tasks import maintenance

from . import language
from .page import problem

log = logging.getLogger(__name__)

#: Routes below which a browser, too, gets the document.
API = ("/v0.10/", "/v2/", "/jobs", "/static/", "/shell")


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without the token of its session (CSRF_FAILURE_VIEW)."""
    language.activate(language.of(request))
    text = _("This form is too old, or did not come from us. Go back, load the page again, and try once more.")
    return problem(request, 403, _("Not done"), text)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404"""
    if not reads_pages(request):
        return other_services.answer(request) or error_pages.not_found_page(request, exception)
    language.activate(language.of(request))
    return problem(request, 404, _("There is no such page"), _("The address is wrong, or the page has moved."))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler403"""
    if not reads_pages(request):
        return error_pages.forbidden_page(request, exception)
    language.activate(language.of(request))
    return problem(request, 403, _("This is not for you"), _("You do not have permission to see this page."))


def failure(request: HttpRequest) -> HttpResponse:
    """handler500: the service failed, or its database is away. The page asks the database nothing."""
    if not reads_pages(request):
        return error_pages.server_error_page(request)
    name, cause = errors.request_id(request), sys.exc_info()[1]
    status, _code, _message = errors.meaning(cause if isinstance(cause, Exception) else Exception(), name)
    busy = status == 503
    if not is_told(cause):
        log.error("request %s: page %s: %d", name, request.path, status)
    request.user = AnonymousUser()
    language.activate(language.of(request))
    try:
        text = (
            _("It is busy, or it restarts. Try again in some seconds.")
            if busy
            else _("Try again. If it fails once more, give the operator of this service the request id: %(id)s.")
            % {"id": name}
        )
        answer = problem(request, 503 if busy else 500, _("The service failed"), text)
    finally:
        translation.deactivate()
    if busy:
        answer["Retry-After"] = str(errors.RETRY_AFTER)
    return answer


def reads_pages(request: HttpRequest) -> bool:
    """Whether a person reads the answer in a browser."""
    return "text/html" in request.headers.get("Accept", "") and not request.path.startswith(API)


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
