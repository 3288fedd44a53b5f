"""Checks the answers of institutions: SAML Profiles 4.1.4, SAML Core 2 and 3. Requests: `requests`.

Only what the institution's key has signed is read (`documents.signed`), and only one assertion may be in an answer, so
that no other element can be taken for the signed one.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from lxml import etree

from identity import user_names
from identity.federation.errors import ProofRefusedError, ProviderRefusedError
from identity.federation.pending import check_first_use
from identity.proven_identities import Proven, name_at

from . import directory
from .decryption import decrypt
from .documents import DS, SAML, SAMLP, parse, signed, text_of
from .models import Institution

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
    institution = directory.by_entity_id(_issuer(root))
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
    scopes = directory.scopes_of(institution)
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
