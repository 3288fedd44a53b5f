"""Sign-in by OpenID Connect and OAuth2 providers, honest ones and those that lie."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.conf import settings as django_settings
from jwcrypto import jwk

from endpoints import concurrency_limits
from endpoints.addresses.openings import parse_openings
from identity import linked_identities, shown_names
from identity.federation import openid, pending
from identity.federation.providers import parse_providers
from identity.models import AuditEvent, LinkedIdentity, User, UserSession
from identity.proven_identities import Proven
from identity.sign_up_policy import parse
from tests.identity_providers.lying_openid import (
    CLIENT,
    SUBJECT,
    LyingOpenId,
    ec_key,
    encoded,
    led_to,
    rsa_key,
    signed,
    signed_by_hand,
    usual_key,
)
from tests.integration.pages import PASSWORD, Browser
from tests.servers.lying_https import LyingServer, answer, drip

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
BACK = "/signin/with/lab/callback"
LINKED = "alice@lab.example.org"


@pytest.fixture
def op(settings: Any) -> Iterator[LyingOpenId]:
    """An honest provider that is configured, inside the institution."""
    openid.forget()
    with (found := LyingOpenId(usual_key())).server:
        settings.PROVIDERS = {"lab": found.provider("label=The Lab")}
        settings.ALLOW_PROVIDERS = parse_openings("127.0.0.0/8")
        yield found
    openid.forget()


@pytest.fixture
def linked(alice: User, op: LyingOpenId) -> LinkedIdentity:
    return linked_identities.link(alice, Proven.of(op.provider().id, SUBJECT, LINKED, time.time()), time.time())


def begun(browser: Browser | None = None, after: str = "/activity", **more: str) -> Browser:
    browser = browser or Browser()
    browser.get("/signin?again=1")
    seen = browser.post("/signin/with/lab", next=after, **more)
    assert seen.status_code == 200, browser.text
    return browser


def come_back(browser: Browser, query: dict[str, str]) -> Any:
    return browser.get(f"{BACK}?{urlencode(query)}")


def signed_in_by(op: LyingOpenId, browser: Browser | None = None, **more: str) -> tuple[Browser, Any]:
    browser = begun(browser, **more)
    return browser, come_back(browser, op.authorize(led_to(browser)))


def user_in(browser: Browser) -> str | None:
    return browser.client.session.get("_auth_user_id")


def assert_refused(browser: Browser, seen: Any, reason: str) -> None:
    assert seen.status_code in (400, 403, 502), seen
    assert reason in browser.text
    assert user_in(browser) is None


def test_the_sign_in_page_offers_the_provider_and_a_linked_identity_signs_in(
    op: LyingOpenId, linked: LinkedIdentity, alice: User
) -> None:
    browser, seen = signed_in_by(op)
    assert "Sign in with The Lab" in (page := Browser(), page.get("/signin"))[0].text
    assert (seen.status_code, seen.headers["Location"]) == (302, "/activity")
    assert user_in(browser) == str(alice.pk)
    assert UserSession.objects.get(user=alice).way == "provider"
    linked.refresh_from_db()
    assert (linked.name, linked.email, linked.email_verified) == ("Alice Liddell", "alice@example.org", True)


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "ES256"])
def test_each_signature_that_providers_use_is_accepted(op: LyingOpenId, linked: LinkedIdentity, algorithm: str) -> None:
    if algorithm == "ES256":
        op.key = ec_key("ec")
        op.keys.append(op.key)
    op.token = lambda claims: signed(claims, op.key, algorithm)
    browser, _ = signed_in_by(op)
    assert user_in(browser) == str(linked.user_id)


def test_new_keys_of_the_provider_are_read_when_they_are_needed(
    op: LyingOpenId, linked: LinkedIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in_by(op)
    op.key = rsa_key("second")
    op.keys = [op.key]
    browser, seen = signed_in_by(op)
    assert_refused(browser, seen, "signature")  # It was asked a moment ago: nobody makes us ask all the time.
    monkeypatch.setattr(openid, "AGAIN_SECONDS", 0.0)
    browser, _ = signed_in_by(op)
    assert user_in(browser) == str(linked.user_id)


def test_an_identity_that_nobody_linked_signs_nobody_in_whatever_its_address(op: LyingOpenId, alice: User) -> None:
    alice.email = "alice@example.org"
    alice.save()
    browser, seen = signed_in_by(op)
    assert seen.status_code == 403
    assert LINKED in browser.text
    assert user_in(browser) is None
    assert not LinkedIdentity.objects.exists()


def test_an_address_that_somebody_typed_in_takes_the_name_of_nobody(op: LyingOpenId, alice: User, bob: User) -> None:
    """The boss has a name of the provider; mallory has typed the address of the boss in there."""
    boss = Proven.of(op.provider().id, "boss", "boss@lab.example.org", time.time())
    linked_identities.link(alice, boss, time.time())
    bob.set_password(PASSWORD)
    bob.save()
    op.claims = {"email": "boss@lab.example.org", "email_verified": False, "preferred_username": None}
    signed_in_by(op, at_home(bob), link="1")
    assert linked_identities.by_username(["boss@lab.example.org"])["boss@lab.example.org"].user == alice
    assert linked_identities.of(bob)[0].username == f"{SUBJECT}@lab.example.org"
    # Even where the provider says that the address is verified.
    op.claims["email_verified"] = True
    signed_in_by(op)
    assert linked_identities.by_username(["boss@lab.example.org"])["boss@lab.example.org"].user == alice


def test_a_user_name_that_ends_in_the_domain_takes_the_name_of_nobody(op: LyingOpenId, alice: User, bob: User) -> None:
    """The boss is "boss" at the provider, and "boss@DOMAIN" here; mallory has chosen "boss@DOMAIN" there."""
    boss = Proven.of(op.provider().id, "boss", "boss@lab.example.org", time.time())
    linked_identities.link(alice, boss, time.time())
    bob.set_password(PASSWORD)
    bob.save()
    op.claims = {"preferred_username": "boss@lab.example.org"}
    signed_in_by(op, at_home(bob), link="1")
    assert linked_identities.by_username(["boss@lab.example.org"])["boss@lab.example.org"].user == alice
    assert linked_identities.of(bob)[0].username == f"{linked_identities.of(bob)[0].pk}@lab.example.org"


def test_an_address_is_not_verified_by_what_is_said_of_another_one(op: LyingOpenId, alice: User) -> None:
    """The identity token has an address without a word; the userinfo endpoint has verified another one."""
    linked = linked_identities.link(alice, Proven.of(op.provider().id, SUBJECT, LINKED, time.time()), time.time())
    op.claims = {"email": "boss@example.org"}
    op.token = lambda claims: signed({name: claims[name] for name in claims if name != "email_verified"}, op.key)
    op.userinfo = {"sub": SUBJECT, "email": "mallory@example.org", "email_verified": True}
    signed_in_by(op)
    linked.refresh_from_db()
    assert (linked.email, linked.email_verified) == ("boss@example.org", False)


CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"iss": "https://other.example.org"}, "another issuer"),
    ({"iss": None}, "another issuer"),
    ({"aud": "other"}, "another application"),
    ({"aud": []}, "another application"),
    ({"aud": [CLIENT, "other"]}, "another application"),
    ({"azp": "other"}, "another application"),
    ({"nonce": "of another"}, "another sign-in"),
    ({"nonce": None}, "another sign-in"),
    ({"exp": 1}, "expired"),
    ({"exp": "soon"}, "no times"),
    ({"exp": float("inf"), "iat": 1}, "too old"),
    ({"iat": 4e9, "exp": 5e9}, "future"),
    ({"nbf": 4e9}, "future"),
    ({"at_hash": "AAAA"}, "belong together"),
    ({"sub": None}, "did not say who you are"),
    ({"sub": "x" * 2000}, "did not say who you are"),
    ({"sub": "somebody else"}, "two different people"),
]


@pytest.mark.parametrize(("claims", "reason"), CLAIMS, ids=[json.dumps(row[0])[:40] for row in CLAIMS])
def test_a_token_for_somebody_or_something_else_is_refused(
    op: LyingOpenId, linked: LinkedIdentity, claims: dict[str, Any], reason: str
) -> None:
    op.claims = claims
    if reason == "did not say who you are":
        op.userinfo = {"sub": claims["sub"]}
    browser, seen = signed_in_by(op)
    assert_refused(browser, seen, reason)


def of_public_key(op: LyingOpenId) -> jwk.JWK:
    """The public key as a secret for HMAC (key confusion, RFC 8725, 2.1)."""
    return jwk.JWK(kty="oct", k=encoded(op.key.export_to_pem()), kid="first")


TOKENS: dict[str, Callable[[LyingOpenId, dict[str, Any]], str]] = {
    "no signature": lambda op, claims: f"{encoded({'alg': 'none'})}.{encoded(claims)}.",
    "None": lambda op, claims: f"{encoded({'alg': 'None', 'kid': 'first'})}.{encoded(claims)}.",
    "a cut signature": lambda op, claims: signed(claims, op.key).rpartition(".")[0] + ".",
    "another key": lambda op, claims: signed(claims, rsa_key("first")),
    "its own key": lambda op, claims: signed(
        claims, (own := rsa_key("first")), jwk=json.loads(own.export_public())
    ),
    "HS256 with the public key": lambda op, claims: signed(claims, of_public_key(op), "HS256"),
    "another algorithm": lambda op, claims: signed(claims, op.key, "RS384"),
    "another payload": lambda op, claims: ".".join(
        [(parts := signed(claims, op.key).split("."))[0], encoded({**claims, "sub": "x"}), parts[2]]
    ),
    "critical extensions": lambda op, claims: signed(claims, op.key).replace(
        encoded({"alg": "RS256", "kid": "first"}), encoded({"alg": "RS256", "kid": "first", "crit": ["x"], "x": 1})
    ),
    "no token": lambda op, claims: "x",
    "a huge one": lambda op, claims: f"{'a' * 70000}.a.a",
    "no header": lambda op, claims: f"{encoded([1])}.{encoded(claims)}.x",
    "a header of depth": lambda op, claims: f"{encoded(b'[' * 30000)}.{encoded(claims)}.x",
}  # fmt: skip


@pytest.mark.parametrize("way", TOKENS)
def test_a_token_without_the_signature_of_the_provider_is_refused(
    op: LyingOpenId, linked: LinkedIdentity, way: str
) -> None:
    op.token = lambda claims: TOKENS[way](op, claims)
    browser, seen = signed_in_by(op)
    assert_refused(browser, seen, "identity token")


def test_a_short_key_and_an_encryption_key_verify_nothing(op: LyingOpenId, linked: LinkedIdentity) -> None:
    for key in (rsa_key("short", 1024), rsa_key("enc", use="enc")):
        openid.forget()
        op.keys = [key]
        op.token = partial(signed_by_hand, key=key)
        browser, seen = signed_in_by(op)
        assert_refused(browser, seen, "signature")


def test_an_answer_serves_once_and_in_the_browser_that_began(op: LyingOpenId, linked: LinkedIdentity) -> None:
    browser = begun()
    query = op.authorize(led_to(browser))
    stranger = Browser()
    stranger.get("/signin")
    assert_refused(stranger, come_back(stranger, query), "not begun in this browser")  # login CSRF
    assert_refused(browser, come_back(browser, {**query, "state": "x"}), "not begun in this browser")
    assert come_back(browser, query).status_code == 302
    browser.post("/signout")
    browser.client.cookies.clear()
    assert_refused(browser, come_back(browser, query), "not begun in this browser")  # replayed


def test_a_failed_answer_is_used_up_too(op: LyingOpenId, linked: LinkedIdentity) -> None:
    browser = begun()
    query = op.authorize(led_to(browser))
    op.claims = {"exp": 1}
    assert_refused(browser, come_back(browser, query), "expired")
    op.claims = {}
    assert_refused(browser, come_back(browser, query), "not begun in this browser")


def test_an_answer_that_comes_late_is_refused(op: LyingOpenId, linked: LinkedIdentity) -> None:
    browser = begun()
    query = op.authorize(led_to(browser))
    session = browser.client.session
    session["federated"][query["state"]]["since"] -= pending.SECONDS + 1
    session.save()
    assert_refused(browser, come_back(browser, query), "took too long")


def test_few_sign_ins_wait_in_one_browser(op: LyingOpenId) -> None:
    browser = Browser()
    for _ in range(pending.MOST + 3):
        begun(browser)
    assert len(browser.client.session["federated"]) == pending.MOST


def test_the_answer_of_one_provider_is_not_taken_for_that_of_another(
    op: LyingOpenId, linked: LinkedIdentity, settings: Any
) -> None:
    """Mix-up (RFC 9700, 4.4): the redirect addresses differ, and the answer names its issuer (RFC 9207)."""
    with (evil := LyingOpenId()).server:
        settings.PROVIDERS = {**settings.PROVIDERS, "evil": parse_providers(f"{evil.issuer} x y name=evil")["evil"]}
        browser = begun()
        query = op.authorize(led_to(browser))
        seen = browser.get(f"/signin/with/evil/callback?{urlencode(query)}")
        assert_refused(browser, seen, "another provider")
        assert not any(b"the-code" in request for request in evil.server.heard)
    browser = begun()
    query = op.authorize(led_to(browser))
    assert_refused(browser, come_back(browser, {**query, "iss": "https://evil.example"}), "another provider")
    openid.forget()
    op.metadata = {"authorization_response_iss_parameter_supported": True}
    browser, seen = signed_in_by(op)
    assert_refused(browser, seen, "another provider")


def test_the_verifier_and_the_redirect_address_are_those_of_this_sign_in(
    op: LyingOpenId, linked: LinkedIdentity
) -> None:
    browser = begun()
    query = op.authorize(led_to(browser))
    op.authorize(led_to(begun()))  # another sign-in: its code would be injected
    assert_refused(browser, come_back(browser, query), "refuses (invalid_grant)")
    url = parse_qs(urlsplit(led_to(begun())).query)
    assert url["redirect_uri"] == [f"{django_settings.PUBLIC_URL}{BACK}"]
    assert url["scope"] == ["openid profile email"]


def test_a_refusal_of_the_user_is_reported_and_no_text_of_the_provider_is_shown(op: LyingOpenId) -> None:
    for error, reason in (("access_denied", "did not allow"), ("<script>x", "refuses (unknown)")):
        browser = begun()
        query = {"state": op.authorize(led_to(browser))["state"], "error": error, "error_description": "Call 0900-EVIL"}
        seen = come_back(browser, query)
        assert_refused(browser, seen, reason)
        assert "EVIL" not in browser.page


@pytest.mark.parametrize("after", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_the_way_back_stays_on_this_site(op: LyingOpenId, linked: LinkedIdentity, after: str) -> None:
    _, seen = signed_in_by(op, after=after)
    assert seen.headers["Location"] == "/transfer"


def test_the_session_of_before_is_not_the_session_after(op: LyingOpenId, linked: LinkedIdentity) -> None:
    browser = begun()
    before = browser.client.session.session_key
    assert come_back(browser, op.authorize(led_to(browser))).status_code == 302
    assert browser.client.session.session_key != before
    assert not UserSession.objects.filter(session_key=before).exists()


def test_only_a_form_of_this_site_begins_a_sign_in(op: LyingOpenId) -> None:
    browser = Browser()
    assert browser.get("/signin/with/lab").status_code == 405
    assert browser.client.post("/signin/with/lab").status_code == 403
    assert op.server.heard == []


METADATA: list[tuple[dict[str, Any], str]] = [
    ({"issuer": "https://other.example.org"}, "another issuer"),
    ({"issuer": "http://127.0.0.1"}, "another issuer"),
    ({"authorization_endpoint": "javascript:alert(1)"}, "address that is none"),
    ({"token_endpoint": None}, "address that is none"),
    ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
]


@pytest.mark.parametrize(("changed", "reason"), METADATA, ids=[json.dumps(row[0])[:40] for row in METADATA])
def test_metadata_of_something_else_are_refused(op: LyingOpenId, changed: dict[str, Any], reason: str) -> None:
    op.metadata = changed
    browser = Browser()
    browser.get("/signin")
    assert browser.post("/signin/with/lab").status_code == 502
    assert reason in browser.text


ENDLESS: dict[str, Callable[[], Iterator[bytes]]] = {
    "slow": lambda: drip(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000, seconds=0.2),
    "endless": lambda: (b"HTTP/1.1 200 OK\r\n\r\n{" if number == 0 else b" " * 65536 for number in range(100)),
    "elsewhere": lambda: iter([answer("302 Found", Location="http://127.0.0.1:1/")]),
    "deep": lambda: iter([answer("200 OK", b"[" * 100000)]),
    "no JSON": lambda: iter([answer("200 OK", b"<html>")]),
    "a list": lambda: iter([answer("200 OK", b"[]")]),
    "nothing": lambda: iter([]),
    "an error": lambda: iter([answer("500 Oops", b"{}")]),
}


@pytest.mark.parametrize("way", ENDLESS)
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys"])
def test_a_slow_endless_or_wrong_answer_is_an_error_in_bounded_time(
    op: LyingOpenId, linked: LinkedIdentity, monkeypatch: pytest.MonkeyPatch, path: str, way: str
) -> None:
    monkeypatch.setattr("endpoints.addresses.provider_sites.SECONDS", 0.4)
    op.answers[path] = ENDLESS[way]
    began = time.monotonic()
    browser = Browser()
    browser.get("/signin")
    seen = browser.post("/signin/with/lab")
    if seen.status_code == 200:
        seen = come_back(browser, op.authorize(led_to(browser)))
    assert seen.status_code == 502
    assert "provider" in browser.text
    assert user_in(browser) is None
    assert time.monotonic() - began < 20


def test_a_provider_at_a_private_address_is_reached_only_where_the_operator_says_so(
    op: LyingOpenId, settings: Any
) -> None:
    settings.ALLOW_PROVIDERS = ()
    settings.ALLOW_TARGETS = parse_openings("127.0.0.0/8")
    browser = Browser()
    browser.get("/signin")
    assert browser.post("/signin/with/lab").status_code == 502
    assert op.server.heard == []


def test_an_unknown_provider_is_not_found(op: LyingOpenId) -> None:
    browser = Browser()
    browser.get("/signin")
    assert browser.post("/signin/with/other").status_code == 404


def test_a_stranger_begins_a_bounded_number_of_sign_ins(op: LyingOpenId, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webui.sign_in.providers.MOST_BEGUN", 2)
    for _ in range(2):
        begun()
    browser = Browser()
    browser.get("/signin")
    assert browser.post("/signin/with/lab").status_code == 429


def test_a_silent_provider_holds_few_threads_of_the_web_server(
    op: LyingOpenId, linked: LinkedIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = begun()
    query = op.authorize(led_to(browser))
    heard = len(op.server.heard)
    with monkeypatch.context() as busy:
        busy.setattr(concurrency_limits, "SIGN_INS", concurrency_limits.ConcurrencyLimit(0, 0))
        assert come_back(browser, query).status_code == 429
        other = Browser()
        other.get("/signin")
        assert other.post("/signin/with/lab").status_code == 429
    assert len(op.server.heard) == heard
    # Nothing was used up: the page is loaded again.
    assert come_back(browser, query).status_code == 302


def refusals() -> list[tuple[str, str, str]]:
    rows = AuditEvent.objects.filter(what="sign_in_refused", way="provider").order_by("pk")
    return [(row.details["reason"], row.details.get("provider", ""), row.username) for row in rows]


def test_the_audit_log_says_who_vouched_for_whom(op: LyingOpenId, linked: LinkedIdentity, alice: User) -> None:
    signed_in_by(op)
    row = AuditEvent.objects.get(what="signed_in", user_id=alice.pk)
    assert (row.way, row.details) == ("provider", {"provider": f"oidc:{op.issuer}", "identity": LINKED})
    assert refusals() == []


def test_refused_answers_are_in_the_audit_log_without_words_of_the_provider(
    op: LyingOpenId, linked: LinkedIdentity, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    vouches, evil = f"oidc:{op.issuer}", "https://evil.example.org/call-0900"
    op.claims = {"iss": evil}
    signed_in_by(op)
    op.claims = {}
    op.token = lambda claims: signed(claims, rsa_key("first"))
    signed_in_by(op)
    op.token = lambda claims: signed(claims, op.key)
    browser = begun()
    query = op.authorize(led_to(browser))
    come_back(browser, {"state": query["state"], "error": "evil", "error_description": evil})
    come_back(browser, query)  # replayed
    alice.is_active = False
    alice.save()
    signed_in_by(op)
    linked.delete()
    signed_in_by(op)
    assert refusals() == [
        ("ProofRefusedError", vouches, ""),
        ("ProofRefusedError", vouches, ""),
        ("ProviderRefusedError", vouches, ""),
        ("SignInNotBegunError", "", ""),
        ("IdentityInactiveError", vouches, "alice"),
        ("IdentityNotFoundError", vouches, ""),
    ]
    assert "evil" not in str(list(AuditEvent.objects.values_list("details", flat=True)))
    monkeypatch.setattr("identity.audit.MOST_REFUSALS", 6)
    signed_in_by(op)
    assert len(refusals()) == 6


def test_an_inactive_user_is_refused_with_the_reason(op: LyingOpenId, linked: LinkedIdentity, alice: User) -> None:
    alice.is_active = False
    alice.save()
    browser, seen = signed_in_by(op)
    assert_refused(browser, seen, "not active")


# ---- linking


def at_home(alice: User) -> Browser:
    browser = Browser()
    browser.sign_in(alice, PASSWORD)
    return browser


def test_a_user_links_an_identity_by_a_fresh_session_and_the_answer_of_the_provider(
    op: LyingOpenId, alice: User
) -> None:
    _browser, seen = signed_in_by(op, at_home(alice), link="1")
    assert seen.headers["Location"] == "/account#identities"
    assert [(row.user, row.username) for row in LinkedIdentity.objects.all()] == [(alice, LINKED)]
    other, _ = signed_in_by(op)
    assert user_in(other) == str(alice.pk)


def test_nothing_is_linked_to_an_old_session(op: LyingOpenId, alice: User) -> None:
    browser = at_home(alice)
    begun(browser, link="1")
    query = op.authorize(led_to(browser))
    session = browser.client.session
    session["signed_in_at"] -= linked_identities.MOST_AGE + 1
    session.save()
    come_back(browser, query)
    assert not LinkedIdentity.objects.exists()
    browser.get("/signin?again=1")
    seen = browser.post("/signin/with/lab", link="1")
    assert seen.headers["Location"].startswith("/signin?next=%2Faccount")


def test_an_answer_for_linking_is_of_no_use_to_another_user(op: LyingOpenId, alice: User, bob: User) -> None:
    """An attacker's own proof, sent to a victim, links nothing to the victim; nor the other way round."""
    bob.set_password(PASSWORD)
    bob.save()
    browser = at_home(alice)
    begun(browser, link="1")
    query = op.authorize(led_to(browser))
    victim = at_home(bob)
    come_back(victim, query)
    assert not LinkedIdentity.objects.exists()
    browser.get("/signin?again=1")
    browser.sign_in(bob, PASSWORD)
    come_back(browser, query)
    assert not LinkedIdentity.objects.exists()


def test_an_identity_of_another_user_is_not_linked_again(op: LyingOpenId, linked: LinkedIdentity, bob: User) -> None:
    bob.set_password(PASSWORD)
    bob.save()
    signed_in_by(op, at_home(bob), link="1")
    assert LinkedIdentity.objects.get().user == linked.user


# ---- GitHub


def test_github_identifies_a_person_by_its_api(settings: Any, alice: User) -> None:
    user = {"id": 583231, "login": "octocat", "name": "The Octocat", "company": None}
    emails = [{"email": "x@y.org", "primary": False, "verified": True},
              {"email": "octo@cat.org", "primary": True, "verified": True}]  # fmt: skip
    said = {
        "/login/oauth/access_token": {"access_token": "gho_x", "token_type": "bearer"},
        "/api/v3/user": user,
        "/api/v3/user/emails": emails,
    }

    def script(request: bytes) -> Iterator[bytes]:
        yield answer("200 OK", json.dumps(said[request.split(b" ", 2)[1].decode()]).encode())

    with LyingServer(script, None) as server:
        settings.PROVIDERS = parse_providers(f"github {CLIENT} secret at={server.url} domain=github.com name=lab")
        settings.ALLOW_PROVIDERS = parse_openings("127.0.0.0/8")
        browser = at_home(alice)
        begun(browser, link="1")
        state = parse_qs(urlsplit(led_to(browser)).query)["state"][0]
        come_back(browser, {"code": "c", "state": state})
        row = LinkedIdentity.objects.get()
        assert (row.username, row.subject, row.email, row.email_verified, row.provider) == (
            "octocat@github.com", "583231", "octo@cat.org", True, f"oauth2:{server.url}",
        )  # fmt: skip
        assert b"Authorization: Bearer gho_x" in server.heard[-1]
        for wrong in ({}, {"id": "583231", "login": "x"}, {"id": True, "login": "x"}, {"id": 1, "login": ""}):
            said["/api/v3/user"] = wrong
            browser = begun()
            state = parse_qs(urlsplit(led_to(browser)).query)["state"][0]
            assert_refused(browser, come_back(browser, {"code": "c", "state": state}), "who you are")


def test_the_account_page_lists_unlinks_and_chooses_identities(op: LyingOpenId, alice: User) -> None:
    browser, _ = signed_in_by(op, at_home(alice), link="1")
    browser.get("/account")
    row = LinkedIdentity.objects.get()
    assert LINKED in browser.text
    assert "Link an identity of The Lab" in browser.text
    browser.post(f"/account/identities/{row.pk}/primary")
    assert shown_names.primary_of(alice) == row
    browser.get("/account")
    browser.post(f"/account/identities/{alice.pk}/primary")
    assert shown_names.primary_of(alice) is None
    browser.get("/account")
    assert browser.post(f"/account/identities/{uuid.uuid4()}/unlink", confirmed="yes").status_code == 404
    browser.get("/account")
    assert (
        browser.post(f"/account/identities/{row.pk}/unlink", confirmed="yes").headers["Location"]
        == "/account#identities"
    )
    assert not LinkedIdentity.objects.exists()


def test_unlinking_ends_the_sessions_of_whoever_has_the_identity(
    op: LyingOpenId, linked: LinkedIdentity, alice: User
) -> None:
    theirs, _ = signed_in_by(op)
    assert user_in(theirs) == str(alice.pk)
    browser = Browser()
    browser.sign_in(alice)
    browser.get("/account")
    browser.post(f"/account/identities/{linked.pk}/unlink", confirmed="yes")
    assert linked_identities.of(alice) == []
    assert theirs.get("/account").status_code == 302
    assert browser.get("/account").status_code == 200


def test_an_old_session_unlinks_nothing(op: LyingOpenId, alice: User) -> None:
    browser, _ = signed_in_by(op, at_home(alice), link="1")
    session = browser.client.session
    session["signed_in_at"] -= linked_identities.MOST_AGE + 1
    session.save()
    browser.get("/account")
    seen = browser.post(f"/account/identities/{LinkedIdentity.objects.get().pk}/unlink", confirmed="yes")
    assert seen.headers["Location"].startswith("/signin?next=")
    assert LinkedIdentity.objects.exists()


# ---- sign-up


def test_a_person_whom_nobody_knows_makes_an_account_where_the_rule_admits(op: LyingOpenId, settings: Any) -> None:
    op.claims |= {"email": "alice@lab.example.org", "email_verified": True}
    browser, _ = signed_in_by(op)
    assert "/signup/identity" not in browser.page
    settings.SIGN_UP = parse("domain:lab.example.org")
    browser, _ = signed_in_by(op)
    assert "/signup/identity" in browser.page
    assert browser.post("/signup/identity", username="root", next="/activity").status_code == 400
    assert "This user name is taken" in browser.text
    answer = browser.post("/signup/identity", username="alice-lab", next="/activity")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/activity")
    made = User.objects.get(username="alice-lab")
    assert (made.email, made.has_usable_password()) == ("alice@lab.example.org", False)
    assert LinkedIdentity.objects.get(user=made).primary
    # Once.
    browser.get("/account")
    assert browser.post("/signup/identity", username="again", next="/").status_code == 400
    assert not User.objects.filter(username="again").exists()


def test_a_person_with_an_account_is_led_to_it(op: LyingOpenId, settings: Any, alice: User) -> None:
    settings.SIGN_UP = parse("open")
    alice.email, alice.is_active = "alice@lab.example.org", False
    alice.save()
    op.claims |= {"email": "alice@lab.example.org", "email_verified": True}
    browser, _ = signed_in_by(op)
    assert browser.post("/signup/identity", username="alice-lab", next="/").status_code == 409
    assert "Sign in to it, and link this identity on your account page." in browser.text
    assert not User.objects.filter(username="alice-lab").exists()


def test_an_address_that_the_provider_has_not_verified_admits_nobody(op: LyingOpenId, settings: Any) -> None:
    settings.SIGN_UP = parse("domain:lab.example.org")
    op.claims |= {"email": "alice@lab.example.org", "email_verified": False}
    browser, _ = signed_in_by(op)
    assert browser.post("/signup/identity", username="alice-lab", next="/").status_code == 403
    assert not User.objects.filter(username="alice-lab").exists()
