"""Errors of providers by which users sign in. `reason` is a sentence for people; none holds text of a provider.

FederationError
|- ProviderUnknownError(ref)      the operator has configured no such provider
|- ProviderUnreachableError       it cannot be reached, is too slow, or its TLS is not trusted
|- ProviderAnswerError            its answer breaks the protocol
|- ProviderRefusedError(code)     it refuses, or the user does: an error code of the standard
|- SignInNotBegunError            the answer belongs to no sign-in of this browser: used, too old, or of another one
|- ServiceBusyError               Redis is not reachable, so nobody knows what was used before
|- PassphraseRefusedError         a MyProxy server refuses: the error does not say whether it knows the name
|- UserNameRefusedError           no server of which names are taken here can have a user of this name
|- NotFreshError                  a new sign-in is demanded, and the provider has used an old session
|- FreshnessUnknownError          a new sign-in is demanded, and the provider does not say when it has asked the person
|- ProofRefusedError              what it says proves nothing to this service: another issuer, audience, signature, time
"""

from __future__ import annotations

import re

from identity.error_categories import Category, GivenReasonError, NotFoundError, ReasonError
from identity.gsi.printable import translatable as _

_CODE = re.compile(r"[a-z_]{1,64}")


class FederationError(ReasonError):
    """The root of this tree."""

    category = Category.EXTERNAL


class ProviderUnknownError(NotFoundError, FederationError):
    kind = "identity provider"


class ProviderUnreachableError(GivenReasonError, FederationError):
    pass


class ProviderAnswerError(GivenReasonError, FederationError):
    pass


class ProviderRefusedError(GivenReasonError, FederationError):
    category = Category.PERMISSION_DENIED

    def __init__(self, code: object) -> None:
        refusal = code if isinstance(code, str) and _CODE.fullmatch(code) else "unknown"
        super().__init__(
            _("You did not allow it, or your provider refused it.")
            if refusal == "access_denied"
            else f"The provider refuses ({refusal})."
        )


class SignInNotBegunError(FederationError):
    category = Category.INVALID
    reason = _("This sign-in was not begun in this browser, was used already, or took too long. Try again.")


class ServiceBusyError(FederationError):
    category = Category.TOO_MANY_REQUESTS
    reason = _("The service is busy or restarts. Try again in a moment.")


class PassphraseRefusedError(FederationError):
    category = Category.INVALID
    reason = _("The MyProxy server did not accept this user name and this passphrase.")


class UserNameRefusedError(FederationError):
    category = Category.INVALID
    reason = _("A user name for this sign-in has small letters, digits, '.', '_', '-', '+' and '@' only.")


class ProofRefusedError(GivenReasonError, FederationError):
    category = Category.PERMISSION_DENIED


class NotFreshError(FederationError):
    category = Category.PERMISSION_DENIED
    reason = _("Your provider did not ask you to sign in again. Sign out there first, or use another way.")


class FreshnessUnknownError(FederationError):
    category = Category.PERMISSION_DENIED
    reason = _("Your provider does not say when you signed in there, and this needs to know. Use another way.")
