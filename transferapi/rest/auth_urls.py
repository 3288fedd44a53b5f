"""The routes of Auth (OAuth2, OpenID Connect, identities), which need no prefix of their own."""

from __future__ import annotations

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
