"""The sign-in of an agent: the relay sends a nonce, the agent its certificate and a signature.

The signature is of the nonce and of the name of the service that the agent has called: another service that an agent
signs in to cannot pass the signature on. Documents, in this order:

- relay: {"challenge": nonce in hex, "version": 1}
- agent: {"chain": PEM, "signature": hex of DER (ECDSA with SHA-256 on P-256), "instance": text, "epoch": number,
  "version": text, "platform": text, "paused": bool}
- relay: {"welcome": epoch}, or {"refused": code, "reason": text, "retry": seconds} and the end

Later the agent may send {"paused": bool}. Before it leaves, the relay may send {"goodbye": reason, "retry": seconds}.
"""

from __future__ import annotations

from typing import Protocol

VERSION = 1
NONCE_OCTETS = 32
_PURPOSE = b"waybill tunnel 1\0"


class SigningIdentity(Protocol):
    """The key pair and the certificate of an agent."""

    @property
    def chain(self) -> str:
        """The certificate and those that signed it, in PEM, its own first."""

    def sign(self, data: bytes) -> bytes:
        """The DER signature of the SHA-256 digest of `data` (ECDSA, P-256)."""


class Refused:
    """Codes of refusals: what the agent can do differs."""

    CLONED = "cloned"  # another program is connected with the same key
    REVOKED = "revoked"  # the owner has revoked the agent, or deleted the endpoint
    EXPIRED = "expired"  # the certificate must be renewed
    UNKNOWN = "unknown"  # another agent has been set up for the endpoint since
    FOREIGN = "foreign"  # a certificate of another service, or a wrong signature
    BUSY = "busy"  # come back later

    #: An agent that gets one of these need not come back without a person's help.
    FINAL = frozenset({REVOKED, UNKNOWN, FOREIGN})


def text_to_sign(nonce: bytes, service: str) -> bytes:
    """service: the host name in the address of the service, in lower case."""
    return _PURPOSE + nonce + b"\0" + service.lower().encode()
