"""What the OAuth2 server refuses.

ProviderError
    ScopeSyntaxError            brackets and stars of a list of scopes that do not fit
    RequestNotTrustedError      an authorization request whose client or redirect URI is wrong: nobody is sent anywhere
    RequestRefusedError         an authorization request that goes back to its client, with an error
    ClientNotFoundError         no such application, or not this user's
    ClientInvalidError          a document about an application says what cannot be; names the field
    TooManyClientsError         a user has too many applications, or an application too many secrets
    TooManyRegistrationsError   somebody registers clients faster than he needs them
"""

from __future__ import annotations


class ProviderError(Exception):
    """`reason` is for people, and holds no secret."""

    reason = "The request is refused"


class ScopeSyntaxError(ProviderError):
    reason = "The scopes are malformed"


class RequestNotTrustedError(ProviderError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RequestRefusedError(ProviderError):
    """`location`: where the browser is sent, with the error in the query."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


class ClientNotFoundError(ProviderError):
    reason = "No such client"


class ClientInvalidError(ProviderError):
    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason


class TooManyClientsError(ProviderError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooManyRegistrationsError(ProviderError):
    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        #: After which it can be tried again.
        self.retry_after = seconds
        self.reason = f"Too many clients were registered from here; try again in {seconds} s"
