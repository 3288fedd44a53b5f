"""The errors of this package. `reason` is a sentence for users that has no part of a credential, `flaw` a word."""

from __future__ import annotations

from enum import StrEnum


class Flaw(StrEnum):
    """The problem in one word for programs, which is the last part of a code on the wire."""

    # ---- of a credential
    #: No PEM, no certificate or no key in it, or one that is unreadable or cut short.
    MALFORMED_CREDENTIAL = "MalformedCredential"
    #: More text, or more certificates, than any credential has.
    CREDENTIAL_TOO_BIG = "CredentialTooBig"
    #: The key is encrypted, and the passphrase is missing or wrong.
    PASSPHRASE = "Passphrase"  # noqa: S105 - no secret
    #: The key belongs to none of the certificates.
    KEY_MISMATCH = "KeyMismatch"
    #: The key is too short, or of a kind that GSI does not know.
    WEAK_KEY = "WeakKey"
    #: A proxy without its issuer's certificate.
    INCOMPLETE_CHAIN = "IncompleteChain"
    #: A proxy from before RFC 3820.
    LEGACY_CREDENTIAL = "LegacyCredential"
    #: No proxy can be made from this credential.
    PROXY_NOT_POSSIBLE = "ProxyNotPossible"

    # ---- of a chain of certificates
    UNTRUSTED = "Untrusted"
    EXPIRED = "Expired"
    NOT_YET_VALID = "NotYetValid"
    #: An end entity certificate signed with its own key.
    SELF_SIGNED = "SelfSigned"
    #: The issuer is not in the folder of authorities.
    UNKNOWN_AUTHORITY = "UnknownAuthority"
    #: The signature is not that of the issuer.
    BAD_SIGNATURE = "BadSignature"
    #: MD5, SHA-1, or a key that is too short or of an unusual kind.
    WEAK_SIGNATURE = "WeakSignature"
    REVOKED = "Revoked"
    STALE_REVOCATION_LIST = "StaleRevocationList"
    #: The authority may not sign this name, or has no signing policy.
    SIGNING_POLICY = "SigningPolicy"
    #: The authority's own certificate does not allow this name.
    NAME_CONSTRAINT = "NameConstraint"
    #: The issuer's certificate may not sign certificates.
    NOT_AN_AUTHORITY = "NotAnAuthority"
    #: The certificate of an authority in place of that of a person or host.
    NOT_AN_END_ENTITY = "NotAnEndEntity"
    #: More authorities or proxies than allowed, or too many certificates.
    PATH_TOO_LONG = "PathTooLong"
    #: An unknown critical extension.
    UNKNOWN_EXTENSION = "UnknownExtension"
    UNREADABLE_CERTIFICATE = "UnreadableCertificate"
    #: A proxy that breaks RFC 3820.
    BAD_PROXY = "BadProxy"
    #: A proxy from before RFC 3820.
    LEGACY_PROXY = "LegacyProxy"
    #: A full proxy below a limited one, or a limited one where none is accepted.
    LIMITED_PROXY = "LimitedProxy"
    #: A proxy that expires after its issuer's certificate.
    OVERLONG_PROXY = "OverlongProxy"
    #: The certificate of another host.
    HOST_MISMATCH = "HostMismatch"
    #: The folder of authorities is missing.
    NO_AUTHORITIES = "NoAuthorities"


class CredentialError(Exception):
    """A credential that cannot be used."""

    flaw = Flaw.MALFORMED_CREDENTIAL

    def __init__(self, reason: str, flaw: Flaw | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.flaw = flaw or self.flaw


class PassphraseError(CredentialError):
    flaw = Flaw.PASSPHRASE


class KeyMismatchError(CredentialError):
    flaw = Flaw.KEY_MISMATCH


class UntrustedError(Exception):
    """A certificate that is not accepted."""

    flaw = Flaw.UNTRUSTED

    def __init__(self, reason: str, flaw: Flaw | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.flaw = flaw or self.flaw


class RevokedError(UntrustedError):
    flaw = Flaw.REVOKED


class StaleRevocationListError(UntrustedError):
    flaw = Flaw.STALE_REVOCATION_LIST


class HostMismatchError(UntrustedError):
    flaw = Flaw.HOST_MISMATCH


class NoAuthoritiesError(UntrustedError):
    flaw = Flaw.NO_AUTHORITIES
