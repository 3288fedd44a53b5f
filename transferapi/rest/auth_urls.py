"""The routes of Auth (OAuth2, OpenID Connect, identities), which need no prefix of their own."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import account, oauth_clients, oauth_identities, oauth_token, oidc

C = "v2/api/clients/<str:client>"
IDENTITIES = "v2/api/identities"

urlpatterns: list[URLPattern] = [
    path(".well-known/openid-configuration", oidc.configuration),
    path(".well-known/oauth-authorization-server", oidc.configuration),
    path("jwk.json", oidc.keys),
    path("v2/oauth2/token", oauth_token.token),
    # ---- what a user signs in with
    path("v2/api/tokens", account.ApiTokens.as_view()),
    path("v2/api/tokens/<str:token>", account.ApiTokenDetail.as_view()),
    path("v2/api/certificate_subjects", account.CertificateSubjects.as_view()),
    path("v2/api/certificate_subjects/<str:subject>", account.CertificateSubjectDetail.as_view()),
    path("v2/oauth2/token/revoke", oauth_token.revoke),
    path("v2/oauth2/token/introspect", oauth_token.introspect),
    path("v2/oauth2/token/validate", oauth_token.validate),
    path("v2/oauth2/userinfo", oauth_identities.Userinfo.as_view()),
    path(IDENTITIES, oauth_identities.IdentityList.as_view()),
    path(f"{IDENTITIES}/<str:identity>", oauth_identities.IdentityDetail.as_view()),
    path(f"{IDENTITIES}/<str:identity>/consents", oauth_identities.Consents.as_view()),
    path("v2/api/identity_providers", oauth_identities.IdentityProviders.as_view()),
    path("v2/api/clients", oauth_clients.ClientList.as_view()),
    path(C, oauth_clients.ClientDetail.as_view()),
    path(f"{C}/credentials", oauth_clients.CredentialList.as_view()),
    path(f"{C}/credentials/<str:credential>", oauth_clients.CredentialDetail.as_view()),
]
