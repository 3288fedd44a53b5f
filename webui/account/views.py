"""The account page, and its forms: tokens, applications, consents, certificates and the password."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe
from oauth2_provider.models import Application

from identity import certificate_subjects, password_sign_in, tokens
from identity.certificate_subjects import (
    LastSubjectError,
    SubjectInvalidError,
    SubjectNotFoundError,
    SubjectNotProvenError,
    SubjectTakenError,
    TooManySubjectsError,
)
from identity.hidden import Secret
from identity.password_sign_in import PasswordRefusedError, SignInError, TooManyAttemptsError, WrongPasswordError
from identity.provider import applications, clients, consents
from identity.provider.applications import ApplicationSpec
from identity.provider.errors import ClientInvalidError, ClientNotFoundError, TooManyClientsError
from identity.tokens import TokenNotFoundError, TooManyTokensError
from transferapi.rest.http.trusted_proxies import address_of
from webui.page import signed_in, user_of
from webui.reasons import said
from webui.sign_in.session_start import device, refused

from .confirmations import Shown, asking, recently_signed_in
from .page import LIFETIMES, done, given_access, line, page, proven, refusal


@signed_in
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    return page(request)


@signed_in
@require_POST
@recently_signed_in("tokens")
def make_token(request: HttpRequest) -> HttpResponse:
    label = line(request.POST.get("label", ""))
    days = request.POST.get("days", "")
    if not label:
        return refusal(request, "tokens", _("A token needs a label, so that you know it again."), "label")
    if days not in {str(known) for known, _words in LIFETIMES}:
        return refusal(request, "tokens", _("That is none of the times that a token may last."), "days")
    try:
        _row, token = tokens.make(user_of(request), label, timedelta(days=int(days)) if days != "0" else None)
    except TooManyTokensError as error:
        text = _("You have %(limit)d tokens, which is the most. Revoke some.") % {"limit": error.limit}
        return refusal(request, "tokens", text)
    text = _("Copy the token for %(label)s now.") % {"label": label}
    return page(request, shown=Shown(_("Your new token"), text, [(_("Token"), token.value)]))


@signed_in
@require_POST
@asking("token")
def revoke_token(request: HttpRequest, token: uuid.UUID) -> HttpResponse:
    try:
        tokens.revoke_own(user_of(request), token)
    except TokenNotFoundError:
        return refusal(request, "tokens", _("This token is gone already."), status=404)
    return done(request, _("The token is revoked."), "tokens")


@signed_in
@require_POST
@recently_signed_in("apps")
def make_app(request: HttpRequest) -> HttpResponse:
    name, uris = request.POST.get("name", ""), request.POST.get("redirect_uris", "").split()
    try:
        application, secret = applications.make(user_of(request), ApplicationSpec(name, redirect_uris=uris))
    except ClientInvalidError as error:
        return refusal(request, "apps", f"{error.reason[0].upper()}{error.reason[1:]}.", error.field)
    except TooManyClientsError as error:
        return refusal(request, "apps", f"{error.reason}.", status=409)
    return page(request, shown=_secret_of(application, secret))


@signed_in
@require_POST
@recently_signed_in("apps")
def new_secret(request: HttpRequest, client_id: str) -> HttpResponse:
    """Add a secret. The old ones stay valid until they are deleted, so that a change interrupts nothing."""
    try:
        application = applications.find(user_of(request), client_id)
        _row, secret = applications.new_secret(application, f"of {datetime.now(UTC):%Y-%m-%d %H:%M}")
    except ClientNotFoundError:
        return refusal(request, "apps", _("This application is gone already."), status=404)
    except (ClientInvalidError, TooManyClientsError) as error:
        return refusal(request, "apps", f"{error.reason}.", status=409)
    return page(request, shown=_secret_of(application, secret))


@signed_in
@require_POST
@asking("app")
def delete_app(request: HttpRequest, client_id: str) -> HttpResponse:
    try:
        applications.delete(applications.find(user_of(request), client_id))
    except ClientNotFoundError:
        return refusal(request, "apps", _("This application is gone already."), status=404)
    return done(request, _("The application is deleted, and its tokens with it."), "apps")


@signed_in
@require_POST
@asking("given")
def withdraw(request: HttpRequest, client_id: str) -> HttpResponse:
    application = clients.find(client_id)
    if application is None or client_id not in {one.client_id for one in given_access(user_of(request))}:
        return refusal(request, "given", _("This program may do nothing any more."), status=404)
    consents.withdraw(user_of(request), application)
    return done(request, _("It is taken back: the program's tokens are worth nothing now."), "given")


@signed_in
@require_POST
@recently_signed_in("certificates")
def add_certificate(request: HttpRequest) -> HttpResponse:
    subject, label = request.POST.get("subject", ""), line(request.POST.get("label", ""))
    try:
        certificate_subjects.add(user_of(request), subject, label, proven=proven(request))
    except SubjectInvalidError as error:
        return refusal(request, "certificates", f"{error.reason}.")
    except SubjectNotProvenError:
        text = _("You have not shown that this is yours: activate an endpoint with this certificate first.")
        return refusal(request, "certificates", text, status=403)
    except SubjectTakenError:
        return refusal(request, "certificates", _("This subject is registered already."), status=409)
    except TooManySubjectsError as error:
        text = _("You have %(limit)d subjects, which is the most.") % {"limit": error.limit}
        return refusal(request, "certificates", text)
    return done(request, _("The subject is added."), "certificates")


@signed_in
@require_POST
@asking("certificate")
def remove_certificate(request: HttpRequest, subject: uuid.UUID) -> HttpResponse:
    try:
        certificate_subjects.remove(user_of(request), subject)
    except SubjectNotFoundError:
        return refusal(request, "certificates", _("This subject is gone already."), status=404)
    except LastSubjectError as error:
        return refusal(request, "certificates", said(error.reason), status=409)
    return done(request, _("The subject is removed."), "certificates")


@sensitive_post_parameters()
@signed_in
@require_POST
def change_password(request: HttpRequest) -> HttpResponse:
    old, new = Secret(request.POST.get("old", "")), Secret(request.POST.get("new", ""))
    if new.value != request.POST.get("repeated", ""):
        return refusal(request, "password", _("The two new passwords are not the same."), "repeated")
    user, here = user_of(request), request.session.session_key or ""
    try:
        user = password_sign_in.change_password(user, old, new, address_of(request), device(request), keep=here)
    except TooManyAttemptsError as error:
        return refused(refusal(request, "password", said(error.message), status=429), error)
    except WrongPasswordError:
        return refusal(request, "password", _("This is not your password."), "old")
    except SignInError as error:
        return refusal(
            request, "password", said(error.message), "new" if isinstance(error, PasswordRefusedError) else ""
        )
    update_session_auth_hash(request, user)
    return done(request, _("Your password is changed. Your other sessions have ended."), "password")


def _secret_of(application: Application, secret: Secret | None) -> Shown:
    values = [(_("Client id"), application.client_id)]
    if secret is not None:
        values.append((_("Client secret"), secret.value))
    title = _("The application %(name)s") % {"name": application.name}
    return Shown(title, _("Copy its secret now."), values)
