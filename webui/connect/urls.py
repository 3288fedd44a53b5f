"""The routes of the pages of agents."""

from __future__ import annotations

from django.urls import URLPattern, path

from endpoints.connect.program import NAME

from . import views

urlpatterns: list[URLPattern] = [
    path("connect", views.about),
    path(f"connect/{NAME}", views.download),
    path("endpoints/connect", views.new),
    path("endpoints/<uuid:ref>/setup-key", views.new_key),
    path("endpoints/<uuid:ref>/revoke-agent", views.revoke),
]
