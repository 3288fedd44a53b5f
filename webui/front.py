"""The first address: the front page for browsers, and the landing document of the API for programs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.cache import patch_vary_headers

from transferapi.rest.landing import Landing

from . import frame
from .page import show

_landing = Landing.as_view()


def front(request: HttpRequest) -> HttpResponse:
    is_for_reading = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")
    answer = _page(request) if is_for_reading else _landing(request)
    patch_vary_headers(answer, ["Accept"])
    return answer


def _page(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return HttpResponseRedirect(frame.first_page())
    return show(request, "front.html", {})
