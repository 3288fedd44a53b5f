"""The routes of Auth (OAuth2, OpenID Connect, identities), which need no prefix of their own."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import account, clients, discovery, identities, tokens

C = "v2/api/clients/<str:client>"
IDENTITIES = "v2/api/identities"

urlpatterns: list[URLPattern] = [
    path(".well-known/openid-configuration", discovery.configuration),
    path(".well-known/oauth-authorization-server", discovery.configuration),
    path("jwk.json", discovery.keys),
    path("v2/oauth2/token", tokens.token),
    # ---- what a user signs in with
    path("v2/api/tokens", account.ApiTokens.as_view()),
    path("v2/api/tokens/<str:token>", account.ApiTokenDetail.as_view()),
    path("v2/api/certificate_subjects", account.CertificateSubjects.as_view()),
    path("v2/api/certificate_subjects/<str:subject>", account.CertificateSubjectDetail.as_view()),
    path("v2/api/linked_identities", account.LinkedIdentities.as_view()),
    path("v2/api/linked_identities/<str:identity>", account.LinkedIdentityDetail.as_view()),
    path("v2/api/ssh_keys", account.SshKeys.as_view()),
    path("v2/api/ssh_keys/<path:key>", account.SshKeyDetail.as_view()),
    path("v2/api/passkeys", account.Passkeys.as_view()),
    path("v2/api/passkeys/<str:passkey>", account.PasskeyDetail.as_view()),
    path("v2/api/sessions", account.Sessions.as_view()),
    path("v2/api/sessions/<str:session>", account.SessionDetail.as_view()),
    path("v2/oauth2/token/revoke", tokens.revoke),
    path("v2/oauth2/token/introspect", tokens.introspect),
    path("v2/oauth2/token/validate", tokens.validate),
    path("v2/oauth2/userinfo", identities.Userinfo.as_view()),
    path(IDENTITIES, identities.IdentityList.as_view()),
    path(f"{IDENTITIES}/<str:identity>", identities.IdentityDetail.as_view()),
    path(f"{IDENTITIES}/<str:identity>/consents", identities.Consents.as_view()),
    path("v2/api/identity_providers", identities.IdentityProviders.as_view()),
    path("v2/api/clients", clients.ClientList.as_view()),
    path(C, clients.ClientDetail.as_view()),
    path(f"{C}/credentials", clients.CredentialList.as_view()),
    path(f"{C}/credentials/<str:credential>", clients.CredentialDetail.as_view()),
]
