"""Auth over HTTP: who users are, their applications, programs that register themselves, OpenID Connect."""

from __future__ import annotations

import base64
import hashlib
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from django.core.cache import cache
from django.db import connection, transaction
from django.db.models import F
from django.test import Client
from jwcrypto import jwk, jwt
from oauth2_provider.models import AccessToken, Application

from deploy.stack.home import new_rsa_key, write_private
from identity.federation.openid import half_hash
from identity.models import ClientSecret, Registration, SignIn, User
from identity.provider import applications, consents, registration, scopes, signing_key_file
from identity.provider.applications import ApplicationSpec
from identity.provider.signing_key_file import SigningKey
from tests.integration.provider import CALLBACK, App, basic, by_server, get, make, post
from tests.integration.rest import Answer, Api, assert_error, read

pytestmark = pytest.mark.django_db

TEMPLATE = "95fdeba8-fac2-42bd-a357-e068d82ff78e"
CLIENTS = "/v2/api/clients"
#: Her name for clients: they take one with an @ only.
ALICE = "alice@127.0.0.1"


@pytest.fixture
def portal(bob: User) -> App:
    """bob's, confidential."""
    return make(bob, CALLBACK)


@pytest.fixture
def api(alice: User) -> Api:
    """By a session of hers that has just begun."""
    return Api(alice, root="", age=0)


def by_basic(app: App, method: str, path: str, body: object = None, **query: str) -> Answer:
    data = b"" if body is None else json.dumps(body).encode()
    client = Client(raise_request_exception=False)
    return read(client.generic(method, path, data, "application/json", headers=app.basic, query_params=query))


# ---- who is asking


def test_userinfo_shows_who_has_signed_in_as_far_as_was_allowed(portal: App, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.org", first_name="Alice", last_name="Liddell")
    for scope, expected in (
        ("openid", {"sub"}),
        ("openid email", {"sub", "email"}),
        ("openid profile", {
            "sub", "name", "preferred_username", "identity_provider", "identity_provider_display_name", "organization",
        }),
    ):  # fmt: skip
        token = portal.tokens(alice, scope)["access_token"]
        told = get("/v2/oauth2/userinfo", token).body
        assert set(told) == expected
        assert told["sub"] == str(alice.pk)
    whole = portal.tokens(alice, f"openid profile email {scopes.VIEW_IDENTITIES}")["access_token"]
    told = get("/v2/oauth2/userinfo", whole).body
    assert (told["preferred_username"], told["name"], told["email"]) == (ALICE, "Alice Liddell", "alice@example.org")
    assert [(one["sub"], one["username"]) for one in told["identity_set"]] == [(str(alice.pk), ALICE)]
    assert post("/v2/oauth2/userinfo", "", {"Authorization": f"Bearer {whole}"}).body == told


def test_without_openid_nothing_is_revealed(portal: App, alice: User) -> None:
    token = portal.tokens(alice, f"profile {scopes.VIEW_IDENTITIES}")["access_token"]
    answer = get("/v2/oauth2/userinfo", token)
    assert (answer.status, answer.code, answer.body["required_scopes"]) == (403, "ConsentRequired", ["openid"])


def test_an_api_token_sees_all(api: Api) -> None:
    assert api.get("/v2/oauth2/userinfo").body["preferred_username"] == ALICE
    assert "identity_set" in api.get("/v2/oauth2/userinfo").body


# ---- users


def test_users_are_found_by_name_and_by_id(api: Api, alice: User, bob: User, charlie: User) -> None:
    User.objects.update(email="secret@example.org")
    found = api.get("/v2/api/identities", usernames="charlie,bob,nobody,alice@127.0.0.1,alice@example.org").body
    assert [one["username"] for one in found["identities"]] == [
        f"{name}@127.0.0.1" for name in ("charlie", "bob", "alice")
    ]
    assert [one["email"] for one in found["identities"]] == [None, None, "secret@example.org"]
    by_id = api.get("/v2/api/identities", ids=f"{bob.pk},{uuid.uuid4()}, {alice.pk}", provision="true").body
    assert [one["id"] for one in by_id["identities"]] == [str(bob.pk), str(alice.pk)]
    assert api.get("/v2/api/identities", usernames="nobody").body == {"identities": []}
    refused = api.get("/v2/api/identities", usernames="nobody", provision="true")
    assert refused.status == 404
    assert "ask them to sign in here once" in refused.body["message"]
    assert api.get(f"/v2/api/identities/{bob.pk}").body["identity"]["username"] == "bob@127.0.0.1"
    assert User.objects.count() == 3


@pytest.mark.parametrize(("scope", "email"), [("profile", None), ("profile email", "a@example.org")])
def test_an_application_that_may_see_no_address_sees_none(
    portal: App, alice: User, scope: str, email: str | None
) -> None:
    User.objects.update(email="a@example.org")
    token = portal.tokens(alice, scope)["access_token"]
    [found] = get("/v2/api/identities", token, ids=str(alice.pk)).body["identities"]
    assert (found["username"], found["email"]) == (ALICE, email)
    assert get(f"/v2/api/identities/{alice.pk}", token).body["identity"]["email"] == email


def test_a_user_of_that_very_name_wins_over_a_short_name_with_our_domain(api: Api, bob: User) -> None:
    other = User.objects.create(username="bob@127.0.0.1")
    found = api.get("/v2/api/identities", usernames="bob@127.0.0.1").body["identities"]
    assert [one["id"] for one in found] == [str(other.pk)]
    other.delete()
    found = api.get("/v2/api/identities", usernames="bob@127.0.0.1,bob").body["identities"]
    assert [one["id"] for one in found] == [str(bob.pk)]


def test_who_was_shut_out_is_found_by_id_alone(api: Api, bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert api.get("/v2/api/identities", usernames="bob").body == {"identities": []}
    assert api.get("/v2/api/identities", ids=str(bob.pk)).body["identities"][0]["status"] == "closed"


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"ids": "", "usernames": ""},
        {"ids": "x"},
        {"ids": "00000000-0000-0000-0000-000000000000", "usernames": "bob"},
        {"usernames": ",".join(f"u{number}" for number in range(101))},
    ],
)
def test_a_look_up_is_of_some_and_not_of_all(api: Api, query: dict[str, str]) -> None:
    assert_error(api.get("/v2/api/identities", **query), 400, "ClientError.BadRequest")


def test_hostile_names_are_nobodys(api: Api) -> None:
    assert api.get("/v2/api/identities", usernames="\0,%,'; --,x" + "y" * 2000).body == {"identities": []}
    for wrong in ("x", str(uuid.uuid4())):
        assert_error(api.get(f"/v2/api/identities/{wrong}"), 404, "ClientError.NotFound")


def test_looking_up_needs_its_scope(portal: App, alice: User) -> None:
    token = portal.tokens(alice, "openid email")["access_token"]
    refused = get("/v2/api/identities", token, usernames="bob")
    assert (refused.code, refused.body["required_scopes"]) == ("ConsentRequired", [scopes.VIEW_IDENTITIES])
    for scope in (scopes.PROFILE, scopes.VIEW_IDENTITIES, scopes.VIEW_ANY_IDENTITIES):
        token = portal.tokens(alice, scope)["access_token"]
        assert get("/v2/api/identities", token, usernames="bob").status == 200


def test_an_application_looks_up_by_its_secret(portal: App) -> None:
    assert (
        by_basic(portal, "GET", "/v2/api/identities", usernames="bob").body["identities"][0]["username"]
        == "bob@127.0.0.1"
    )
    wrong = App(portal.id, "wrong")
    assert_error(by_basic(wrong, "GET", "/v2/api/identities", usernames="bob"), 401, "ClientError.AuthenticationFailed")


def test_a_program_that_registered_itself_looks_up_nobody(bob: User) -> None:
    program = registered()
    assert_error(by_basic(program, "GET", "/v2/api/identities", usernames="bob"), 401)


def test_where_nothing_is_configured_there_is_one_identity_provider(api: Api) -> None:
    [one] = api.get("/v2/api/identity_providers").body["identity_providers"]
    assert one["domains"] == ["127.0.0.1"]
    asks = [({"ids": one["id"]}, 1), ({"ids": str(uuid.uuid4())}, 0)]
    asks += [({"domains": "127.0.0.1,x"}, 1), ({"domains": "x"}, 0)]
    for query, count in asks:
        assert len(api.get("/v2/api/identity_providers", **query).body["identity_providers"]) == count
    me = api.get("/v2/oauth2/userinfo").body
    assert me["identity_provider"] == one["id"]


# ---- what was allowed


def test_a_user_sees_the_consents_and_takes_them_back(portal: App, api: Api, alice: User) -> None:
    tokens = by_server(portal.tokens(alice, f"openid {scopes.TRANSFER_ALL}"))
    found = api.get(f"/v2/api/identities/{alice.pk}/consents", all="true").body["consents"]
    assert [(one["client"], one["scope_name"], one["dependency_path"]) for one in found] == [
        (portal.id, "openid", [1]),
        (portal.id, scopes.TRANSFER_ALL, [2]),
    ]
    pending = portal.code(alice, "openid")
    consents.withdraw(alice, Application.objects.get(client_id=portal.id))
    assert api.get(f"/v2/api/identities/{alice.pk}/consents").body == {"consents": []}
    for one in tokens.values():
        assert get("/v2/oauth2/userinfo", one["access_token"]).status == 401
        assert portal.token(grant_type="refresh_token", refresh_token=one["refresh_token"]).status == 400
    assert portal.token(grant_type="authorization_code", code=pending, redirect_uri=CALLBACK).status == 400


def shown(answer: Answer) -> dict[int, tuple[str, list[int]]]:
    assert answer.status == 200, answer.body
    return {one["id"]: (one["scope_name"], one["dependency_path"]) for one in answer.body["consents"]}


def test_an_application_with_an_openid_token_sees_what_it_was_granted(portal: App, alice: User, bob: User) -> None:
    other = make(bob, CALLBACK, name="other")
    theirs = other.tokens(alice, f"openid profile {scopes.VIEW_CONSENTS}")["access_token"]
    own = portal.tokens(alice, f"openid {scopes.TRANSFER_ALL}")
    path = f"/v2/api/identities/{alice.pk}/consents"
    for all_of_them in ("false", "False", "0"):
        assert shown(get(path, own["access_token"], all=all_of_them)) == {
            1: ("openid", [1]), 2: (scopes.TRANSFER_ALL, [2])
        }  # fmt: skip
    assert shown(get(path, own["access_token"])) == {1: ("openid", [1]), 2: (scopes.TRANSFER_ALL, [2])}
    for all_of_them in ("true", "True", "1"):
        refused = get(path, own["access_token"], all=all_of_them)
        assert (refused.code, refused.body["required_scopes"]) == ("ConsentRequired", [scopes.VIEW_CONSENTS])
        assert len(shown(get(path, theirs, all=all_of_them))) == 5
    assert len(shown(get(path, theirs))) == 3
    transfer = by_server(own)[scopes.TRANSFER]["access_token"]
    assert get(path, transfer).body["required_scopes"] == ["openid"]
    assert get(f"/v2/api/identities/{bob.pk}/consents", own["access_token"]).status == 404


def test_dependencies_are_listed_after_their_parents(portal: App, alice: User) -> None:
    data = [f"https://auth.globus.org/scopes/{uuid.uuid4()}/data_access" for _ in range(2)]
    portal.tokens(alice, f"{scopes.TIMERS_ALL}[{scopes.TRANSFER_ALL}[*{data[0]}]] openid")
    token = portal.tokens(alice, f"openid {scopes.TIMERS_ALL}[{scopes.TRANSFER_ALL}[{data[1]}]]")["access_token"]
    answer = get(f"/v2/api/identities/{alice.pk}/consents", token)
    by_name = {one["scope_name"]: one for one in answer.body["consents"]}
    assert len(by_name) == len(answer.body["consents"]) == 5, "those of both sign-ins are one tree"
    timer, transfer = by_name[scopes.TIMERS_ALL]["id"], by_name[scopes.TRANSFER_ALL]["id"]
    assert by_name["openid"]["dependency_path"] == [by_name["openid"]["id"]]
    assert by_name[scopes.TRANSFER_ALL]["dependency_path"] == [timer, transfer]
    assert by_name[scopes.TRANSFER_ALL]["client"] == scopes.TIMERS
    for number, optional in ((0, True), (1, False)):
        one = by_name[data[number]]
        assert (one["dependency_path"], one["atomically_revocable"]) == ([timer, transfer, one["id"]], optional)
        assert str(uuid.UUID(one["client"])) == one["client"]


@pytest.mark.parametrize(
    "scope",
    [
        "openid" + "[a" * 9 + "]" * 9,
        "openid[" + " ".join(f"d{number}" for number in range(501)) + "]",
        "openid" + "[a" * 2000 + "]" * 2000,
    ],
)
def test_dependencies_have_bounds(portal: App, scope: str) -> None:
    answer = portal.own(scope)
    assert (answer.status, answer.body["error"]) == (400, "invalid_scope")
    assert portal.own("openid" + "[a" * 8 + "]" * 8).status == 200


def test_the_list_of_consents_has_a_bound(portal: App, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consents, "MOST", 3)
    token = portal.tokens(alice, f"openid[a[b] c] {scopes.TRANSFER_ALL}[d]")["access_token"]
    assert shown(get(f"/v2/api/identities/{alice.pk}/consents", token)) == {
        1: ("openid", [1]), 2: ("a", [1, 2]), 3: ("b", [1, 2, 3])
    }  # fmt: skip


def test_of_what_others_have_allowed_nothing_is_revealed(api: Api, bob: User) -> None:
    for wrong in (str(bob.pk), "x", str(uuid.uuid4())):
        assert_error(api.get(f"/v2/api/identities/{wrong}/consents"), 404, "ClientError.NotFound")


# ---- applications


def asked(**fields: object) -> dict[str, Any]:
    return {"client": {"name": "portal", **fields}}


def test_a_user_makes_an_application_and_sees_its_secret_once(api: Api, alice: User) -> None:
    answer = api.post(CLIENTS, asked(redirect_uris=[CALLBACK]))
    assert answer.status == 201
    assert answer.headers["Cache-Control"] == "no-store"
    made, credential = answer.body["client"], answer.body["included"]["client_credential"]
    assert (made["public_client"], made["redirect_uris"]) == (False, [CALLBACK])
    assert made["grant_types"] == ["authorization_code", "refresh_token", "client_credentials"]
    app = App(made["id"], credential["secret"])
    assert app.own("openid").status == 200
    assert app.tokens(alice, "openid")["scope"] == "openid"
    for path in ("", f"/{app.id}", f"/{app.id}/credentials"):
        assert credential["secret"] not in json.dumps(api.get(CLIENTS + path).body)


def test_a_public_application_has_no_secret(api: Api, alice: User) -> None:
    for more in ({"public_client": True}, {"client_type": "public_installed_client"}):
        answer = api.post(CLIENTS, asked(redirect_uris=["http://localhost"], **more))
        assert answer.status == 201
        assert "included" not in answer.body
        assert answer.body["client"]["grant_types"] == ["authorization_code", "refresh_token"]
        wanted = {"credential": {"name": "x"}}
        assert_error(api.post(f"{CLIENTS}/{answer.body['client']['id']}/credentials", wanted), 400)


def test_an_application_without_addresses_asks_no_users(api: Api) -> None:
    assert api.post(CLIENTS, asked()).body["client"]["grant_types"] == ["client_credentials"]


@pytest.mark.parametrize(
    "uri",
    [
        "https://portal.example.org/callback?x=1",
        "https://portal.example.org:8443/",
        "http://localhost",
        "http://127.0.0.1:8000/x",
        "http://[::1]/x",
    ],
)
def test_addresses_that_keep_a_code_secret_are_taken(api: Api, uri: str) -> None:
    assert api.post(CLIENTS, asked(redirect_uris=[uri])).body["client"]["redirect_uris"] == [uri]


@pytest.mark.parametrize(
    "uri",
    [
        "http://portal.example.org/callback",
        "https://portal.example.org/callback#x",
        "https://portal.example.org/callback#",
        "https://alice@portal.example.org/",
        "https://*.example.org/",
        "https:///callback",
        "https://",
        "https://portal.example.org/a b",
        "https://portal.example.org/\n",
        "https://portal.example.org\\@evil.example/",
        "https://portal.example.org:port/",
        "https://[::1/",
        "http://127.0.0.1.evil.example/",
        "http://localhost.evil.example/",
        "javascript:alert(1)",
        "data:text/html,x",
        "org.example.app:/callback",
        "portal.example.org/callback",
        "",
        "https://portal.example.org/" + "x" * 2000,
        "https://pörtal.example.org/",
    ],
)
def test_addresses_that_do_not_are_refused(api: Api, uri: str) -> None:
    answer = api.post(CLIENTS, asked(redirect_uris=[CALLBACK, uri]))
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith("redirect_uris: ")


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        [],
        {"client": None},
        {"client": []},
        {"client": {}},
        asked(name=""),
        asked(name=" "),
        asked(name="a\nb"),
        asked(name="x" * 256),
        asked(name=1),
        asked(redirect_uris="https://x/"),
        asked(redirect_uris=[1]),
        asked(redirect_uris=[f"https://x/{number}" for number in range(21)]),
        asked(client_type="resource_server"),
        asked(public_client="yes"),
        asked(template_id=1),
        asked(template_id=str(uuid.uuid4())),
        asked(template_id="x"),
    ],
)
def test_a_wrong_document_about_an_application_is_refused(api: Api, body: object) -> None:
    before = Application.objects.count()
    assert_error(api.post(CLIENTS, body), 400, "ClientError.BadRequest")
    assert Application.objects.count() == before


def test_an_application_changes_but_for_what_it_is(api: Api) -> None:
    made = api.post(CLIENTS, asked(redirect_uris=[CALLBACK])).body["client"]
    path = f"{CLIENTS}/{made['id']}"
    assert api.put(path, {"client": {"name": "new"}}).body["client"] == {**made, "name": "new"}
    changed = api.put(path, {"client": {"redirect_uris": []}}).body["client"]
    assert (changed["name"], changed["redirect_uris"]) == ("new", [])
    assert_error(api.put(path, {"client": {"public_client": True}}), 400, "ClientError.BadRequest")
    assert api.get(path).body["client"] == changed


def test_a_user_has_so_many_applications_and_secrets(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "MAX_APPLICATIONS", 2)
    monkeypatch.setattr(applications, "MAX_SECRETS", 2)
    made = [api.post(CLIENTS, asked()).status for _ in range(3)]
    assert made == [201, 201, 409]
    path = f"{CLIENTS}/{api.get(CLIENTS).body['clients'][0]['id']}/credentials"
    assert [api.post(path, {"credential": {"name": "x"}}).status for _ in range(2)] == [201, 409]
    assert_error(api.post(path, {"credential": {"name": ""}}), 400)
    assert_error(api.post(path, {}), 400)


def test_secrets_come_and_go(api: Api) -> None:
    made = api.post(CLIENTS, asked()).body["client"]
    path = f"{CLIENTS}/{made['id']}/credentials"
    fresh = api.post(path, {"credential": {"name": "of the night"}})
    assert fresh.headers["Cache-Control"] == "no-store"
    credential = fresh.body["credential"]
    app = App(made["id"], credential["secret"])
    assert app.own("openid").status == 200
    assert [one["name"] for one in api.get(path).body["credentials"]] == ["first", "of the night"]
    assert api.delete(f"{path}/{credential['id']}").status == 200
    assert app.own("openid").status == 401
    for gone in (credential["id"], "x"):
        assert_error(api.delete(f"{path}/{gone}"), 404, "ClientError.NotFound")


def test_an_application_makes_no_application_that_would_outlive_it(portal: App, alice: User, bob: User) -> None:
    own = portal.own(scopes.MANAGE_PROJECTS).body["access_token"]
    for token in (own, portal.tokens(alice, scopes.MANAGE_PROJECTS)["access_token"]):
        headers = {"Authorization": f"Bearer {token}"}
        assert get(CLIENTS, token).status == 200
        made = post(CLIENTS, json.dumps(asked()), headers, "application/json")
        assert (made.status, made.code) == (403, "PermissionDenied")
    path = f"{CLIENTS}/{portal.id}/credentials"
    answer = post(
        path, json.dumps({"credential": {"name": "x"}}), {"Authorization": f"Bearer {own}"}, "application/json"
    )
    assert answer.status == 403
    assert ClientSecret.objects.count() == 1


# ---- programs that register themselves


def register(name: str = "Globus CLI", address: str = "192.0.2.1", template: str = TEMPLATE) -> Answer:
    body = json.dumps({"client": {"template_id": template, "name": name}})
    client = Client(raise_request_exception=False, REMOTE_ADDR=address)
    return read(client.post(CLIENTS, body, content_type="application/json"))


def registered() -> App:
    answer = register()
    assert answer.status == 201, answer.body
    credential = answer.body["included"]["client_credential"]
    assert answer.body["client"]["id"] == credential["client"]
    return App(credential["client"], credential["secret"])


@pytest.fixture(autouse=True)
def forget_registrations(redis_server: object) -> None:
    cache.clear()


def test_the_command_registers_itself_and_users_sign_in_with_it(alice: User) -> None:
    program = registered()
    tokens = program.tokens(alice, f"openid {scopes.TRANSFER_ALL}", "http://localhost:51234", prompt="login")
    assert by_server(tokens)[scopes.TRANSFER]["refresh_token"]
    page = program.tokens(alice, "openid", "http://127.0.0.1:8000/v2/web/auth-code")
    assert page["id_token"]


def test_it_gets_nothing_by_itself_and_is_nobodys(alice: User, api: Api) -> None:
    program = registered()
    assert program.own(scopes.TRANSFER_ALL).body["error"] == "unauthorized_client"
    assert api.get(CLIENTS).body == {"clients": []}
    assert_error(api.get(f"{CLIENTS}/{program.id}"), 404, "ClientError.NotFound")


def test_it_can_go_and_only_it(portal: App, bob: User) -> None:
    program, other = registered(), registered()
    assert by_basic(program, "DELETE", f"{CLIENTS}/{other.id}").status == 404
    assert by_basic(program, "PUT", f"{CLIENTS}/{program.id}", {"client": {"name": "x"}}).status == 403
    assert by_basic(program, "GET", f"{CLIENTS}/{program.id}").body["client"]["parent_client"] == TEMPLATE
    assert by_basic(App(program.id, "wrong"), "DELETE", f"{CLIENTS}/{program.id}").status == 401
    assert by_basic(program, "DELETE", f"{CLIENTS}/{program.id}").status == 200
    assert by_basic(program, "GET", f"{CLIENTS}/{program.id}").status == 401


def age(minutes: float) -> None:
    """All registrations were made so many minutes earlier."""
    earlier = timedelta(minutes=minutes)
    Application.objects.update(created=F("created") - earlier, updated=F("updated") - earlier)


def test_a_laboratory_behind_one_address_signs_in_within_an_hour(users: list[User]) -> None:
    """200 people, who all begin at once; the first are done while the last begin."""
    waiting: list[tuple[User, App]] = []
    for user in users:
        waiting.append((user, registered()))
        if len(waiting) == 50:
            for person, program in waiting:
                assert program.tokens(person, scopes.TRANSFER_ALL, "http://localhost:1")["refresh_token"]
            waiting.clear()
    assert registration.unused().count() == 0
    assert Application.objects.count() == SignIn.objects.count() == len(users) == 200


@pytest.fixture
def users(db: None) -> list[User]:
    return User.objects.bulk_create(User(username=f"person{number}") for number in range(200))


def test_unused_registrations_of_an_address_are_bounded(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "MOST_UNUSED_OF_NETWORK", 2)
    used = registered()
    used.tokens(alice, "openid", "http://localhost:1")
    assert [register().status for _ in range(3)] == [201, 201, 429]
    late = register()
    assert 590 <= int(late.headers["Retry-After"]) <= 600
    assert late.code == "ClientError.TooManyRequests"
    # Others are not concerned.
    assert register(address="192.0.2.2").status == 201
    # A sign-in makes room at once.
    first = Application.objects.exclude(client_id=used.id).order_by("pk").first()
    assert first is not None
    Application.objects.filter(pk=first.pk).update(updated=first.created + timedelta(minutes=1))
    assert [register().status for _ in range(2)] == [201, 429]


def test_an_old_unused_registration_gives_its_place_to_a_new_one(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "MOST_UNUSED_OF_NETWORK", 2)
    used, first, second = registered(), None, None
    used.tokens(alice, "openid", "http://localhost:1")
    first, second = registered(), registered()
    age(9)
    assert register().status == 429
    age(2)
    third = registered()
    left = set(Application.objects.values_list("client_id", flat=True))
    assert left == {used.id, second.id, third.id}
    assert first.own("openid").status == 401
    for _ in range(30):
        register()
    assert Application.objects.count() == Registration.objects.count() == 3


def test_registrations_at_the_same_time_stay_within_the_bound(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "MOST_UNUSED_OF_NETWORK", 3)

    def once(_: int) -> int:
        try:
            return register().status
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(once, range(8)))
    assert sorted(answers) == [201] * 3 + [429] * 5
    assert Application.objects.count() == 3


def test_a_flood_of_registrations_holds_no_thread(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "LOCK_MILLISECONDS", 50)
    held, done = Event(), Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [registration._LOCK])
            held.set()
            done.wait(20)
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(hold)
        assert held.wait(20)
        late = register()
        done.set()
        other.result(20)
    assert_error(late, 503, "ServiceUnavailable")
    assert register().status == 201
    # The limit ends with its transaction.
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone()[0] != "50ms"


def test_a_kind_of_program_has_its_own_bound(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    other = str(uuid.uuid4())
    monkeypatch.setitem(registration.TEMPLATES, other, ("http://localhost",))
    monkeypatch.setattr(registration, "MOST_UNUSED_OF_NETWORK", 1)
    assert [register().status, register().status, register(template=other).status] == [201, 429, 201]


def test_who_has_a_network_of_addresses_registers_no_more(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one network could use up the limit of all addresses, and block the first logins of others."""
    monkeypatch.setattr(registration, "MOST_UNUSED_OF_NETWORK", 2)
    answers = [register(address=f"2001:db8::{number}") for number in range(3)]
    assert [answer.status for answer in answers] == [201, 201, 429]
    assert register(address="2001:db8:1::1").status == 201


def test_there_are_so_many_that_nobody_uses(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "MOST_UNUSED", 1)
    program = registered()
    assert register(address="192.0.2.2").status == 429
    program.tokens(alice, "openid", "http://localhost:1")
    assert register(address="192.0.2.2").status == 201
    # Nobody is kept out for longer than a sign-in takes.
    age(11)
    assert register(address="192.0.2.3").status == 201
    assert Application.objects.count() == 2


def test_refused_documents_leave_nothing(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "MOST_UNUSED_OF_NETWORK", 1)
    for _ in range(5):
        assert register("").status == register(template=str(uuid.uuid4())).status == 400
    assert not Application.objects.exists()
    assert not Registration.objects.exists()
    assert register().status == 201


@pytest.mark.parametrize("name", ["", "x" * 300, "a\nb"])
def test_a_registration_without_a_name_is_refused(db: None, name: str) -> None:
    assert register(name).status == 400


def test_another_template_is_not_known(db: None) -> None:
    assert register(template=str(uuid.uuid4())).status == 400
    assert Client().post(CLIENTS, "{}", content_type="application/json").status_code == 400
    body = json.dumps(asked())
    assert Client().post(CLIENTS, body, content_type="application/json").status_code == 401


# ---- OpenID Connect


def decoded(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def test_the_configuration_names_every_place(db: None) -> None:
    found = get("/.well-known/openid-configuration")
    assert found.status == 200
    assert found.body["id_token_signing_alg_values_supported"] == ["RS256", "RS512"]
    here = "http://127.0.0.1:8000"
    assert found.body["issuer"] == here
    for name in ("token", "revocation", "introspection", "userinfo"):
        path = found.body[f"{name}_endpoint"].removeprefix(here)
        assert post(path, "").status != 404
    assert found.body["authorization_endpoint"] == here + "/v2/oauth2/authorize"
    assert get(found.body["jwks_uri"].removeprefix(here)).status == 200
    assert get("/.well-known/oauth-authorization-server").body == found.body
    assert post("/.well-known/openid-configuration", "").status == 405


def test_an_identity_token_says_who_signed_in_and_for_whom(portal: App, alice: User) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    before = int(time.time())
    tokens = portal.tokens(alice, "openid profile", nonce="n-1", prompt="login")
    head, body, signature = tokens["id_token"].split(".")
    key, other = get("/jwk.json").body["keys"]
    assert (other["n"], other["alg"], other["kid"]) == (key["n"], "RS512", key["kid"] + "-RS512")
    assert (key["kty"], key["alg"], key["use"]) == ("RSA", "RS256", "sig")
    assert not {"d", "p", "q"} & set(key)
    assert decoded(head) == {"alg": "RS256", "kid": key["kid"], "typ": "JWT"}
    public = RSAPublicNumbers(number(key["e"]), number(key["n"])).public_key()
    signed = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    public.verify(signed, f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256())
    told = decoded(body)
    assert (told["sub"], told["aud"], told["iss"]) == (str(alice.pk), portal.id, "http://127.0.0.1:8000")
    assert (told["nonce"], told["preferred_username"]) == ("n-1", ALICE)
    assert before - 1 <= told["auth_time"] <= told["iat"] <= told["exp"] - 3600
    assert "email" not in told


FRAMEWORK = "https://portal.example.org/complete/globus/"


@pytest.mark.parametrize(
    ("chosen", "redirect_uri", "algorithm"),
    [
        ("", CALLBACK, "RS256"),
        ("", FRAMEWORK, "RS512"),
        ("RS512", CALLBACK, "RS512"),
        ("RS256", FRAMEWORK, "RS256"),
    ],
)
def test_an_application_gets_the_signature_that_it_checks(
    bob: User, alice: User, chosen: str, redirect_uri: str, algorithm: str
) -> None:
    """As PyJWT does it in globus-sdk and in python-social-auth: by the key that the head names, with its algorithm."""
    spec = ApplicationSpec("portal", redirect_uris=[redirect_uri], id_token_algorithm=chosen)
    application, secret = applications.make(bob, spec)
    assert secret is not None
    tokens = App(application.client_id, secret.value).tokens(alice, f"openid {scopes.TRANSFER_ALL}", redirect_uri)
    keys = {key["kid"]: key for key in get("/jwk.json").body["keys"]}
    key = jwk.JWK(**keys[decoded(tokens["id_token"].split(".")[0])["kid"]])
    token = jwt.JWT(jwt=tokens["id_token"], key=key, algs=[algorithm])
    hashed = {"RS256": hashlib.sha256, "RS512": hashlib.sha512}[algorithm](tokens["access_token"].encode()).digest()
    at_hash = base64.urlsafe_b64encode(hashed[: len(hashed) // 2]).decode().rstrip("=")
    assert json.loads(token.claims)["at_hash"] == at_hash
    assert keys[json.loads(token.header)["kid"]]["alg"] == algorithm


def test_a_new_key_is_published_and_signs_without_a_restart(
    portal: App, alice: User, settings: Any, tmp_path: Path
) -> None:
    path = tmp_path / "keys"
    old, new = (SigningKey(new_rsa_key().strip(), begin) for begin in (None, datetime.now(UTC) + timedelta(hours=2)))
    settings.OIDC_KEY_FILE = path

    def signed_by() -> str:
        head = decoded(portal.tokens(alice, "openid")["id_token"].split(".")[0])
        return str(head["kid"])

    def published() -> list[str]:
        return [key["kid"] for key in get("/jwk.json").body["keys"] if key["alg"] == "RS256"]

    write_private(path, signing_key_file.text_of([old]))
    [first] = published()
    assert signed_by() == first
    write_private(path, signing_key_file.text_of([old, new]))
    assert published()[0] == signed_by() == first
    [second] = published()[1:]
    begun = SigningKey(new.pem, datetime.now(UTC) - timedelta(seconds=1))
    write_private(path, signing_key_file.text_of([old, begun]))
    assert published() == [second, first]
    assert signed_by() == second
    over = SigningKey(new.pem, datetime.now(UTC) - timedelta(hours=49))
    write_private(path, signing_key_file.text_of([old, over]))
    assert published() == [second]


def test_the_choice_of_an_algorithm_is_a_field_of_the_application(api: Api) -> None:
    name = "id_token_signed_response_alg"
    made = api.post(CLIENTS, {"client": {"name": "x", name: "RS512"}}).body["client"]
    assert made[name] == "RS512"
    path = f"{CLIENTS}/{made['id']}"
    assert api.put(path, {"client": {"name": "y"}}).body["client"][name] == "RS512"
    assert api.put(path, {"client": {name: None}}).body["client"][name] is None
    for wrong in ("none", "HS256", "rs512", "RS512 "):
        assert api.put(path, {"client": {name: wrong}}).status == 400, wrong


def test_a_renewal_makes_an_identity_token_of_the_same_sign_in(portal: App, alice: User) -> None:
    first = portal.tokens(alice, "openid email")
    answer = portal.token(grant_type="refresh_token", refresh_token=first["refresh_token"]).body
    old, new = _claims(first["id_token"]), _claims(answer["id_token"])
    for name in ("iss", "sub", "aud", "auth_time", "email"):
        assert old.get(name) == new.get(name), name
    assert new["at_hash"] == half_hash("RS256", answer["access_token"])
    assert "nonce" not in new
    narrowed = portal.token(grant_type="refresh_token", refresh_token=first["refresh_token"], scope="email").body
    assert "id_token" not in narrowed


def _claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


def test_without_a_key_all_else_goes_on(portal: App, alice: User, settings: Any) -> None:
    code = portal.code(alice, "openid")
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "OIDC_RSA_PRIVATE_KEY": ""}
    for path in ("/.well-known/openid-configuration", "/jwk.json"):
        answer = get(path)
        assert (answer.status, answer.code) == (501, "ServiceError.OpenIDNotConfigured")
        assert "WAYBILL_OIDC_KEY" in answer.body["message"]
    answer = portal.token(grant_type="authorization_code", code=code, redirect_uri=CALLBACK)
    assert answer.status == 200
    assert "id_token" not in answer.body
    assert portal.own("openid").status == 200


# ---- forgotten


def test_an_application_of_bob_dies_with_bob(portal: App, bob: User, alice: User) -> None:
    portal.tokens(alice, "openid")
    bob.delete()
    assert not any(model.objects.exists() for model in (Application, AccessToken, SignIn, ClientSecret))
    assert portal.own("openid").status == 401


def test_basic_is_for_applications_only(bob: User) -> None:
    answer = read(Client().get("/v0.10/task_list", headers=basic("bob", "x")))
    assert_error(answer, 401, "ClientError.AuthenticationFailed")
