"""Reads XML of strangers, and gives what a key has signed, and nothing beside it.

No document type is accepted, so that no entity is expanded. Signatures are checked by signxml, which returns the
octets that were signed: callers read these alone. So an element that an attacker has moved, added or wrapped around
the signed one is never read (XML signature wrapping).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from cryptography import x509
from lxml import etree
from signxml.algorithms import DigestAlgorithm, SignatureMethod
from signxml.exceptions import SignXMLException
from signxml.verifier import SignatureConfiguration, XMLVerifier

from .errors import ProofRefusedError

SAML, SAMLP = "{urn:oasis:names:tc:SAML:2.0:assertion}", "{urn:oasis:names:tc:SAML:2.0:protocol}"
MD, DS = "{urn:oasis:names:tc:SAML:2.0:metadata}", "{http://www.w3.org/2000/09/xmldsig#}"
_EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"
_ENVELOPED = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
_METHODS = frozenset(
    {
        SignatureMethod.RSA_SHA256, SignatureMethod.RSA_SHA384, SignatureMethod.RSA_SHA512,
        SignatureMethod.ECDSA_SHA256, SignatureMethod.ECDSA_SHA384, SignatureMethod.ECDSA_SHA512,
    }
)  # fmt: skip
_DIGESTS = frozenset({DigestAlgorithm.SHA256, DigestAlgorithm.SHA384, DigestAlgorithm.SHA512})
_CONFIGURATION = SignatureConfiguration(
    require_x509=True, location="./", expect_references=1, signature_methods=_METHODS, digest_algorithms=_DIGESTS
)


def parse(data: bytes, *, comments: bool = False) -> etree._Element:
    """The root of a document without a document type. comments: whether there may be any, as in metadata.

    Raises ProofRefusedError.
    """
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=comments,
        remove_pis=comments,
    )  # fmt: skip
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        raise ProofRefusedError("The answer of the institution is not XML.") from None
    if root.getroottree().docinfo.doctype or root.getroottree().docinfo.internalDTD is not None:
        raise ProofRefusedError("The answer of the institution has a document type.")
    if not comments and any(not isinstance(one.tag, str) for one in root.iter()):
        raise ProofRefusedError("The answer of the institution has comments or instructions.")
    return root


def signed(element: etree._Element, certificates: Sequence[str]) -> etree._Element | None:
    """The element as one of these keys has signed it; None where it has no signature of its own.

    certificates: DER, base64. Raises ProofRefusedError for a signature that is not valid, or not of the element.
    """
    signatures = element.findall(f"{DS}Signature")
    if not signatures:
        return None
    if len(signatures) > 1:
        raise ProofRefusedError("The answer of the institution has a second signature.")
    _check_form(signatures[0], element.get("ID"))
    # A document of its own: nothing else can have the id.
    alone = etree.tostring(element)
    for certificate in certificates:
        found = _verified(alone, certificate)
        if found is not None and (found.tag, found.get("ID")) == (element.tag, element.get("ID")):
            return found
    raise ProofRefusedError("The signature is not that of the institution.")


def _check_form(signature: etree._Element, name: str | None) -> None:
    """Raises ProofRefusedError unless the signature is of the whole element with this id (SAML Core, 5.4)."""
    references = signature.findall(f"{DS}SignedInfo/{DS}Reference")
    transforms = [one.get("Algorithm") for one in signature.iter(f"{DS}Transform")]
    method = signature.find(f"{DS}SignedInfo/{DS}CanonicalizationMethod")
    if (
        len(references) != 1
        or not name
        or references[0].get("URI") != f"#{name}"
        or transforms not in ([_ENVELOPED, _EXCLUSIVE], [_ENVELOPED])
        or method is None
        or method.get("Algorithm") != _EXCLUSIVE
        or signature.find(f"{DS}Object") is not None
    ):
        raise ProofRefusedError("The signature is not in the form that SAML asks for.")


def _verified(data: bytes, certificate: str) -> etree._Element | None:
    try:
        key = x509.load_der_x509_certificate(base64.b64decode(certificate))
        result = XMLVerifier().verify(
            data, x509_cert=key, expect_config=_CONFIGURATION, id_attribute="ID", validate_schema=True,
            ignore_ambiguous_key_info=True,
        )  # fmt: skip
    except (SignXMLException, etree.LxmlError, ValueError, TypeError, KeyError):
        return None
    return None if isinstance(result, list) else result.signed_xml


def text_of(element: etree._Element | None) -> str:
    """The whole text of an element, also where something else is inside it."""
    return "".join(str(part) for part in element.itertext()).strip() if element is not None else ""
