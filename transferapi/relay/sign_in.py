"""The check of an agent's proof: the certificate is of our authority, the key that of the row, the signature fits."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings

from endpoints.connect import certificates
from endpoints.connect.errors import AgentRefusedError
from endpoints.connect.presence import Arrival
from endpoints.gridftp.agent.tunnel import frames
from endpoints.gridftp.agent.tunnel.sign_in import Refused, text_to_sign
from identity.gsi.printable import readable


class SignInRefusedError(Exception):
    """code: of `Refused`. reason: for the person at the machine."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


@dataclass(frozen=True, slots=True)
class AgentProof:
    """The message by which an agent signs in."""

    chain: str
    signature: bytes
    instance: str
    epoch: int
    arrival: Arrival

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> AgentProof:
        """Parse the proof of an agent. Raises SignInRefusedError."""
        try:
            signature = bytes.fromhex(frames.text_of(content, "signature"))
        except ValueError:
            signature = b""
        epoch = content.get("epoch")
        return cls(
            frames.text_of(content, "chain", frames.MAX_DOCUMENT),
            signature,
            frames.text_of(content, "instance", 64),
            epoch if isinstance(epoch, int) else 0,
            Arrival(
                readable(frames.text_of(content, "version", 64)),
                readable(frames.text_of(content, "platform", 128)),
                content.get("paused") is True,
            ),
        )


def check(proof: AgentProof, nonce: bytes) -> uuid.UUID:
    """The endpoint of the agent that has made this proof for this nonce. Raises SignInRefusedError.

    The clock of the agent's machine does not matter.
    """
    try:
        agent = certificates.agent_of(proof.chain)
        key = certificates.public_key(agent)
    except AgentRefusedError as error:
        raise SignInRefusedError(error.flaw, error.message) from None
    try:
        key.verify(proof.signature, text_to_sign(nonce, service_name()), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise SignInRefusedError(Refused.FOREIGN, "The agent has not the key of its certificate.") from None
    return agent.endpoint_id


def service_name() -> str:
    """The name of this service that agents sign."""
    return urlsplit(settings.PUBLIC_URL).hostname or ""
