"""Setup keys: what a person copies from the service to the laptop, once.

The text is `wb1.` and base64url of a JSON object: `u`, the address of the service; `s`, a random secret, of which the
service keeps a SHA-256 only; `p`, the pins of the service's TLS key, where the laptop's own trust does not do.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from endpoints import registry
from endpoints.models import Agent, Endpoint
from endpoints.permissions import Permission
from endpoints.registry import ServerSpec
from identity.clock import moment
from identity.hidden import Secret
from identity.models import User

from .errors import NoAgentError
from .pins import pins

PREFIX = "wb1."
SECRET_OCTETS = 32
LIFETIME = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class IssuedSetupKey:
    """A new setup key; its text is shown once."""

    endpoint: Endpoint
    text: Secret
    expires_at: datetime


def create_endpoint(
    user: User, fields: Mapping[str, object], servers: Sequence[ServerSpec] = (), now: datetime | None = None
) -> tuple[Endpoint, IssuedSetupKey | None]:
    """Create an endpoint; of a personal one the setup key too. Raises the errors of `registry.create`."""
    with transaction.atomic():
        endpoint = registry.create(user, fields, servers)
        return endpoint, _new(endpoint, moment(now)) if endpoint.personal else None


def new_key(user: User, ref: str, now: datetime | None = None) -> IssuedSetupKey:
    """A new setup key for a personal endpoint; it replaces one that is not used yet.

    The agent that is set up goes on until the new key is used. Raises the errors of `registry.resolve`, NoAgentError.
    """
    endpoint = registry.resolve(user, ref, Permission.MANAGE)
    if not endpoint.personal:
        raise NoAgentError
    with transaction.atomic():
        registry.lock_existing(user, endpoint, Permission.MANAGE)
        return _new(endpoint, moment(now))


def digest(secret: str) -> bytes:
    """The secret is random and as long as a key, so a plain SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _new(endpoint: Endpoint, now: datetime) -> IssuedSetupKey:
    secret, expires_at = secrets.token_urlsafe(SECRET_OCTETS), now + LIFETIME
    values = {"setup_key_hash": digest(secret), "setup_expires_at": expires_at, "setup_used_at": None}
    Agent.objects.update_or_create(endpoint=endpoint, defaults=values)
    return IssuedSetupKey(endpoint, Secret(_text(secret, endpoint.pk)), expires_at)


def _text(secret: str, endpoint_id: uuid.UUID) -> str:
    held = {"u": settings.PUBLIC_URL, "s": secret, "e": str(endpoint_id), "p": pins()}
    octets = json.dumps({name: value for name, value in held.items() if value}, separators=(",", ":")).encode()
    return PREFIX + base64.urlsafe_b64encode(octets).decode().rstrip("=")
