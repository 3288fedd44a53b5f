"""The lines of WAYBILL_PROVIDERS, the names that providers give, and the clocks of identity tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from endpoints.addresses.openings import parse_openings
from endpoints.addresses.provider_sites import reach
from identity.federation import openid
from identity.federation.errors import ProofRefusedError
from identity.federation.providers import MOST, Provider, parse_providers
from identity.proven_identities import IdentityNotUsableError, Proven
from tests.identity_providers.lying_openid import LyingOpenId, signed, usual_key

NOW = 1_800_000_000.0


def only(line: str) -> Provider:
    [found] = parse_providers(line).values()
    return found


def named(provider: Provider, **claims: Any) -> Proven:
    return openid._proven(provider, {"sub": "s-1", **claims}, NOW)


# ---- presets


def test_google_gives_names_by_verified_addresses() -> None:
    google = only("google ID SECRET")
    assert (google.issuer, google.protocol, google.client_id) == ("https://accounts.google.com", "oidc", "ID")
    assert google.secret is not None
    assert google.secret.value == "SECRET"
    assert google.scopes == ("openid", "profile", "email")
    alice = named(google, email="alice@gmail.com", email_verified=True, preferred_username="boss")
    assert alice.username == "alice@gmail.com@accounts.google.com"
    assert named(google, email="boss@example.org", email_verified=False).username == "s-1@accounts.google.com"


def test_orcid_gives_names_by_its_numbers() -> None:
    orcid = only("orcid ID SECRET")
    assert (orcid.issuer, orcid.domain, orcid.scopes) == ("https://orcid.org", "orcid.org", ("openid",))
    alice = named(orcid, sub="0000-0002-1825-0097", email="a@b.org", email_verified=True, preferred_username="boss")
    assert alice.username == "0000-0002-1825-0097@orcid.org"
    assert not alice.name_is_address


def test_cilogon_gives_names_by_the_institution_and_never_by_an_address() -> None:
    cilogon = only("cilogon ID SECRET")
    assert (cilogon.issuer, cilogon.domain) == ("https://cilogon.org", "cilogon.org")
    assert cilogon.scopes == ("openid", "profile", "email", "org.cilogon.userinfo")
    assert named(cilogon, eppn="a@uni.edu", email="boss@uni.edu").username == "a@uni.edu@cilogon.org"
    for verified in (True, False, None):
        mine = named(cilogon, email="boss@uni.edu", email_verified=verified, idp_name="University")
        assert (mine.username, mine.organization) == ("s-1@cilogon.org", "University")


def test_github_is_asked_at_its_own_server_too() -> None:
    assert (only("github ID SECRET").protocol, only("github ID SECRET").id) == ("github", "oauth2:https://github.com")
    own = only("github ID SECRET at=https://git.example.org name=ghe")
    assert (own.name, own.domain, own.issuer) == ("ghe", "git.example.org", "https://git.example.org")


# ---- names


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_that_is_not_verified_is_no_name(verified: object) -> None:
    """Somebody has typed it in at the provider: otherwise that would be a way to the name of a colleague."""
    lab = only("https://id.example.org ID SECRET domain=example.org")
    mine = named(lab, email="boss@example.org", email_verified=verified)
    assert (mine.username, mine.name_is_address) == ("s-1@example.org", False)


def test_a_verified_address_is_a_name_and_known_as_an_address() -> None:
    lab = only("https://id.example.org ID SECRET domain=example.org")
    mine = named(lab, email="Boss@example.org", email_verified=True)
    assert (mine.username, mine.name_is_address) == ("Boss@example.org", True)
    # A provider that takes addresses as user names has people type them in, too.
    same = named(lab, email="boss@example.org", preferred_username="BOSS@example.org")
    assert (same.username, same.name_is_address) == ("BOSS@example.org", True)
    assert not named(lab, email="boss@example.org", preferred_username="boss").name_is_address
    assert not named(lab, sub="boss@example.org").name_is_address
    assert not named(only("cilogon ID SECRET"), eppn="boss@cilogon.org").name_is_address


def test_a_user_name_with_the_domain_is_known_as_one_that_may_be_typed_in() -> None:
    lab = only("https://id.example.org ID SECRET domain=example.org")
    for address in (None, "mallory@example.org"):
        mine = named(lab, preferred_username="boss@example.org", email=address)
        assert (mine.username, mine.name_is_address) == ("boss@example.org", True)


def test_a_claim_that_is_no_name_is_passed_over() -> None:
    lab = only("https://id.example.org ID SECRET domain=example.org")
    for wrong in (None, "", 7, "a\nb", ["a"]):
        assert named(lab, preferred_username=wrong).username == "s-1@example.org"
    with pytest.raises(IdentityNotUsableError):
        openid._proven(lab, {"email": "a@example.org"}, NOW)


# ---- lines


def test_lines_have_options_comments_and_labels() -> None:
    text = """
    # our own
    https://id.example.org/realms/lab CLIENT name=lab domain=Example.org scopes=openid,email label=The Lab = ours
    orcid ID SECRET
    """
    lab, orcid = parse_providers(text).values()
    assert (lab.name, lab.domain, lab.scopes) == ("lab", "example.org", ("openid", "email"))
    assert lab.label == "The Lab = ours"
    assert (lab.secret, lab.id) == (None, "oidc:https://id.example.org/realms/lab")
    assert orcid.name == "orcid"
    assert only("https://id.example.org:8443/x/ C").name == "id-example-org"


WRONG = {
    "google": "it is not: PRESET-OR-ISSUER",
    "google a b c": "it is not: PRESET-OR-ISSUER",
    "gogle ID SECRET": "A preset is one of google, github, orcid, cilogon",
    "ftp://id.example.org ID SECRET": "preset",
    "https://user:pw@id.example.org ID SECRET": "preset",
    "github ID SECRET at=nonsense": "preset",
    "google ID SECRET name=Google": "name= has small letters",
    "google ID SECRET name=": "name= has small letters",
    "google ID SECRET domain=a_b": "domain= is not the name of a domain",
    "google ID SECRET domain=": "domain= is not the name of a domain",
    "google ID SECRET scopes=email": "scopes= must have openid",
    "google ID SECRET\ngoogle OTHER SECRET name=second": "line 2: the provider is there already",
    "google ID SECRET\norcid ID SECRET name=google": "line 2: the provider is there already",
    "https://a.example.org ID domain=lab.org\nhttps://b.example.org ID domain=LAB.org": "line 2: another provider has",
    "https://id.example.org/realms/a ID name=a\nhttps://id.example.org/realms/b ID name=b": "line 2: another provider",
    "\n".join(f"https://id{number}.example.org ID SECRET" for number in range(MOST + 1)): "at most",
}


@pytest.mark.parametrize(("text", "reason"), WRONG.items(), ids=[text[:40] for text in WRONG])
def test_a_line_that_is_wrong_is_refused_and_its_secret_is_not_repeated(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as refused:
        parse_providers(text)
    assert "SECRET" not in str(refused.value).replace("[SECRET]", "")


# ---- clocks


@pytest.fixture
def op(settings: Any) -> Iterator[LyingOpenId]:
    openid.forget()
    with (found := LyingOpenId(usual_key())).server:
        settings.ALLOW_PROVIDERS = parse_openings("127.0.0.0/8")
        yield found
    openid.forget()


SKEW, AGE = openid.SKEW, openid.MAX_AGE
CLOCKS: dict[str, tuple[dict[str, Any], str]] = {
    "ended a moment ago": ({"exp": NOW - SKEW + 1}, ""),
    "ended longer ago": ({"exp": NOW - SKEW}, "has expired"),
    "made by a clock that is ahead": ({"iat": NOW + SKEW}, ""),
    "made in the future": ({"iat": NOW + SKEW + 1}, "of the future"),
    "good from a moment that comes soon": ({"nbf": NOW + SKEW}, ""),
    "good from later on": ({"nbf": NOW + SKEW + 1}, "of the future"),
    "old": ({"iat": NOW - AGE - SKEW}, ""),
    "too old": ({"iat": NOW - AGE - SKEW - 1}, "too old"),
    "a time that is true": ({"iat": True}, "no times"),
    "a beginning that is a word": ({"nbf": "now"}, "of the future"),
}


@pytest.mark.parametrize("way", CLOCKS)
def test_clocks_may_differ_by_a_minute_and_no_more(op: LyingOpenId, way: str) -> None:
    changed, reason = CLOCKS[way]
    claims = {**op.honest_claims(), "nonce": "n", "iat": NOW, "exp": NOW + 300, **changed}
    token = signed(claims, op.key)
    if not reason:
        assert openid.check(op.provider(), token, "n", "access", reach, NOW)["sub"] == claims["sub"]
        return
    with pytest.raises(ProofRefusedError, match=reason):
        openid.check(op.provider(), token, "n", "access", reach, NOW)
