"""All routes of the web server."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path
from django.views.decorators.http import require_safe


@require_safe
def landing(request: HttpRequest) -> HttpResponse:
    """What this is, for people and programs that come to the front door."""
    return JsonResponse(
        {
            "service": "Waybill",
            "what": "moves research data between GridFTP endpoints; see the README for a first transfer",
            "api": "/v0.10/",
            "openapi": "/v0.10/openapi",
        }
    )


urlpatterns = [
    path("", landing),
    path("v0.10/", include("transferapi.rest.urls")),
]

handler400 = "transferapi.rest.errors.bad_request_page"
handler404 = "transferapi.rest.errors.not_found_page"
handler500 = "transferapi.rest.errors.server_error_page"
