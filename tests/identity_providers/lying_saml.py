"""A SAML identity provider that says what a test wants it to say; signxml signs, as an institution would."""

from __future__ import annotations

import base64
import copy
import re
import secrets
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from lxml import etree
from signxml.algorithms import CanonicalizationMethod
from signxml.signer import XMLSigner

from tests import kept_keys

NS = {
    "saml": "urn:oasis:names:tc:SAML:2.0:assertion",
    "samlp": "urn:oasis:names:tc:SAML:2.0:protocol",
    "ds": "http://www.w3.org/2000/09/xmldsig#",
}
SAML, SAMLP, DS = (f"{{{NS[name]}}}" for name in ("saml", "samlp", "ds"))
ENTITY, SCOPE = "https://idp.example.edu/idp/shibboleth", "example.edu"
EPPN, TARGETED = "urn:oid:1.3.6.1.4.1.5923.1.1.1.6", "urn:oid:1.3.6.1.4.1.5923.1.1.1.10"
SUBJECT_ID = "urn:oasis:names:tc:SAML:attribute:subject-id"
PAIRWISE, MAIL, NAME = (
    "urn:oasis:names:tc:SAML:attribute:pairwise-id",
    "urn:oid:0.9.2342.19200300.100.1.3",
    "urn:oid:2.16.840.1.113730.3.1.241",
)


def certificate_of(key: rsa.RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "idp")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(7).not_valid_before(now - timedelta(days=9)).not_valid_after(now + timedelta(days=9))
    )
    return builder.sign(key, hashes.SHA256())


def moment(seconds: float = 0) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_key() -> rsa.RSAPrivateKey:
    return kept_keys.rsa_key()


#: For the honest institution of each test: a new one takes a tenth of a second. Others have keys of their own.
usual_key = cache(new_key)


@dataclass
class LyingInstitution:
    """Honest until a test changes a field. answers_to, audience: as its metadata of us say."""

    answers_to: str
    audience: str
    entity_id: str = ENTITY
    attributes: dict[str, str] = field(default_factory=lambda: {EPPN: "alice@example.edu", NAME: "Alice Liddell"})
    name_id: str = "the-name-id"
    name_format: str = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
    recipient: str | None = None
    destination: str | None = None
    not_before: float = -60
    not_after: float = 300
    issued: float = 0
    #: Seconds since the person was asked last, as AuthnInstant says; None if it is left out.
    asked_before: float | None = 0
    request_id: str = ""
    key: rsa.RSAPrivateKey = field(default_factory=new_key)

    def metadata(
        self, more: str = "", *, scopes: tuple[str, ...] = (SCOPE,), name: str = "Example University"
    ) -> bytes:
        certificate = base64.b64encode(certificate_of(self.key).public_bytes(Encoding.DER)).decode()
        scope = "".join(f'<shibmd:Scope regexp="false">{one}</shibmd:Scope>' for one in scopes)
        return f"""<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" {more}
 xmlns:ds="{NS["ds"]}" xmlns:shibmd="urn:mace:shibboleth:metadata:1.0" xmlns:mdui="urn:oasis:names:tc:SAML:metadata:ui"
 entityID="{self.entity_id}"><md:IDPSSODescriptor protocolSupportEnumeration="{NS["samlp"]}"><md:Extensions>{scope}
 <mdui:UIInfo><mdui:DisplayName xml:lang="de">{name} auf Deutsch</mdui:DisplayName>
 <mdui:DisplayName xml:lang="en">{name}</mdui:DisplayName></mdui:UIInfo></md:Extensions>
 <md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data><ds:X509Certificate>{certificate}</ds:X509Certificate>
 </ds:X509Data></ds:KeyInfo></md:KeyDescriptor><md:SingleSignOnService
 Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example.edu/sso"/>
 </md:IDPSSODescriptor></md:EntityDescriptor>""".encode()

    def asked(self, url: str) -> str:
        """Read the request in the address to which the browser was led."""
        query = parse_qs(urlsplit(url).query)
        text = zlib.decompress(base64.b64decode(query["SAMLRequest"][0]), -15).decode()
        found = re.search(r' ID="([^"]+)"', text)
        assert found
        self.request_id = found[1]
        return text

    def assertion(self, name: str = "") -> etree._Element:
        values = "".join(
            f'<saml:Attribute Name="{key}"><saml:AttributeValue>{value}</saml:AttributeValue></saml:Attribute>'
            for key, value in self.attributes.items()
        )
        authenticated = (
            ""
            if self.asked_before is None
            else f'<saml:AuthnStatement AuthnInstant="{moment(-self.asked_before)}"><saml:AuthnContext>'
            "<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef>"
            "</saml:AuthnContext></saml:AuthnStatement>"
        )
        text = f"""<saml:Assertion xmlns:saml="{NS["saml"]}" ID="{name or "_" + secrets.token_hex(8)}" Version="2.0"
 IssueInstant="{moment(self.issued)}"><saml:Issuer>{self.entity_id}</saml:Issuer><saml:Subject><saml:NameID
 Format="{self.name_format}">{self.name_id}</saml:NameID><saml:SubjectConfirmation
 Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData NotOnOrAfter="{moment(self.not_after)}"
 Recipient="{self.recipient or self.answers_to}" InResponseTo="{self.request_id}"/></saml:SubjectConfirmation>
 </saml:Subject><saml:Conditions NotBefore="{moment(self.not_before)}" NotOnOrAfter="{moment(self.not_after)}">
 <saml:AudienceRestriction><saml:Audience>{self.audience}</saml:Audience></saml:AudienceRestriction>
 </saml:Conditions>{authenticated}<saml:AttributeStatement>{values}</saml:AttributeStatement></saml:Assertion>"""
        return etree.fromstring(text)

    def signed(self, element: etree._Element, key: rsa.RSAPrivateKey | None = None) -> etree._Element:
        """The element with its signature after the Issuer, where SAML wants it."""
        place = copy.deepcopy(element)
        place.insert(1, etree.fromstring(f'<ds:Signature xmlns:ds="{NS["ds"]}" Id="placeholder"/>'))
        signer = XMLSigner(c14n_algorithm=CanonicalizationMethod.EXCLUSIVE_XML_CANONICALIZATION_1_0)
        key = key or self.key
        return signer.sign(
            place, key=key, cert=[certificate_of(key)], reference_uri=f"#{element.get('ID')}", id_attribute="ID"
        )

    def response(self, *assertions: etree._Element) -> etree._Element:
        root = etree.fromstring(
            f'<samlp:Response xmlns:samlp="{NS["samlp"]}" xmlns:saml="{NS["saml"]}" ID="_r{secrets.token_hex(8)}" '
            f'Version="2.0" IssueInstant="{moment()}" Destination="{self.destination or self.answers_to}" '
            f'InResponseTo="{self.request_id}"><saml:Issuer>{self.entity_id}</saml:Issuer><samlp:Status>'
            '<samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status></samlp:Response>'
        )
        for one in assertions:
            root.append(one)
        return root

    def honest(self) -> etree._Element:
        return self.response(self.signed(self.assertion()))


def encoded(root: etree._Element | bytes) -> str:
    return base64.b64encode(root if isinstance(root, bytes) else etree.tostring(root)).decode()


# ---- signature wrapping: Somorovsky et al., "On Breaking SAML" (2012); the numbers are those of SAML Raider


def _forged(original: etree._Element) -> etree._Element:
    """A copy that says another person, without a signature, under another id."""
    evil = copy.deepcopy(original)
    for one in evil.findall(f"{DS}Signature"):
        evil.remove(one)
    _say_another(evil)
    return evil


def _forged_and_plain(root: etree._Element) -> tuple[etree._Element, etree._Element]:
    """The assertion, which says another person now and has the signature; and a copy as it was, without one."""
    original = _assertion_of(root)
    plain = copy.deepcopy(original)
    plain.remove(_signature_of(plain))
    _say_another(original)
    return original, plain


def _say_another(assertion: etree._Element) -> None:
    assertion.set("ID", "_evil")
    for one in assertion.iter(f"{SAML}AttributeValue"):
        one.text = "mallory@example.edu"


def _assertion_of(root: etree._Element) -> etree._Element:
    found = root.find(f"{SAML}Assertion")
    assert found is not None
    return found


def _signature_of(element: etree._Element) -> etree._Element:
    found = element.find(f"{DS}Signature")
    assert found is not None
    return found


def _object_in(signature: etree._Element, inner: etree._Element) -> None:
    etree.SubElement(signature, f"{DS}Object").append(inner)


def xsw1(root: etree._Element) -> etree._Element:
    """The signed response inside the signature of a forged one."""
    original = copy.deepcopy(root)
    signature = _signature_of(root)
    original.remove(_signature_of(original))
    _object_in(signature, original)
    _evil_response(root)
    return root


def xsw2(root: etree._Element) -> etree._Element:
    """The signed response beside its signature, in a forged one."""
    original = copy.deepcopy(root)
    original.remove(_signature_of(original))
    root.insert(0, original)
    _evil_response(root)
    return root


def _evil_response(root: etree._Element) -> None:
    root.set("ID", "_evil-response")
    for one in _assertion_of(root).iter(f"{SAML}AttributeValue"):
        one.text = "mallory@example.edu"
    _assertion_of(root).set("ID", "_evil")


def xsw3(root: etree._Element) -> etree._Element:
    """A forged assertion before the signed one."""
    original = _assertion_of(root)
    original.addprevious(_forged(original))
    return root


def xsw4(root: etree._Element) -> etree._Element:
    """The signed assertion inside a forged one."""
    original = _assertion_of(root)
    evil = _forged(original)
    root.replace(original, evil)
    evil.append(original)
    return root


def xsw5(root: etree._Element) -> etree._Element:
    """A forged assertion with the signature, and the signed one at the end."""
    _, plain = _forged_and_plain(root)
    root.append(plain)
    return root


def xsw6(root: etree._Element) -> etree._Element:
    """The signed assertion inside the signature of a forged one."""
    forged, plain = _forged_and_plain(root)
    _object_in(_signature_of(forged), plain)
    return root


def xsw7(root: etree._Element) -> etree._Element:
    """A forged assertion inside extensions."""
    original = _assertion_of(root)
    extensions = etree.Element(f"{SAMLP}Extensions")
    original.addprevious(extensions)
    extensions.append(_forged(original))
    return root


def xsw8(root: etree._Element) -> etree._Element:
    """The signed assertion inside an object of the signature of a forged one, without its signature."""
    original = _assertion_of(root)
    signature = _signature_of(original)
    evil = _forged(original)
    root.replace(original, evil)
    original.remove(signature)
    evil.insert(1, signature)
    _object_in(signature, original)
    return root


#: With what is signed: the response, or the assertion.
WRAPPINGS: dict[str, tuple[bool, Callable[[etree._Element], etree._Element]]] = {
    "XSW1": (True, xsw1), "XSW2": (True, xsw2), "XSW3": (False, xsw3), "XSW4": (False, xsw4),
    "XSW5": (False, xsw5), "XSW6": (False, xsw6), "XSW7": (False, xsw7), "XSW8": (False, xsw8),
}  # fmt: skip
