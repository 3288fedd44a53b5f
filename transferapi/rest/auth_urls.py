"""The routes of Auth (OAuth2, OpenID Connect, identities), which need no prefix of their own."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import account, oauth_token

urlpatterns: list[URLPattern] = [
    path("v2/oauth2/token", oauth_token.token),
    # ---- what a user signs in with
    path("v2/api/tokens", account.ApiTokens.as_view()),
    path("v2/api/tokens/<str:token>", account.ApiTokenDetail.as_view()),
    path("v2/api/certificate_subjects", account.CertificateSubjects.as_view()),
    path("v2/api/certificate_subjects/<str:subject>", account.CertificateSubjectDetail.as_view()),
]
