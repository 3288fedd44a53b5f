"""An authenticator in software, for tests: it makes passkeys and signs as a device does, or lies as a test wants."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2.cbor import encode

USER_PRESENT, USER_VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def to_text(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


def octets_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Authenticator:
    """One passkey. count: the value of its counter, which grows with each answer; None if it does not count."""

    def __init__(self, origin: str, rp_id: str, count: int | None = 0) -> None:
        self.origin, self.rp_id, self.count = origin, rp_id, count
        self.flags = USER_PRESENT | USER_VERIFIED
        self.credential_id = secrets.token_bytes(32)
        self.user = b""
        self._key = ec.generate_private_key(ec.SECP256R1())

    def create(self, options: dict[str, Any], **changes: Any) -> str:
        """The answer to the options of `navigator.credentials.create`. changes: of the client data."""
        self.user = octets_of(options["user"]["id"])
        attestation = encode({"fmt": "none", "attStmt": {}, "authData": self._data(ATTESTED) + self._credential()})
        client = self._client("webauthn.create", options["challenge"], changes)
        return self._answer(client, {"attestationObject": to_text(attestation), "transports": ["internal"]})

    def get(self, options: dict[str, Any], **changes: Any) -> str:
        """The answer to the options of `navigator.credentials.get`. changes: of the client data."""
        if self.count is not None:
            self.count += 1
        client, data = self._client("webauthn.get", options["challenge"], changes), self._data(0)
        signature = self._key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        response = {
            "authenticatorData": to_text(data),
            "signature": to_text(signature),
            "userHandle": to_text(self.user),
        }
        return self._answer(client, response)

    def _client(self, kind: str, challenge: str, changes: dict[str, Any]) -> bytes:
        known = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps({**known, **changes}).encode()

    def _data(self, more: int) -> bytes:
        rp = hashlib.sha256(self.rp_id.encode()).digest()
        return rp + struct.pack(">BI", self.flags | more, self.count or 0)

    def _credential(self) -> bytes:
        point = self._key.public_key().public_numbers()
        cose = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}
        return b"\0" * 16 + struct.pack(">H", len(self.credential_id)) + self.credential_id + encode(cose)

    def _answer(self, client: bytes, response: dict[str, Any]) -> str:
        name = to_text(self.credential_id)
        return json.dumps(
            {
                "id": name,
                "rawId": name,
                "type": "public-key",
                "clientExtensionResults": {},
                "response": {"clientDataJSON": to_text(client), **response},
            }
        )
