"""The life of an agent's key pair: set up, renewed, revoked; and the agents of endpoints that a user manages."""

from __future__ import annotations

import base64
import binascii
import uuid
from dataclasses import dataclass
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from django.db import transaction

from endpoints import registry
from endpoints.models import Agent, Endpoint
from endpoints.permissions import Permission
from identity.clock import moment
from identity.database_rows import unless_taken
from identity.error_categories import RefusedError
from identity.gsi.printable import FORBIDDEN
from identity.hidden import Secret
from identity.models import User

from . import certificates, setup_keys
from .errors import (
    CERTIFICATE_REQUEST,
    NO_AGENT,
    SETUP_KEY_EXPIRED,
    SETUP_KEY_UNKNOWN,
    SETUP_KEY_USED,
    AgentRefusedError,
)


def agent_of_endpoint(user: User, ref: str) -> Agent:
    """The agent of an endpoint that this user manages. Raises the errors of `registry.resolve`, NO_AGENT."""
    return agent_row(registry.resolve(user, ref, Permission.MANAGE))


def agent_row(endpoint: Endpoint) -> Agent:
    """Raises NO_AGENT."""
    found = Agent.objects.filter(pk=endpoint.pk).first() if endpoint.personal else None
    if found is None:
        raise RefusedError(NO_AGENT)
    return found


#: The first octets of what an agent signs to renew its certificate; the chain follows.
RENEWAL = b"waybill connect renew 1\0"
_TAKEN = RefusedError(CERTIFICATE_REQUEST, reason="Another endpoint has an agent with this key: make a new one.")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate for an agent: the chain in PEM, and the time of the service."""

    agent: Agent
    chain: str
    now: datetime


@dataclass(frozen=True, slots=True)
class AgentVersion:
    """The facts that an agent states about itself, for its owner to read."""

    version: str = ""
    platform: str = ""

    def write_to(self, agent: Agent) -> None:
        agent.version, agent.platform = _shown(self.version, 64), _shown(self.platform, 128)


def set_up(secret: Secret, request: str, program: AgentVersion, now: datetime | None = None) -> Issued:
    """Exchange the secret of a setup key and a certificate request for a certificate.

    The same request again gets another certificate: an answer that was lost costs nothing. It takes the place of the
    agent that was set up before. Raises SETUP_KEY_UNKNOWN, SETUP_KEY_USED, SETUP_KEY_EXPIRED,
    CERTIFICATE_REQUEST, VaultKeyNotConfiguredError.
    """
    time, key = moment(now), certificates.requested_key(request)
    text = certificates.key_text(key)
    with unless_taken("agent_public_key_once", _TAKEN):
        agent = _waiting(setup_keys.digest(secret.value))
        _check_usable(agent, text, time)
        agent.setup_used_at = agent.setup_used_at or time
        agent.public_key, agent.revoked_at = text, None
        return _issue(agent, program, time)


def renew(chain: str, signature: str, program: AgentVersion, now: datetime | None = None) -> Issued:
    """A new certificate for an agent that shows its present one.

    signature: base64 of an ECDSA signature in DER over `RENEWAL` and the chain. A repetition of such a request gives a
    certificate for the same key again, which is of no use without that key. Raises AgentRefusedError.
    """
    time = moment(now)
    found = certificates.agent_of(chain, time)
    if not signed_by(certificates.public_key(found), signature, RENEWAL + chain.encode()):
        raise AgentRefusedError("foreign")
    with transaction.atomic():
        agent = _locked(found.endpoint_id)
        certificates.check_present(agent, certificates.public_key(found))
        return _issue(agent, program, time)


def revoke(user: User, ref: str, now: datetime | None = None) -> Endpoint:
    """Refuse the agent from now on, and every setup key that was made before; a new key sets one up again.

    Raises the errors of `registry.resolve`, NO_AGENT.
    """
    endpoint = registry.resolve(user, ref, Permission.MANAGE)
    agent = agent_row(endpoint)
    Agent.objects.filter(pk=agent.pk).update(revoked_at=moment(now), setup_key_hash=None)
    return endpoint


def signed_by(key: ec.EllipticCurvePublicKey, signature: str, message: bytes) -> bool:
    """Whether base64 `signature` is that of this key over SHA-256 of the message."""
    try:
        key.verify(base64.b64decode(signature, validate=True), message, ec.ECDSA(SHA256()))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _issue(agent: Agent, program: AgentVersion, now: datetime) -> Issued:
    chain = certificates.issue(agent, now)
    program.write_to(agent)
    columns = "setup_used_at public_key revoked_at certificate_serial certificate_expires_at version platform"
    agent.save(update_fields=columns.split())
    return Issued(agent, chain, now)


def _waiting(key_hash: bytes) -> Agent:
    """The agent of this setup key, locked: two machines with one key come one after the other."""
    rows = Agent.objects.select_for_update(of=("self",)).select_related("endpoint__owner")
    agent = rows.filter(setup_key_hash=key_hash).first()
    if agent is None or agent.endpoint.deleted_at is not None or not agent.endpoint.owner.is_active:
        raise RefusedError(SETUP_KEY_UNKNOWN)
    return agent


def _locked(pk: uuid.UUID) -> Agent:
    return Agent.objects.select_for_update(of=("self",)).select_related("endpoint__owner").get(pk=pk)


def _check_usable(agent: Agent, key: str, now: datetime) -> None:
    assert agent.setup_expires_at is not None
    if agent.setup_used_at is not None and (key != agent.public_key or agent.revoked_at is not None):
        raise RefusedError(SETUP_KEY_USED)
    if now >= agent.setup_expires_at:
        raise RefusedError(SETUP_KEY_EXPIRED)


def _shown(text: str, longest: int) -> str:
    return FORBIDDEN.sub("?", text)[:longest]
