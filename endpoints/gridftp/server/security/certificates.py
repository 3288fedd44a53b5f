"""Certificates as GSI sees them: names in the form of grid-mapfiles, proxies (RFC 3820), and whose a chain is."""

from __future__ import annotations

import base64
import re
import ssl
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import der

#: ProxyCertInfo of RFC 3820, and of its draft, which old tools still write.
_PROXY = ("1.3.6.1.5.5.7.1.14", "1.3.6.1.4.1.3536.1.222")
_EXTENSIONS = 0xA3
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s([A-Za-z0-9+/=\s]*)-----END \1-----")
_KEYS = (b"PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY")
#: A value that would be taken for several on one line, or for another one.
_AMBIGUOUS = re.compile(r"/[A-Za-z0-9.]+=|[\x00-\x1f\x7f]")
#: The names of attributes as OpenSSL writes them on one line.
_ATTRIBUTES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.5": "serialNumber",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "emailAddress",
}
_DER = 2  # _ssl.ENCODING_DER

if TYPE_CHECKING:
    TlsChannel = ssl.SSLSocket | ssl.SSLObject


class CertificateError(ValueError):
    """Certificates that cannot be read, or that say not enough."""


class Certificate(NamedTuple):
    """The part of a certificate that names its owner. subject, issuer: `/O=Grid/CN=Alice`."""

    octets: bytes
    subject: str
    issuer: str
    is_proxy: bool

    @property
    def signs_itself(self) -> bool:
        return self.subject == self.issuer

    @property
    def pem(self) -> bytes:
        return ssl.DER_cert_to_PEM_cert(self.octets).encode("ascii")


def read(octets: bytes) -> Certificate:
    """A certificate from DER (RFC 5280 section 4.1). Raises CertificateError."""
    try:
        parts = fields(octets)
        is_proxy = any(_is_proxy(one) for one in parts if one.tag == _EXTENSIONS)
        return Certificate(octets, name_text(parts[4].content), name_text(parts[2].content), is_proxy)
    except (der.NotDerError, IndexError, StopIteration, UnicodeDecodeError) as error:
        raise CertificateError("a certificate that cannot be read") from error


def fields(octets: bytes) -> list[der.Value]:
    """TBSCertificate from the serial number on: 1 algorithm, 2 issuer, 3 validity, 4 subject, 5 key.

    Raises NotDerError, IndexError.
    """
    found = list(der.values(der.one(der.one(octets).content).content))
    return found[1:] if found[0].tag == 0xA0 else found


def identity(chain: Sequence[Certificate]) -> str:
    """The name of the person or host, without its proxies. chain: verified, leaf first. Raises CertificateError."""
    for certificate in chain:
        if not certificate.is_proxy:
            return certificate.subject
    # Before Python 3.10 only the leaf can be read: a proxy does not say how many names are those of its owner.
    raise CertificateError("the certificate of a proxy's owner cannot be read")


def peer_chain(tls: TlsChannel, *, verified: bool = True) -> list[Certificate]:
    """The chain of the other side, leaf first, verified by OpenSSL or as it was sent; [] where it has none.

    Before Python 3.10 no more than the leaf can be read. Raises CertificateError.
    """
    name = "get_verified_chain" if verified else "get_unverified_chain"
    leaf = tls.getpeercert(binary_form=True)
    if not leaf:
        return []
    source = tls if hasattr(tls, name) else getattr(tls, "_sslobj", None)
    get_chain = getattr(source, name, None)
    found = [_octets(one) for one in get_chain() or ()] if get_chain else []
    return [read(one) for one in found or [leaf]]


def split_pem(pem: bytes) -> tuple[list[Certificate], bytes]:
    """The certificates, and the private key in PEM, of a credential. Raises CertificateError."""
    certificates, keys = [], []
    for match in _PEM.finditer(pem):
        if match[1] == b"CERTIFICATE":
            certificates.append(read(_base64(match[2])))
        elif match[1] in _KEYS:
            keys.append(match[0] + b"\n")
    if not certificates or len(keys) != 1:
        raise CertificateError("a credential has certificates and one key without a passphrase")
    return certificates, keys[0]


def pem_blocks(pem: bytes, label: bytes) -> list[bytes]:
    """The octets of the blocks with this label. Raises CertificateError."""
    return [_base64(match[2]) for match in _PEM.finditer(pem) if match[1] == label]


def pem_text(label: str, octets: bytes) -> str:
    """One block with this label (RFC 7468)."""
    text = "\n".join(textwrap.wrap(base64.b64encode(octets).decode("ascii"), 64))
    return f"-----BEGIN {label}-----\n{text}\n-----END {label}-----\n"


def _octets(certificate: object) -> bytes:
    if isinstance(certificate, bytes):
        return certificate
    encoded: bytes = certificate.public_bytes(_DER)  # type: ignore[attr-defined]
    return encoded


def _base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(b"".join(text.split()), validate=True)
    except ValueError:
        raise CertificateError("a certificate that is not base64") from None


def _is_proxy(extensions: der.Value) -> bool:
    names = (next(der.values(one.content)) for one in der.values(der.one(extensions.content).content))
    return any(name.tag == der.OBJECT and der.object_name(name.content) in _PROXY for name in names)


def name_text(content: bytes) -> str:
    """A name on one line, as OpenSSL and grid-mapfiles write it."""
    parts = []
    for group in der.values(content):
        for attribute in der.values(group.content):
            kind, value = list(der.values(attribute.content))[:2]
            label, text = der.object_name(kind.content), _text(value)
            if _AMBIGUOUS.search(text):
                raise CertificateError("a certificate with a name that reads like another one")
            parts.append(f"/{_ATTRIBUTES.get(label, label)}={text}")
    return "".join(parts)


def _text(value: der.Value) -> str:
    encoding = {der.UTF8_STRING: "utf-8", der.BMP_STRING: "utf-16-be", der.UNIVERSAL_STRING: "utf-32-be"}
    return value.content.decode(encoding.get(value.tag, "latin-1"))
