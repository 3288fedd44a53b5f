"""Tokens of the OAuth2 server, over HTTP: got by a secret, by a code, by a refresh token; looked at, and taken back."""

from __future__ import annotations

import secrets as random_secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection, transaction
from oauth2_provider.models import AccessToken, Grant, RefreshToken
from pytest_django import DjangoAssertNumQueries

from identity.models import SignIn, User
from identity.provider import applications, authorization, bearer, issue, scopes, token_values
from identity.provider.applications import ApplicationSpec
from tests.integration.cast import all_at_once
from tests.integration.provider import (
    CALLBACK,
    FORM,
    HERE,
    App,
    answered,
    basic,
    by_server,
    challenge,
    get,
    make,
    post,
)
from tests.integration.rest import Answer

pytestmark = pytest.mark.django_db

TOKEN = "/v2/oauth2/token"
LOOPBACK = "http://localhost:51234"
#: Scopes of services that are not here.
SEARCH = "urn:globus:auth:scope:search.api.globus.org:all"
FLOWS = "https://auth.globus.org/scopes/eec9b274-0c81-4334-bdc2-54e90e689b9a/"
COMPUTE = "https://auth.globus.org/scopes/facd7ccc-c5f4-42aa-916b-a0e270e2c2a9/all"
#: The scopes that `globus login` requests.
ALL = " ".join(
    [
        "openid profile email",
        scopes.VIEW_IDENTITIES,
        scopes.TRANSFER_ALL,
        scopes.GROUPS_ALL,
        SEARCH,
        f"{scopes.TIMERS_ALL}[{scopes.TRANSFER_ALL}]",
        FLOWS + "all",
    ]
)


@pytest.fixture
def portal(bob: User) -> App:
    """bob's, confidential."""
    return make(bob, CALLBACK)


@pytest.fixture
def script(bob: User) -> App:
    """bob's, public."""
    return make(bob, "http://localhost", public=True)


def assert_refused(answer: Answer, status: int, error: str) -> None:
    """An error of OAuth2, and as Auth's clients read it; for nobody's cache."""
    assert (answer.status, answer.body["error"]) == (status, error), answer.body
    assert set(answer.body) <= {"error", "error_description", "errors"}
    assert answer.body["errors"][0]["code"] == error.upper()
    assert answer.headers["Cache-Control"] == "no-store"
    assert ("WWW-Authenticate" in answer.headers) is (status == 401)


def is_good(token: str) -> bool:
    return bearer.authenticate(token) is not None


# ---- by a secret


def test_an_application_acts_as_the_user_who_owns_it(portal: App, bob: User) -> None:
    answer = portal.own(scopes.TRANSFER_ALL)
    assert answer.status == 200
    assert set(answer.body) == {
        "access_token", "scope", "expires_in", "token_type", "resource_server", "other_tokens",
    }  # fmt: skip
    assert (answer.body["scope"], answer.body["token_type"]) == (scopes.TRANSFER_ALL, "Bearer")
    assert (answer.body["resource_server"], answer.body["other_tokens"]) == ("transfer.api.globus.org", [])
    assert answer.body["expires_in"] == 172800
    assert answer.headers["Cache-Control"] == "no-store"
    found = bearer.authenticate(answer.body["access_token"])
    assert found is not None
    assert (found.user, found.client_id, found.scopes) == (bob, portal.id, frozenset({scopes.TRANSFER_ALL}))
    assert get("/v0.10/task_list", answer.body["access_token"]).status == 200


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (f"{scopes.TRANSFER_ALL}[https://x/data_access *https://y/data_access]", scopes.TRANSFER_ALL),
        (f"{scopes.TIMERS_ALL}[{scopes.TRANSFER_ALL}[*https://x/data_access]]", scopes.TIMERS_ALL),
        (f"openid profile  email {scopes.VIEW_IDENTITIES}", f"openid profile email {scopes.VIEW_IDENTITIES}"),
        ("openid openid", "openid"),
        ("", scopes.TRANSFER_ALL),
    ],
)
def test_the_answer_names_what_was_asked_without_what_it_depends_on(portal: App, asked: str, told: str) -> None:
    answer = portal.own(asked)
    assert (answer.status, answer.body["scope"], answer.body["other_tokens"]) == (200, told, [])


def test_scopes_of_several_services_get_a_token_each(portal: App) -> None:
    tokens = by_server(portal.own(f"openid {scopes.TRANSFER_ALL} email").body)
    assert {server: one["scope"] for server, one in tokens.items()} == {
        "auth.globus.org": "openid email",
        "transfer.api.globus.org": scopes.TRANSFER_ALL,
    }
    assert get("/v0.10/task_list", tokens["auth.globus.org"]["access_token"]).code == "ConsentRequired"
    assert get("/v2/oauth2/userinfo", tokens["auth.globus.org"]["access_token"]).status == 200


def test_the_secret_may_come_in_the_form(portal: App) -> None:
    form = {"grant_type": "client_credentials", "client_id": portal.id, "client_secret": portal.secret or ""}
    assert post(TOKEN, form).status == 200


@pytest.mark.parametrize(
    "spoil",
    [
        lambda app: basic(app.id, "wrong"),
        lambda app: basic(app.id, app.secret[:-1]),
        lambda app: basic(app.id, ""),
        lambda app: basic("", app.secret),
        lambda app: basic("00000000-0000-0000-0000-000000000000", app.secret),
        lambda app: basic("\0", app.secret),
        lambda app: basic(app.id, app.secret + "\0"),
        lambda app: {"Authorization": "Basic \xfc"},
        lambda app: {"Authorization": "Basic !"},
        lambda app: {"Authorization": "Basic " + "A" * 10_000},
        lambda app: {"Authorization": f"Bearer {app.secret}"},
        lambda app: {},
    ],
)
def test_an_almost_right_secret_is_refused(portal: App, spoil: Callable[[App], dict[str, str]]) -> None:
    answer = post(TOKEN, {"grant_type": "client_credentials"}, spoil(portal))
    assert_refused(answer, 401, "invalid_client")
    assert not AccessToken.objects.exists()


def test_another_client_id_in_the_form_is_refused(portal: App, alice: User) -> None:
    answer = post(TOKEN, {"grant_type": "client_credentials", "client_id": make(alice).id}, portal.basic)
    assert_refused(answer, 401, "invalid_client")


def test_each_of_several_secrets_serves_until_it_is_deleted(portal: App, bob: User) -> None:
    application = applications.find(bob, portal.id)
    row, secret = applications.new_secret(application, "second")
    second = App(portal.id, secret.value)
    assert second.own("openid").status == portal.own("openid").status == 200
    applications.delete_secret(application, str(row.pk))
    assert_refused(second.own("openid"), 401, "invalid_client")
    assert portal.own("openid").status == 200


def test_a_public_application_gets_nothing_by_itself(script: App) -> None:
    for form in ({"client_id": script.id}, {"client_id": script.id, "client_secret": ""}):
        assert_refused(post(TOKEN, {"grant_type": "client_credentials", **form}), 401, "invalid_client")
    answer = post(TOKEN, {"grant_type": "client_credentials"}, basic(script.id, ""))
    assert_refused(answer, 401, "invalid_client")


def test_the_application_of_a_user_who_was_shut_out_gets_nothing(portal: App, bob: User) -> None:
    token = portal.own(scopes.TRANSFER_ALL).body["access_token"]
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert_refused(portal.own(scopes.TRANSFER_ALL), 401, "invalid_client")
    assert not is_good(token)


@pytest.mark.parametrize(
    "scope",
    [
        "nothing", f"openid {scopes.TRANSFER_ALL} all",
        "openid[", "openid]", "openid[[x]]", "[x]", "*openid", "x" * 9000,
        "urn:globus:auth:scope:search.api.globus.org:", "urn:globus:auth:scope::all", "urn:globus:auth:scope:a b:all",
        "urn:globus:auth:scope:search.api.globus.org:a\0b", "urn:globus:auth:scope:s\u00e9arch.org:all",
        "http://auth.globus.org/scopes/x/all", "https://auth.globus.org/scopes/x", "https://auth.globus.org/scopes//all",
        "https://auth.globus.org/scopes/x/a?b", "https://u@auth.globus.org/scopes/x/all", 'https://a"b/scopes/x/all',
        "urn:globus:auth:scope:x.org:" + "a" * 129, "urn:globus:auth:scope:" + "a" * 254 + ":all",
        " ".join(f"urn:globus:auth:scope:search.api.globus.org:s{number}" for number in range(101)),
        " ".join(f"https://auth.globus.org/scopes/{number}/all" for number in range(33)),
    ],
)  # fmt: skip
def test_malformed_scopes_are_refused(portal: App, scope: str) -> None:
    answer = portal.own(scope)
    assert_refused(answer, 400, "invalid_scope")
    assert answer.body["error_description"].isascii()
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize(
    ("scope", "server"),
    [
        (FLOWS + "run_status", "flows.globus.org"),
        (COMPUTE, "funcx_service"),
        ("urn:globus:auth:scope:search.api.globus.org:ingest", "search.api.globus.org"),
        ("urn:globus:auth:scope:search.api.globus.org:globus_connect_server", "search.api.globus.org"),
        ("urn:globus:auth:scope:auth.globus.org:view_clients_and_scopes", "auth.globus.org"),
        ("urn:globus:auth:scope:transfer.api.globus.org:gcp_install", "transfer.api.globus.org"),
        ("https://auth.globus.org/scopes/0dbd8a5e-4f0b-4a4c-9d0e-6cbb8ae4fd63/manage_collections",
         "0dbd8a5e-4f0b-4a4c-9d0e-6cbb8ae4fd63"),
        ("offline_access", "auth.globus.org"),
        ("address", "auth.globus.org"),
    ],
)  # fmt: skip
def test_a_scope_of_a_service_that_is_not_here_gives_a_token_that_opens_nothing(
    portal: App, alice: User, scope: str, server: str
) -> None:
    answer = portal.tokens(alice, scope)
    assert (answer["scope"], answer["resource_server"], answer["other_tokens"]) == (scope, server, [])
    assert renew(portal, answer["refresh_token"]).body["scope"] == scope
    assert portal.post(INTROSPECT, {"token": answer["access_token"]}).body["active"] is True
    for path in PATHS_OF_EACH_API:
        assert get(path, answer["access_token"]).status == 403, path


PATHS_OF_EACH_API = (
    "/v0.10/task_list", "/v0.10/endpoint/go%23ep1", "/v0.10/bookmark_list", "/v2/groups/my_groups", "/jobs/",
    "/v2/api/clients", "/v2/oauth2/userinfo", "/v2/api/identities", "/v2/api/tokens", "/v2/api/ssh_keys",
    "/v0.10/endpoint_manager/task_list",
)  # fmt: skip


def test_the_token_of_auth_comes_first(portal: App, alice: User) -> None:
    """Clients ask by the first token who the user is."""
    for last in ("openid", "openid profile email", scopes.VIEW_IDENTITIES, "openid offline_access"):
        answer = portal.tokens(alice, f"{SEARCH} {scopes.TRANSFER_ALL} {last}")
        assert answer["resource_server"] == scopes.AUTH
        assert [one["resource_server"] for one in answer["other_tokens"]] == ["search.api.globus.org", scopes.TRANSFER]
    userinfo = get("/v2/oauth2/userinfo", portal.own(f"{scopes.GROUPS_ALL} openid").body["access_token"])
    assert userinfo.status == 200
    answer = portal.tokens(alice, f"offline_access {scopes.TRANSFER_ALL}")
    assert answer["resource_server"] == scopes.TRANSFER, (
        "a client that asks for no identity uses the first for its work"
    )


def test_offline_access_gives_refresh_tokens(portal: App, alice: User) -> None:
    answer = portal.tokens(alice, f"openid offline_access {scopes.TRANSFER_ALL}", access_type="online")
    assert all("refresh_token" in one for one in by_server(answer).values())


@pytest.mark.parametrize("grant_type", ["password", "implicit", "", "urn:ietf:params:oauth:grant-type:device_code"])
def test_no_other_grants_are_known(portal: App, grant_type: str) -> None:
    answer = portal.token(grant_type=grant_type, username="bob", password="x", device_code="x")
    assert_refused(answer, 400, "unsupported_grant_type")


def test_a_form_without_a_grant_is_refused(portal: App) -> None:
    assert_refused(portal.token(), 400, "unsupported_grant_type")


def test_what_is_no_form_is_refused(portal: App) -> None:
    for data, kind, status in (
        ('{"grant_type": "client_credentials"}', "application/json", 415),
        ("grant_type=client_credentials", "multipart/form-data; boundary=x", 415),
        ("grant_type=client_credentials&x=" + "y" * 70_000, FORM, 413),
        ("grant_type=%ff", FORM, 400),
        ("&".join(f"x{number}=1" for number in range(200)), FORM, 400),
    ):
        assert_refused(post(TOKEN, data, portal.basic, kind), status, "invalid_request")
    assert post(TOKEN, "", portal.basic).status == 400
    assert get(TOKEN).status == 405


def test_a_secret_in_the_address_is_not_looked_at(portal: App) -> None:
    query = f"?client_id={portal.id}&client_secret={portal.secret}&grant_type=client_credentials"
    assert post(TOKEN + query, {"grant_type": "client_credentials"}).status == 401


def test_a_token_request_hashes_no_password(portal: App, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a slow hash")

    monkeypatch.setattr("hashlib.pbkdf2_hmac", refuse)
    assert portal.own(scopes.TRANSFER_ALL).status == 200


def test_a_token_is_recognised_by_one_query(portal: App, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    token = portal.own(scopes.TRANSFER_ALL).body["access_token"]
    with django_assert_num_queries(1):
        found = bearer.authenticate(token)
        assert found is not None
        assert found.user.username == "bob"


@pytest.mark.parametrize(
    "spoil",
    [lambda t: t[:-1], lambda t: t + "x", lambda t: t[4:], lambda t: t.upper(), lambda t: token_values.ACCESS_TOKEN],
)
def test_an_almost_right_token_is_nobodys(portal: App, spoil: Callable[[str], str]) -> None:
    assert not is_good(spoil(portal.own("openid").body["access_token"]))


@pytest.mark.parametrize("token", ["wba_\0", "wba_\ud800", "wba_" + "x" * 10_000])
def test_hostile_tokens_are_nobodys(db: None, token: str) -> None:
    assert not is_good(token)


def test_an_expired_token_is_nobodys(portal: App) -> None:
    token = portal.own("openid").body["access_token"]
    AccessToken.objects.update(expires=datetime.now(UTC))
    assert not is_good(token)


def test_a_deleted_application_takes_its_tokens_with_it(portal: App, bob: User, alice: User) -> None:
    tokens = [portal.own("openid").body["access_token"], portal.tokens(alice, "openid")["access_token"]]
    applications.delete(applications.find(bob, portal.id))
    assert not any(is_good(token) for token in tokens)


def test_the_tokens_of_applications_of_a_deactivated_owner_end(portal: App, bob: User, alice: User) -> None:
    tokens = [portal.own("openid").body["access_token"], portal.tokens(alice, "openid")["access_token"]]
    assert all(is_good(token) for token in tokens)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert not any(is_good(token) for token in tokens)


# ---- by a code


def test_a_code_becomes_a_token_for_each_service(portal: App, alice: User) -> None:
    tokens = portal.tokens(alice, ALL)
    found = by_server(tokens)
    assert set(found) == {
        scopes.AUTH, scopes.TRANSFER, scopes.GROUPS, "search.api.globus.org", scopes.TIMERS, "flows.globus.org",
    }  # fmt: skip
    assert len({one["access_token"] for one in found.values()} | {one["refresh_token"] for one in found.values()}) == 12
    assert found[scopes.AUTH]["scope"] == f"openid profile email {scopes.VIEW_IDENTITIES}"
    assert tokens["id_token"].count(".") == 2
    for one in found.values():
        known = bearer.authenticate(one["access_token"])
        assert known is not None
        assert (known.user, known.client_id) == (alice, portal.id)


def test_without_offline_access_there_is_no_refresh_token(portal: App, alice: User) -> None:
    tokens = portal.tokens(alice, f"openid {scopes.TRANSFER_ALL}", access_type="online")
    assert not any("refresh_token" in one for one in by_server(tokens).values())
    assert not RefreshToken.objects.exists()


def test_without_openid_there_is_no_identity_token(portal: App, alice: User) -> None:
    assert "id_token" not in portal.tokens(alice, scopes.TRANSFER_ALL)


def exchange(app: App, code: str, /, **more: str) -> Answer:
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **more}
    return app.token(**{name: value for name, value in form.items() if value != "-"})


def test_a_code_serves_once_and_its_second_use_takes_back_what_the_first_gave(portal: App, alice: User) -> None:
    bystander = portal.tokens(alice, "openid")
    code = portal.code(alice, f"openid {scopes.TRANSFER_ALL}", access_type="offline")
    tokens = exchange(portal, code).body
    renewed = portal.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"]).body
    assert_refused(exchange(portal, code), 400, "invalid_grant")
    for one in (*by_server(tokens).values(), renewed):
        assert not is_good(one["access_token"])
        answer = portal.token(grant_type="refresh_token", refresh_token=one["refresh_token"])
        assert_refused(answer, 400, "invalid_grant")
    assert is_good(bystander["access_token"])


def test_another_application_cannot_take_back_tokens_by_a_code_that_it_saw(portal: App, alice: User) -> None:
    code = portal.code(alice, "openid")
    token = exchange(portal, code).body["access_token"]
    assert_refused(exchange(make(alice, CALLBACK), code), 400, "invalid_grant")
    assert is_good(token)


@pytest.mark.django_db(transaction=True)
def test_of_many_who_show_a_code_at_once_one_gets_tokens_and_then_nobody(bob: User, alice: User) -> None:
    portal = make(bob, CALLBACK)
    code = portal.code(alice, "openid", access_type="offline")
    answers = all_at_once([lambda: exchange(portal, code)] * 6)
    given = [one for one in answers if one.status == 200]
    assert sorted(one.status for one in answers) == [200, *[400] * 5]
    assert not is_good(given[0].body["access_token"])


@pytest.mark.parametrize(
    "more",
    [
        {"redirect_uri": CALLBACK + "/"},
        {"redirect_uri": "https://evil.example/"},
        {"code": "x"},
        {"code": ""},
        {"code": "\0"},
        {"code": "-"},
    ],
)
def test_a_code_is_bound_to_where_it_was_sent(portal: App, alice: User, more: dict[str, str]) -> None:
    code = portal.code(alice, "openid")
    answer = exchange(portal, code, **more)
    assert answer.status == 400
    assert answer.body["error"] in ("invalid_grant", "invalid_request")


def test_a_redirect_uri_that_was_left_out_is_the_only_one(portal: App, alice: User, bob: User) -> None:
    assert exchange(portal, portal.code(alice, "openid"), redirect_uri="-").status == 200
    several = make(bob, CALLBACK, "https://portal.example.org/other")
    assert exchange(several, several.code(alice, "openid"), redirect_uri="-").status == 400


def test_a_code_is_for_the_application_that_asked(portal: App, alice: User) -> None:
    code = portal.code(alice, "openid")
    assert_refused(exchange(make(alice, CALLBACK), code), 400, "invalid_grant")
    assert_refused(exchange(App(portal.id, "wrong"), code), 401, "invalid_client")
    assert_refused(post(TOKEN, {"grant_type": "authorization_code", "code": code}), 401, "invalid_client")
    assert exchange(portal, code).status == 200


def test_a_code_lives_for_minutes(portal: App, alice: User) -> None:
    code = portal.code(alice, "openid")
    grant = Grant.objects.get()
    assert timedelta(seconds=60) <= grant.expires - grant.created <= timedelta(seconds=600)
    Grant.objects.update(expires=datetime.now(UTC))
    assert_refused(exchange(portal, code), 400, "invalid_grant")


def test_the_code_of_a_user_who_was_shut_out_is_nothing(portal: App, alice: User) -> None:
    code = portal.code(alice, "openid")
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert_refused(exchange(portal, code), 400, "invalid_grant")


def test_a_public_application_shows_what_only_it_can_know(script: App, alice: User) -> None:
    verifier = random_secrets.token_urlsafe(48)
    asked = {"code_challenge": challenge(verifier), "code_challenge_method": "S256"}
    code = script.code(alice, "openid", LOOPBACK, **asked)
    for wrong in ("-", "", "v" * 50, verifier[:-1]):
        assert exchange(script, code, redirect_uri=LOOPBACK, code_verifier=wrong).status == 400
    answer = exchange(script, code, redirect_uri=LOOPBACK, code_verifier=verifier)
    assert answer.status == 200
    assert is_good(answer.body["access_token"])


def test_a_confidential_application_that_uses_pkce_must_keep_to_it(portal: App, alice: User) -> None:
    code = portal.code(alice, "openid", code_challenge=challenge("v" * 50), code_challenge_method="S256")
    assert_refused(exchange(portal, code, code_verifier="w" * 50), 400, "invalid_grant")
    assert exchange(portal, code).status == 400
    assert exchange(portal, code, code_verifier="v" * 50).status == 200


def test_a_challenge_cannot_be_taken_out_of_the_question(portal: App, alice: User) -> None:
    """RFC 9700 section 4.8.2: else the portal could be made to redeem an attacker's code in a victim's session."""
    code = portal.code(alice, "openid")
    assert_refused(exchange(portal, code, code_verifier="v" * 50), 400, "invalid_grant")


def test_a_code_page_in_the_question_is_the_one_in_the_exchange(script: App, alice: User) -> None:
    page = HERE + "v2/web/auth-code"
    tokens = script.tokens(alice, scopes.TRANSFER_ALL, page)
    assert tokens["resource_server"] == "transfer.api.globus.org"


# ---- by a refresh token


def renew(app: App, token: str, **more: str) -> Answer:
    return app.token(grant_type="refresh_token", refresh_token=token, **more)


def test_a_refresh_token_gives_one_access_token_and_stays(portal: App, alice: User) -> None:
    tokens = by_server(portal.tokens(alice, ALL))
    before = tokens[scopes.TRANSFER]
    for _ in range(3):
        answer = renew(portal, before["refresh_token"])
        assert answer.status == 200
        assert (answer.body["scope"], answer.body["other_tokens"]) == (scopes.TRANSFER_ALL, [])
        assert answer.body["refresh_token"] == before["refresh_token"]
        assert is_good(answer.body["access_token"])
    assert is_good(before["access_token"]), "another process may be using it"


@pytest.fixture
def careful(bob: User) -> App:
    """bob's, public, and its refresh tokens rotate."""
    return make(bob, "http://localhost", public=True, rotate=True)


def test_that_of_a_public_application_stays_too(script: App, alice: User) -> None:
    first = script.tokens(alice, scopes.TRANSFER_ALL, LOOPBACK)
    for _ in range(3):
        answer = renew(script, first["refresh_token"])
        assert answer.status == 200
        assert answer.body["refresh_token"] == first["refresh_token"]
        assert is_good(answer.body["access_token"])


def test_where_the_application_asked_for_rotation_it_gives_way_to_the_next(careful: App, alice: User) -> None:
    first = careful.tokens(alice, scopes.TRANSFER_ALL, LOOPBACK)
    second = renew(careful, first["refresh_token"]).body
    assert second["refresh_token"] != first["refresh_token"]
    third = renew(careful, second["refresh_token"]).body
    assert is_good(third["access_token"])


def test_one_that_gave_way_is_an_alarm(careful: App, alice: User) -> None:
    bystander = careful.tokens(alice, scopes.TRANSFER_ALL, LOOPBACK)
    first = careful.tokens(alice, f"openid {scopes.TRANSFER_ALL}", LOOPBACK)
    second = renew(careful, first["refresh_token"]).body
    assert_refused(renew(careful, first["refresh_token"]), 400, "invalid_grant")
    assert_refused(renew(careful, second["refresh_token"]), 400, "invalid_grant")
    assert not any(is_good(one["access_token"]) for one in (second, *by_server(first).values()))
    assert is_good(bystander["access_token"])


@pytest.mark.django_db(transaction=True)
def test_of_many_who_show_it_at_once_one_gets_a_token(bob: User, alice: User) -> None:
    careful = make(bob, "http://localhost", public=True, rotate=True)
    token = careful.tokens(alice, scopes.TRANSFER_ALL, LOOPBACK)["refresh_token"]
    answers = all_at_once([lambda: renew(careful, token)] * 6)
    assert sorted(one.status for one in answers) == [200, *[400] * 5]


@pytest.mark.django_db(transaction=True)
def test_that_of_a_public_application_serves_many_at_once(bob: User, alice: User) -> None:
    script = make(bob, "http://localhost", public=True)
    token = script.tokens(alice, scopes.TRANSFER_ALL, LOOPBACK)["refresh_token"]
    answers = all_at_once([lambda: renew(script, token)] * 6)
    assert all(one.status == 200 and is_good(one.body["access_token"]) for one in answers)


def test_a_second_use_after_rotation_was_turned_off_is_refused_without_an_alarm(
    careful: App, alice: User, bob: User
) -> None:
    first = careful.tokens(alice, scopes.TRANSFER_ALL, LOOPBACK)
    second = renew(careful, first["refresh_token"]).body
    applications.change(applications.find(bob, careful.id), ApplicationSpec("x", True, ["http://localhost"]))
    assert_refused(renew(careful, first["refresh_token"]), 400, "invalid_grant")
    assert renew(careful, second["refresh_token"]).body["refresh_token"] == second["refresh_token"]


@pytest.mark.django_db(transaction=True)
def test_that_of_a_confidential_application_serves_many_at_once(bob: User, alice: User) -> None:
    portal = make(bob, CALLBACK)
    token = portal.tokens(alice, scopes.TRANSFER_ALL)["refresh_token"]
    answers = all_at_once([lambda: renew(portal, token)] * 6)
    assert all(one.status == 200 and is_good(one.body["access_token"]) for one in answers)


def test_one_that_is_taken_back_while_it_is_used_gives_nothing(portal: App, alice: User) -> None:
    looked_at = issue.find_renewal(portal.tokens(alice, "openid")["refresh_token"])
    assert looked_at is not None
    AccessToken.objects.all().delete()
    with transaction.atomic():
        assert issue.renew(looked_at, ["openid"], token_values.access_token(), None) is None
    assert not AccessToken.objects.exists()


def test_fewer_scopes_can_be_asked_for_and_all_again(portal: App, alice: User) -> None:
    token = by_server(portal.tokens(alice, "openid profile email"))[scopes.AUTH]["refresh_token"]
    assert renew(portal, token, scope="openid").body["scope"] == "openid"
    assert renew(portal, token).body["scope"] == "openid profile email"
    assert_refused(renew(portal, token, scope=f"openid {scopes.TRANSFER_ALL}"), 400, "invalid_scope")


def test_fewer_scopes_of_an_application_whose_tokens_rotate_and_all_again(careful: App, alice: User) -> None:
    token = careful.tokens(alice, "openid profile email", LOOPBACK)["refresh_token"]
    fewer = renew(careful, token, scope="openid").body
    assert fewer["scope"] == "openid"
    assert renew(careful, fewer["refresh_token"]).body["scope"] == "openid profile email"


def test_all_scopes_of_the_sign_in_give_the_token_of_one_service(portal: App, alice: User) -> None:
    tokens = by_server(portal.tokens(alice, ALL))
    for server in (scopes.AUTH, scopes.TRANSFER, scopes.TIMERS):
        answer = renew(portal, tokens[server]["refresh_token"], scope=ALL)
        assert (answer.status, answer.body["other_tokens"]) == (200, [])
        assert (answer.body["resource_server"], answer.body["scope"]) == (server, tokens[server]["scope"])
    some = renew(portal, tokens[scopes.AUTH]["refresh_token"], scope=f"{scopes.TRANSFER_ALL} openid")
    assert some.body["scope"] == "openid"


def test_a_refresh_gives_no_scope_that_the_user_did_not_grant(portal: App, alice: User) -> None:
    tokens = by_server(portal.tokens(alice, f"openid {scopes.TRANSFER_ALL}"))
    before = AccessToken.objects.count()
    for scope in (f"openid {scopes.GROUPS_ALL}", f"openid {scopes.TRANSFER_ALL} email", scopes.TRANSFER_ALL):
        assert_refused(renew(portal, tokens[scopes.AUTH]["refresh_token"], scope=scope), 400, "invalid_scope")
    assert AccessToken.objects.count() == before


def test_a_refresh_token_is_for_the_application_that_got_it(portal: App, script: App, alice: User) -> None:
    token = portal.tokens(alice, "openid")["refresh_token"]
    assert_refused(renew(make(alice, CALLBACK), token), 400, "invalid_grant")
    assert_refused(renew(script, token), 400, "invalid_grant")
    assert_refused(post(TOKEN, {"grant_type": "refresh_token", "refresh_token": token}), 401, "invalid_client")
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": portal.id}
    assert_refused(post(TOKEN, form), 401, "invalid_client")
    assert renew(portal, token).status == 200


@pytest.mark.parametrize("token", ["", "x", "wbr_", "wbr_\0", "wbr_" + "x" * 10_000])
def test_what_is_no_refresh_token_is_refused(portal: App, token: str) -> None:
    assert renew(portal, token).status == 400
    assert portal.token(grant_type="refresh_token").status == 400


def test_a_refresh_token_that_was_not_used_for_half_a_year_is_over(portal: App, alice: User) -> None:
    token = portal.tokens(alice, "openid")["refresh_token"]
    RefreshToken.objects.update(updated=datetime.now(UTC) - timedelta(days=181))
    assert renew(portal, token).status == 200, "after the access token has expired, half a year"
    RefreshToken.objects.update(updated=datetime.now(UTC) - timedelta(days=182, minutes=1))
    assert_refused(renew(portal, token), 400, "invalid_grant")


def test_the_refresh_token_of_a_user_who_was_shut_out_is_nothing(portal: App, alice: User) -> None:
    token = portal.tokens(alice, "openid")["refresh_token"]
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert_refused(renew(portal, token), 400, "invalid_grant")


# ---- taken back


REVOKE = f"{TOKEN}/revoke"


def test_whoever_holds_an_access_token_may_end_it(portal: App) -> None:
    token, other = (portal.own("openid").body["access_token"] for _ in range(2))
    for _ in range(2):
        answer = post(REVOKE, {"token": token, "client_id": "95fdeba8-fac2-42bd-a357-e068d82ff78e"})
        assert (answer.status, answer.body) == (200, {"active": False})
    assert not is_good(token)
    assert is_good(other)


def test_a_refresh_token_is_ended_with_its_access_tokens_and_no_others(portal: App, alice: User) -> None:
    tokens = by_server(portal.tokens(alice, ALL))
    transfer, groups = tokens[scopes.TRANSFER], tokens[scopes.GROUPS]
    later = renew(portal, transfer["refresh_token"]).body
    assert post(REVOKE, {"token": transfer["refresh_token"]}).status == 200
    assert not is_good(transfer["access_token"])
    assert not is_good(later["access_token"])
    assert is_good(groups["access_token"])
    assert renew(portal, groups["refresh_token"]).status == 200


def test_a_revoked_refresh_token_that_is_shown_again_is_an_alarm_where_it_rotates(
    portal: App, script: App, careful: App, alice: User
) -> None:
    for app, uri, stays in ((portal, CALLBACK, True), (script, LOOPBACK, True), (careful, LOOPBACK, False)):
        tokens = by_server(app.tokens(alice, f"openid {scopes.TRANSFER_ALL}", uri))
        post(REVOKE, {"token": tokens[scopes.TRANSFER]["refresh_token"]})
        assert is_good(tokens[scopes.AUTH]["access_token"])
        assert_refused(renew(app, tokens[scopes.TRANSFER]["refresh_token"]), 400, "invalid_grant")
        assert is_good(tokens[scopes.AUTH]["access_token"]) is stays


def test_an_application_that_says_who_it_is_ends_only_what_is_its_own(portal: App, alice: User) -> None:
    token = portal.own("openid").body["access_token"]
    assert make(alice).post(REVOKE, {"token": token}).status == 200
    assert is_good(token)
    assert_refused(post(REVOKE, {"token": token}, basic(portal.id, "wrong")), 401, "invalid_client")
    assert is_good(token)
    assert portal.post(REVOKE, {"token": token}).status == 200
    assert not is_good(token)


@pytest.mark.parametrize("token", ["x", "", "wba_\0", "wbr_x", "wb_" + "x" * 40])
def test_what_is_no_token_is_revoked_all_the_same(db: None, token: str) -> None:
    assert post(REVOKE, {"token": token}).status == 200


def test_none_is_revoked_all_the_same(portal: App) -> None:
    """The `globus` command asks for it, having no refresh token."""
    assert post(REVOKE, {}).status == portal.post(REVOKE, {}).status == 200


def test_an_api_token_is_not_revoked_by_this(alice: User) -> None:
    from identity import tokens

    token = tokens.issue(alice)
    assert post(REVOKE, {"token": token}).status == 200
    assert is_good(token)


# ---- looked at


INTROSPECT, VALIDATE = f"{TOKEN}/introspect", f"{TOKEN}/validate"


def test_an_application_learns_what_its_token_is(portal: App, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.org", first_name="Alice", last_name="Liddell")
    tokens = by_server(portal.tokens(alice, f"openid email {scopes.TRANSFER_ALL}"))[scopes.TRANSFER]
    for name, lifetime in (("access_token", 2 * 86400), ("refresh_token", 182 * 86400)):
        told = portal.post(INTROSPECT, {"token": tokens[name], "include": "session_info,identity_set"}).body
        session = told.pop("session_info")
        exp, iat = told.pop("exp"), told.pop("iat")
        assert abs(exp - iat - lifetime) <= 2
        assert told == {
            "active": True, "scope": scopes.TRANSFER_ALL, "client_id": portal.id, "sub": str(alice.pk),
            "username": "alice@127.0.0.1", "name": "Alice Liddell", "email": "alice@example.org", "nbf": iat,
            "aud": ["transfer.api.globus.org", portal.id], "iss": "http://127.0.0.1:8000", "token_type": "Bearer",
            "identity_set": [str(alice.pk)],
        }  # fmt: skip
        assert session["session_id"] == str(SignIn.objects.get().pk)
        [(who, shown)] = session["authentications"].items()
        assert who == str(alice.pk)
        assert abs(shown["auth_time"] - iat) <= 5
        assert shown["idp"]


def test_an_address_is_shown_to_whom_the_user_has_allowed_to_see_it(portal: App, alice: User, bob: User) -> None:
    User.objects.update(email="secret@example.org")
    tokens = portal.tokens(alice, f"openid profile {scopes.TRANSFER_ALL}")
    for one in by_server(tokens).values():
        for name in ("access_token", "refresh_token"):
            told = portal.post(INTROSPECT, {"token": one[name]}).body
            assert (told["active"], told["username"], told["email"]) == (True, "alice@127.0.0.1", None)
    own = portal.own(scopes.TRANSFER_ALL).body["access_token"]
    assert portal.post(INTROSPECT, {"token": own}).body["email"] == "secret@example.org", "it is its owner"


def test_who_came_by_a_secret_has_no_session(portal: App, bob: User) -> None:
    told = portal.post(INTROSPECT, {"token": portal.own("openid").body["access_token"], "include": "session_info"}).body
    assert (told["sub"], told["session_info"]["authentications"]) == (str(bob.pk), {})


def test_of_the_tokens_of_others_nothing_is_revealed(portal: App, alice: User) -> None:
    tokens = portal.tokens(alice, "openid")
    other = make(alice, CALLBACK)
    for token in (tokens["access_token"], tokens["refresh_token"], "x", "", "wba_\0", "wbr_\0"):
        for path in (INTROSPECT, VALIDATE):
            assert other.post(path, {"token": token}).body == {"active": False}


def test_nobody_looks_without_a_secret(portal: App, script: App) -> None:
    token = portal.own("openid").body["access_token"]
    for path in (INTROSPECT, VALIDATE):
        assert_refused(post(path, {"token": token}), 401, "invalid_client")
        assert_refused(post(path, {"token": token}, basic(portal.id, "wrong")), 401, "invalid_client")
        assert_refused(script.post(path, {"token": token}), 401, "invalid_client")
        assert_refused(portal.post(path, {}), 400, "invalid_request")


def test_a_refresh_token_is_valid_until_it_is_not(portal: App, alice: User) -> None:
    tokens = portal.tokens(alice, "openid")
    for name in ("refresh_token", "access_token"):
        assert portal.post(VALIDATE, {"token": tokens[name]}).body == {"active": True}
    AccessToken.objects.update(expires=datetime.now(UTC))
    assert portal.post(VALIDATE, {"token": tokens["access_token"]}).body == {"active": False}
    assert portal.post(VALIDATE, {"token": tokens["refresh_token"]}).body == {"active": True}
    post(REVOKE, {"token": tokens["refresh_token"]})
    assert portal.post(VALIDATE, {"token": tokens["refresh_token"]}).body == {"active": False}


# ---- kept


def test_nothing_that_serves_is_kept(portal: App, script: App, alice: User) -> None:
    """The database holds only digests of codes, tokens and secrets."""
    code = portal.code(alice, "openid")
    shown = [portal.secret or "", code]
    for app, uri in ((portal, CALLBACK), (script, LOOPBACK)):
        tokens = app.tokens(alice, ALL, uri)
        shown += [one[name] for one in by_server(tokens).values() for name in ("access_token", "refresh_token")]
        shown.append(renew(app, tokens["refresh_token"]).body["refresh_token"])
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT t::text FROM {table} t")
            rows = "\n".join(row for (row,) in cursor.fetchall())
            assert not [one for one in shown if one in rows or one.encode().hex() in rows], table
    assert set(AccessToken.objects.values_list("token", flat=True)) == {""}
    assert set(RefreshToken.objects.values_list("token", flat=True)) == {""}


def test_nothing_that_serves_is_logged(portal: App, alice: User, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    code = portal.code(alice, "openid", access_type="offline")
    tokens = exchange(portal, code).body
    renew(portal, tokens["refresh_token"])
    exchange(portal, code)
    post(TOKEN, {"grant_type": "client_credentials"}, basic(portal.id, (portal.secret or "") + "x"))
    shown = [code, portal.secret or "", tokens["access_token"], tokens["refresh_token"], tokens["id_token"]]
    ours = [record.getMessage() for record in caplog.records if record.name not in ("django.db.backends",)]
    assert not [one for one in shown for line in ours if one in line]


def test_fair_use_holds_for_who_shows_no_token(portal: App, settings: Any, redis_server: object) -> None:
    settings.RATE_LIMIT = 5
    answers = [portal.own("openid") for _ in range(15)]
    late = [one for one in answers if one.status == 429]
    assert late
    assert_refused(late[0], 429, "temporarily_unavailable")
    assert int(late[0].headers["Retry-After"]) >= 1


def test_the_toolkits_strict_rules_are_on() -> None:
    rules = {name: value for name, value in django_settings.OAUTH2_PROVIDER.items() if "RFC9700" in name}
    assert len(rules) == 10
    assert all(rules.values())


def test_an_answer_that_nobody_asked_for_is_not_given(portal: App, alice: User) -> None:
    """The code of a question that was answered no does not exist."""
    asked = authorization.read(portal.question("openid"), HERE)
    assert "code" not in answered(authorization.refuse(asked))
    assert not Grant.objects.exists()
