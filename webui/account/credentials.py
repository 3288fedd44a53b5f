"""The sections "Credentials" and "Identities": what the vault keeps for the user, and linked identities.

`webui.sign_in.providers` links a new identity.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext as _

from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity import linked_identities
from identity.models import User
from identity.vault import store as vault
from identity.vault.store import CredentialInfo

from .confirmations import asking, recently_signed_in

SECTION = "credentials"
_SOON = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class ShownCredential:
    """place: the server, or the name of the endpoint. href: the page that renews it; "": none."""

    held: CredentialInfo
    place: str
    href: str
    expired: bool
    soon: bool


def credentials_context(user: User) -> dict[str, Any]:
    held = vault.of_user(user.pk)
    names = _names(held)
    return {"credentials": [_shown(one, names) for one in held]}


@asking("credential")
def remove(request: HttpRequest, user: User, credential: uuid.UUID) -> str:
    vault.remove(user, credential)
    return _("The credential is removed. Tasks that need it wait for another one.")


def _names(held: list[CredentialInfo]) -> dict[str, str]:
    """The names of the endpoints to which credentials are bound, by their bindings."""
    ids = [one.bound_to.removeprefix("endpoint:") for one in held if one.bound_to.startswith("endpoint:")]
    rows = Endpoint.objects.select_related("owner").filter(pk__in=ids)
    return {vault.endpoint_binding(row.pk): canonical_name(row) for row in rows}


def _shown(held: CredentialInfo, names: dict[str, str]) -> ShownCredential:
    kind, _colon, place = held.bound_to.partition(":")
    href = f"/endpoints/{place}/activate" if held.bound_to in names else ""
    left = held.expires_at - datetime.now(UTC) if held.expires_at else None
    expired, soon = left is not None and left <= timedelta(0), left is not None and left <= _SOON
    return ShownCredential(held, names.get(held.bound_to, place if kind != "endpoint" else ""), href, expired, soon)


IDENTITIES = "identities"


def identities_context(user: User) -> dict[str, Any]:
    linked = linked_identities.of(user)
    return {
        "linked": linked,
        "own_is_primary": not any(one.primary for one in linked),
        "providers": list(settings.PROVIDERS.values()),
        "myproxy": list(settings.MYPROXY_SIGN_IN.values()),
        "institutions": bool(settings.SAML_METADATA),
    }


@asking("identity")
@recently_signed_in(IDENTITIES)
def unlink(request: HttpRequest, user: User, identity: uuid.UUID) -> str:
    """Only just after a sign-in: a stolen session must not take the ways to sign in from its owner."""
    linked_identities.unlink(user, identity, request.session.session_key or "")
    return _("The identity is no longer linked.")


def make_primary(request: HttpRequest, user: User, identity: uuid.UUID) -> str:
    linked_identities.set_primary(user, identity)
    return _("This identity is shown for you from now on.")
