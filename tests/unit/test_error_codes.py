"""The codes on the wire: they are part of the API, and the page of the API names each."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from docs.draw.imports import ROOT, modules
from endpoints import error_meanings
from endpoints.ssh.keys import KeyFlaw
from identity.error_categories import CategorizedError, Category, Refusal
from identity.gsi.errors import Flaw
from tests.unit.test_error_categories import of_the_product, values_of_the_product

#: The codes of errors of the domain. A new one is added here; none is changed or removed.
CODES = """
    AuthorizationRequired BookmarkNotFound ClientError.ActivationExpired ClientError.ActivationRequired
    ClientError.ActivationRequired.CredentialGone ClientError.ActivationRequired.VaultKeyMissing
    ClientError.ActivationRequired.VaultSealBroken ClientError.BadRequest ClientError.CredentialRefused.TooLarge
    ClientError.FileTooLarge ClientError.LimitExceeded ClientError.NotAFile ClientError.NotFound
    ClientError.SetupKeyExpired ClientError.SetupKeyUnknown ClientError.SetupKeyUsed ClientError.SubjectNotProven
    ClientError.TooManyRequests Conflict EndpointDeleted EndpointNotFound EndpointPermissionDenied Exists ExternalError
    ExternalError.ConnectFailed ExternalError.LookupFailed ExternalError.MyProxy.BadCredential
    ExternalError.MyProxy.BadPassphrase ExternalError.MyProxy.ForeignKey ExternalError.MyProxy.Input
    ExternalError.MyProxy.LogonRefused ExternalError.MyProxy.Protocol ExternalError.MyProxy.ServerFailed
    ExternalError.MyProxy.Timeout ExternalError.MyProxy.UnknownUser ExternalError.MyProxy.Unreachable
    ExternalError.MyProxy.UntrustedServer ExternalError.MyProxy.WrongServer ExternalError.OAuth.BadAnswer
    ExternalError.OAuth.CertificateNotUsable ExternalError.OAuth.IssuerMismatch ExternalError.OAuth.Refused
    ExternalError.OAuth.ServerAddress ExternalError.OAuth.ServerAnswer ExternalError.OAuth.ServerNotTrusted
    ExternalError.OAuth.ServerTooSlow ExternalError.OAuth.ServerUnreachable ExternalError.OAuth.StateMismatch
    InternalError NoCredException NothingToConfirm PermissionDenied ServiceError.NotConfigured
    ServiceError.VaultKeyNotConfigured ServiceUnavailable TaskComplete TaskNotComplete TimerEnded TimerHeld UploadBusy
    UploadOffset UserNotFound
"""
#: The words after `ClientError.CredentialRefused.`, with TooLarge and TooShort.
FLAWS = """
    BadProxy BadSignature CredentialTooBig Expired HostMismatch IncompleteChain KeyMismatch LegacyCredential LegacyProxy
    LimitedProxy MalformedCredential NameConstraint NoAuthorities NotAKey NotAnAuthority NotAnEndEntity NotYetValid
    OverlongProxy Passphrase PassphraseNeeded PathTooLong ProxyNotPossible Revoked SelfSigned SigningPolicy SshUserName
    StaleRevocationList UnknownAuthority UnknownExtension UnreadableCertificate UnsupportedKey Untrusted WeakKey
    WeakSignature WeakSshKey WrongPassphrase
"""


def of_classes() -> set[str]:
    for name in modules():
        if name.endswith(".errors"):
            import_module(name)
    kinds = list(of_the_product(CategorizedError))
    refusals = [refusal for kind in kinds if isinstance(refusal := getattr(kind, "refusal", None), Refusal)]
    codes = {kind.__dict__.get("code", "") for kind in kinds} | {refusal.code for refusal in refusals}
    return {code for code in codes if isinstance(code, str)}


def test_no_code_of_the_domain_changes_unnoticed() -> None:
    found = {category.code for category in Category} | {value.code for value in values_of_the_product()} | of_classes()
    assert found - {""} == set(CODES.split())


def test_no_flaw_of_a_credential_changes_unnoticed() -> None:
    assert {*Flaw, *KeyFlaw} == set(FLAWS.split())


def words_of_the_page() -> set[str]:
    """All codes in the table of docs/rest-api.md; of a family, its prefix with each of the words beside it."""
    page = (ROOT / "docs" / "rest-api.md").read_text()
    rows = [row for row in page[page.index("## Errors") :].splitlines() if re.match(r"\| [0-9, ]+ \|", row)]
    words: set[str] = set()
    for row in rows:
        family = ""
        for word in re.findall(r"`([A-Za-z.]+)`", row):
            family = word if not family or word.endswith(".") else family
            words |= {word, family + word}
    return words


@pytest.mark.parametrize(
    "code", [*CODES.split(), *(f"ClientError.AgentRefused.{flaw}" for flaw in ("expired", "foreign"))]
)
def test_the_page_of_the_api_names_each_code(code: str) -> None:
    assert code in words_of_the_page()


@pytest.mark.parametrize("suffix", sorted(set(error_meanings._SUFFIXES.values())))
def test_the_page_of_the_api_names_each_suffix_of_a_fault(suffix: str) -> None:
    assert f"ExternalError.DirListingFailed{suffix}" in words_of_the_page()
