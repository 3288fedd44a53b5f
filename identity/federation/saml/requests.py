"""Requests to institutions (AuthnRequest, HTTP-Redirect binding; SAML Bindings 3.4), and our own metadata."""

from __future__ import annotations

import base64
import secrets
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode
from xml.sax.saxutils import escape, quoteattr

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from .models import Institution
from .responses import ServiceProvider

_SHA256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
_POST = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
_PROTOCOL, _ASSERTION = "urn:oasis:names:tc:SAML:2.0:protocol", "urn:oasis:names:tc:SAML:2.0:assertion"


@dataclass(frozen=True, slots=True)
class SamlAttempt:
    """url: for the browser. request_id: the answer repeats it."""

    url: str = field(repr=False)
    request_id: str


def begin(
    institution: Institution, us: ServiceProvider, key: RSAPrivateKey | None, *, anew: bool = False
) -> SamlAttempt:
    """key: signs the request; None: it is not signed. There is no RelayState: our session knows the way back.

    anew: ask the institution to ask the person again (SAML Core 3.4.1).
    """
    force = 'ForceAuthn="true" ' if anew else ""
    request_id = f"_{secrets.token_hex(20)}"
    text = (
        f'<samlp:AuthnRequest xmlns:samlp="{_PROTOCOL}" xmlns:saml="{_ASSERTION}" ID="{request_id}" Version="2.0" '
        f'IssueInstant="{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}" Destination={quoteattr(institution.sign_in_url)} '
        f'{force}AssertionConsumerServiceURL={quoteattr(us.answers_to)} ProtocolBinding="{_POST}">'
        f"<saml:Issuer>{escape(us.entity_id)}</saml:Issuer></samlp:AuthnRequest>"
    )
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = deflate.compress(text.encode()) + deflate.flush()
    query = urlencode({"SAMLRequest": base64.b64encode(packed).decode(), **({"SigAlg": _SHA256} if key else {})})
    if key is not None:
        signature = base64.b64encode(key.sign(query.encode(), PKCS1v15(), SHA256())).decode()
        query += "&" + urlencode({"Signature": signature})
    join = "&" if "?" in institution.sign_in_url else "?"
    return SamlAttempt(f"{institution.sign_in_url}{join}{query}", request_id)


def metadata(us: ServiceProvider, key: RSAPrivateKey | None, *, signs: bool) -> bytes:
    """Our own metadata. signs: whether our requests are signed."""
    keys = ""
    if key is not None:
        certificate = base64.b64encode(_certificate(us, key)).decode()
        info = (
            '<ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data>'
            f"<ds:X509Certificate>{certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>"
        )
        method = '<md:EncryptionMethod Algorithm="http://www.w3.org/2009/xmlenc11#aes{}-gcm"/>'
        keys = (
            f'<md:KeyDescriptor use="signing">{info}</md:KeyDescriptor><md:KeyDescriptor use="encryption">{info}'
            f"{method.format(256)}{method.format(128)}</md:KeyDescriptor>"
        )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" '
        f'entityID={quoteattr(us.entity_id)}><md:SPSSODescriptor AuthnRequestsSigned="{str(signs).lower()}" '
        f'WantAssertionsSigned="true" protocolSupportEnumeration="{_PROTOCOL}">{keys}'
        f'<md:AssertionConsumerService Binding="{_POST}" Location={quoteattr(us.answers_to)} index="0" '
        'isDefault="true"/></md:SPSSODescriptor></md:EntityDescriptor>\n'
    ).encode()


def _certificate(us: ServiceProvider, key: RSAPrivateKey) -> bytes:
    """A certificate of our key, the same each time: institutions compare the key, and nothing else of it."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Waybill")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    return builder.not_valid_after(datetime(2070, 1, 1, tzinfo=UTC)).sign(key, SHA256()).public_bytes(Encoding.DER)
