"""The routes of Auth (OAuth2, OpenID Connect, identities), which need no prefix of their own."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import oauth_token

urlpatterns: list[URLPattern] = [
    path("v2/oauth2/token", oauth_token.token),
]
