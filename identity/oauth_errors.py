"""What can go wrong with the OAuth server of an endpoint. `reason` is a sentence for people.

No text of the server is in it, for a server may repeat what it was sent: codes, tokens and secrets. Its error codes
are, where they are ones of the standard.

OAuthError
|- ServerAddressError        the registered address cannot be one
|- ServerUnreachableError    no connection, or it broke
|- ServerTooSlowError        not done in time
|- ServerNotTrustedError     its certificate is not for this host, not of a trusted authority, or expired; or no TLS
|- ServerAnswerError         what it says is not the protocol: too much, a redirect, not JSON, a document of others
|- RefusedError(code)        it says no, by an error code of RFC 6749
|- StateMismatchError        the answer does not belong to this question
|- IssuerMismatchError       the answer comes from another server (RFC 9207)
|- BadAnswerError            what the user gave is no answer of the callback page
|- CertificateNotUsableError the certificate does not fit our key, or is not of a trusted authority
"""

from __future__ import annotations


class OAuthError(Exception):
    """The root of this tree."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ServerAddressError(OAuthError):
    pass


class ServerUnreachableError(OAuthError):
    pass


class ServerTooSlowError(OAuthError):
    pass


class ServerNotTrustedError(OAuthError):
    pass


class ServerAnswerError(OAuthError):
    """`status` of HTTP, where that is what is wrong."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


class StateMismatchError(OAuthError):
    def __init__(self) -> None:
        super().__init__("This answer does not belong to the activation that was begun: begin again.")


class IssuerMismatchError(OAuthError):
    def __init__(self) -> None:
        super().__init__("This answer comes from another server than the one that was asked: begin again.")


class BadAnswerError(OAuthError):
    def __init__(self) -> None:
        super().__init__("This is not what the page showed: copy the whole line.")


class CertificateNotUsableError(OAuthError):
    pass


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
    "invalid_request": "The server did not understand the request: tell the operator of this service.",
    "invalid_token": "The server does not accept the token that it has just given.",
    "server_error": "The server failed; try again later.",
    "temporarily_unavailable": "The server is too busy; try again later.",
}


class RefusedError(OAuthError):
    """`code` is one of the standard, or "" for anything else."""

    def __init__(self, code: object) -> None:
        self.code = code if isinstance(code, str) and code in _MEANINGS else ""
        meaning = _MEANINGS.get(self.code, "The server refused, and gave no reason that is known.")
        super().__init__(f"{meaning} ({self.code})" if self.code else meaning)
