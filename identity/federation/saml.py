"""SAML 2.0: this service as a service provider (Web Browser SSO Profile), for Shibboleth and others.

The reasons: docs/decisions/accounts-and-providers.md.

Requests: AuthnRequest by the HTTP-Redirect binding (SAML Bindings 3.4), and our own metadata. Answers are checked by
SAML Profiles 4.1.4, SAML Core 2 and 3. Only what the institution's key has signed is read (`saml_documents.signed`),
and only one assertion may be in an answer, so that no other element can be taken for the signed one.

Assertions are decrypted by XML Encryption 1.1: RSA-OAEP for the key, AES-GCM for the content. AES-CBC has no check of
its own, so it is accepted only inside an answer whose signature was checked before: otherwise an attacker could learn
the content by changing it, and watching which errors come (Jager and Somorovsky, 2011).
"""

from __future__ import annotations

import base64
import binascii
import secrets
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode
from xml.sax.saxutils import escape, quoteattr

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from lxml import etree

from identity import user_names
from identity.models import Institution
from identity.proven_identities import Proven, name_at

from . import saml_directory
from .errors import ProofRefusedError, ProviderRefusedError
from .pending import check_first_use
from .saml_documents import DS, SAML, SAMLP, parse, signed, text_of

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
    """key: signs the request; None if it is not signed. There is no RelayState: our session knows the way back.

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


#: Octets of an answer; seconds by which clocks may differ, and for which an assertion is good at most.
MAX_ANSWER, SKEW, MAX_LIFE = 256 * 1024, 120, 3600
_BEARER, _SUCCESS = "urn:oasis:names:tc:SAML:2.0:cm:bearer", "urn:oasis:names:tc:SAML:2.0:status:Success"
_PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
_ATTRIBUTES = {
    "urn:oasis:names:tc:SAML:attribute:subject-id": "subject-id",
    "urn:oasis:names:tc:SAML:attribute:pairwise-id": "pairwise-id",
    "urn:oid:1.3.6.1.4.1.5923.1.1.1.6": "eppn",
    "urn:mace:dir:attribute-def:eduPersonPrincipalName": "eppn",
    "eduPersonPrincipalName": "eppn",
    "urn:oid:1.3.6.1.4.1.5923.1.1.1.10": "targeted-id",
    "eduPersonTargetedID": "targeted-id",
    "urn:oid:0.9.2342.19200300.100.1.3": "mail",
    "mail": "mail",
    "urn:oid:2.16.840.1.113730.3.1.241": "name",
    "displayName": "name",
}


@dataclass(frozen=True, slots=True)
class ServiceProvider:
    """We, as institutions know us. answers_to: the address to which they send answers."""

    entity_id: str
    answers_to: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An identity that an institution has proven, and the id of the request that it answers."""

    proven: Proven
    request_id: str


def check(encoded: str, us: ServiceProvider, key: RSAPrivateKey | None, now: float | None = None) -> Answer:
    """Check the value of `SAMLResponse` (HTTP-POST binding). Raises FederationError, LinkedIdentityError."""
    now = time.time() if now is None else now
    root = parse(_decoded(encoded))
    if root.tag != f"{SAMLP}Response":
        raise ProofRefusedError("The answer of the institution is none of SAML 2.0.")
    _check_ids(root)
    institution = saml_directory.by_entity_id(_issuer(root))
    assertion = _assertion(root, institution, key)
    _check_conditions(assertion, us, now)
    request_id = _check_subject(assertion, us, now)
    if root.get("Destination", us.answers_to) != us.answers_to:
        raise ProofRefusedError("The answer of the institution is for another address.")
    if root.get("InResponseTo", request_id) != request_id:
        raise ProofRefusedError("The answer of the institution is for another request.")
    proven = _proven(assertion, institution, us, now)
    check_first_use(f"assertion {institution.entity_id} {assertion.get('ID')}", MAX_LIFE + 2 * SKEW)
    return Answer(proven, request_id)


def _decoded(encoded: str) -> bytes:
    if len(encoded) > MAX_ANSWER:
        raise ProofRefusedError("The answer of the institution is too long.")
    try:
        return base64.b64decode("".join(encoded.split()), validate=True)
    except (ValueError, binascii.Error):
        raise ProofRefusedError("The answer of the institution cannot be read.") from None


def _check_ids(root: etree._Element) -> None:
    """Each id is there once, and signatures are where SAML has them. Raises ProofRefusedError."""
    ids = [one.get("ID") for one in root.iter() if one.get("ID") is not None]
    assertions = [*root.iter(f"{SAML}Assertion"), *root.iter(f"{SAML}EncryptedAssertion")]
    nested = [one for one in root.iter(f"{SAMLP}Response") if one is not root]
    holders = [root, *assertions]
    if len(set(ids)) != len(ids) or nested or any(one.getparent() is not root for one in assertions):
        raise ProofRefusedError("The answer of the institution has parts in places where none belong.")
    if any(one.getparent() not in holders for one in root.iter(f"{DS}Signature")):
        raise ProofRefusedError("The answer of the institution has a signature in a place where none belongs.")


def _issuer(root: etree._Element) -> str:
    """The institution that the answer names; its signature is checked afterwards."""
    named = root.find(f"{SAML}Issuer")
    named = named if named is not None else root.find(f"{SAML}Assertion/{SAML}Issuer")
    return text_of(named)


def _assertion(root: etree._Element, institution: Institution, key: RSAPrivateKey | None) -> etree._Element:
    """The one assertion, as it was signed: itself, or with the whole answer. Raises FederationError."""
    _check_status(root)
    whole = signed(root, institution.certificates)
    assertion = _only_assertion(root if whole is None else whole)
    if assertion.tag == f"{SAML}EncryptedAssertion":
        assertion = _decrypted(assertion, key, authenticated=whole is not None)
    own = signed(assertion, institution.certificates)
    if own is None and whole is None:
        raise ProofRefusedError("The answer of the institution is not signed.")
    assertion = assertion if own is None else own
    if text_of(assertion.find(f"{SAML}Issuer")) != institution.entity_id or assertion.tag != f"{SAML}Assertion":
        raise ProofRefusedError("The assertion is of another institution.")
    if not assertion.get("ID"):
        raise ProofRefusedError("The assertion has no id.")
    return assertion


def _check_status(root: etree._Element) -> None:
    status = root.find(f"{SAMLP}Status/{SAMLP}StatusCode")
    if status is None or status.get("Value") != _SUCCESS:
        raise ProviderRefusedError("access_denied")


def _only_assertion(response: etree._Element) -> etree._Element:
    found = [*response.findall(f"{SAML}Assertion"), *response.findall(f"{SAML}EncryptedAssertion")]
    if len(found) != 1:
        raise ProofRefusedError("The answer of the institution must have one assertion.")
    return found[0]


def _decrypted(encrypted: etree._Element, key: RSAPrivateKey | None, *, authenticated: bool) -> etree._Element:
    """authenticated: the signature of the whole answer is over the encrypted assertion. Raises FederationError."""
    if key is None:
        raise ProofRefusedError("The answer is encrypted, and this service has no key for it (WAYBILL_SAML_KEY).")
    assertion = parse(decrypt(encrypted, key, authenticated=authenticated))
    _check_ids_inside(assertion)
    return assertion


def _check_ids_inside(assertion: etree._Element) -> None:
    """A decrypted assertion has no other one inside it. Raises ProofRefusedError."""
    inner = [one for name in ("Assertion", "EncryptedAssertion") for one in assertion.iter(f"{SAML}{name}")]
    ids = [one.get("ID") for one in assertion.iter() if one.get("ID") is not None]
    if assertion.tag != f"{SAML}Assertion" or inner != [assertion] or len(set(ids)) != len(ids):
        raise ProofRefusedError("The answer of the institution has parts in places where none belong.")


def _check_conditions(assertion: etree._Element, us: ServiceProvider, now: float) -> None:
    conditions = assertion.find(f"{SAML}Conditions")
    if conditions is None:
        raise ProofRefusedError("The assertion has no conditions.")
    if not _from(conditions, now):
        raise ProofRefusedError("The assertion is of the future: the clocks differ.")
    if not _until(conditions, now):
        raise ProofRefusedError("The assertion has expired.")
    audiences = conditions.findall(f"{SAML}AudienceRestriction")
    if not audiences or any(us.entity_id not in map(text_of, one.findall(f"{SAML}Audience")) for one in audiences):
        raise ProofRefusedError("The assertion is for another service.")
    if _seconds(assertion.get("IssueInstant")) < now - MAX_LIFE - SKEW:
        raise ProofRefusedError("The assertion is too old.")


def _check_subject(assertion: etree._Element, us: ServiceProvider, now: float) -> str:
    """The id of the request that the assertion answers (bearer, SAML Profiles 4.1.4.2). Raises ProofRefusedError."""
    for one in assertion.findall(f"{SAML}Subject/{SAML}SubjectConfirmation"):
        data = one.find(f"{SAML}SubjectConfirmationData")
        if one.get("Method") != _BEARER or data is None or data.get("NotOnOrAfter") is None:
            continue
        is_ours = data.get("Recipient") == us.answers_to and data.get("NotBefore") is None
        if is_ours and _until(data, now) and data.get("InResponseTo"):
            return str(data.get("InResponseTo"))
    raise ProofRefusedError("The assertion is not for this service, for no request of it, or no longer.")


def _from(element: etree._Element, now: float) -> bool:
    start = element.get("NotBefore")
    return start is None or _seconds(start) <= now + SKEW


def _until(element: etree._Element, now: float) -> bool:
    end = element.get("NotOnOrAfter")
    return end is None or now - SKEW < _seconds(end)


def _seconds(text: str | None) -> float:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        raise ProofRefusedError("The assertion has a time that is none.") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _proven(assertion: etree._Element, institution: Institution, us: ServiceProvider, now: float) -> Proven:
    """The person: by the most lasting name that the institution gives. It vouches for addresses of its own domains."""
    known = _attributes(assertion)
    name_id = assertion.find(f"{SAML}Subject/{SAML}NameID")
    persistent = text_of(name_id) if name_id is not None and name_id.get("Format") == _PERSISTENT else ""
    lasting = {
        "subject-id": known.get("subject-id"),
        "pairwise-id": known.get("pairwise-id"),
        # eduPersonTargetedID and the persistent NameID are the same value in two places (eduPerson).
        "targeted-id": known.get("targeted-id") or persistent,
        "eppn": known.get("eppn"),
    }
    kind = next((name for name, value in lasting.items() if value), "")
    if not kind:
        raise ProofRefusedError(
            "The institution gives no lasting name of you. Ask it for the attributes of this service."
        )
    local = known.get("eppn") or known.get("subject-id") or lasting[kind] or ""
    scopes = saml_directory.scopes_of(institution)
    domain = scopes[0] if scopes else _host(institution.entity_id)
    mail = known.get("mail", "")
    is_own_address = mail.rpartition("@")[2].lower() in institution.scopes
    return Proven.of(
        f"saml:{institution.entity_id}", f"{kind}:{lasting[kind]}", name_at(local, domain, scopes), now,
        email=mail, email_verified=is_own_address, name=known.get("name"), organization=institution.name,
        authenticated_at=_authenticated_at(assertion),
    )  # fmt: skip


def _authenticated_at(assertion: etree._Element) -> float | None:
    """When the institution has asked the person last (AuthnInstant, SAML Core 2.7.2). Raises ProofRefusedError."""
    found = [one.get("AuthnInstant") for one in assertion.findall(f"{SAML}AuthnStatement")]
    return max(map(_seconds, found), default=None)


def _attributes(assertion: etree._Element) -> Mapping[str, str]:
    """The first value of each attribute that is known here."""
    found: dict[str, str] = {}
    for one in assertion.findall(f"{SAML}AttributeStatement/{SAML}Attribute"):
        name = _ATTRIBUTES.get(one.get("Name", ""))
        value = text_of(one.find(f"{SAML}AttributeValue"))
        if name is not None and value and value.isprintable():
            found.setdefault(name, value)
    return found


def _host(entity_id: str) -> str:
    """The host of an entity id that is an address, if it is not the domain of this service; else the id as one word."""
    host = entity_id.partition("://")[2].partition("/")[0].partition(":")[0].lower()
    if host == user_names.domain():
        return f"saml.{host}"
    return host or "saml." + "".join(letter if letter.isalnum() else "-" for letter in entity_id)[:100]


_XENC, _XENC11 = "http://www.w3.org/2001/04/xmlenc#", "http://www.w3.org/2009/xmlenc11#"
_GCM = {f"{_XENC11}aes128-gcm": 16, f"{_XENC11}aes192-gcm": 24, f"{_XENC11}aes256-gcm": 32}
_CBC = {f"{_XENC}aes128-cbc": 16, f"{_XENC}aes192-cbc": 24, f"{_XENC}aes256-cbc": 32}
_HASHES: dict[str | None, hashes.HashAlgorithm] = {
    None: hashes.SHA1(),  # noqa: S303  # the default of the standard; OAEP does not depend on collisions
    "http://www.w3.org/2000/09/xmldsig#sha1": hashes.SHA1(),  # noqa: S303
    f"{_XENC}sha256": hashes.SHA256(),
}
_MASKS: dict[str | None, hashes.HashAlgorithm] = {
    None: hashes.SHA1(),  # noqa: S303
    f"{_XENC11}mgf1sha1": hashes.SHA1(),  # noqa: S303
    f"{_XENC11}mgf1sha256": hashes.SHA256(),
}


def decrypt(encrypted: etree._Element, key: RSAPrivateKey, *, authenticated: bool) -> bytes:
    """The content of an EncryptedAssertion. key: of this service. authenticated: a signature around it was checked.

    Raises ProofRefusedError, which is the same for every cause.
    """
    try:
        return _content(encrypted, key, authenticated)
    except (ValueError, KeyError, InvalidTag, binascii.Error, AttributeError):
        raise ProofRefusedError("The answer of the institution cannot be decrypted.") from None


def _content(encrypted: etree._Element, private_key: RSAPrivateKey, authenticated: bool) -> bytes:
    data = encrypted.find(f"{{{_XENC}}}EncryptedData")
    wrapped = next(iter(encrypted.iter(f"{{{_XENC}}}EncryptedKey")), None)
    if data is None or wrapped is None:
        raise ValueError("incomplete")
    algorithm = data.find(f"{{{_XENC}}}EncryptionMethod").get("Algorithm")
    key = _session_key(wrapped, private_key)
    octets = base64.b64decode(text_of(data.find(f"{{{_XENC}}}CipherData/{{{_XENC}}}CipherValue")))
    if algorithm in _GCM and len(key) == _GCM[algorithm]:
        return AESGCM(key).decrypt(octets[:12], octets[12:], None)
    if authenticated and algorithm in _CBC and len(key) == _CBC[algorithm]:
        plain = Cipher(algorithms.AES(key), modes.CBC(octets[:16])).decryptor()
        padded = plain.update(octets[16:]) + plain.finalize()
        return padded[: -padded[-1]]
    raise ValueError("not accepted")


def _session_key(wrapped: etree._Element, private_key: RSAPrivateKey) -> bytes:
    method = wrapped.find(f"{{{_XENC}}}EncryptionMethod")
    if method is None or method.get("Algorithm") not in (f"{_XENC}rsa-oaep-mgf1p", f"{_XENC11}rsa-oaep"):
        raise ValueError("not accepted")
    digest, mask = method.find(f"{DS}DigestMethod"), method.find(f"{{{_XENC11}}}MGF")
    padding = OAEP(
        MGF1(_MASKS[mask.get("Algorithm") if mask is not None else None]),
        _HASHES[digest.get("Algorithm") if digest is not None else None],
        None,
    )
    octets = base64.b64decode(text_of(wrapped.find(f"{{{_XENC}}}CipherData/{{{_XENC}}}CipherValue")))
    return private_key.decrypt(octets, padding)
