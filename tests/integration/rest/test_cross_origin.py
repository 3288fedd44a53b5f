"""Pages of other sites: those of registered applications read answers, errors too, and no cookie counts."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from django.core.cache import cache
from django.db import OperationalError, connection
from django.http import HttpResponseBase
from django.test import Client

from endpoints.models import Endpoint
from identity import tokens
from identity.models import User
from identity.provider import clients, registration
from identity.provider.applications import origin_of
from tests.integration.pages import Browser
from tests.integration.provider import make
from tests.integration.provider.test_api import registered
from transferapi.rest import cross_origin
from transferapi.rest.cross_origin import RegisteredOrigins, origins
from transferapi.rest.http import rate_limit

pytestmark = pytest.mark.django_db
PORTAL = "https://portal.example.org"
ALLOWED = "Access-Control-Allow-Origin"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
#: Of each API, and what pages read before they have a token.
ROUTES = (
    "/v0.10/task_list", "/v2/groups/my_groups", "/jobs/", "/v2/api/identities", "/v2/oauth2/userinfo",
    "/v2/oauth2/token", "/jwk.json", "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server",
    "/v0.10/no_such_route", "/v2/endpoints/x/subscription",
)  # fmt: skip


@pytest.fixture(autouse=True)
def forget(redis_server: object) -> Iterator[None]:
    origins._found.clear()
    cache.clear()
    yield
    origins._found.clear()


@pytest.fixture
def portal(bob: User) -> str:
    """The origin of an application of bob's."""
    make(bob, f"{PORTAL}/callback", public=True)
    return PORTAL


def ask(path: str, origin: str | None, method: str = "GET", **headers: str) -> HttpResponseBase:
    given = {name.replace("_", "-"): value for name, value in headers.items()} | ({"Origin": origin} if origin else {})
    return Client(raise_request_exception=False).generic(method, path, headers=given)


def cors_of(answer: HttpResponseBase) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower().startswith("access-control-")}


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_page_of_a_registered_origin_reads_every_answer(portal: str, method: str) -> None:
    for path in ROUTES:
        answer = ask(path, portal, method)
        assert answer.headers.get(ALLOWED) == portal, path
        assert "Retry-After" in answer.headers["Access-Control-Expose-Headers"]
        assert "Access-Control-Allow-Credentials" not in answer.headers
        assert "Origin" in answer.headers["Vary"]


#: Near to that of the portal, and far from it.
OTHERS = (
    "https://evil.example.org", "null", "http://portal.example.org", f"{PORTAL}:8443", f"{PORTAL}.evil.org",
    f"{PORTAL}/", "https://PORTAL.example.org", "https://portal.example", "*", "", "x" * 5000,
    f"{PORTAL} https://evil.example.org",
)  # fmt: skip


@pytest.mark.parametrize("path", ["/v0.10/task_list", "/v2/oauth2/token", "/jwk.json"])
def test_any_other_origin_gets_nothing(portal: str, path: str) -> None:
    for origin in OTHERS:
        plain = ask(path, origin or None)
        assert not cors_of(plain), origin
        assert "Origin" in plain.headers["Vary"]
        refused = Client().generic("OPTIONS", path, headers={"Origin": origin, **PREFLIGHT})
        assert (refused.status_code, cors_of(refused)) == (403, {}), origin


def test_a_preflight_is_answered_once_for_two_hours(portal: str) -> None:
    answer = Client().generic("OPTIONS", "/v0.10/transfer", headers={"Origin": portal, **PREFLIGHT})
    assert (answer.status_code, answer.content) == (204, b"")
    found = cors_of(answer)
    assert found[ALLOWED] == portal
    assert found["Access-Control-Max-Age"] == "7200"
    wanted = {name.strip().lower() for name in found["Access-Control-Allow-Headers"].split(",")}
    assert {"authorization", "content-type", "range", "x-globus-client-info"} <= wanted
    assert not wanted & {"x-csrftoken", "cookie", "*"}
    assert {"POST", "PUT", "DELETE"} <= set(found["Access-Control-Allow-Methods"].split(", "))
    assert "Origin" in answer.headers["Vary"]


def test_pages_for_people_have_none_of_it(portal: str, passwords: None) -> None:
    for path in ("/", "/signin", "/account", "/v2/oauth2/authorize", "/v2/web/auth-code", "/static/webui/base.css"):
        assert not cors_of(ask(path, portal)), path


# ---- authority


@pytest.fixture
def session(alice: User, passwords: None) -> Client:
    browser = Browser()
    browser.sign_in(alice)
    return browser.client


@pytest.mark.parametrize("origin", [PORTAL, "https://evil.example.org", "null"])
def test_cookies_of_a_request_from_another_origin_are_not_looked_at(
    portal: str, session: Client, origin: str, ep1: Endpoint
) -> None:
    path = "/v0.10/task_list"
    assert session.get(path).status_code == 200
    assert session.get(path, headers={"Origin": origin}).status_code == 401
    csrf = session.cookies["waybill-csrf"].value
    told = session.delete(f"/v0.10/endpoint/{ep1.pk}", headers={"Origin": origin, "X-CSRFToken": csrf})
    assert told.status_code == 401
    assert Endpoint.objects.filter(pk=ep1.pk, deleted_at=None).exists()
    # And it sets none.
    assert not told.cookies


@pytest.mark.parametrize("origin", ["http://testserver", "http://127.0.0.1:8000", None])
def test_the_pages_of_this_service_use_their_session(session: Client, origin: str | None) -> None:
    """Browsers send Origin with requests to the same site that change something."""
    answer = session.get("/v0.10/task_list", headers={"Origin": origin} if origin else {})
    assert answer.status_code == 200
    assert not cors_of(answer)


def test_a_token_counts_from_any_origin_and_only_registered_ones_read(portal: str, alice: User) -> None:
    """The browser keeps the answer from the page of another origin; a program may send any Origin."""
    token = f"Bearer {tokens.issue(alice)}"
    for origin, reads in ((portal, True), ("https://evil.example.org", False)):
        answer = ask("/v0.10/task_list", origin, Authorization=token)
        assert (answer.status_code, ALLOWED in answer.headers) == (200, reads)


# ---- errors are read


def test_errors_are_read(portal: str, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    token = f"Bearer {tokens.issue(alice)}"
    transfer_only = make(alice, f"{PORTAL}/x").tokens(alice, "openid", f"{PORTAL}/x")["access_token"]
    expected = [
        (ask("/v0.10/task_list", portal), 401),
        (ask("/v0.10/task_list", portal, Authorization=f"Bearer {transfer_only}"), 403),
        (ask("/v0.10/task/x", portal, Authorization=token), 404),
        (ask("/v2/oauth2/token", portal, "GET"), 405),
        (ask("/v2/oauth2/token", portal, "POST"), 400),
    ]
    monkeypatch.setattr(rate_limit, "take", lambda *_: rate_limit.Taken(1, 0, 7))
    for path, method in (("/v0.10/task_list", "GET"), ("/v2/oauth2/token", "POST")):
        late = ask(path, portal, method)
        assert late.headers["Retry-After"] == "7"
        expected.append((late, 429))
    for answer, status in expected:
        assert (answer.status_code, answer.headers.get(ALLOWED)) == (status, portal)


def test_an_error_is_read_while_the_database_is_away(portal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask("/v0.10/task_list", portal, Authorization="Bearer x").headers[ALLOWED] == portal

    def away(*_: object, **__: object) -> bool:
        raise OperationalError("the server has closed the connection")

    monkeypatch.setattr(clients, "has_pages_at", away)
    monkeypatch.setattr(cross_origin, "FRESH", -1.0)
    monkeypatch.setattr("identity.provider.bearer.authenticate", away)
    answer = ask("/v0.10/task_list", portal, Authorization="Bearer x")
    assert (answer.status_code, answer.headers.get(ALLOWED)) == (503, portal)
    monkeypatch.setattr(cross_origin, "STALE", -1.0)
    assert not cors_of(ask("/v0.10/task_list", portal, Authorization="Bearer x"))


def test_refusals_of_long_bodies_which_the_front_server_passes_on_are_read(portal: str) -> None:
    answer = ask("/v0.10/long_body?resource=/v0.10/transfer&length=2000000", portal)
    assert (answer.status_code, answer.headers.get(ALLOWED)) == (401, portal)
    assert answer.headers["X-Waybill-Refusal-Status"] == "401"


# ---- which origins


@pytest.mark.parametrize(
    ("uri", "origin"),
    [
        ("https://portal.example.org/a/b?c=d", PORTAL),
        ("https://Portal.Example.org:443/", PORTAL),
        ("https://portal.example.org:8443/x", f"{PORTAL}:8443"),
        ("http://localhost:3000/callback", "http://localhost:3000"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[::1]:5173/", "http://[::1]:5173"),
    ],
)
def test_the_origin_of_a_redirect_uri_is_as_browsers_write_it(bob: User, uri: str, origin: str) -> None:
    make(bob, uri, public=True)
    assert origin_of(uri) == origin
    assert ask("/v0.10/task_list", origin).headers[ALLOWED] == origin


def test_a_program_that_registered_itself_lets_no_pages_in(db: None) -> None:
    registered()
    assert registration.TEMPLATES
    assert not cors_of(ask("/v0.10/task_list", "http://localhost"))


def test_an_application_that_changes_or_goes_takes_its_origin_with_it(
    bob: User, portal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oauth2_provider.models import Application

    from identity.provider import applications
    from identity.provider.applications import ApplicationSpec

    monkeypatch.setattr(cross_origin, "FRESH", -1.0)
    found = Application.objects.get()
    applications.change(found, ApplicationSpec("portal", True, ["https://new.example.org/"]))
    assert not cors_of(ask("/v0.10/task_list", portal))
    assert cors_of(ask("/v0.10/task_list", "https://new.example.org"))
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert not cors_of(ask("/v0.10/task_list", "https://new.example.org"))
    User.objects.filter(pk=bob.pk).update(is_active=True)
    applications.delete(found)
    assert not cors_of(ask("/v0.10/task_list", "https://new.example.org"))


def test_applications_that_were_registered_before_get_their_origins(bob: User, portal: str) -> None:
    from django.apps import apps
    from oauth2_provider.models import Application

    registered()
    make(bob, "http://[::1]:5173/x", f"{PORTAL}:443/", f"{PORTAL}:8443/y")
    expected = list(Application.objects.order_by("pk").values_list("allowed_origins", flat=True))
    assert expected == [portal, "", f"http://[::1]:5173 {PORTAL} {PORTAL}:8443"]
    Application.objects.update(allowed_origins="")
    import_module("identity.migrations.0024_application_origins").fill(apps, None)
    assert list(Application.objects.order_by("pk").values_list("allowed_origins", flat=True)) == expected


# ---- cost


def test_a_known_origin_costs_no_query_and_others_use_the_index(portal: str, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        ask("/jwk.json", portal)
    with django_assert_num_queries(0):
        ask("/jwk.json", portal)
        Client().generic("OPTIONS", "/v0.10/transfer", headers={"Origin": portal, **PREFLIGHT})
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT 1 FROM oauth2_provider_application "
            "WHERE string_to_array(allowed_origins, ' ') @> ARRAY['https://x']::text[]"
        )
        assert "application_origins" in str(cursor.fetchall())


def test_invented_origins_take_no_memory_and_are_counted(
    portal: str, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    known = RegisteredOrigins()
    for number in range(20):
        assert not known.allows(f"https://{number}.example.org", "192.0.2.1")
    assert not known._found
    monkeypatch.setattr(cross_origin, "MOST", 2)
    monkeypatch.setattr(clients, "has_pages_at", lambda _: True)
    for number in range(5):
        assert known.allows(f"https://{number}.example.org", "192.0.2.1")
    assert list(known._found) == ["https://3.example.org", "https://4.example.org"]
    # An address that asks too often causes no lookups, and known origins are still known.
    monkeypatch.setattr(rate_limit, "take", lambda *_: rate_limit.Taken(1, 0, 7))
    with django_assert_max_num_queries(0):
        assert not known.allows("https://5.example.org", "192.0.2.1")
    assert known.allows("https://4.example.org", "192.0.2.1")
    assert known.remembers("https://4.example.org")
