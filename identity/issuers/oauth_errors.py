"""Errors of the OAuth server of an endpoint.

A sentence holds no text of the server, because a server may repeat what was sent to it: codes, tokens and secrets. It
holds an error code of the server only where the code is one of the standard.
"""

from __future__ import annotations

from identity.error_categories import Category, Refusal, RefusedError

_CODE = "ExternalError.OAuth"
#: No connection could be made, or it broke.
SERVER_UNREACHABLE = Refusal(Category.EXTERNAL, "{reason}", f"{_CODE}.ServerUnreachable")
SERVER_TOO_SLOW = Refusal(Category.EXTERNAL, "{reason}", f"{_CODE}.ServerTooSlow")
#: The certificate is for another host, expired or not trusted; or there is no TLS.
SERVER_NOT_TRUSTED = Refusal(Category.EXTERNAL, "{reason}", f"{_CODE}.ServerNotTrusted")
STATE_MISMATCH = Refusal(
    Category.INVALID,
    "This answer does not belong to the activation that was begun: begin again.",
    f"{_CODE}.StateMismatch",
)
#: RFC 9207.
ISSUER_MISMATCH = Refusal(
    Category.INVALID,
    "This answer comes from another server than the one that was asked: begin again.",
    f"{_CODE}.IssuerMismatch",
)
#: The text that the user gave is not a line of the callback page.
BAD_ANSWER = Refusal(Category.INVALID, "This is not what the page showed: copy the whole line.", f"{_CODE}.BadAnswer")
#: The certificate does not belong to our key, or no trusted authority issued it.
CERTIFICATE_NOT_USABLE = Refusal(Category.EXTERNAL, "{reason}", f"{_CODE}.CertificateNotUsable")


class OAuthError(RefusedError):
    """The sign-in at the server has failed."""


class ServerAddressError(OAuthError):
    """The registered address is not a web address."""

    refusal = Refusal(Category.EXTERNAL, "{reason}", f"{_CODE}.ServerAddress")


class ServerAnswerError(OAuthError):
    """The answer breaks the protocol: it is too long, a redirect, not JSON, or of another server.

    `status` of HTTP, where the status is the problem.
    """

    refusal = Refusal(Category.EXTERNAL, "{reason}", f"{_CODE}.ServerAnswer")

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason=reason)
        self.status = status


_NO_CODES = "The server does not let anybody sign in by a code: its operator must allow it."
#: RFC 6749, 4.1.2.1 and 5.2; RFC 6750, 3.1.
_MEANINGS = {
    "access_denied": "You, or the server, did not allow it.",
    "invalid_grant": "The code is wrong, was used already, or is too old: begin again.",
    "invalid_client": "The server does not know this service, or not by this secret: the two operators must agree.",
    "unauthorized_client": "The server does not let this service ask in this way: its operator must allow it.",
    "unsupported_grant_type": _NO_CODES,
    "unsupported_response_type": _NO_CODES,
    "invalid_scope": "The server does not let this service ask for certificates: its operator must allow it.",
    "insufficient_scope": "The server does not let this service ask for certificates: its operator must allow it.",
    "invalid_request": "The server did not understand the request: contact the operator of this service.",
    "invalid_token": "The server does not accept the token that it has just given.",
    "server_error": "The server failed; try again later.",
    "temporarily_unavailable": "The server is too busy; try again later.",
}


class OAuthRefusedError(OAuthError):
    """The server refuses. `answer`: a code of the standard, or "" for anything else."""

    refusal = Refusal(Category.INVALID, "{meaning}", f"{_CODE}.Refused")

    def __init__(self, code: object) -> None:
        self.answer = code if isinstance(code, str) and code in _MEANINGS else ""
        meaning = _MEANINGS.get(self.answer, "The server refused, and gave no reason that is known.")
        super().__init__(meaning=f"{meaning} ({self.answer})" if self.answer else meaning)
