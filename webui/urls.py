"""The pages."""

from __future__ import annotations

from django.conf import settings
from django.urls import URLPattern, path

from . import assets, connect, endpoints, groups, preferences, style, timers, transfer
from .account import urls as account
from .activity import run_again, task_list, task_page
from .console import urls as console
from .sign_in import (
    certificate,
    consent,
    institutions,
    myproxy,
    one_time,
    passkey,
    password,
    providers,
    recovery,
    sign_up,
)

urlpatterns: list[URLPattern] = [
    path("signin", password.sign_in),
    path("signin/code", password.enter_code),
    path("signin/once", one_time.sign_in_once),
    path("signin/passkey", passkey.sign_in),
    path("signin/passkey/options", passkey.options),
    path("signin/passkey/second", passkey.second_factor),
    path("signin/certificate", certificate.sign_in),
    path("signin/certificate/account", certificate.sign_up),
    path("signin/with/<slug:name>", providers.begin),
    path("signin/with/<slug:name>/callback", providers.callback),
    path("signin/myproxy/<slug:name>", myproxy.sign_in),
    path("signin/institution", institutions.choose),
    path("signin/institution/<int:institution>", institutions.begin),
    path("signin/institution/answer", institutions.take_answer),
    path("signin/institution/done", institutions.done),
    path("saml/metadata", institutions.metadata),
    path("signout", password.sign_out),
    path("recover", recovery.ask),
    path("recover/link", recovery.link),
    path("recover/password", recovery.new_password),
    path("signup", sign_up.ask),
    path("signup/invitation", sign_up.invitation),
    path("signup/link", sign_up.link),
    path("signup/account", sign_up.account),
    path("signup/identity", providers.sign_up),
    path("activity", task_list.activity),
    path("activity/<uuid:task_id>/again", run_again.again),
    path("activity/latest", task_list.latest),
    path("activity/<uuid:task_id>", task_page.page),
    *(path(f"activity/<uuid:task_id>/errors.{form}", task_page.errors, {"form": form}) for form in task_page.FORMS),
    *(path(f"activity/<uuid:task_id>/{action}", task_page.act, {"action": action}) for action in task_page.ACTIONS),
    path("preferences", preferences.choose),
    path("transfer", transfer.transfer),
    *account.urlpatterns,
    path("v2/oauth2/authorize", consent.authorize),
    path("v2/web/auth-code", consent.auth_code),
    path("static/webui/<str:name>", assets.serve),
    *connect.urlpatterns,
    *console.urlpatterns,
    *endpoints.urlpatterns,
    *groups.urlpatterns,
    path("timers", timers.timers),
    *(path(f"timers/<uuid:timer>/{action}", timers.change, {"action": action}) for action in timers.ACTIONS),
    *([path("style", style.style)] if settings.DEBUG else []),
]
