"""Proxies of a person whose own certificate is known already (RFC 3820): verified here, without OpenSSL.

On a data connection both sides show proxies of the same person. OpenSSL, as the client of TLS, refuses certificates
that are for clients only, as those of persons are, and Python has no switch for that. The person's certificate has
been verified at login, and so only the proxies below it are left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timezone

from . import der
from .certificates import Certificate, CertificateError, fields

_RSA = "1.2.840.113549.1.1.1"
#: DigestInfo (RFC 8017 section 9.2) by the algorithm of a signature.
_DIGESTS = {
    "1.2.840.113549.1.1.11": ("sha256", bytes.fromhex("3031300d060960864801650304020105000420")),
    "1.2.840.113549.1.1.12": ("sha384", bytes.fromhex("3041300d060960864801650304020205000430")),
    "1.2.840.113549.1.1.13": ("sha512", bytes.fromhex("3051300d060960864801650304020305000440")),
}
_LEAST_BITS = 2048


def verify(chain: Sequence[Certificate], owner: Certificate) -> None:
    """Whether the chain, leaf first, is of proxies that lead to exactly this certificate. Raises CertificateError."""
    try:
        for proxy, issuer in zip(chain, chain[1:]):
            if proxy.octets == owner.octets:
                return
            if not proxy.is_proxy or proxy.issuer != issuer.subject or not _is_below(proxy, issuer):
                raise CertificateError("the other side shows a certificate that is no proxy of the agreed person")
            verify_signature(proxy.octets, issuer)
        if chain[-1].octets != owner.octets:
            raise CertificateError("the other side shows no proxy of the agreed person")
    except (der.NotDerError, IndexError, StopIteration, ValueError) as error:
        raise CertificateError(str(error) or "a proxy that cannot be read") from error


def _is_below(proxy: Certificate, issuer: Certificate) -> bool:
    """RFC 3820 section 3.4: the name of the issuer and one more common name; and valid now."""
    rest = proxy.subject[len(issuer.subject) :]
    named = proxy.subject.startswith(issuer.subject) and rest.startswith("/CN=") and "/" not in rest[1:]
    not_before, not_after = (time_of(one) for one in der.values(fields(proxy.octets)[3].content))
    return named and not_before <= datetime.now(timezone.utc) <= not_after


def verify_signature(octets: bytes, issuer: Certificate) -> None:
    """Whether a proxy or a revocation list, in DER, is signed by this issuer. Raises CertificateError, DerError."""
    body, algorithm, signature = list(der.values(der.one(octets).content))[:3]
    modulus, exponent = _public_key(issuer)
    digest = _DIGESTS.get(der.object_name(next(der.values(algorithm.content)).content))
    if digest is None or modulus.bit_length() < _LEAST_BITS:
        raise CertificateError("a signature of a kind that is not trusted")
    size = (modulus.bit_length() + 7) // 8
    name, prefix = digest
    ending = b"\0" + prefix + hashlib.new(name, body.whole).digest()
    wanted = b"\0\1" + b"\xff" * (size - 2 - len(ending)) + ending
    found = pow(int.from_bytes(signature.content[1:], "big"), exponent, modulus)
    if found != int.from_bytes(wanted, "big"):
        raise CertificateError("a wrong signature")


def _public_key(certificate: Certificate) -> tuple[int, int]:
    algorithm, key = list(der.values(fields(certificate.octets)[5].content))[:2]
    if der.object_name(next(der.values(algorithm.content)).content) != _RSA:
        raise CertificateError("a signature of a key that is not RSA")
    modulus, exponent = (int.from_bytes(one.content, "big") for one in der.values(der.one(key.content[1:]).content))
    return modulus, exponent


def time_of(value: der.Value) -> datetime:
    """UTCTime or GeneralizedTime, as RFC 5280 section 4.1.2.5 writes them. Raises ValueError."""
    text = value.content.decode("ascii")
    if len(text) == 13:
        text = ("20" if int(text[:2]) < 50 else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc)
