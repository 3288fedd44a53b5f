"""The routes of agents."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import views

E = "v0.10/endpoint/<str:endpoint>"

urlpatterns: list[URLPattern] = [
    path("connect/setup", views.SetUp.as_view()),
    path("connect/renew", views.Renew.as_view()),
    path("connect/version", views.Version.as_view()),
    path(f"{E}/setup_key", views.NewSetupKey.as_view()),
    path(f"{E}/agent", views.AgentDetail.as_view()),
]
