"""Errors of agents: of setup keys, certificate requests, and certificates that are shown.

A sentence is for the person at the agent.
"""

from __future__ import annotations

from identity.error_categories import Category, Refusal, RefusedError

#: Wrong, of another service, or replaced by a newer one.
SETUP_KEY_UNKNOWN = Refusal(
    Category.PERMISSION_DENIED,
    "This service does not know this setup key, or a newer one has replaced it. Make a new one.",
    "ClientError.SetupKeyUnknown",
)
SETUP_KEY_USED = Refusal(
    Category.CONFLICT,
    "This setup key has been used already, by another machine. Make a new one.",
    "ClientError.SetupKeyUsed",
)
SETUP_KEY_EXPIRED = Refusal(
    Category.CONFLICT, "This setup key has expired. Make a new one.", "ClientError.SetupKeyExpired"
)
CERTIFICATE_REQUEST = Refusal(Category.INVALID, "{reason}")
#: The endpoint has servers, or is a share.
NO_AGENT = Refusal(
    Category.CONFLICT, "Servers serve this endpoint, or it is a shared folder: only personal endpoints have an agent."
)

#: Why an agent is refused, by the last word of the code for programs.
_FLAWS = {
    "expired": "The certificate of this agent has expired. Set it up again with a new setup key.",
    "revoked": "The owner of the endpoint has revoked this agent, or deleted the endpoint.",
    "unknown": "Another agent has been set up for this endpoint since, and has taken its place.",
    "foreign": "This certificate is not from this service.",
}


class AgentRefusedError(RefusedError):
    """The certificate that an agent shows is not accepted. flaw: a word, as in the protocol of the relay."""

    def __init__(self, flaw: str) -> None:
        super().__init__(Refusal(Category.PERMISSION_DENIED, _FLAWS[flaw], f"ClientError.AgentRefused.{flaw}"))
        self.flaw = flaw
