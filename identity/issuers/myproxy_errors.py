"""Errors of a MyProxy logon. `reason` is a sentence for users that holds no part of the passphrase.

MyProxyError
|- MyProxyInputError            the user name, passphrase or host name cannot be sent
|- MyProxyUnreachableError      no address of the server accepts a connection
|- MyProxyTimeoutError(step)    the server did not complete this step in time
|- UntrustedServerError         the server's certificate is not accepted (`refused`: the error of identity.gsi.trust)
|  |- WrongServerError          the certificate is that of another server
|- ServerFailedError            the server gave up before TLS began, for example because its own certificate has expired
|- LogonRefusedError            the server refuses the logon
|  |- BadPassphraseError
|  |- UnknownUserError
|- MyProxyProtocolError         the octets of the server are not MyProxy: malformed, truncated, or without end
|- BadCredentialError           the credential cannot be used (`refused`: why, if it is not trusted)
   |- ForeignKeyError           the certificate is for another key than ours
"""

from __future__ import annotations

from identity.error_categories import Category, GivenReasonError
from identity.gsi.errors import UntrustedError


class MyProxyError(GivenReasonError):
    """The root of this tree."""

    category = Category.EXTERNAL


class MyProxyInputError(MyProxyError):
    category = Category.INVALID


class MyProxyUnreachableError(MyProxyError):
    pass


class MyProxyTimeoutError(MyProxyError):
    """`step`: the step of the dialogue, as a verb phrase."""

    def __init__(self, step: str, seconds: float) -> None:
        super().__init__(f"The MyProxy server did not {step} within {seconds:g} s; try again later.")
        self.step = step


class UntrustedServerError(MyProxyError):
    def __init__(self, refused: UntrustedError) -> None:
        super().__init__(f"The MyProxy server is not trusted, and nothing was sent to it. {refused.reason}")
        self.refused = refused


class WrongServerError(UntrustedServerError):
    pass


class ServerFailedError(MyProxyError):
    """`said`: its text, sent without TLS, so that anybody on the network path may have written it."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f'The MyProxy server gives up before TLS begins, and nothing was sent to it. It says: "{said}". So does a '
            "server whose own certificate has expired or cannot be read: its administrator must look there."
        )
        self.said = said


class LogonRefusedError(MyProxyError):
    category = Category.INVALID


class BadPassphraseError(LogonRefusedError):
    pass


class UnknownUserError(LogonRefusedError):
    pass


class MyProxyProtocolError(MyProxyError):
    pass


class BadCredentialError(MyProxyError):
    def __init__(self, reason: str, refused: UntrustedError | None = None) -> None:
        super().__init__(reason)
        self.refused = refused


class ForeignKeyError(BadCredentialError):
    pass
