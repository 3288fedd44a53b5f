"""Certificates for tests, made with `cryptography`: good ones by default, bad ones in whatever way is asked for.

Keys come from a small pool: making one costs a tenth of a second.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from identity.gsi.distinguished_names import slash_name
from identity.gsi.errors import CredentialError, Flaw, UntrustedError
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import INHERIT_ALL, PROXY_CERT_INFO, PrivateKey, X509Credential
from tests import kept_keys

#: When all these tests take place.
NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)

Extension = tuple[x509.ExtensionType, bool]

_OIDS = {
    "C": NameOID.COUNTRY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "CN": NameOID.COMMON_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
    "UID": NameOID.USER_ID,
    "emailAddress": NameOID.EMAIL_ADDRESS,
}


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Always the same key for the same number, within one run."""
    return kept_keys.rsa_key(bits)


@cache
def ec_key(number: int = 0, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


def name(*parts: str) -> x509.Name:
    """`name("O=Grid", "CN=Alice")`; `"OU=a+CN=b"` is one RDN with two members."""
    return x509.Name([x509.RelativeDistinguishedName(_attribute(one) for one in part.split("+")) for part in parts])


def _attribute(text: str) -> x509.NameAttribute[str]:
    word, _, value = text.partition("=")
    return x509.NameAttribute(_OIDS[word], value)


@dataclass(frozen=True)
class Holder:
    """A certificate with its key and its issuers, nearest first."""

    certificate: x509.Certificate
    key: PrivateKey
    issuers: tuple[x509.Certificate, ...] = ()

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return (self.certificate, *self.issuers)

    @property
    def credential(self) -> X509Credential:
        return X509Credential(self.certificate, self.key, self.issuers)

    @property
    def pem(self) -> bytes:
        return certificate_pem(self.certificate) + key_pem(self.key) + b"".join(map(certificate_pem, self.issuers))


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def usage(*, sign: bool = True, certify: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=sign,
        content_commitment=False,
        key_encipherment=not certify,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certify,
        crl_sign=certify,
        encipher_only=False,
        decipher_only=False,
    )


def sign(
    subject: x509.Name,
    key: PrivateKey,
    issuer: Holder | None,
    extensions: Sequence[Extension],
    *,
    begins: datetime = NOW - 30 * DAY,
    ends: datetime = NOW + 30 * DAY,
    digest: hashes.HashAlgorithm | None = None,
    serial: int | None = None,
    signed_by: PrivateKey | None = None,
) -> Holder:
    """Anything at all. `signed_by` is another key than the issuer's; without issuer it signs itself."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    certificate = builder.sign(signed_by or (issuer.key if issuer else key), digest or hashes.SHA256())  # type: ignore[arg-type]
    return Holder(certificate, key, issuer.chain if issuer else ())


def authority(
    subject: x509.Name | str = "CN=Test CA",
    issuer: Holder | None = None,
    *,
    path_length: int | None = None,
    more: Sequence[Extension] = (),
    key: PrivateKey | None = None,
    is_authority: bool = True,
    may_certify: bool = True,
    ends: datetime = NOW + 3000 * DAY,
    **others: object,
) -> Holder:
    """A root, or below `issuer` an intermediate authority."""
    subject = name("O=Grid", subject) if isinstance(subject, str) else subject
    extensions: list[Extension] = [
        (x509.BasicConstraints(is_authority, path_length if is_authority else None), True),
        (usage(sign=False, certify=may_certify), True),
        *more,
    ]
    number = zlib.crc32(subject.public_bytes())
    return sign(subject, key or rsa_key(number), issuer, extensions, ends=ends, **others)  # type: ignore[arg-type]


def person(
    issuer: Holder | None,
    subject: x509.Name | str = "CN=Alice",
    *,
    key: PrivateKey | None = None,
    key_usage: x509.KeyUsage | None = None,
    more: Sequence[Extension] = (),
    **others: object,
) -> Holder:
    """An end entity: without issuer one that signed itself."""
    subject = name("O=Grid", "OU=Test", subject) if isinstance(subject, str) else subject
    extensions: list[Extension] = [(key_usage or usage(), True), *more]
    return sign(subject, key or rsa_key(1), issuer, extensions, **others)  # type: ignore[arg-type]


def host(issuer: Holder, *names: x509.GeneralName, common_name: str = "dtn.example.org", **others: object) -> Holder:
    more: list[Extension] = [(x509.SubjectAlternativeName(names), False)] if names else []
    return person(issuer, f"CN={common_name}", more=more, **others)  # type: ignore[arg-type]


def proxy_cert_info(policy: str = INHERIT_ALL, path_length: int | None = None, rules: bytes | None = None) -> bytes:
    """DER of proxyCertInfo (RFC 3820 section 3.8)."""
    oid = x509.ObjectIdentifier(policy)
    encoded = x509.Name([x509.NameAttribute(oid, "x")]).public_bytes()
    at = encoded.index(b"\x06")
    body = encoded[at : at + 2 + encoded[at + 1]]
    if rules is not None:
        body += bytes([0x04, len(rules)]) + rules
    length = b"" if path_length is None else bytes([0x02, 0x01, path_length])
    inner = length + bytes([0x30, len(body)]) + body
    return bytes([0x30, len(inner)]) + inner


def proxy(
    issuer: Holder,
    *,
    policy: str = INHERIT_ALL,
    path_length: int | None = None,
    rules: bytes | None = None,
    critical: bool = True,
    info: bytes | None = None,
    appended: str = "CN=1234567",
    subject: x509.Name | None = None,
    key: PrivateKey | None = None,
    key_usage: x509.KeyUsage | None = None,
    more: Sequence[Extension] = (),
    ends: datetime | None = None,
    **others: object,
) -> Holder:
    """A proxy as RFC 3820 has it, but for what is asked for."""
    made = info if info is not None else proxy_cert_info(policy, path_length, rules)
    extensions: list[Extension] = [
        (x509.UnrecognizedExtension(PROXY_CERT_INFO, made), critical),
        (key_usage or usage(), True),
        *more,
    ]
    return sign(
        subject or x509.Name([*issuer.certificate.subject.rdns, *name(appended).rdns]),
        key or rsa_key(2 + len(issuer.issuers)),
        issuer,
        extensions,
        ends=ends or issuer.certificate.not_valid_after_utc,
        **others,  # type: ignore[arg-type]
    )


def legacy_proxy(issuer: Holder, appended: str = "CN=proxy") -> Holder:
    """Make a proxy as GT2 did: the subject marks it, without an extension."""
    subject = x509.Name([*issuer.certificate.subject.rdns, *name(appended).rdns])
    return sign(subject, rsa_key(9), issuer, [], ends=issuer.certificate.not_valid_after_utc)


def with_wrong_signature(holder: Holder) -> Holder:
    """The last octet of the signature is another one."""
    data = holder.certificate.public_bytes(Encoding.DER)
    changed = x509.load_der_x509_certificate(data[:-1] + bytes([data[-1] ^ 1]))
    return Holder(changed, holder.key, holder.issuers)


def claiming(holder: Holder, digest: str) -> Holder:
    """Says that it is signed with "md5" or "sha1", which `cryptography` signs with no more. The signature is
    wrong, too; nobody should look so far."""
    data = holder.certificate.public_bytes(Encoding.DER)
    prefix = bytes.fromhex("2a864886f70d0101")
    changed = data.replace(prefix + b"\x0b", prefix + {"md5": b"\x04", "sha1": b"\x05"}[digest])
    return Holder(x509.load_der_x509_certificate(changed), holder.key, holder.issuers)


def revocation_list(
    issuer: Holder,
    revoked: Iterable[Holder] = (),
    *,
    begins: datetime = NOW - DAY,
    ends: datetime = NOW + DAY,
    signed_by: PrivateKey | None = None,
    more: Sequence[Extension] = (),
) -> bytes:
    """PEM."""
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer.certificate.subject)
    builder = builder.last_update(begins).next_update(ends)
    for holder in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(holder.certificate.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(begins).build())
    for extension, critical in more:
        builder = builder.add_extension(extension, critical)
    return builder.sign(signed_by or issuer.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def policy_text(holder: Holder, *patterns: str) -> str:
    quoted = " ".join(f'"{pattern}"' for pattern in patterns)
    subject = slash_name(holder.certificate.subject)
    return f"access_id_CA X509 '{subject}'\npos_rights globus CA:sign\ncond_subjects globus '{quoted}'\n"


def stem(holder: Holder) -> str:
    """Eight hex digits, as names of files in folders of authorities have; ours are read whatever digits they are."""
    return f"{zlib.crc32(holder.certificate.subject.public_bytes()):08x}"


def trust(folder: Path, holder: Holder, *patterns: str, policy: str | None = None) -> Path:
    """Put an authority into a folder; patterns default to everything below /O=Grid, policy="" leaves out the file."""
    text = policy_text(holder, *(patterns or ("/O=Grid/*",))) if policy is None else policy
    (folder / f"{stem(holder)}.0").write_bytes(certificate_pem(holder.certificate))
    if text:
        (folder / f"{stem(holder)}.signing_policy").write_text(text)
    return folder


def publish(folder: Path, issuer: Holder, content: bytes, number: int = 0) -> None:
    """A revocation list of this authority."""
    (folder / f"{stem(issuer)}.r{number}").write_bytes(content)


def verified(folder: Path, holder: Holder, now: datetime = NOW) -> str:
    return slash_name(TrustFolder(folder).verify(holder.chain, now=now).subject)


def raises_flaw(flaw: Flaw) -> pytest.RaisesExc[Any]:
    """The context expects a credential or a certificate with this flaw."""
    return pytest.raises((CredentialError, UntrustedError), check=lambda error: error.flaw is flaw)


def refused(folder: Path, holder: Holder, flaw: Flaw, now: datetime = NOW) -> str:
    """The reason of a refusal for this flaw."""
    with pytest.raises(UntrustedError) as raised:
        TrustFolder(folder).verify(holder.chain, now=now)
    assert raised.value.flaw is flaw, raised.value.reason
    assert raised.value.reason.endswith(".")
    return raised.value.reason
