"""The consent of a user to an application: the request, the answer, and the address of the redirect."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from identity import linked_identities as linked
from identity.models import LinkedIdentity, User
from identity.proven_identities import Proven
from identity.provider import applications, authorization, bearer, scopes
from identity.provider.applications import ApplicationSpec
from identity.provider.errors import (
    ClientInvalidError,
    ClientNotFoundError,
    RequestNotTrustedError,
    RequestRefusedError,
)
from identity.sign_in_proof import SignInProof
from tests.integration.provider import CALLBACK, HERE, App, answered, challenge, make

pytestmark = pytest.mark.django_db


@pytest.fixture
def portal(bob: User) -> App:
    """bob's, confidential."""
    return make(bob, CALLBACK)


@pytest.fixture
def script(bob: User) -> App:
    """bob's, public."""
    return make(bob, "http://127.0.0.1/back", "http://localhost", public=True)


def ask(
    app: App, scope: str = scopes.TRANSFER_ALL, redirect_uri: str = CALLBACK, **more: str
) -> authorization.AuthorizationRequest:
    return authorization.read(app.question(scope, redirect_uri, **more), HERE)


S256 = {"code_challenge": challenge("v" * 50), "code_challenge_method": "S256"}


def test_a_question_names_who_asks_for_what(portal: App) -> None:
    asked = ask(portal, f"openid {scopes.TRANSFER_ALL}[*https://auth.globus.org/scopes/x/data_access]", state="s 1&")
    assert asked.application.name == "portal"
    assert [scope.name for scope in asked.scopes] == ["openid", scopes.TRANSFER_ALL]
    assert all(scope.words for scope in asked.scopes)
    assert (asked.redirect_host, asked.state, asked.offline, asked.shows_code) == (
        "portal.example.org", "s 1&", False, False,
    )  # fmt: skip


def test_without_scopes_it_is_about_transfers(portal: App) -> None:
    asked = authorization.read(urlencode({"client_id": portal.id, "response_type": "code"}), HERE)
    assert [scope.name for scope in asked.scopes] == [scopes.TRANSFER_ALL]
    assert asked.redirect_uri == CALLBACK


def test_what_the_page_must_know_is_reported(portal: App) -> None:
    asked = ask(
        portal,
        access_type="offline",
        prompt="login consent",
        session_message="Once more",
        max_age="60",
        login_hint="al",
    )
    assert asked.offline
    assert asked.prompt == {"login", "consent"}
    assert (asked.message, asked.max_age, asked.login_hint) == ("Once more", 60, "al")
    assert ask(portal, max_age="-1").max_age is None
    assert ask(portal, session_required_mfa="False").prompt == {"login"}


def test_a_yes_sends_the_user_back_with_a_code_and_who_gave_it(portal: App, alice: User) -> None:
    location = authorization.grant(
        ask(portal, state="s 1&"), alice, SignInProof(datetime.now(UTC), "password", "alice@127.0.0.1")
    )
    assert location.startswith(CALLBACK + "?")
    told = answered(location)
    assert set(told) == {"code", "state", "iss"}
    assert (told["state"], told["iss"]) == ("s 1&", "http://127.0.0.1:8000")
    assert len(told["code"]) >= 30


def test_a_no_sends_the_user_back_with_an_error(portal: App) -> None:
    told = answered(authorization.refuse(ask(portal, state="s")))
    assert told == {
        "error": "access_denied",
        "error_description": "The user has refused",
        "state": "s",
        "iss": "http://127.0.0.1:8000",
    }
    assert answered(authorization.refuse(ask(portal, prompt="none"), "login_required"))["error"] == "login_required"


@pytest.mark.parametrize(
    "redirect_uri",
    [
        CALLBACK + "/",
        CALLBACK + "?x=1",
        CALLBACK + "#x",
        CALLBACK.replace("https", "http"),
        "https://portal.example.org.evil.example/callback",
        "https://user@portal.example.org/callback",
        "https://portal.example.org:444/callback",
        "https://portal.example.org:99999/callback",
        "https://portal.example.org:x/callback",
        "https://evil.example\\@portal.example.org/callback",
        "https://portal.example.org\\@evil.example/callback",
        "https://[/callback",
        CALLBACK + ";x=1",
        "https://portal.example.org/%63allback",
        "https://portal.example.org/callback/../evil",
        "https://evil.example/callback",
        "//portal.example.org/callback",
        "javascript:alert(1)",
        "http://127.0.0.1:8000/v2/web/auth-code",
        "",
        "\0",
    ],
)
def test_nobody_is_sent_where_the_client_is_not_at_home(portal: App, redirect_uri: str) -> None:
    with pytest.raises(RequestNotTrustedError) as caught:
        ask(portal, redirect_uri=redirect_uri)
    assert "evil" not in caught.value.reason


@pytest.mark.parametrize("client_id", ["", "x", "\0", "95fdeba8-fac2-42bd-a357-e068d82ff78e", "9" * 300])
def test_an_unknown_client_is_reported_to_the_user_alone(portal: App, client_id: str) -> None:
    with pytest.raises(RequestNotTrustedError):
        ask(App(client_id, None))


@pytest.mark.parametrize(
    "query", ["client_id=%zz", "client_id=%ff", "&".join("abcdefgh" for _ in range(60)), "x=" + "y" * 20_000, "a\0b"]
)
def test_a_malformed_question_is_reported_to_the_user_alone(db: None, query: str) -> None:
    with pytest.raises(RequestNotTrustedError):
        authorization.read(query, HERE)


@pytest.mark.parametrize("twice", ["client_id", "redirect_uri", "scope", "state", "response_type"])
def test_what_is_said_twice_is_not_trusted(portal: App, twice: str) -> None:
    question = portal.question(scopes.TRANSFER_ALL, state="s")
    with pytest.raises(RequestNotTrustedError):
        authorization.read(f"{question}&{twice}=other", HERE)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"response_type": "token"}, "unauthorized_client"),
        ({"response_type": "code id_token"}, "unauthorized_client"),
        ({"response_type": "x"}, "unsupported_response_type"),
        ({"response_type": ""}, "unsupported_response_type"),
        ({"scope": "nothing"}, "invalid_scope"),
        ({"scope": "openid[x"}, "invalid_scope"),
        ({"code_challenge": "x" * 43}, "invalid_request"),
        ({"code_challenge": "x" * 43, "code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "x", "code_challenge_method": "S256"}, "invalid_request"),
        ({"scope": "openid", "nonce": "n" * 256}, "invalid_request"),
        ({"scope": "openid", "nonce": "n\0"}, "invalid_request"),
        ({"scope": "openid", "prompt": "none login"}, "invalid_request"),
    ],
)
def test_what_cannot_be_is_reported_to_the_client(portal: App, more: dict[str, str], error: str) -> None:
    fields = {"scope": scopes.TRANSFER_ALL, "state": "s", **more}
    with pytest.raises(RequestRefusedError) as caught:
        authorization.read(portal.question(**fields), HERE)
    told = answered(caught.value.location)
    assert caught.value.location.startswith(CALLBACK + "?")
    assert (told["error"], told["state"]) == (error, "s")


def test_a_client_without_a_secret_must_use_pkce(script: App) -> None:
    uri = "http://localhost:51234"
    with pytest.raises(RequestRefusedError) as caught:
        ask(script, redirect_uri=uri)
    assert answered(caught.value.location)["error"] == "invalid_request"
    assert ask(script, redirect_uri=uri, **S256).redirect_uri == uri


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:1/back", "http://127.0.0.1/back", "http://localhost:65535", "http://[::1]:49152/", "http://[::1]",
        "http://localhost:8890/other/", "http://127.0.0.1:1234/a.b/c-d_e~f",
    ],
)  # fmt: skip
def test_a_native_application_comes_back_to_any_port_of_the_loopback_interface(
    script: App, bob: User, uri: str
) -> None:
    for native in (script, make(bob, public=True)):
        assert ask(native, redirect_uri=uri, **S256).redirect_uri == uri
        with pytest.raises(RequestRefusedError) as caught:
            ask(native, redirect_uri=uri)
        assert answered(caught.value.location)["error"] == "invalid_request", "PKCE is demanded"


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.2:1/", "http://127.0.0.1.evil.example/", "http://localhost.evil.example/", "https://localhost:1/",
        "http://evil.example/", "http://localhost:0/", "http://localhost:65536/", "http://localhost:1/?a=b", "http://localhost:/",
        "http://localhost:1/#a", "http://user@localhost:1/", "http://evil.example@localhost:1/", "http://localhost@evil.example/",
        "http://localhost:1@evil.example/", "http://localhost\\@evil.example/", "http://LOCALHOST:1/", "http://2130706433:1/",
        "http://[::ffff:127.0.0.1]:1/", "http://127.1:1/", "http://localhost:1/a b", "http://localhost:1/%0d%0a", "http://localhost:1/\n",
        "http://localhost:\u0661/", "http://0.0.0.0:1/", "HTTP://localhost:1/", "http:localhost:1/", "http://[::1%25lo]:1/",
    ],
)  # fmt: skip
def test_what_only_looks_like_the_loopback_interface_is_not_it(bob: User, uri: str) -> None:
    with pytest.raises(RequestNotTrustedError):
        ask(make(bob, public=True), redirect_uri=uri, **S256)


GLOBUS_PAGE = "https://auth.globus.org/v2/web/auth-code"
COMPILED_IN = "4cf29807-cf21-49ec-9443-ff9a3fb9f81c"


def test_a_program_with_an_id_compiled_in_is_admitted_by_the_operator(alice: User) -> None:
    program = App(COMPILED_IN, None)
    with pytest.raises(RequestNotTrustedError):
        ask(program, redirect_uri=GLOBUS_PAGE, **S256)
    applications.admit(COMPILED_IN.upper(), "Globus Connect of somebody", ["https://portal.example.org/back"])
    for uri in (GLOBUS_PAGE, "http://localhost:1234/", "https://portal.example.org/back"):
        asked = ask(program, redirect_uri=uri, **S256)
        assert (asked.redirect_uri, asked.shows_code) == (uri, False)
    assert ask(program, redirect_uri=GLOBUS_PAGE, **S256).redirect_host == "auth.globus.org"
    with pytest.raises(RequestRefusedError):
        ask(program, redirect_uri=GLOBUS_PAGE)
    tokens = program.tokens(alice, scopes.TRANSFER_ALL, GLOBUS_PAGE)
    assert program.own(scopes.TRANSFER_ALL).status == 401
    assert bearer.authenticate(tokens["access_token"]) is not None
    applications.remove(COMPILED_IN)
    assert bearer.authenticate(tokens["access_token"]) is None


def test_the_code_alone_is_of_no_use_to_who_sees_it(alice: User) -> None:
    """The page of Globus gets the code of an admitted program, and not the verifier."""
    applications.admit(COMPILED_IN, "program")
    code = App(COMPILED_IN, None).code(alice, scopes.TRANSFER_ALL, GLOBUS_PAGE, **S256)
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": GLOBUS_PAGE}
    for more in ({}, {"code_verifier": ""}, {"code_verifier": "v" * 43}, {"code_verifier": S256["code_challenge"]}):
        assert App(COMPILED_IN, None).token(**form, **more).status == 400


@pytest.mark.parametrize(
    "uri", [GLOBUS_PAGE + "/", GLOBUS_PAGE + "?x=1", "http://auth.globus.org/v2/web/auth-code", GLOBUS_PAGE.upper()]
)
def test_the_page_of_globus_is_for_admitted_programs_only(script: App, portal: App, uri: str) -> None:
    applications.admit(COMPILED_IN, "program")
    applications.admit(str(uuid.UUID(int=1)), "other", globus_page=False)
    for app, address in (
        (App(COMPILED_IN, None), uri),
        (App(str(uuid.UUID(int=1)), None), GLOBUS_PAGE),
        (script, GLOBUS_PAGE),
        (portal, GLOBUS_PAGE),
    ):
        with pytest.raises(RequestNotTrustedError):
            ask(app, redirect_uri=address, **S256)


def test_an_id_is_admitted_once_and_only_such_programs_are_removed(portal: App) -> None:
    applications.admit(COMPILED_IN, "program")
    for wrong in (COMPILED_IN, portal.id, "x", "95fdeba8"):
        with pytest.raises(ClientInvalidError):
            applications.admit(wrong, "again")
    for wrong in (portal.id, "x", str(uuid.uuid4())):
        with pytest.raises(ClientNotFoundError):
            applications.remove(wrong)
    with pytest.raises(ClientInvalidError):
        applications.admit(str(uuid.uuid4()), "program", ["http://evil.example/"])


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1/other", "http://localhost/back", "http://[::1]/back"])
def test_that_of_an_application_with_a_secret_is_otherwise_the_registered_one(bob: User, uri: str) -> None:
    portal = make(bob, "http://127.0.0.1/back", "http://localhost")
    assert ask(portal, redirect_uri="http://127.0.0.1:1234/back").redirect_uri == "http://127.0.0.1:1234/back"
    with pytest.raises(RequestNotTrustedError):
        ask(portal, redirect_uri=uri)


@pytest.mark.parametrize(
    ("uri", "here", "is_ours"),
    [
        ("http://127.0.0.1:8000/v2/web/auth-code", HERE, True),
        ("http://waybill.local:8000/v2/web/auth-code", "http://waybill.local:8000/", True),
        ("http://waybill.local:8000/v2/web/auth-code", HERE, False),
        ("http://waybill.local:8001/v2/web/auth-code", "http://waybill.local:8000/", False),
        ("https://127.0.0.1:8000/v2/web/auth-code", HERE, False),
        ("http://127.0.0.1:8000/v2/web/auth-code?x=1", HERE, False),
        ("http://x@127.0.0.1:8000/v2/web/auth-code", HERE, False),
        ("http://127.0.0.1:port/v2/web/auth-code", HERE, False),
    ],
)
def test_the_page_that_shows_the_code_is_our_own_only(script: App, uri: str, here: str, is_ours: bool) -> None:
    question = script.question(scopes.TRANSFER_ALL, uri, **S256)
    if is_ours:
        assert authorization.read(question, here).shows_code
    else:
        with pytest.raises(RequestNotTrustedError):
            authorization.read(question, here)


def test_an_application_that_asks_no_users_cannot_ask(bob: User) -> None:
    with pytest.raises(RequestNotTrustedError):
        ask(make(bob))


def test_the_application_of_a_user_who_was_shut_out_cannot_ask(portal: App, bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)
    with pytest.raises(RequestNotTrustedError):
        ask(portal)


def test_without_a_key_openid_says_so(portal: App, settings: Any) -> None:
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "OIDC_RSA_PRIVATE_KEY": ""}
    with pytest.raises(RequestRefusedError) as caught:
        ask(portal, "openid")
    assert "no key" in answered(caught.value.location)["error_description"]
    assert ask(portal).scopes


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"session_required_identities": "{id}"}, False),
        ({"session_required_identities": "ALICE"}, False),
        ({"session_required_identities": "{id},00000000-0000-0000-0000-000000000001"}, True),
        ({"session_required_identities": "bob"}, True),
        ({"session_required_single_domain": "127.0.0.1"}, False),
        ({"session_required_single_domain": "example.org, other.org"}, True),
        ({"session_required_mfa": "True"}, True),
        ({"session_required_mfa": "False"}, False),
        ({"session_required_policies": "x"}, True),
    ],
)
def test_who_is_asked_for_somebody_else_hears_it(portal: App, alice: User, fields: dict[str, str], wrong: bool) -> None:
    asked = ask(portal, **{name: value.replace("{id}", str(alice.pk)) for name, value in fields.items()})
    proof = SignInProof(datetime.now(UTC), "password", "alice@127.0.0.1")
    assert (authorization.reason_to_refuse(asked, alice, proof) is not None) is wrong


@pytest.mark.parametrize(("way", "wrong"), [("password", True), ("code", False), ("second", False), ("passkey", False)])
def test_a_second_factor_is_asked_for_where_the_application_wants_one(
    portal: App, alice: User, way: str, wrong: bool
) -> None:
    asked = ask(portal, session_required_mfa="True")
    assert (
        authorization.reason_to_refuse(asked, alice, SignInProof(datetime.now(UTC), way, "alice@127.0.0.1")) is not None
    ) is wrong


def link(user: User, username: str, subject: str = "s-1") -> LinkedIdentity:
    return linked.link(user, Proven.of("oidc:https://id.example", subject, username, time.time()), time.time())


def test_the_identity_of_the_sign_in_decides_about_the_domain(portal: App, alice: User) -> None:
    asked = ask(portal, session_required_single_domain="example.org")
    row = link(alice, "alice@example.org")
    link(alice, "alice@evil.example.org", "s-2")
    for identity, wrong in (("alice@127.0.0.1", True), ("alice@example.org", False), ("alice@evil.example.org", True)):
        proof = SignInProof(datetime.now(UTC), "provider", identity)
        assert (authorization.reason_to_refuse(asked, alice, proof) is not None) is wrong

    linked.unlink(alice, row.pk)
    proof = SignInProof(datetime.now(UTC), "provider", "alice@example.org")
    assert authorization.reason_to_refuse(asked, alice, proof) is not None


@pytest.mark.parametrize(
    ("wanted", "signed_in_as", "wrong"),
    [
        ("al@example.edu", "alice@127.0.0.1", True),
        ("{linked}", "alice@127.0.0.1", True),
        ("{linked}", "other@example.org", True),
        ("{linked}", "AL@example.edu", False),
        ("Al@Example.edu", "al@example.edu", False),
        ("{linked},other@example.org", "other@example.org", False),
        # The id of the account, which our own demands send, and its name stand for all of its identities.
        ("{id}", "al@example.edu", False),
        ("{id},{linked}", "alice@127.0.0.1", False),
        ("alice@127.0.0.1", "al@example.edu", False),
    ],
)
def test_an_identity_that_is_asked_for_is_that_of_the_sign_in(
    portal: App, alice: User, wanted: str, signed_in_as: str, wrong: bool
) -> None:
    row = link(alice, "al@example.edu")
    link(alice, "other@example.org", "s-2")
    asked = ask(portal, session_required_identities=wanted.format(id=alice.pk, linked=row.pk))
    proof = SignInProof(datetime.now(UTC), "provider", signed_in_as)
    assert (authorization.reason_to_refuse(asked, alice, proof) is not None) is wrong


def test_a_client_that_is_gone_gets_no_answer(portal: App, alice: User, bob: User) -> None:
    asked = ask(portal)
    applications.delete(applications.find(bob, portal.id))
    with pytest.raises(RequestNotTrustedError):
        authorization.grant(asked, alice, SignInProof(datetime.now(UTC), "password", "alice@127.0.0.1"))


def test_an_address_that_was_taken_away_gets_no_answer(portal: App, alice: User, bob: User) -> None:
    asked = ask(portal)
    applications.change(
        applications.find(bob, portal.id), ApplicationSpec("portal", False, ["https://portal.example.org/new"])
    )
    with pytest.raises(RequestNotTrustedError):
        authorization.grant(asked, alice, SignInProof(datetime.now(UTC), "password", "alice@127.0.0.1"))
