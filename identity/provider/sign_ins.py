"""What a user has allowed, and takes back."""

from __future__ import annotations

from oauth2_provider.models import AccessToken, Application, Grant

from identity.models import SignIn, User

from . import issue


def of_user(user: User) -> list[SignIn]:
    """Every consent that is still good for something, the latest first."""
    return list(SignIn.objects.select_related("application").filter(user=user).order_by("-created_at", "pk")[:1000])


def withdraw(user: User, application: Application) -> None:
    """Everything that this application holds for this user ends: tokens, and codes that were not used yet."""
    for sign_in in SignIn.objects.filter(user=user, application=application):
        issue.end(sign_in)
    Grant.objects.filter(user=user, application=application).delete()
    AccessToken.objects.filter(user=user, application=application).delete()
