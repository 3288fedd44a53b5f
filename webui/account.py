"""The account page: a user's tokens, certificates and password, and the programs that act for him."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe
from oauth2_provider.models import Application

from endpoints.gridftp.trust import UntrustedError
from endpoints.gridftp.written_names import BadNameError
from identity import certificates, signing_in, tokens
from identity.certificates import (
    SubjectInvalidError,
    SubjectNotFoundError,
    SubjectNotProvenError,
    SubjectTakenError,
    TooManySubjectsError,
)
from identity.hidden import Secret
from identity.models import User
from identity.provider import applications, clients, scopes, sign_ins
from identity.provider.applications import Spec
from identity.provider.errors import ClientInvalidError, ClientNotFoundError, TooManyClientsError
from identity.signing_in import SignInError, TooManyAttemptsError
from identity.tokens import TokenNotFoundError, TooManyTokensError
from transferapi.rest.client_certificates import subject_of
from transferapi.rest.front import address_of

from .page import ACCOUNT, show, signed_in, user_of
from .signing_in import device

#: Days that a token may last, in words; 0: until it is revoked.
LIFETIMES = ((1, "1 day"), (30, "30 days"), (90, "90 days"), (365, "1 year"), (0, "as long as I want"))
#: Characters of a label.
MAX_LABEL = 128
_FIELDS = {"name": "Name", "redirect_uris": "Redirect addresses"}


@dataclass(frozen=True)
class Shown:
    """What is seen this once: (label, value) pairs."""

    title: str
    text: str
    values: list[tuple[str, str]] = field(repr=False)


@signed_in
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    return _page(request)


@signed_in
@require_POST
def make_token(request: HttpRequest) -> HttpResponse:
    label = _line(request.POST.get("label", ""))
    days = request.POST.get("days", "")
    if not label:
        return _page(request, refusal=("tokens", "A token needs a label, so that you know it again."))
    if days not in {str(known) for known, _ in LIFETIMES}:
        return _page(request, refusal=("tokens", "That is none of the times that a token may last."))
    try:
        _, token = tokens.make(user_of(request), label, timedelta(days=int(days)) if days != "0" else None)
    except TooManyTokensError as error:
        return _page(request, refusal=("tokens", f"You have {error.limit} tokens, which is the most. Revoke some."))
    return _page(request, shown=Shown("Your new token", f"Copy the token for {label} now.", [("Token", token.value)]))


@signed_in
@require_POST
def revoke_token(request: HttpRequest, token: uuid.UUID) -> HttpResponse:
    try:
        tokens.revoke_own(user_of(request), token)
    except TokenNotFoundError:
        return _page(request, refusal=("tokens", "This token is gone already."), status=404)
    return _done(request, "The token is revoked.", "tokens")


@signed_in
@require_POST
def make_app(request: HttpRequest) -> HttpResponse:
    name, uris = request.POST.get("name", ""), request.POST.get("redirect_uris", "").split()
    try:
        application, secret = applications.make(user_of(request), Spec(name, redirect_uris=uris))
    except ClientInvalidError as error:
        return _page(request, refusal=("apps", f"{_FIELDS.get(error.field, error.field)}: {error.reason}."))
    except TooManyClientsError as error:
        return _page(request, refusal=("apps", f"{error.reason}."), status=409)
    return _page(request, shown=_secret_of(application, secret))


@signed_in
@require_POST
def new_secret(request: HttpRequest, client_id: str) -> HttpResponse:
    """One beside those that it has: the old ones serve until they are deleted, so that a change interrupts nothing."""
    try:
        application = applications.find(user_of(request), client_id)
        _, secret = applications.new_secret(application, f"of {datetime.now(UTC):%Y-%m-%d %H:%M}")
    except ClientNotFoundError:
        return _page(request, refusal=("apps", "This application is gone already."), status=404)
    except (ClientInvalidError, TooManyClientsError) as error:
        return _page(request, refusal=("apps", f"{error.reason}."), status=409)
    return _page(request, shown=_secret_of(application, secret))


@signed_in
@require_POST
def delete_app(request: HttpRequest, client_id: str) -> HttpResponse:
    try:
        applications.delete(applications.find(user_of(request), client_id))
    except ClientNotFoundError:
        return _page(request, refusal=("apps", "This application is gone already."), status=404)
    return _done(request, "The application is deleted, and its tokens with it.", "apps")


@signed_in
@require_POST
def withdraw(request: HttpRequest, client_id: str) -> HttpResponse:
    application = clients.find(client_id)
    if application is None or client_id not in {one.client_id for one in _given(user_of(request))}:
        return _page(request, refusal=("given", "This program may do nothing any more."), status=404)
    sign_ins.withdraw(user_of(request), application)
    return _done(request, "It is taken back: the program's tokens are worth nothing now.", "given")


@signed_in
@require_POST
def add_certificate(request: HttpRequest) -> HttpResponse:
    subject, label = request.POST.get("subject", ""), _line(request.POST.get("label", ""))
    try:
        certificates.add(user_of(request), subject, label, proven=_proven(request))
    except SubjectInvalidError as error:
        return _page(request, refusal=("certificates", f"{error.reason}."))
    except SubjectNotProvenError:
        text = "You have not shown that this is yours: activate an endpoint with this certificate first."
        return _page(request, refusal=("certificates", text), status=403)
    except SubjectTakenError:
        return _page(request, refusal=("certificates", "This subject is registered already."), status=409)
    except TooManySubjectsError as error:
        return _page(request, refusal=("certificates", f"You have {error.limit} subjects, which is the most."))
    return _done(request, "The subject is added.", "certificates")


@signed_in
@require_POST
def remove_certificate(request: HttpRequest, subject: uuid.UUID) -> HttpResponse:
    try:
        certificates.remove(user_of(request), subject)
    except SubjectNotFoundError:
        return _page(request, refusal=("certificates", "This subject is gone already."), status=404)
    return _done(request, "The subject is removed.", "certificates")


@sensitive_post_parameters()
@signed_in
@require_POST
def change_password(request: HttpRequest) -> HttpResponse:
    old, new = Secret(request.POST.get("old", "")), Secret(request.POST.get("new", ""))
    if new.value != request.POST.get("repeated", ""):
        return _page(request, refusal=("password", "The two new passwords are not the same."))
    user = user_of(request)
    try:
        user = signing_in.change_password(user, old, new, address_of(request), device(request))
    except TooManyAttemptsError as error:
        answer = _page(request, refusal=("password", error.reason), status=429)
        answer["Retry-After"] = str(error.seconds)
        return answer
    except SignInError as error:
        return _page(request, refusal=("password", error.reason))
    update_session_auth_hash(request, user)
    return _done(request, "Your password is changed. Your other sessions have ended.", "password")


def _secret_of(application: Application, secret: Secret | None) -> Shown:
    values = [("Client id", application.client_id)]
    if secret is not None:
        values.append(("Client secret", secret.value))
    return Shown(f"The application {application.name}", "Copy its secret now.", values)


@dataclass
class Given:
    """What one application was allowed, all of its sign-ins together."""

    name: str
    client_id: str
    since: datetime
    words: list[str]


def _given(user: User) -> list[Given]:
    found: dict[str, Given] = {}
    for one in sign_ins.of_user(user):
        app = one.application
        known = found.setdefault(
            app.client_id, Given(app.name or "A program without a name", app.client_id, one.created_at, [])
        )
        known.since = min(known.since, one.created_at)
        words = [scopes.KNOWN[name].words for name in one.scope.split() if name in scopes.KNOWN]
        known.words += [word for word in words if word not in known.words]
    return list(found.values())


def _proven(request: HttpRequest) -> tuple[str, ...]:
    """The subject that this connection has proved, if any."""
    try:
        found = subject_of(request)
    except (UntrustedError, BadNameError):
        return ()
    return () if found is None else (found,)


def _page(
    request: HttpRequest,
    *,
    shown: Shown | None = None,
    refusal: tuple[str, str] | None = None,
    status: int | None = None,
) -> HttpResponse:
    """refusal: the section that it belongs to, and the sentence."""
    user = user_of(request)
    known = certificates.of(user)
    ours = {one.subject for one in known}
    context = {
        "title": "Your account",
        "shown": shown,
        "refusal": refusal,
        "now": datetime.now(UTC),
        "tokens": tokens.of(user),
        "lifetimes": LIFETIMES,
        "apps": applications.of_user(user),
        "given": _given(user),
        "certificates": known,
        "provable": sorted({*certificates.provable(user), *_proven(request)} - ours),
    }
    return show(request, "account.html", context, status or (400 if refusal else 200))


def _done(request: HttpRequest, text: str, section: str) -> HttpResponse:
    messages.success(request, text)
    return HttpResponseRedirect(f"{ACCOUNT}#{section}")


def _line(text: str) -> str:
    """One line that can be shown, or ""."""
    text = text.strip()
    return text if len(text) <= MAX_LABEL and text.isprintable() else ""
