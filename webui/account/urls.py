"""The account page and its forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.urls import URLPattern, path

from . import credentials, mail_address, mails, one_time_codes, passkeys, sessions, ssh_keys, views, webhooks
from .page import change_in


def _form(route: str, change: Callable[..., Any], section: str, field: str = "") -> URLPattern:
    """A form of a section. field: where an invalid request is reported."""
    view: Callable[..., HttpResponse] = change_in(section, field)(change)
    return path(f"account/{route}", view)


urlpatterns: list[URLPattern] = [
    path("account", views.account),
    path("account/password", views.change_password),
    path("account/tokens", views.make_token),
    path("account/tokens/<uuid:token>/revoke", views.revoke_token),
    path("account/certificates", views.add_certificate),
    path("account/certificates/<uuid:subject>/remove", views.remove_certificate),
    path("account/ssh-keys", ssh_keys.add),
    path("account/ssh-keys/<uuid:key>/remove", ssh_keys.remove),
    path("account/codes", one_time_codes.begin),
    path("account/codes/confirm", one_time_codes.confirm),
    path("account/codes/recovery", one_time_codes.new_recovery_codes),
    path("account/codes/off", one_time_codes.turn_off),
    path("account/apps", views.make_app),
    path("account/apps/<str:client_id>/secret", views.new_secret),
    path("account/apps/<str:client_id>/delete", views.delete_app),
    path("account/apps/<str:client_id>/withdraw", views.withdraw),
    path("account/passkeys/options", passkeys.options),
    _form("passkeys", passkeys.add, passkeys.SECTION, "label"),
    _form("passkeys/<uuid:passkey>/rename", passkeys.rename, passkeys.SECTION),
    _form("passkeys/<uuid:passkey>/remove", passkeys.remove, passkeys.SECTION),
    _form("passkeys/second-factor", passkeys.second_factor, passkeys.SECTION),
    _form("sessions/others/end", sessions.end_others, sessions.SECTION),
    _form("deactivate", sessions.deactivate, "deactivate"),
    _form("sessions/<str:session>/end", sessions.end, sessions.SECTION),
    _form("webhooks", webhooks.add, webhooks.SECTION, "url"),
    _form("webhooks/<uuid:webhook>/test", webhooks.test, webhooks.SECTION),
    _form("webhooks/<uuid:webhook>/enable", webhooks.enable, webhooks.SECTION),
    _form("webhooks/<uuid:webhook>/remove", webhooks.remove, webhooks.SECTION),
    _form("credentials/<uuid:credential>/remove", credentials.remove, credentials.SECTION),
    _form("identities/<uuid:identity>/unlink", credentials.unlink, credentials.IDENTITIES),
    _form("identities/<uuid:identity>/primary", credentials.make_primary, credentials.IDENTITIES),
    path("account/address", mail_address.confirm),
    path("account/address/link", mail_address.link),
    _form("mails/address", mail_address.ask, mail_address.SECTION, "email"),
    _form("mails", mails.choose, mails.SECTION),
    _form("mails/language", mails.choose_language, mails.SECTION, "language"),
]
