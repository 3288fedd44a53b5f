"""The key pair of an agent: made on its machine, which it never leaves; its signatures and certificate requests."""

from __future__ import annotations

import os
from dataclasses import dataclass

from endpoints.gridftp.server.security import der
from endpoints.gridftp.server.security.certificates import pem_blocks, pem_text

from . import p256

#: DER up to the octets that differ: PrivateKeyInfo (RFC 5208) with an ECPrivateKey that has the scalar alone (RFC
#: 5915), and SubjectPublicKeyInfo (RFC 5480) with an uncompressed point.
_PRIVATE = bytes.fromhex("3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420")
_PUBLIC = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200" + "04")
_ECDSA_WITH_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("0603550403")


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
        """Read what `pem` wrote. Raises KeyFileError, ValueError."""
        octets = next(iter(pem_blocks(text.encode(), b"PRIVATE KEY")), b"")
        if octets[: len(_PRIVATE)] != _PRIVATE or len(octets) != len(_PRIVATE) + p256.SIZE:
            raise KeyFileError("this is not the private key of an agent")
        scalar = int.from_bytes(octets[len(_PRIVATE) :], "big")
        if not 1 <= scalar < p256.N:
            raise KeyFileError("this private key is out of range")
        return cls(scalar)

    def pem(self) -> str:
        """PKCS #8 in PEM, without encryption."""
        return pem_text("PRIVATE KEY", _PRIVATE + self.scalar.to_bytes(p256.SIZE, "big"))

    def public_der(self) -> bytes:
        """SubjectPublicKeyInfo."""
        x, y = p256.public_point(self.scalar)
        return _PUBLIC + x.to_bytes(p256.SIZE, "big") + y.to_bytes(p256.SIZE, "big")

    def sign(self, data: bytes) -> bytes:
        """The ECDSA signature over SHA-256 of the data, in DER (RFC 3279, 2.2.3)."""
        r, s = p256.sign(self.scalar, data, os.urandom(p256.SIZE))
        return der.encode(der.SEQUENCE, der.integer(r), der.integer(s))

    def request(self, common_name: str) -> str:
        """A certificate request (PKCS #10, RFC 2986) in PEM, which proves that we have the key."""
        name = der.encode(der.SEQUENCE, _COMMON_NAME, der.encode(der.UTF8_STRING, common_name.encode()))
        subject = der.encode(der.SEQUENCE, der.encode(der.SET, name))
        asked = der.encode(der.SEQUENCE, der.integer(0), subject, self.public_der(), der.encode(0xA0))
        signature = der.encode(der.BIT_STRING, b"\0", self.sign(asked))
        return pem_text("CERTIFICATE REQUEST", der.encode(der.SEQUENCE, asked, _ECDSA_WITH_SHA256, signature))

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
