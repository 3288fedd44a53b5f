"""Consents of a user: list and withdraw."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Exists, OuterRef
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from identity.audit import log as audit
from identity.models import SignIn, User

from . import issue


def of_user(user: User) -> list[SignIn]:
    """The user's consents that still hold a token, the latest first."""
    return list(SignIn.objects.select_related("application").filter(user=user).order_by("-created_at", "pk")[:1000])


def is_agreed(user: User, application: Application, names: Collection[str], *, offline: bool) -> bool:
    """Whether one valid consent of the user holds all of these scopes; offline: and allows access while away."""
    found = SignIn.objects.filter(user=user, application=application)
    if offline:
        renewals = RefreshToken.objects.filter(token_family=OuterRef("pk"), revoked__isnull=True)
        found = found.filter(Exists(renewals))
    latest = found.order_by("-created_at").values_list("scope", flat=True)[:50]
    return any(set(names) <= set(scope.split()) for scope in latest)


def withdraw(user: User, application: Application) -> None:
    """Withdraw consent: revoke the application's tokens and unused codes for this user."""
    facts = {"application": application.name, "client_id": application.client_id}
    audit.record(audit.What.CONSENT_WITHDRAWN, user, facts)
    for sign_in in SignIn.objects.filter(user=user, application=application):
        issue.end(sign_in)
    Grant.objects.filter(user=user, application=application).delete()
    AccessToken.objects.filter(user=user, application=application).delete()
