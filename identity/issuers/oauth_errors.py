"""Errors of the OAuth server of an endpoint. `reason` is a sentence for users.

A reason holds no text of the server, because a server may repeat what was sent to it: codes, tokens and secrets. It
holds an error code of the server only where the code is one of the standard.

OAuthError
|- ServerAddressError        the registered address is not a web address
|- ServerUnreachableError    no connection could be made, or it broke
|- ServerTooSlowError        the server did not answer in time
|- ServerNotTrustedError     the certificate is for another host, expired or not trusted; or there is no TLS
|- ServerAnswerError         the answer breaks the protocol: too long, a redirect, not JSON, of another server
|- OAuthRefusedError(code)   the server refuses, with an error code of RFC 6749
|- StateMismatchError        the answer does not belong to this request
|- IssuerMismatchError       the answer comes from another server (RFC 9207)
|- BadAnswerError            the text that the user gave is not a line of the callback page
|- CertificateNotUsableError the certificate does not belong to our key, or no trusted authority issued it
"""

from __future__ import annotations

from identity.error_categories import Category, GivenReasonError


class OAuthError(GivenReasonError):
    """The root of this tree."""

    category = Category.EXTERNAL


class ServerAddressError(OAuthError):
    pass


class ServerUnreachableError(OAuthError):
    pass


class ServerTooSlowError(OAuthError):
    pass


class ServerNotTrustedError(OAuthError):
    pass


class ServerAnswerError(OAuthError):
    """`status` of HTTP, where the status is the problem."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


class StateMismatchError(OAuthError):
    category = Category.INVALID

    def __init__(self) -> None:
        super().__init__("This answer does not belong to the activation that was begun: begin again.")


class IssuerMismatchError(OAuthError):
    category = Category.INVALID

    def __init__(self) -> None:
        super().__init__("This answer comes from another server than the one that was asked: begin again.")


class BadAnswerError(OAuthError):
    category = Category.INVALID

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
    "invalid_request": "The server did not understand the request: contact the operator of this service.",
    "invalid_token": "The server does not accept the token that it has just given.",
    "server_error": "The server failed; try again later.",
    "temporarily_unavailable": "The server is too busy; try again later.",
}


class OAuthRefusedError(OAuthError):
    """`code` is one of the standard, or "" for anything else."""

    category = Category.INVALID

    def __init__(self, code: object) -> None:
        self.code = code if isinstance(code, str) and code in _MEANINGS else ""
        meaning = _MEANINGS.get(self.code, "The server refused, and gave no reason that is known.")
        super().__init__(f"{meaning} ({self.code})" if self.code else meaning)
