"""The routes of the Groups API, below `/v2/`."""

from __future__ import annotations

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
