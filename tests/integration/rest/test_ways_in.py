"""The ways to sign in to REST beside bearer tokens: a session with its CSRF token, and a TLS client certificate."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.test import Client, RequestFactory

from endpoints.models import Endpoint
from identity import certificate_subjects, tokens
from identity.hidden import Secret
from identity.models import ApiToken, User
from identity.provider import scopes
from tests.integration.pages import Browser
from tests.integration.provider import make
from tests.integration.rest import Answer, Api, assert_error, read
from transferapi.rest.http.trusted_proxies import TrustedProxies

pytestmark = pytest.mark.django_db
FRONT_SECRET = "f" * 40
SUBJECT = "/O=Grid/OU=Site/CN=Alice"
DN = "CN=Alice,OU=Site,O=Grid"
ENDPOINT = {"display_name": "new"}


@pytest.fixture
def session(alice: User, passwords: None) -> Client:
    """alice's, signed in by the page; Django's own checks are on."""
    browser = Browser()
    browser.sign_in(alice)
    return browser.client


def csrf(client: Client) -> dict[str, str]:
    client.get("/account")
    return {"X-CSRFToken": client.cookies["waybill-csrf"].value}


def post(client: Client, path: str, body: object, **more: Any) -> Answer:
    return read(client.post(path, body, content_type="application/json", **more))


# ---- sessions


def test_a_session_reads_what_its_user_may(session: Client, ep1: Endpoint) -> None:
    found = read(session.get("/v0.10/endpoint_search", {"filter_scope": "my-endpoints"}))
    assert [row["id"] for row in found.body["DATA"]] == [str(ep1.pk)]


def test_a_session_changes_something_with_its_csrf_token_only(session: Client) -> None:
    for headers in ({}, {"X-CSRFToken": "x" * 64}):
        assert_error(post(session, "/v0.10/endpoint", ENDPOINT, headers=headers), 403, "PermissionDenied")
    assert not Endpoint.objects.exists()
    assert post(session, "/v0.10/endpoint", ENDPOINT, headers=csrf(session)).status == 201


def test_the_csrf_token_of_another_session_is_none(session: Client, bob: User) -> None:
    other = Browser()
    other.get("/signin")
    headers = {"X-CSRFToken": other.client.cookies["waybill-csrf"].value}
    assert_error(post(session, "/v0.10/endpoint", ENDPOINT, headers=headers), 403, "PermissionDenied")


def test_a_page_of_another_site_changes_nothing(session: Client) -> None:
    headers = {**csrf(session), "Origin": "https://evil.example"}
    assert_error(post(session, "/v0.10/endpoint", ENDPOINT, headers=headers), 401, "ClientError.AuthenticationFailed")
    assert not Endpoint.objects.exists()


def test_a_bearer_token_wins_over_the_session(session: Client, bob: User) -> None:
    headers = {"Authorization": f"Bearer {tokens.issue(bob)}"}
    made = post(session, "/v0.10/endpoint", ENDPOINT, headers=headers)
    assert Endpoint.objects.get(pk=made.body["id"]).owner == bob
    wrong = {"Authorization": "Bearer wb_wrong"}
    assert_error(read(session.get("/v0.10/task_list", headers=wrong)), 401, "ClientError.AuthenticationFailed")


def test_a_session_that_has_ended_is_nobody(session: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert_error(read(session.get("/v0.10/task_list")), 401, "ClientError.AuthenticationFailed")
    User.objects.filter(pk=alice.pk).update(is_active=True)
    assert read(session.get("/v0.10/task_list")).status == 200
    session.post("/signout", headers=csrf(session))
    assert_error(read(session.get("/v0.10/task_list")), 401, "ClientError.AuthenticationFailed")


# ---- certificates, by the word of a server in front


@pytest.fixture
def registered(alice: User, settings: Any) -> str:
    """alice has a subject, and there is a server in front that may speak of certificates."""
    settings.FRONT_SERVERS = (ip_network("10.0.0.0/24"), ip_network("::1/128"))
    settings.FRONT_SECRET = Secret(FRONT_SECRET)
    certificate_subjects.add(alice, SUBJECT, proven=[SUBJECT])
    return SUBJECT


def front(dn: str, verify: str = "SUCCESS", address: str = "10.0.0.1") -> dict[str, str]:
    told = {"HTTP_X_SSL_CLIENT_VERIFY": verify, "HTTP_X_SSL_CLIENT_S_DN": dn, "REMOTE_ADDR": address}
    return {**told, "HTTP_X_WAYBILL_FRONT_SECRET": FRONT_SECRET}


def show(environ: dict[str, str], path: str = "/v2/api/certificate_subjects") -> Answer:
    return read(Client(raise_request_exception=False).get(path, **environ))  # type: ignore[arg-type]


@pytest.mark.parametrize("dn", [DN, SUBJECT, "/o=Grid/ou=Site/cn=Alice"])
@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "::ffff:10.0.0.9"])
def test_a_front_server_says_who_it_is(registered: str, dn: str, address: str) -> None:
    found = show(front(dn, address=address))
    assert [row["subject"] for row in found.body["DATA"]] == [SUBJECT]


@pytest.mark.parametrize("address", ["10.0.1.1", "127.0.0.1", "2001:db8::1", "", "nonsense"])
def test_the_same_words_of_anybody_else_mean_nothing(registered: str, address: str) -> None:
    environ = {**front(DN, address=address), "HTTP_X_FORWARDED_FOR": "10.0.0.1"}
    assert_error(show(environ), 401, "ClientError.AuthenticationFailed")


@pytest.mark.parametrize("secret", [None, "", "wrong", FRONT_SECRET + "," + FRONT_SECRET, FRONT_SECRET + "é"])
def test_a_front_server_without_the_secret_proves_nothing(registered: str, secret: str | None) -> None:
    environ = front(DN)
    del environ["HTTP_X_WAYBILL_FRONT_SECRET"]
    if secret is not None:
        environ["HTTP_X_WAYBILL_FRONT_SECRET"] = secret
    assert_error(show(environ), 401, "ClientError.AuthenticationFailed")


def test_without_a_secret_of_the_service_no_front_server_proves_anything(registered: str, settings: Any) -> None:
    settings.FRONT_SECRET = None
    for secret in ("", "None", FRONT_SECRET):
        environ = {**front(DN), "HTTP_X_WAYBILL_FRONT_SECRET": secret}
        assert_error(show(environ), 401, "ClientError.AuthenticationFailed")


@pytest.mark.parametrize("address", ["10.0.0.1", "192.0.2.1"])
def test_what_is_not_believed_and_the_secret_reach_no_view(registered: str, settings: Any, address: str) -> None:
    seen: dict[str, Any] = {}
    environ = {**front(DN, address=address), "HTTP_FORWARDED": "for=192.0.2.9", "HTTP_X_FORWARDED_PROTO": "https"}
    request = RequestFactory().get("/", **environ)  # type: ignore[arg-type]

    def view(request: HttpRequest) -> HttpResponse:
        seen.update(request.META)
        return HttpResponse()

    TrustedProxies(view)(request)
    assert FRONT_SECRET not in map(str, seen.values())
    assert ("HTTP_FORWARDED" in seen, "HTTP_X_SSL_CLIENT_VERIFY" in seen) == (address == "10.0.0.1",) * 2


def test_without_front_servers_nobody_is_believed(registered: str, settings: Any) -> None:
    settings.FRONT_SERVERS = ()
    assert_error(show(front(DN)), 401, "ClientError.AuthenticationFailed")


@pytest.mark.parametrize("verify", ["NONE", "FAILED:self signed certificate", "", "success", "SUCCESS "])
def test_what_the_front_server_has_not_verified_proves_nothing(registered: str, verify: str) -> None:
    assert_error(show(front(DN, verify)), 401, "ClientError.AuthenticationFailed")


def test_an_unknown_subject_is_reported_and_makes_no_account(registered: str) -> None:
    answer = show(front("CN=Mallory,O=Grid"))
    assert_error(answer, 401, "ClientError.AuthenticationFailed")
    assert "/O=Grid/CN=Mallory" in answer.body["message"]
    assert User.objects.count() == 1


@pytest.mark.parametrize("dn", ["nonsense", "CN=", "/CN=a\\b", "CN=" + "x" * 5000, "CN=Alice\\,OU=Site\\,O=Grid"])
def test_a_subject_that_cannot_be_read_is_nobodys(registered: str, dn: str) -> None:
    assert_error(show(front(dn)), 401, "ClientError.AuthenticationFailed")


def test_a_subject_beyond_ascii_is_found(alice: User, registered: str) -> None:
    certificate_subjects.add(alice, "/O=Grid/CN=Zoë", proven=[r"/O=Grid/CN=Zo\xC3\xAB"])
    assert show(front(r"CN=Zo\C3\AB,O=Grid")).status == 200
    assert show(front("CN=Zoë,O=Grid".encode().decode("latin-1"))).status == 200


def test_the_user_of_a_certificate_may_be_shut_out(alice: User, registered: str) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert_error(show(front(DN)), 401, "ClientError.AuthenticationFailed")


def test_a_bearer_token_wins_over_the_certificate(registered: str, bob: User) -> None:
    environ = {**front(DN), "HTTP_AUTHORIZATION": f"Bearer {tokens.issue(bob)}"}
    assert show(environ).body["DATA"] == []
    assert_error(show({**environ, "HTTP_AUTHORIZATION": "Bearer wb_no"}), 401, "ClientError.AuthenticationFailed")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://testserver.evil.example"])
def test_a_page_of_another_site_does_nothing_by_the_certificate(registered: str, origin: str) -> None:
    client = Client(raise_request_exception=False)
    answer = post(client, "/v0.10/endpoint", ENDPOINT, **front(DN), headers={"Origin": origin})
    assert_error(answer, 403, "PermissionDenied")
    assert not Endpoint.objects.exists()
    for headers in ({}, {"Origin": "http://testserver"}):
        assert post(client, "/v0.10/endpoint", ENDPOINT, **front(DN), headers=headers).status == 201


# ---- tokens and subjects by REST


def test_a_token_is_made_used_listed_and_revoked(alice: User) -> None:
    api = Api(alice, root="", age=0)
    made = api.post("/v2/api/tokens", {"label": "nightly", "expires_in": 3600})
    assert made.status == 201
    assert tokens.authenticate(made.body["token"]) == alice
    rows = api.get("/v2/api/tokens").body["DATA"]
    assert [row["label"] for row in rows] == ["nightly"]
    assert rows[0]["expire_time"] == made.body["expire_time"]
    assert made.body["token"] not in str(rows)
    assert api.delete(f"/v2/api/tokens/{made.body['id']}").status == 200
    assert tokens.authenticate(made.body["token"]) is None
    assert_error(api.delete(f"/v2/api/tokens/{made.body['id']}"), 404, "ClientError.NotFound")
    assert_error(api.delete("/v2/api/tokens/nonsense"), 404, "ClientError.NotFound")


@pytest.mark.parametrize(
    "document", [{"label": 3}, {"label": "a\nb"}, {"label": "x" * 129}, {"expires_in": 0}, {"expires_in": 10**12}]
)
def test_a_token_that_cannot_be_is_refused(alice: User, document: dict[str, Any]) -> None:
    assert_error(Api(alice, root="", age=0).post("/v2/api/tokens", document), 400, "ClientError.BadRequest")


def test_a_user_has_so_many_tokens_and_subjects(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(alice, root="", age=0)
    monkeypatch.setattr(tokens, "MOST", 0)
    assert_error(api.post("/v2/api/tokens", {}), 409, "ClientError.LimitExceeded")
    monkeypatch.setattr(certificate_subjects, "MOST", 0)
    with pytest.raises(certificate_subjects.TooManySubjectsError):
        certificate_subjects.add(alice, SUBJECT, proven=[SUBJECT])


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/v2/api/tokens", "/v2/api/certificate_subjects"])
def test_an_application_cannot_outlive_its_consent(alice: User, method: str, path: str) -> None:
    app = make(alice)
    token = app.own(scopes.TRANSFER_ALL).body["access_token"]
    client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {token}"})
    answer: HttpResponseBase = client.generic(method, path, b"{}", "application/json")
    assert_error(read(answer), 403, "PermissionDenied")
    assert not ApiToken.objects.exists()


def test_a_certificate_is_registered_by_showing_it(session: Client, registered: str) -> None:
    other = front("CN=Alice 2,O=Grid")
    assert_error(show(other), 401)
    client, headers = session, csrf(session)
    made = post(client, "/v2/api/certificate_subjects", {"label": "laptop"}, headers=headers, **other)
    assert (made.status, made.body["subject"]) == (201, "/O=Grid/CN=Alice 2")
    assert len(show(other).body["DATA"]) == 2
    again = post(client, "/v2/api/certificate_subjects", {}, headers=headers, **other)
    assert_error(again, 409, "Exists")
    removed = read(client.delete(f"/v2/api/certificate_subjects/{made.body['id']}", headers=headers))
    assert removed.status == 200
    assert_error(show(other), 401)


@pytest.mark.parametrize(
    ("document", "status", "code"),
    [
        ({"subject": "/CN=Somebody"}, 403, "ClientError.SubjectNotProven"),
        ({"subject": "CN=Somebody"}, 400, "ClientError.BadRequest"),
        ({}, 400, "ClientError.BadRequest"),
    ],
)
def test_a_subject_is_registered_by_who_proves_it_alone(
    alice: User, document: dict[str, Any], status: int, code: str
) -> None:
    assert_error(Api(alice, root="", age=0).post("/v2/api/certificate_subjects", document), status, code)


def test_a_certificate_that_cannot_be_read_is_not_registered(session: Client, registered: str) -> None:
    answer = post(session, "/v2/api/certificate_subjects", {}, headers=csrf(session), **front("nonsense"))
    assert_error(answer, 400, "ClientError.BadRequest")
