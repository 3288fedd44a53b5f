"""Errors of the OAuth2 server that this service is.

ProviderError
    ScopeSyntaxError            the brackets or stars in a list of scopes do not match
    RequestNotTrustedError      an authorization request with a wrong client or redirect URI: no redirect
    RequestRefusedError         an authorization request that goes back to its client, with an error
    ClientNotFoundError         no such application, or it belongs to another user
    ClientInvalidError          a field of a document about an application has an invalid value
    TooManyClientsError         a user has too many applications, or an application has too many secrets
    TooManyRegistrationsError   too many clients were registered from one network
"""

from __future__ import annotations

from identity.error_categories import CategorizedError, Category, GivenReasonError, InvalidFieldError


class ProviderError(CategorizedError):
    """`reason` is for people, and holds no secret."""

    reason = "The request is refused"


class ScopeSyntaxError(ProviderError):
    reason = "The scopes are malformed"


class RequestNotTrustedError(GivenReasonError, ProviderError):
    pass


class RequestRefusedError(ProviderError):
    """`location`: the address to which the browser is redirected, with the error in the query."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


class ClientNotFoundError(ProviderError):
    category = Category.NOT_FOUND
    reason = "No such client"


class ClientInvalidError(InvalidFieldError, ProviderError):
    pass


class TooManyClientsError(GivenReasonError, ProviderError):
    category = Category.LIMIT_EXCEEDED


class TooManyRegistrationsError(ProviderError):
    category = Category.TOO_MANY_REQUESTS

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        #: Seconds until another registration is allowed.
        self.retry_after = seconds
        self.reason = f"Too many clients were registered from here; try again in {seconds} s"
