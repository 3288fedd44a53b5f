"""What a user has allowed, and takes back."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Exists, OuterRef
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from identity.models import SignIn, User

from . import issue


def of_user(user: User) -> list[SignIn]:
    """Every consent that is still good for something, the latest first."""
    return list(SignIn.objects.select_related("application").filter(user=user).order_by("-created_at", "pk")[:1000])


def is_agreed(user: User, application: Application, names: Collection[str], *, offline: bool) -> bool:
    """Whether one consent of his that is still good holds all of these scopes, and while he is away where asked for."""
    found = SignIn.objects.filter(user=user, application=application)
    if offline:
        renewals = RefreshToken.objects.filter(token_family=OuterRef("pk"), revoked__isnull=True)
        found = found.filter(Exists(renewals))
    latest = found.order_by("-created_at").values_list("scope", flat=True)[:50]
    return any(set(names) <= set(scope.split()) for scope in latest)


def withdraw(user: User, application: Application) -> None:
    """Everything that this application holds for this user ends: tokens, and codes that were not used yet."""
    for sign_in in SignIn.objects.filter(user=user, application=application):
        issue.end(sign_in)
    Grant.objects.filter(user=user, application=application).delete()
    AccessToken.objects.filter(user=user, application=application).delete()
