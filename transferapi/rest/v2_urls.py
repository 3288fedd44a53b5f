"""The routes of the Transfer API below `/v2/`, which speak JSON:API."""

from __future__ import annotations

from django.urls import path

from . import bookmarks_v2, elsewhere

urlpatterns = [
    path("v2/bookmarks", bookmarks_v2.BookmarkList.as_view()),
    path("v2/bookmarks/<str:bookmark>", bookmarks_v2.BookmarkDetail.as_view()),
    path("v2/tunnels", elsewhere.Tunnels.as_view()),
    path("v2/tunnels/<str:tunnel>", elsewhere.Tunnel.as_view()),
    path("v2/tunnels/<str:tunnel>/events", elsewhere.TunnelEvents.as_view()),
    path("v2/stream_access_points", elsewhere.StreamAccessPoints.as_view()),
    path("v2/stream_access_points/<str:stream>", elsewhere.StreamAccessPoint.as_view()),
]
