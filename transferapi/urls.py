"""All routes of the web server."""

from __future__ import annotations

from django.urls import include, path, re_path

from transferapi.rest.landing import Landing
from transferapi.rest.oauth_callback import oauth_callback

urlpatterns = [
    path("", Landing.as_view()),
    re_path(r"^oauth/callback(?:/(?P<place>[0-9a-f]{16}))?\Z", oauth_callback),
    path("v0.10/", include("transferapi.rest.urls")),
    path("", include("transferapi.rest.auth_urls")),
    path("", include("transferapi.rest.v2_urls")),
    path("", include("transferapi.rest.groups_urls")),
    path("", include("transferapi.rest.timers_urls")),
    path("", include("webui.urls")),
]

handler400 = "transferapi.rest.errors.bad_request_page"
handler404 = "transferapi.rest.errors.not_found_page"
handler500 = "transferapi.rest.errors.server_error_page"
