"""The routes of the Transfer API below `/v2/`, which speak JSON:API."""

from __future__ import annotations

from django.urls import path

from . import bookmarks, unsupported

urlpatterns = [
    path("v2/bookmarks", bookmarks.JsonApiBookmarkList.as_view()),
    path("v2/bookmarks/<str:bookmark>", bookmarks.JsonApiBookmarkDetail.as_view()),
    path("v2/tunnels", unsupported.Tunnels.as_view()),
    path("v2/tunnels/<str:tunnel>", unsupported.TunnelDetail.as_view()),
    path("v2/tunnels/<str:tunnel>/events", unsupported.TunnelEvents.as_view()),
    path("v2/stream_access_points", unsupported.StreamAccessPoints.as_view()),
    path("v2/stream_access_points/<str:stream>", unsupported.StreamAccessPoint.as_view()),
]
