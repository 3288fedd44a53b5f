"""Errors of the vault of credentials. `reason` is a sentence for users that holds no secret.

VaultError
|- VaultKeyNotConfiguredError     this service has no key, so it can keep no credential
|- CredentialUnusableError        the user has to activate the endpoint again
|  |- VaultKeyMissingError(key_id)   sealed by a key that is not configured (any more)
|  |- VaultSealBrokenError           the row was changed, or belongs to something else
|  |- CredentialGoneError            deleted, or expired, since it was found
|- SecretTooLargeError(limit)     more octets than any credential has
|- TooManyCredentialsError(limit) the user has as many credentials as allowed
|- BadBindingError                a credential cannot be bound to this
|- UserGoneError                  the user was deleted
"""

from __future__ import annotations

from identity.error_categories import Category, LimitExceededError, ReasonError


class VaultError(ReasonError):
    """The root of this tree."""

    category = Category.INTERNAL

    reason = "The vault of credentials failed."


class VaultKeyNotConfiguredError(VaultError):
    category = Category.NOT_CONFIGURED
    reason = (
        "This service keeps no credentials yet: its operator has to give it a key (WAYBILL_VAULT_KEY; "
        "`waybill vault key` makes one)."
    )


class CredentialUnusableError(VaultError):
    category = Category.INVALID


class VaultKeyMissingError(CredentialUnusableError):
    """`key_id` is public: 16 hexadecimal digits, as `waybill vault status` shows them."""

    def __init__(self, key_id: str) -> None:
        super().__init__(key_id)
        self.key_id = key_id
        self.reason = (
            f"This credential is sealed by the vault key {key_id}, which this service does not have (any more): its "
            "operator can add that key to WAYBILL_VAULT_KEY again, or you activate the endpoint again."
        )


class VaultSealBrokenError(CredentialUnusableError):
    reason = (
        "The stored credential was changed, and cannot be decrypted: activate the endpoint again, and inform the "
        "operator of this service."
    )


class CredentialGoneError(CredentialUnusableError):
    reason = "This credential is not kept any more: it was deleted, or has expired."


class SecretTooLargeError(VaultError):
    """`limit` in octets: of one credential, or of all credentials of a user."""

    category = Category.INVALID

    def __init__(self, limit: int, *, of_all: bool = False) -> None:
        super().__init__(limit)
        self.limit = limit
        what = "All credentials of a user together have" if of_all else "A credential has"
        self.reason = f"{what} at most {limit // 1024} KiB."


class TooManyCredentialsError(LimitExceededError, VaultError):
    template = "You have {self.limit} credentials already, which is the most that are kept: deactivate some endpoint."


class BadBindingError(VaultError):
    reason = "A credential is bound to an endpoint, a MyProxy server or an OAuth server, and this is none."


class UserGoneError(VaultError):
    reason = "This user does not exist (any more)."
