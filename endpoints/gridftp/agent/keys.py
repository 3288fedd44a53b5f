"""The key pair of an agent: made on its machine, which it never leaves; its signatures and certificate requests."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass

from . import p256

#: DER up to the octets that differ: PrivateKeyInfo (RFC 5208) with an ECPrivateKey that has the scalar alone (RFC
#: 5915), and SubjectPublicKeyInfo (RFC 5480) with an uncompressed point.
_PRIVATE = bytes.fromhex("3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420")
_PUBLIC = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200" + "04")
_ECDSA_WITH_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("0603550403")

_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----\s+([A-Za-z0-9+/=\s]+?)\s*-----END \1-----")


class KeyFileError(Exception):
    """A text holds no private key of ours."""


@dataclass(frozen=True, repr=False)
class AgentKey:
    """A P-256 private key. Its text form never shows it."""

    scalar: int

    @classmethod
    def new(cls) -> AgentKey:
        return cls(p256.new_scalar())

    @classmethod
    def from_pem(cls, text: str) -> AgentKey:
        """Read what `pem` wrote. Raises KeyFileError."""
        found = _PEM.search(text)
        der = base64.b64decode(found.group(2)) if found and found.group(1) == "PRIVATE KEY" else b""
        if der[: len(_PRIVATE)] != _PRIVATE or len(der) != len(_PRIVATE) + p256.SIZE:
            raise KeyFileError("this is not the private key of an agent")
        scalar = int.from_bytes(der[len(_PRIVATE) :], "big")
        if not 1 <= scalar < p256.N:
            raise KeyFileError("this private key is out of range")
        return cls(scalar)

    def pem(self) -> str:
        """PKCS #8 in PEM, without encryption."""
        return _pem("PRIVATE KEY", _PRIVATE + self.scalar.to_bytes(p256.SIZE, "big"))

    def public_der(self) -> bytes:
        """SubjectPublicKeyInfo."""
        x, y = p256.public_point(self.scalar)
        return _PUBLIC + x.to_bytes(p256.SIZE, "big") + y.to_bytes(p256.SIZE, "big")

    def sign(self, data: bytes) -> bytes:
        """The ECDSA signature over SHA-256 of the data, in DER (RFC 3279, 2.2.3)."""
        r, s = p256.sign(self.scalar, data, os.urandom(p256.SIZE))
        return _element(0x30, _integer(r), _integer(s))

    def request(self, common_name: str) -> str:
        """A certificate request (PKCS #10, RFC 2986) in PEM, which proves that we have the key."""
        name = _element(0x30, _COMMON_NAME, _element(0x0C, common_name.encode()))
        subject = _element(0x30, _element(0x31, name))
        asked = _element(0x30, _integer(0), subject, self.public_der(), b"\xa0\x00")
        signature = _element(0x03, b"\x00", self.sign(asked))
        return _pem("CERTIFICATE REQUEST", _element(0x30, asked, _ECDSA_WITH_SHA256, signature))

    def __repr__(self) -> str:
        return "AgentKey(***)"

    __str__ = __repr__


@dataclass
class AgentIdentity:
    """The certificates that an agent shows to the service, and the key that proves them.

    chain: certificates in PEM, its own first; a renewal replaces it while a tunnel uses this.
    """

    key: AgentKey
    chain: str

    def sign(self, data: bytes) -> bytes:
        """See `AgentKey.sign`."""
        return self.key.sign(data)


def _element(tag: int, *parts: bytes) -> bytes:
    """A DER element (X.690, 8.1)."""
    content = b"".join(parts)
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(octets)]) + octets + content


def _integer(value: int) -> bytes:
    """One more bit than the value has: the first one is the sign."""
    return _element(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _pem(label: str, der: bytes) -> str:
    lines = base64.encodebytes(der).decode().replace("\n", "")
    wrapped = "\n".join(lines[at : at + 64] for at in range(0, len(lines), 64))
    return f"-----BEGIN {label}-----\n{wrapped}\n-----END {label}-----\n"
