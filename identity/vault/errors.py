"""Errors of the vault of credentials. No sentence holds a secret."""

from __future__ import annotations

from identity.error_categories import Category, Refusal, RefusedError

_ACTIVATION = "ClientError.ActivationRequired"
#: The row was changed, or belongs to something else.
VAULT_SEAL_BROKEN = Refusal(
    Category.INVALID,
    "The stored credential was changed, and cannot be decrypted: activate the endpoint again, and inform the operator "
    "of this service.",
    f"{_ACTIVATION}.VaultSealBroken",
)
#: It was deleted, or has expired, since it was found.
CREDENTIAL_GONE = Refusal(
    Category.INVALID,
    "This credential is not kept any more: it was deleted, or has expired.",
    f"{_ACTIVATION}.CredentialGone",
)
SECRET_TOO_LARGE = Refusal(
    Category.INVALID, "A credential has at most {kib} KiB.", "ClientError.CredentialRefused.TooLarge"
)
SECRETS_TOO_LARGE = Refusal(
    Category.INVALID,
    "All credentials of a user together have at most {kib} KiB.",
    "ClientError.CredentialRefused.TooLarge",
)
TOO_MANY_CREDENTIALS = Refusal(
    Category.LIMIT_EXCEEDED,
    "You have {limit} credentials already, which is the most that are kept: deactivate some endpoint.",
)
BAD_BINDING = Refusal(
    Category.INTERNAL, "A credential is bound to an endpoint, a MyProxy server or an OAuth server, and this is none."
)
USER_GONE = Refusal(Category.INTERNAL, "This user does not exist (any more).")


class VaultError(RefusedError):
    """The vault has not kept, or cannot give, a credential."""


class VaultKeyNotConfiguredError(VaultError):
    """This service has no key, so it can keep no credential."""

    refusal = Refusal(
        Category.NOT_CONFIGURED,
        "This service keeps no credentials yet: its operator has to give it a key (WAYBILL_VAULT_KEY; `waybill vault "
        "key` makes one).",
        "ServiceError.VaultKeyNotConfigured",
    )


class VaultKeyMissingError(VaultError):
    """The credential is sealed by a key that is not configured (any more).

    `key_id` is public: 16 hexadecimal digits, as `waybill vault status` shows them.
    """

    refusal = Refusal(
        Category.INVALID,
        "This credential is sealed by the vault key {key_id}, which this service does not have (any more): its "
        "operator can add that key to WAYBILL_VAULT_KEY again, or you activate the endpoint again.",
        f"{_ACTIVATION}.VaultKeyMissing",
    )

    def __init__(self, key_id: str) -> None:
        super().__init__(key_id=key_id)
        self.key_id = key_id
