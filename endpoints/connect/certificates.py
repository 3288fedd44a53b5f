"""Certificates of agents: what is issued for a request, and which agent shows a certificate.

A certificate names the endpoint (its subject is the endpoint's id). The row of the agent decides: the key pair must be
the one that was set up last, and not revoked. So an agent is revoked at once, without a list of revoked certificates.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from endpoints.models import Agent
from identity.clock import moment
from identity.database_rows import row_by_id
from identity.error_categories import RefusedError

from . import authority
from .errors import CERTIFICATE_REQUEST, AgentRefusedError

#: A laptop may be off for so long and needs no new setup; the agent renews its certificate each month.
LIFETIME = timedelta(days=365)
#: Characters of a request and of a chain.
MAX_REQUEST, MAX_CHAIN = 4096, 16384


def requested_key(pem: str) -> ec.EllipticCurvePublicKey:
    """The public key of a certificate request (PKCS #10 in PEM), whose owner has the private key.

    Its subject and extensions do not matter. Raises CERTIFICATE_REQUEST.
    """
    if len(pem) > MAX_REQUEST:
        raise RefusedError(CERTIFICATE_REQUEST, reason=f"A certificate request has at most {MAX_REQUEST} characters.")
    try:
        request = x509.load_pem_x509_csr(pem.encode())
        key, signed = request.public_key(), request.is_signature_valid
    except Exception:  # the parser raises many kinds for hostile octets
        raise RefusedError(CERTIFICATE_REQUEST, reason="This is not a certificate request in PEM.") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise RefusedError(CERTIFICATE_REQUEST, reason="The key of an agent is one of the curve P-256.")
    if not signed:
        raise RefusedError(CERTIFICATE_REQUEST, reason="The signature of this request is not by its key.")
    return key


def issue(agent: Agent, now: datetime) -> str:
    """A new certificate for the key of this agent, as a chain in PEM; the caller saves the row.

    Raises VaultKeyNotConfiguredError and other VaultErrors.
    """
    signer = authority.newest(now)
    key = public_key(agent)
    certificate = signer.sign(key, str(agent.pk), now, now + LIFETIME)
    agent.certificate_serial = f"{certificate.serial_number:x}"
    agent.certificate_expires_at = certificate.not_valid_after_utc
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in (certificate, signer.certificate))


def public_key(agent: Agent) -> ec.EllipticCurvePublicKey:
    """The key that was set up last. Raises AgentRefusedError when none was."""
    if not agent.public_key:
        raise AgentRefusedError("unknown")
    key = load_pem_public_key(agent.public_key.encode())
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


def key_text(key: ec.EllipticCurvePublicKey) -> str:
    """SubjectPublicKeyInfo in PEM, as `Agent.public_key` has it."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def agent_of(chain: str, now: datetime | None = None) -> Agent:
    """The agent that shows this chain (PEM, its certificate first), with its endpoint. Raises AgentRefusedError.

    The caller must still check that the agent has the private key.
    """
    certificate = _first(chain)
    _check_signature(certificate)
    agent = _named(certificate)
    time = moment(now)
    if not certificate.not_valid_before_utc <= time < certificate.not_valid_after_utc:
        raise AgentRefusedError("expired")
    check_present(agent, certificate.public_key())
    return agent


def check_present(agent: Agent, key: object) -> None:
    """Whether this key is the agent's, and not revoked. Raises AgentRefusedError."""
    if agent.endpoint.deleted_at is not None or not agent.endpoint.owner.is_active:
        raise AgentRefusedError("revoked")
    if not isinstance(key, ec.EllipticCurvePublicKey) or key_text(key) != agent.public_key:
        raise AgentRefusedError("unknown")
    if agent.revoked_at is not None:
        raise AgentRefusedError("revoked")


def _first(chain: str) -> x509.Certificate:
    try:
        if len(chain) > MAX_CHAIN:
            raise ValueError("too long")
        return x509.load_pem_x509_certificate(chain.encode())
    except Exception:  # the parser raises many kinds for hostile octets
        raise AgentRefusedError("foreign") from None


def _check_signature(certificate: x509.Certificate) -> None:
    for issuer in authority.trusted():
        try:
            certificate.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return
    raise AgentRefusedError("foreign")


def _named(certificate: x509.Certificate) -> Agent:
    names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    agents = Agent.objects.select_related("endpoint__owner")
    return row_by_id(agents, names[0].value if names else "", AgentRefusedError("foreign"))
