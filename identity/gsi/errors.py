"""The errors of this package.

    CredentialError                a credential cannot be used
    ├── MalformedCredentialError   no PEM, no certificate or no key in it, or one that is unreadable or cut short
    ├── CredentialTooBigError      more text, or more certificates, than any credential has
    ├── PassphraseError            the key is encrypted, and the passphrase is missing or wrong
    ├── KeyMismatchError           the key belongs to none of the certificates
    ├── WeakKeyError               a key that is too short, or of a kind that GSI does not know
    ├── IncompleteChainError       a proxy without its issuer's certificate
    ├── LegacyCredentialError      a proxy from before RFC 3820
    └── ProxyNotPossibleError      no proxy can be made from this credential

    UntrustedError                 a chain of certificates is not accepted
    ├── ExpiredError, NotYetValidError
    ├── SelfSignedError            an end entity certificate signed with its own key
    ├── UnknownAuthorityError      the issuer is not in the folder of authorities
    ├── BadSignatureError          the signature is not that of the issuer
    ├── WeakSignatureError         MD5, SHA-1, or a key that is too short or of an unusual kind
    ├── RevokedError, StaleRevocationListError
    ├── SigningPolicyError         the authority may not sign this name, or has no signing policy
    ├── NameConstraintError        the authority's own certificate does not allow this name
    ├── NotAnAuthorityError        the issuer's certificate may not sign certificates
    ├── NotAnEndEntityError        the certificate of an authority in place of that of a person or host
    ├── PathTooLongError           more authorities or proxies than allowed, or too many certificates
    ├── UnknownExtensionError      an unknown critical extension
    ├── UnreadableCertificateError
    ├── BadProxyError              a proxy that breaks RFC 3820
    │   ├── LegacyProxyError       a proxy from before RFC 3820
    │   ├── LimitedProxyError      a full proxy below a limited one, or a limited one where none is accepted
    │   └── OverlongProxyError     a proxy that expires after its issuer's certificate
    ├── HostMismatchError          the certificate of another host
    └── NoAuthoritiesError         the folder of authorities is missing

The reasons are sentences for users. None contains a part of a credential.
"""

from __future__ import annotations


class CredentialError(Exception):
    """A credential that cannot be used; `reason` is a sentence that is safe to show."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class MalformedCredentialError(CredentialError):
    pass


class CredentialTooBigError(CredentialError):
    pass


class PassphraseError(CredentialError):
    pass


class KeyMismatchError(CredentialError):
    pass


class WeakKeyError(CredentialError):
    pass


class IncompleteChainError(CredentialError):
    pass


class LegacyCredentialError(CredentialError):
    pass


class ProxyNotPossibleError(CredentialError):
    pass


class UntrustedError(Exception):
    """A certificate that is not accepted; `reason` is a sentence that is safe to show."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ExpiredError(UntrustedError):
    pass


class NotYetValidError(UntrustedError):
    pass


class SelfSignedError(UntrustedError):
    pass


class UnknownAuthorityError(UntrustedError):
    pass


class BadSignatureError(UntrustedError):
    pass


class WeakSignatureError(UntrustedError):
    pass


class RevokedError(UntrustedError):
    pass


class StaleRevocationListError(UntrustedError):
    pass


class SigningPolicyError(UntrustedError):
    pass


class NameConstraintError(UntrustedError):
    pass


class NotAnAuthorityError(UntrustedError):
    pass


class NotAnEndEntityError(UntrustedError):
    pass


class PathTooLongError(UntrustedError):
    pass


class UnknownExtensionError(UntrustedError):
    pass


class UnreadableCertificateError(UntrustedError):
    pass


class BadProxyError(UntrustedError):
    pass


class LegacyProxyError(BadProxyError):
    pass


class LimitedProxyError(BadProxyError):
    pass


class OverlongProxyError(BadProxyError):
    pass


class HostMismatchError(UntrustedError):
    pass


class NoAuthoritiesError(UntrustedError):
    pass
