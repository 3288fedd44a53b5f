"""Errors of agents: of setup keys, certificate requests, and certificates that are shown.

ConnectError
    SetupKeyError(reason)
        SetupKeyUnknownError     wrong, of another service, or replaced by a newer one
        SetupKeyUsedError        another machine has used it
        SetupKeyExpiredError
    CertificateRequestError(reason)
    AgentRefusedError(code)      the certificate that an agent shows is not accepted; code: see `REASONS`
    NoAgentError                 the endpoint has servers, or is a share: no agent serves it
"""

from __future__ import annotations

from identity.error_categories import CategorizedError, Category, GivenReasonError

#: Why an agent is refused, by the code for programs.
REASONS = {
    "expired": "The certificate of this agent has expired. Set it up again with a new setup key.",
    "revoked": "The owner of the endpoint has revoked this agent, or deleted the endpoint.",
    "unknown": "Another agent has been set up for this endpoint since, and has taken its place.",
    "foreign": "This certificate is not from this service.",
}


class ConnectError(CategorizedError):
    """The root of this tree. `reason`: a sentence for the person at the agent."""

    reason: str


class SetupKeyError(ConnectError):
    category = Category.CONFLICT


class SetupKeyUnknownError(SetupKeyError):
    category = Category.PERMISSION_DENIED
    reason = "This service does not know this setup key, or a newer one has replaced it. Make a new one."


class SetupKeyUsedError(SetupKeyError):
    reason = "This setup key has been used already, by another machine. Make a new one."


class SetupKeyExpiredError(SetupKeyError):
    reason = "This setup key has expired. Make a new one."


class CertificateRequestError(GivenReasonError, ConnectError):
    category = Category.INVALID


class AgentRefusedError(ConnectError):
    category = Category.PERMISSION_DENIED

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
        self.reason = REASONS[code]


class NoAgentError(ConnectError):
    category = Category.CONFLICT
    reason = "Servers serve this endpoint, or it is a shared folder: only personal endpoints have an agent."
