"""Attacks on the OAuth2 server, as RFC 9700 names them; docs/oauth-security.md lists tests by section."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from django.test import Client

from identity.models import SignIn, User
from identity.provider import authorization, bearer, scopes
from identity.provider.errors import RequestNotTrustedError
from identity.sign_in_proof import SignInProof
from tests.integration.pages import PASSWORD, Browser
from tests.integration.provider import CALLBACK, HERE, App, answered, by_server, challenge, get, make, post

pytestmark = pytest.mark.django_db
VERIFIER = "v" * 64
SIGNED_IN = SignInProof(datetime(2026, 1, 1, tzinfo=UTC), "password", "alice@127.0.0.1")


@pytest.fixture
def portal(bob: User) -> App:
    """Of bob, who is honest."""
    return make(bob, CALLBACK)


@pytest.fixture
def evil(charlie: User) -> App:
    """Of charlie, the attacker: registered here like any other."""
    return make(charlie, "https://evil.example/callback", name="portal")


def code_of(app: App, code: str, **more: str) -> Any:
    return app.token(**{"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **more})


def test_an_application_cannot_ask_in_the_name_of_another(portal: App, evil: App) -> None:
    """4.1: the id is public, the way back is not the attacker's to choose."""
    for address in ("https://evil.example/callback", CALLBACK + "/../evil", CALLBACK + "?next=https://evil.example"):
        with pytest.raises(RequestNotTrustedError):
            authorization.read(portal.question(scopes.TRANSFER_ALL, address), HERE)
    with pytest.raises(RequestNotTrustedError):
        authorization.read(evil.question(scopes.TRANSFER_ALL, CALLBACK), HERE)


@pytest.mark.usefixtures("passwords")
def test_a_wrong_request_leads_nobody_away(alice: User, portal: App) -> None:
    """4.11: neither the consent page nor the sign-in page is an open redirector."""
    browser = Browser()
    browser.sign_in(alice)
    for address in ("https://evil.example/", "//evil.example", "javascript:alert(1)"):
        query = urlencode({"client_id": portal.id, "redirect_uri": address, "response_type": "code", "scope": "openid"})
        answer = browser.get(f"/v2/oauth2/authorize?{query}")
        assert (answer.status_code, "Location" in answer.headers) == (400, False)
        assert "evil.example" not in answer.headers["Content-Security-Policy"]
        browser.get("/signin?again=1")
        answer = browser.post("/signin", username="alice", password=PASSWORD, next=address)
        assert urlsplit(answer.headers["Location"]).netloc == ""


def test_every_answer_names_its_issuer(portal: App, alice: User) -> None:
    """4.4: a client of several servers cannot mistake one for another (RFC 9207), in errors either."""
    asked = authorization.read(portal.question("openid", state="s"), HERE)
    issuer = get("/.well-known/openid-configuration").body["issuer"]
    locations = [authorization.refuse(asked), authorization.grant(asked, alice, SIGNED_IN)]
    wrong = Client().get("/v2/oauth2/authorize?" + portal.question("nothing", state="s"))
    locations.append(wrong.headers["Location"])
    for location in locations:
        assert (answered(location)["iss"], answered(location)["state"]) == (issuer, "s")
    assert get("/.well-known/openid-configuration").body["authorization_response_iss_parameter_supported"] is True


def test_a_stolen_code_is_of_no_use_to_another_application(portal: App, evil: App, alice: User, charlie: User) -> None:
    """4.5: injected by the attacker's application, with or without the address of the victim's."""
    code = portal.code(alice, scopes.TRANSFER_ALL)
    for more in ({}, {"redirect_uri": "https://evil.example/callback"}, {"client_id": portal.id}):
        assert code_of(evil, code, **more).status in (400, 401)
    public = make(charlie, "http://localhost", public=True)
    assert code_of(public, code, code_verifier=VERIFIER).status == 400
    assert code_of(portal, code).status == 200, "the victim's attempt still succeeds"


def test_a_code_that_is_injected_into_the_session_of_another_is_refused(portal: App, alice: User) -> None:
    """4.5.3: the portal binds each request to its browser by PKCE, which it may use though it has a secret."""
    more = {"code_challenge": challenge(VERIFIER), "code_challenge_method": "S256"}
    stolen = portal.code(alice, scopes.TRANSFER_ALL, **more)
    assert code_of(portal, stolen, code_verifier="w" * 64).status == 400
    assert code_of(portal, stolen).status == 400


def test_pkce_is_by_s256_and_nothing_else(bob: User, alice: User) -> None:
    """2.1.1: `plain` would show the verifier in the request."""
    script = make(bob, public=True)
    for more in (
        {},
        {"code_challenge": VERIFIER},
        {"code_challenge": VERIFIER, "code_challenge_method": "plain"},
        {"code_challenge": "short", "code_challenge_method": "S256"},
        {"code_challenge_method": "S256"},
    ):
        query = script.question("openid", "http://localhost:1/", **more)
        answer = Client().get(f"/v2/oauth2/authorize?{query}")
        assert answered(answer.headers["Location"])["error"] == "invalid_request", more
    assert get("/.well-known/openid-configuration").body["code_challenge_methods_supported"] == ["S256"]


def test_a_replayed_code_takes_back_all_that_it_gave(portal: App, alice: User) -> None:
    """4.5 with RFC 6749 section 4.1.2: also what was renewed since."""
    code = portal.code(alice, f"openid {scopes.TRANSFER_ALL}", access_type="offline")
    tokens = by_server(code_of(portal, code).body)
    renewed = portal.token(grant_type="refresh_token", refresh_token=tokens[scopes.TRANSFER]["refresh_token"]).body
    assert code_of(portal, code).status == 400
    assert not SignIn.objects.exists()
    assert all(bearer.authenticate(one["access_token"]) is None for one in (*tokens.values(), renewed))


def test_a_token_of_one_service_opens_no_other(portal: App, alice: User) -> None:
    """4.10.2: a resource server that leaks a token gives nothing else away."""
    tokens = by_server(portal.tokens(alice, f"openid {scopes.TRANSFER_ALL} {scopes.GROUPS_ALL}"))
    opens = {
        scopes.AUTH: "/v2/oauth2/userinfo",
        scopes.TRANSFER: "/v0.10/task_list",
        scopes.GROUPS: "/v2/groups/my_groups",
    }
    for server, one in tokens.items():
        for place, path in opens.items():
            assert get(path, one["access_token"]).status == (200 if place == server else 403), (server, path)


def test_a_token_travels_in_the_header_only(portal: App, alice: User) -> None:
    """4.3.2: addresses are in logs and histories."""
    token = portal.tokens(alice, scopes.TRANSFER_ALL)["access_token"]
    assert get("/v0.10/task_list", access_token=token).status == 401
    assert post("/v0.10/endpoint", {"access_token": token}).status == 401
    assert get("/v2/oauth2/token", grant_type="refresh_token").status == 405


def test_other_grants_do_not_exist(portal: App, alice: User) -> None:
    """2.1.2 and 2.4: no token in the answer of the browser, no password of a user to an application."""
    for kind in ("token", "id_token", "code token", "code id_token"):
        query = urlencode({"client_id": portal.id, "redirect_uri": CALLBACK, "response_type": kind, "scope": "openid"})
        answer = Client().get(f"/v2/oauth2/authorize?{query}")
        told = answered(answer.headers["Location"])
        assert told["error"] in ("unsupported_response_type", "unauthorized_client", "invalid_request"), kind
        assert "#" not in answer.headers["Location"]
    assert portal.token(grant_type="password", username="alice", password=PASSWORD).status == 400


def test_an_answer_leaves_no_trace_in_the_browser(portal: App, alice: User) -> None:
    """4.2.4 and 4.12: no referrer, no cache, and a redirect that sends no form again."""
    asked = portal.question("nothing")
    answer = Client().get(f"/v2/oauth2/authorize?{asked}")
    assert answer.status_code == 302, "307 would send the form of the user on"
    assert (answer.headers["Referrer-Policy"], answer.headers["Cache-Control"]) == ("no-referrer", "no-store")
    assert answer.headers["X-Frame-Options"] == "DENY"
