"""The documents of Auth: users as identities, and their applications. They have no DATA_TYPE."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from oauth2_provider.models import Application

from identity.hidden import Secret
from identity.models import ClientSecret, SignIn, User
from identity.provider import clients, identities, openid, registration, scopes

Document = dict[str, Any]


def userinfo(user: User, names: Collection[str]) -> Document:
    """Who the user is, as far as these scopes tell it (OpenID Connect Core section 5.3)."""
    found = openid.claims(user, names)
    if scopes.PROFILE in names:
        found |= {
            "identity_provider": identities.provider_id(),
            "identity_provider_display_name": _provider_name(),
            "organization": None,
        }
    if scopes.VIEW_IDENTITIES in names:
        one = {
            "sub": str(user.pk),
            "username": user.username,
            "name": openid.name_of(user),
            "email": user.email or None,
            "identity_provider": identities.provider_id(),
            "identity_provider_display_name": _provider_name(),
            "organization": None,
            "last_authentication": None,
        }
        found["identity_set"] = [one]
    return found


def identity(user: User, viewer: User | None) -> Document:
    """An address is its owner's to show. viewer: who may see his own; None: whoever asks for him was not allowed to."""
    return {
        "id": str(user.pk),
        "username": user.username,
        "name": openid.name_of(user),
        "email": (user.email or None) if user == viewer else None,
        "organization": None,
        "identity_provider": identities.provider_id(),
        "identity_type": "login",
        "status": "used" if user.is_active else "closed",
    }


def _provider_name() -> str:
    return f"Waybill at {identities.domain()}"


def identity_provider() -> Document:
    return {
        "id": identities.provider_id(),
        "name": _provider_name(),
        "short_name": "waybill",
        "domains": [identities.domain()],
        "alternative_names": [],
    }


def consents(sign_ins: Collection[SignIn]) -> list[Document]:
    """One for each scope of each: nothing depends on anything, they are roots all of them."""
    found: list[Document] = []
    for sign_in in sign_ins:
        for name in sign_in.scope.split():
            number = len(found) + 1
            made = sign_in.created_at.isoformat()
            found.append(
                {
                    "id": number,
                    "client": sign_in.application.client_id,
                    "scope": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
                    "scope_name": name,
                    "effective_identity": str(sign_in.user_id),
                    "dependency_path": [number],
                    "status": "approved",
                    "created": made,
                    "updated": made,
                    "last_used": made,
                    "allows_refresh": True,
                    "auto_approved": False,
                    "atomically_revocable": False,
                }
            )
    return found


def client(application: Application) -> Document:
    confidential = clients.is_confidential(application)
    by_template = clients.is_registered_by_template(application)
    return {
        "id": application.client_id,
        "name": application.name,
        "public_client": not confidential,
        "client_type": "confidential_client" if confidential else "public_installed_client",
        "visibility": "private",
        "redirect_uris": application.redirect_uris.split(),
        "grant_types": _grant_types(application),
        "scopes": [],
        "fqdns": [],
        "links": {"privacy_policy": None, "terms_and_conditions": None},
        "parent_client": next(iter(registration.TEMPLATES)) if by_template else None,
        "project": None,
        "required_idp": None,
        "preselect_idp": None,
        "prompt_for_named_grant": False,
        "userinfo_from_effective_identity": True,
    }


def _grant_types(application: Application) -> list[str]:
    asks = ["authorization_code", "refresh_token"] if clients.may_ask_users(application) else []
    return [*asks, "client_credentials"] if clients.may_act_alone(application) else asks


def credential(row: ClientSecret, secret: Secret | None = None) -> Document:
    """secret: shown when it has just been made, and never again."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "client": row.application.client_id,
        "created": row.created_at.isoformat(),
        "secret": None if secret is None else secret.value,
    }
