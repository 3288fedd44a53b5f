"""The service's own certificate authority for agents.

It is made when the first agent is set up. Its private key is encrypted by the key of the vault, and never leaves the
service. `rotate` makes a new one; the certificates that an older one has signed stay valid until they expire, or until
`retire` ends it.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID
from django.db import connection, transaction

from endpoints.models import AgentAuthority
from identity.clock import moment
from identity.hidden import Hidden
from identity.vault.sealing import SealedTable

LIFETIME = timedelta(days=3650)
#: A laptop's clock may be behind by so much.
BACKDATED = timedelta(days=2)
#: The number of a PostgreSQL advisory lock: two processes do not make the first authority at once.
_LOCK = 0x5742_0001


@dataclass(frozen=True)
class SigningAuthority:
    """An authority that can sign."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    def sign(self, key: ec.EllipticCurvePublicKey, name: str, start: datetime, end: datetime) -> x509.Certificate:
        """A certificate for an agent: it authenticates as a client, and signs nothing else."""
        usage = x509.KeyUsage(
            digital_signature=True,
            **dict.fromkeys(_OTHER_USES, False),
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
            .issuer_name(self.certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start - BACKDATED)
            .not_valid_after(min(end, self.certificate.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        )
        return builder.sign(self.key, hashes.SHA256())


_OTHER_USES = (
    "content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign",
    "encipher_only", "decipher_only",
)  # fmt: skip


def newest(now: datetime | None = None) -> SigningAuthority:
    """The authority that signs; the first call makes it. Raises VaultKeyNotConfiguredError and other VaultErrors."""
    row = _newest_row()
    if row is None:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            row = _newest_row() or rotate(now)
    key = load_der_private_key(SEALED.unseal(row).value, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return SigningAuthority(_certificate(row), key)


def rotate(now: datetime | None = None) -> AgentAuthority:
    """Make a new authority, which signs from now on. Raises VaultKeyNotConfiguredError."""
    time, key = moment(now), ec.generate_private_key(ec.SECP256R1())
    row = AgentAuthority(created_at=time, certificate=_self_signed(key, time))
    secret = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    SEALED.seal(row, Hidden(secret))
    row.save(force_insert=True)
    return row


def retire(keep: uuid.UUID) -> int:
    """Trust no authority but this one any more; returns the number of the others. Their agents need a new setup key."""
    deleted, _ = AgentAuthority.objects.exclude(pk=keep).delete()
    return deleted


def trusted() -> list[x509.Certificate]:
    """The certificates of all authorities whose signatures are accepted, the newest first."""
    return [_certificate(row) for row in AgentAuthority.objects.order_by("-created_at", "-pk")]


def name_of(certificate: x509.Certificate) -> str:
    """The name of an authority; each has one of its own."""
    return str(certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)


def _newest_row() -> AgentAuthority | None:
    return AgentAuthority.objects.order_by("-created_at", "-pk").first()


def _certificate(row: AgentAuthority) -> x509.Certificate:
    return x509.load_pem_x509_certificate(row.certificate.encode())


def _self_signed(key: ec.EllipticCurvePrivateKey, now: datetime) -> str:
    """A certificate of an agent names the authority that signed it."""
    common_name = f"Waybill Connect {uuid.uuid4().hex[:8]}"
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def _associated(row: AgentAuthority) -> bytes:
    return json.dumps(["agent authority", str(row.pk)]).encode()


#: `identity.vault.rotation` encrypts these rows again when the key of the vault changes.
SEALED = SealedTable(AgentAuthority, "sealed", _associated)
