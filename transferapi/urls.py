"""All routes of the web server."""

from __future__ import annotations

from django.urls import include, path, re_path

from webui.front import front

from .rest.auth.endpoint_callback import oauth_callback
from .shell.https import ShellView

urlpatterns = [
    path("", front),
    re_path(r"^oauth/callback(?:/(?P<place>[0-9a-f]{16}))?\Z", oauth_callback),
    path("shell", ShellView.as_view()),
    path("v0.10/", include("transferapi.rest.transfer.urls")),
    path("", include("transferapi.rest.auth.urls")),
    path("", include("transferapi.rest.admin_views")),
    path("", include("transferapi.rest.scim.views")),
    path("", include("transferapi.rest.transfer.v2")),
    path("", include("transferapi.rest.group_views")),
    path("", include("transferapi.rest.timer_views")),
    path("", include("transferapi.rest.connect_views")),
    path("", include("webui.urls")),
]

handler400 = "transferapi.rest.error_pages.bad_request_page"
handler403 = "webui.problems.forbidden"
handler404 = "webui.problems.not_found"
handler500 = "webui.problems.failure"
