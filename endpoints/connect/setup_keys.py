"""Setup keys: what a person copies from the service to the laptop, once.

The text is `wb1.` and base64url of a JSON object: `u`, the address of the service; `s`, a random secret, of which the
service keeps a SHA-256 only; `p`, the pins of the service's TLS key, where the laptop's own trust does not do.

Pins are digests of TLS keys that agents accept for this service, whoever vouches for them.
A laptop trusts the authorities of its system. Where one of these has signed the service's certificate, no pin is
needed, and a new certificate with a new key does no harm. Else the pin is the SHA-256 of the SubjectPublicKeyInfo of
the certificate with which the web server ends TLS itself. `WAYBILL_CONNECT_PINS` replaces this choice.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from django.conf import settings
from django.db import transaction

from endpoints import registry
from endpoints.models import Agent, Endpoint
from endpoints.permissions import Permission
from endpoints.registry import ServerSpec
from identity.clock import moment
from identity.error_categories import RefusedError
from identity.hidden import Secret
from identity.models import User

from .errors import NO_AGENT

#: The word for "no pin" in the configuration.
NONE = "none"


def pins() -> list[str]:
    """Lower-case hexadecimal digits; empty: the agents trust what their systems trust."""
    chosen = tuple(settings.CONNECT_PINS)
    if chosen:
        return [pin for pin in chosen if pin != NONE]
    path: Path | None = settings.TLS_CERTIFICATE
    return [] if path is None else _of_file(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _of_file(path: Path, changed: int) -> list[str]:
    """changed: the time of the file, so that a new certificate is read."""
    chain = x509.load_pem_x509_certificates(path.read_bytes())
    if _publicly_trusted(chain):
        return []
    key = chain[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return [hashlib.sha256(key).hexdigest()]


def _publicly_trusted(chain: list[x509.Certificate]) -> bool:
    roots = ssl.create_default_context().get_ca_certs(binary_form=True)
    names = _names(chain[0])
    if not roots or not names:
        return False
    try:
        store = Store([x509.load_der_x509_certificate(root) for root in roots])
        verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName(names[0]))
        verifier.verify(chain[0], chain[1:])
    except (VerificationError, ValueError):
        return False
    return True


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return extension.value.get_values_for_type(x509.DNSName)


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

    The agent that is set up goes on until the new key is used. Raises the errors of `registry.resolve`, NO_AGENT.
    """
    endpoint = registry.resolve(user, ref, Permission.MANAGE)
    if not endpoint.personal:
        raise RefusedError(NO_AGENT)
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
