"""Distinguished names in slash form, "/O=Grid/OU=Test/CN=Alice", as in gridmaps, policies and messages.

The form is that of OpenSSL's X509_NAME_oneline, which every GSI server uses for its gridmap: octets that are not
printable ASCII are \\xHH, a slash or plus inside a value is escaped, further members of an RDN follow a plus.
"""

from __future__ import annotations

import hashlib

from cryptography import x509

from . import der

#: The short names of attribute types (OpenSSL's).
SHORT = {
    "2.5.4.3": "CN",
    "2.5.4.4": "SN",
    "2.5.4.5": "serialNumber",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "street",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.12": "title",
    "2.5.4.13": "description",
    "2.5.4.15": "businessCategory",
    "2.5.4.16": "postalAddress",
    "2.5.4.17": "postalCode",
    "2.5.4.20": "telephoneNumber",
    "2.5.4.41": "name",
    "2.5.4.42": "GN",
    "2.5.4.43": "initials",
    "2.5.4.44": "generationQualifier",
    "2.5.4.45": "x500UniqueIdentifier",
    "2.5.4.46": "dnQualifier",
    "2.5.4.51": "houseIdentifier",
    "2.5.4.65": "pseudonym",
    "2.5.4.72": "role",
    "2.5.4.97": "organizationIdentifier",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.44": "uid",
    "1.2.840.113549.1.9.1": "emailAddress",
    "1.2.840.113549.1.9.2": "unstructuredName",
    "1.2.840.113549.1.9.8": "unstructuredAddress",
    "1.3.6.1.4.1.311.60.2.1.1": "jurisdictionL",
    "1.3.6.1.4.1.311.60.2.1.2": "jurisdictionST",
    "1.3.6.1.4.1.311.60.2.1.3": "jurisdictionC",
}
_BMP, _UNIVERSAL, _TELETEX = 0x1E, 0x1C, 0x14
#: UTF8, Printable, Teletex, IA5, Visible, Universal and BMP strings.
_TEXTS = (0x0C, 0x13, 0x14, 0x16, 0x1A, 0x1C, 0x1E)

Canonical = tuple[frozenset[tuple[str, str]], ...]


def slash_name(name: x509.Name) -> str:
    """The name in slash form, such as "/O=Grid/CN=Alice". Raises ValueError where it is unreadable."""
    text = ""
    for members in _rdns(name):
        for place, (oid, tag, value) in enumerate(members):
            text += f"{'+' if place else '/'}{SHORT.get(oid, oid)}={printable(tag, value)}"
    return text


def canonical(name: x509.Name) -> Canonical:
    """A form that equal names share (RFC 5280 section 7.1), without letter case, runs of spaces and string types."""
    return tuple(frozenset((oid, _folded(tag, value)) for oid, tag, value in members) for members in _rdns(name))


def spellings(name: x509.Name) -> set[str]:
    """The possible spellings of this name in a policy: with slashes in values escaped, or plain.

    Plain only where no other name has this spelling: a CN "a/CN=b" is never equal to two CNs.
    """
    escaped = slash_name(name)
    plain = escaped.replace("\\/", "/").replace("\\+", "+")
    confusing = any("=" in str(attribute.value) and set("/+") & set(str(attribute.value)) for attribute in name)
    return {escaped} if confusing else {escaped, plain}


def openssl_hash(name: x509.Name) -> str:
    """The eight digits that begin the names of an authority's files (X509_NAME_hash): `openssl x509 -subject_hash`."""
    content = b""
    for member in der.elements(der.only(name.public_bytes(), der.SEQUENCE)):
        content += der.element(der.SET, b"".join(sorted(_hashed(one) for _, one in der.elements(member[1]))))
    # SHA-1 only finds files here.
    return hashlib.sha1(content, usedforsecurity=False).digest()[3::-1].hex()


def _hashed(attribute: bytes) -> bytes:
    (_, oid), (tag, value) = der.elements(attribute)
    if tag in _TEXTS:
        words = _text(tag, value).encode()
        # Letters and white space of ASCII only, as in OpenSSL.
        tag, value = der.UTF8_STRING, b" ".join(words.lower().split())
    return der.element(der.SEQUENCE, der.element(der.OID, oid) + der.element(tag, value))


def _rdns(name: x509.Name) -> list[list[tuple[str, int, bytes]]]:
    found = []
    for tag, members in der.elements(der.only(name.public_bytes(), der.SEQUENCE)):
        if tag != der.SET:
            raise der.DerError("not a name")
        found.append([_attribute(tag, content) for tag, content in der.elements(members)])
    return found


def _attribute(tag: int, content: bytes) -> tuple[str, int, bytes]:
    parts = list(der.elements(content))
    if tag != der.SEQUENCE or len(parts) != 2 or parts[0][0] != der.OID:
        raise der.DerError("not a name")
    return der.oid_text(parts[0][1]), *parts[1]


def printable(tag: int, value: bytes) -> str:
    """A value of this string type in slash form."""
    if tag in (_BMP, _UNIVERSAL):
        value = _text(tag, value).encode()
    return "".join(
        f"\\{chr(octet)}" if octet in b"/+" else chr(octet) if 0x20 <= octet <= 0x7E else f"\\x{octet:02X}"
        for octet in value
    )


def _text(tag: int, value: bytes) -> str:
    encoding = {_BMP: "utf-16-be", _UNIVERSAL: "utf-32-be", _TELETEX: "latin-1"}.get(tag, "utf-8")
    return value.decode(encoding, "backslashreplace")


def _folded(tag: int, value: bytes) -> str:
    return " ".join(_text(tag, value).lower().split())
