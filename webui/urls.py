"""The pages."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import account, assets, code, consent, signing_in

urlpatterns: list[URLPattern] = [
    path("signin", signing_in.sign_in),
    path("signout", signing_in.sign_out),
    path("account", account.account),
    path("account/password", account.change_password),
    path("account/tokens", account.make_token),
    path("account/tokens/<uuid:token>/revoke", account.revoke_token),
    path("account/certificates", account.add_certificate),
    path("account/certificates/<uuid:subject>/remove", account.remove_certificate),
    path("account/apps", account.make_app),
    path("account/apps/<str:client_id>/secret", account.new_secret),
    path("account/apps/<str:client_id>/delete", account.delete_app),
    path("account/apps/<str:client_id>/withdraw", account.withdraw),
    path("v2/oauth2/authorize", consent.authorize),
    path("v2/web/auth-code", code.auth_code),
    path("static/webui/<str:name>", assets.serve),
]
