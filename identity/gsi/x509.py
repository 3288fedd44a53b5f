"""Credentials: a certificate, its private key and the chain of its issuers, as one PEM text.

Raises the CredentialErrors of `errors`.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from identity.gsi.errors import CredentialError, Flaw

from . import der
from .distinguished_names import canonical, slash_name
from .errors import KeyMismatchError, PassphraseError
from .private_keys import costs_too_much, open_key

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_Extension = TypeVar("_Extension", bound=x509.ExtensionType)

#: The errors of `cryptography` for malformed certificates and keys, some of them raised late. They have no base class.
UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)

#: Maximum of octets of PEM; a proxy of a proxy of a certificate below three authorities has 15 thousand.
MAX_PEM = 256 * 1024
#: Maximum of octets of one PEM block: an RSA key of 8192 bits has 6500.
MAX_BLOCK = 16 * 1024
MAX_KEY_BLOCK = 9 * 1024
#: Maximum of certificates in one credential.
MAX_CERTIFICATES = 32

#: RFC 3820 section 3.8, and the policies of its section 3.8.2 and of the Globus toolkit.
PROXY_CERT_INFO = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.14")
DRAFT_PROXY_CERT_INFO = x509.ObjectIdentifier("1.3.6.1.4.1.3536.1.222")
INHERIT_ALL = "1.3.6.1.5.5.7.21.1"
LIMITED = "1.3.6.1.4.1.3536.1.1.1.9"


@dataclass(frozen=True, slots=True)
class ProxyInfo:
    """The extension proxyCertInfo (RFC 3820 section 3.8). path_length: maximum of proxies below; None: no limit."""

    critical: bool
    policy: str
    path_length: int | None
    has_rules: bool

    @classmethod
    def parse(cls, data: bytes, *, critical: bool) -> ProxyInfo:
        """SEQUENCE { pCPathLenConstraint INTEGER OPTIONAL, proxyPolicy SEQUENCE { OID, ... } }. Raises DerError."""
        parts = list(der.elements(der.only(data, der.SEQUENCE)))
        path_length = None
        if parts and parts[0][0] == der.INTEGER:
            path_length = int.from_bytes(parts.pop(0)[1], signed=True)
        if len(parts) != 1 or parts[0][0] != der.SEQUENCE or (path_length is not None and path_length < 0):
            raise der.DerError("not a proxyCertInfo")
        policy = list(der.elements(parts[0][1]))
        if not 1 <= len(policy) <= 2 or policy[0][0] != der.OID:
            raise der.DerError("not a proxy policy")
        return cls(critical, der.oid_text(policy[0][1]), path_length, len(policy) == 2)


def extension(certificate: x509.Certificate, kind: type[_Extension]) -> _Extension | None:
    """The certificate's extension of this kind, or None. Raises ValueError where it is unreadable."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def proxy_info(certificate: x509.Certificate) -> ProxyInfo | None:
    """The proxyCertInfo of a proxy (RFC 3820); None for other certificates. Raises ValueError: it is unreadable."""
    for one in certificate.extensions:
        if one.oid == PROXY_CERT_INFO and isinstance(one.value, x509.UnrecognizedExtension):
            return ProxyInfo.parse(one.value.value, critical=one.critical)
    return None


def has_limited_proxy(chain: Iterable[x509.Certificate]) -> bool:
    """Whether any of these is a limited proxy. Raises ValueError: one is unreadable."""
    infos = map(proxy_info, chain)
    return any(info is not None and info.policy == LIMITED for info in infos)


def is_legacy_proxy(certificate: x509.Certificate) -> bool:
    """Whether this is a proxy from before RFC 3820: of GT2 ("CN=proxy", no extension) or of GT3 (the draft's)."""
    if any(one.oid == DRAFT_PROXY_CERT_INFO for one in certificate.extensions):
        return True
    last = list(certificate.subject.rdns[-1]) if certificate.subject.rdns else []
    return (
        len(last) == 1
        and last[0].oid == NameOID.COMMON_NAME
        and last[0].value in ("proxy", "limited proxy")
        and canonical(certificate.subject)[:-1] == canonical(certificate.issuer)
        and proxy_info(certificate) is None
    )


def check_key(key: object) -> None:
    """Raises CredentialError unless the key is RSA of 2048 to 8192 bits, or on a NIST curve from P-256 on."""
    if isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey):
        if not 2048 <= key.key_size <= 8192:
            raise CredentialError(
                f"An RSA key of {key.key_size} bits is not accepted; it must have 2048 to 8192.", Flaw.WEAK_KEY
            )
    elif isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        if not isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1):
            raise CredentialError(
                f"Keys on the curve {key.curve.name} are not accepted; use RSA with 2048 bits.", Flaw.WEAK_KEY
            )
    else:
        raise CredentialError("A key of this kind is not accepted; use RSA with 2048 bits.", Flaw.WEAK_KEY)


@dataclass(frozen=True, slots=True)
class X509Credential:
    """A certificate with its private key and its issuers, nearest first. Neither repr nor str show the key."""

    certificate: x509.Certificate = field(repr=False)
    key: PrivateKey = field(repr=False)
    chain: tuple[x509.Certificate, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, pem: bytes, passphrase: bytes | None = None) -> X509Credential:
        """Parse certificate, key and chain from PEM, in any order, with any text between. Raises CredentialError.

        The leaf is the certificate of the key. Neither time nor trust is checked here: see trust.TrustFolder.
        """
        key_block = None
        certificates: list[x509.Certificate] = []
        for label, block in _blocks(pem):
            if label in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
                _add(certificates, _certificate(block))
            elif label.endswith("PRIVATE KEY"):
                if key_block is not None:
                    raise CredentialError("There is more than one private key in it.", Flaw.MALFORMED_CREDENTIAL)
                key_block = block
        if not certificates:
            raise CredentialError("There is no certificate in it.", Flaw.MALFORMED_CREDENTIAL)
        if key_block is None:
            raise CredentialError("There is no private key in it.", Flaw.MALFORMED_CREDENTIAL)
        return cls.assemble(_private_key(key_block, passphrase), certificates)

    @classmethod
    def assemble(cls, key: PrivateKey, certificates: Sequence[x509.Certificate]) -> X509Credential:
        """The credential of this key among these certificates, in any order. Raises CredentialError."""
        check_key(key)
        spki = _spki(key.public_key())
        try:
            leaf = next((one for one in certificates if _spki(one.public_key()) == spki), None)
            if leaf is None:
                raise KeyMismatchError("The private key does not belong to the certificate.")
            credential = cls(leaf, key, _sorted(leaf, certificates))
            for certificate in (leaf, *credential.chain):
                if is_legacy_proxy(certificate):
                    raise CredentialError(
                        "This is a proxy from before RFC 3820; make an RFC 3820 proxy.", Flaw.LEGACY_CREDENTIAL
                    )
            credential.end_entity  # noqa: B018 # a proxy without its certificate is found here
            slash_name(leaf.subject)
        except UNREADABLE:
            raise CredentialError("A certificate in it cannot be read.", Flaw.MALFORMED_CREDENTIAL) from None
        return credential

    def to_pem(self) -> bytes:
        """The layout of proxy files: certificate, key (unencrypted), issuers."""
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        parts = [certificate.public_bytes(Encoding.PEM) for certificate in (self.certificate, *self.chain)]
        return b"".join((parts[0], key, *parts[1:]))

    @property
    def end_entity(self) -> x509.Certificate:
        """The certificate of the person, below which are only proxies. Raises CredentialError."""
        for certificate in (self.certificate, *self.chain):
            if proxy_info(certificate) is None:
                return certificate
        raise CredentialError("The certificate that the proxy was made from is missing in it.", Flaw.INCOMPLETE_CHAIN)

    @property
    def identity(self) -> str:
        """The person's name in slash form, as in gridmaps: without the CNs of proxies."""
        return slash_name(self.end_entity.subject)

    @property
    def subject(self) -> str:
        """The name of the leaf, in slash form."""
        return slash_name(self.certificate.subject)

    @property
    def expires_at(self) -> datetime:
        """The earliest expiry in the chain (UTC): the credential cannot be used after it."""
        return min(certificate.not_valid_after_utc for certificate in (self.certificate, *self.chain))

    @property
    def is_proxy(self) -> bool:
        return proxy_info(self.certificate) is not None

    @property
    def is_limited(self) -> bool:
        """Whether any proxy of the chain is limited: GridFTP servers accept it, servers that start jobs do not."""
        return has_limited_proxy((self.certificate, *self.chain))

    @property
    def can_delegate(self) -> bool:
        """Whether it can be delegated: a server makes an RSA key of as many bits as ours has."""
        return isinstance(self.key, rsa.RSAPrivateKey)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the leaf in hex: public, and different for each credential."""
        return hashlib.sha256(self.certificate.public_bytes(Encoding.DER)).hexdigest()

    def __repr__(self) -> str:
        return f"X509Credential({self.subject!r}, expires_at={self.expires_at:%Y-%m-%dT%H:%M:%SZ})"


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a PEM text, in its order, without repetitions. Raises CredentialError."""
    found: list[x509.Certificate] = []
    for label, block in _blocks(pem):
        if label in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
            _add(found, _certificate(block))
    return found


def read_certificate(data: bytes) -> x509.Certificate:
    """A certificate from its DER. Raises CredentialError."""
    try:
        certificate = x509.load_der_x509_certificate(data)
        # Parse now what `cryptography` parses lazily: callers need not expect errors.
        list(certificate.extensions)
        certificate.public_key()
        canonical(certificate.subject), canonical(certificate.issuer)
    except UNREADABLE:
        raise CredentialError("A certificate in it cannot be read.", Flaw.MALFORMED_CREDENTIAL) from None
    return certificate


def _add(certificates: list[x509.Certificate], certificate: x509.Certificate) -> None:
    if certificate in certificates:
        return
    if len(certificates) == MAX_CERTIFICATES:
        raise CredentialError(f"There are more than {MAX_CERTIFICATES} certificates in it.", Flaw.CREDENTIAL_TOO_BIG)
    certificates.append(certificate)


def _blocks(pem: bytes) -> Iterator[tuple[str, bytes]]:
    """(label, block with its BEGIN and END lines) for each PEM block (RFC 7468); text between the blocks is ignored."""
    if len(pem) > MAX_PEM:
        raise CredentialError(f"A credential has at most {MAX_PEM // 1024} KiB.", Flaw.CREDENTIAL_TOO_BIG)
    label, lines, size = "", list[bytes](), 0
    for line in map(bytes.strip, pem.splitlines()):
        if line.startswith(b"-----BEGIN ") and line.endswith(b"-----"):
            if label:
                raise CredentialError("A PEM block in it begins inside another one.", Flaw.MALFORMED_CREDENTIAL)
            label, lines, size = line[11:-5].decode("latin-1"), [line], 0
        elif label:
            lines.append(line)
            size += len(line)
            if size > MAX_BLOCK:
                raise CredentialError(
                    "A PEM block in it is longer than any certificate or key.", Flaw.CREDENTIAL_TOO_BIG
                )
            if line == b"-----END " + label.encode("latin-1") + b"-----":
                yield label, b"\n".join(lines) + b"\n"
                label = ""
    if label:
        raise CredentialError("It is cut short: a PEM block has no end.", Flaw.MALFORMED_CREDENTIAL)


def _certificate(block: bytes) -> x509.Certificate:
    lines = block.splitlines()
    try:
        # A certificate's block has no headers (RFC 7468 section 5.1); OpenSSL's appendix to trusted ones is left out.
        data = binascii.a2b_base64(b"".join(lines[1:-1]), strict_mode=True)
        tag, _start, end = der.header(data, 0)
        if tag != der.SEQUENCE or (end != len(data) and b"TRUSTED" not in lines[0]):
            raise der.DerError("not a certificate")
    except ValueError:
        raise CredentialError("A certificate in it cannot be read.", Flaw.MALFORMED_CREDENTIAL) from None
    return read_certificate(data[:end])


def _private_key(block: bytes, passphrase: bytes | None) -> PrivateKey:
    if len(block) > MAX_KEY_BLOCK:
        raise CredentialError("The private key is longer than any that is accepted.", Flaw.CREDENTIAL_TOO_BIG)
    encrypted = b"ENCRYPTED" in block
    if b"BEGIN ENCRYPTED" in block and _costs_too_much(block):
        raise CredentialError("The private key is encrypted in a way that is not accepted.", Flaw.MALFORMED_CREDENTIAL)
    if encrypted and not passphrase:
        raise PassphraseError("The private key is encrypted: its passphrase is needed.")
    try:
        key = open_key(load_pem_private_key, block, passphrase if encrypted else None)
    except UNREADABLE:
        if encrypted:
            raise PassphraseError("The private key does not open with this passphrase.") from None
        raise CredentialError("The private key cannot be read.", Flaw.MALFORMED_CREDENTIAL) from None
    check_key(key)
    assert isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    return key


def _costs_too_much(block: bytes) -> bool:
    try:
        return costs_too_much(b"".join(block.splitlines()[1:-1]))
    except ValueError:
        return True


def _spki(key: object) -> bytes:
    if not hasattr(key, "public_bytes"):
        return b""
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _sorted(leaf: x509.Certificate, certificates: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """The issuers of the leaf among these, nearest first; other certificates are left out."""
    rest = [one for one in certificates if one != leaf]
    chain: list[x509.Certificate] = []
    wanted = canonical(leaf.issuer)
    while (issuer := next((one for one in rest if canonical(one.subject) == wanted), None)) is not None:
        rest.remove(issuer)
        chain.append(issuer)
        wanted = canonical(issuer.issuer)
    return tuple(chain)
