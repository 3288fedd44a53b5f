"""The account page: tokens, applications, certificates and the password, of the user and of nobody else."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from html import unescape
from ipaddress import ip_network
from typing import Any

import pytest

from identity import certificate_subjects, password_sign_in, tokens
from identity.hidden import Secret
from identity.models import ApiToken, CertificateSubject, Credential, User
from identity.provider import applications, clients
from identity.provider.applications import ApplicationSpec
from tests.integration.pages import PASSWORD, Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
NOBODY = uuid.UUID(int=7)
SUBJECT = "/O=Grid/OU=Site/CN=Alice"


@pytest.fixture
def browser(alice: User) -> Browser:
    """alice's, on her account page."""
    found = Browser()
    found.sign_in(alice)
    found.get("/account")
    return found


def shown(browser: Browser, label: str) -> str:
    """Return the value that the page shows only once, in the field with this label."""
    [found] = re.findall(rf'{label}</label>\s*<input[^>]* value="([^"]+)"', browser.page)
    return str(found)


def test_what_removes_something_asks_first_where_no_script_has_asked(browser: Browser, alice: User) -> None:
    row, _secret = tokens.make(alice, "nightly <b>backup</b>", timedelta(days=3))
    browser.get("/account")
    assert 'data-confirm="Revoke nightly &lt;b&gt;backup&lt;/b&gt;?"' in browser.page
    [called] = re.findall(r'name="called" value="([^"]*)"', browser.page)
    answer = browser.post(f"/account/tokens/{row.pk}/revoke", called=unescape(called))
    assert answer.status_code == 200
    assert '<h1 id="confirm-h">Revoke nightly &lt;b&gt;backup&lt;/b&gt;?</h1>' in browser.page
    assert "Scripts that use it stop working at once." in browser.text
    assert ApiToken.objects.filter(pk=row.pk).exists()
    assert browser.post(f"/account/tokens/{row.pk}/revoke", confirmed="yes").status_code == 302
    assert not ApiToken.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize(
    "path",
    [
        f"apps/{'x' * 40}/delete", f"apps/{'x' * 40}/withdraw", f"certificates/{NOBODY}/remove",
        f"ssh-keys/{NOBODY}/remove", f"passkeys/{NOBODY}/remove", "sessions/others/end", f"webhooks/{NOBODY}/remove",
        f"credentials/{NOBODY}/remove",
    ],
)  # fmt: skip
def test_each_form_that_removes_something_asks(browser: Browser, path: str) -> None:
    assert browser.post(f"/account/{path}").status_code == 200
    assert 'name="confirmed" value="yes"' in browser.page
    assert "Leave it as it is" in browser.text


def test_a_token_is_shown_once_and_works(browser: Browser, alice: User) -> None:
    assert browser.post("/account/tokens", label="nightly backup", days="30").status_code == 200
    token = shown(browser, "Token")
    assert tokens.authenticate(token) == alice
    row = ApiToken.objects.get(user=alice)
    assert row.expires_at is not None
    assert abs(row.expires_at - datetime.now(UTC) - timedelta(days=30)) < timedelta(minutes=1)
    browser.get("/account")
    assert token not in browser.page
    assert "nightly backup" in browser.text


def test_a_token_that_is_revoked_works_no_more(browser: Browser, alice: User) -> None:
    browser.post("/account/tokens", label="nightly", days="0")
    token, row = shown(browser, "Token"), ApiToken.objects.get(user=alice)
    assert row.expires_at is None
    answer = browser.post(f"/account/tokens/{row.pk}/revoke", confirmed="yes")
    assert answer.headers["Location"] == "/account#tokens"
    browser.get("/account")
    assert "The token is revoked." in browser.text
    assert tokens.authenticate(token) is None
    assert browser.post(f"/account/tokens/{row.pk}/revoke", confirmed="yes").status_code == 404


@pytest.mark.parametrize(
    "fields", [{"days": "30"}, {"label": "x"}, {"label": "x", "days": "7000"}, {"label": "x" * 129, "days": "1"}]
)
def test_a_token_that_cannot_be_is_refused_in_words(browser: Browser, fields: dict[str, str]) -> None:
    assert browser.post("/account/tokens", **fields).status_code == 400
    assert 'class="wrong"' in browser.page
    assert not ApiToken.objects.exists()


def test_a_user_has_so_many_tokens_and_no_more(browser: Browser, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST", 1)
    browser.post("/account/tokens", label="one", days="1")
    assert browser.post("/account/tokens", label="two", days="1").status_code == 400
    assert "You have 1 tokens, which is the most." in browser.text


def test_nobody_touches_what_is_anothers(browser: Browser, bob: User) -> None:
    row, _ = tokens.make(bob, "bob's own")
    subject = certificate_subjects.add(bob, "/CN=Bob", proven=["/CN=Bob"])
    app, _ = applications.make(bob, ApplicationSpec("bob's app"))
    for path in (
        f"/account/tokens/{row.pk}/revoke",
        f"/account/certificates/{subject.pk}/remove",
        f"/account/apps/{app.client_id}/secret",
        f"/account/apps/{app.client_id}/delete",
        f"/account/apps/{uuid.uuid4()}/delete",
        "/account/apps/nonsense/delete",
    ):
        assert browser.post(path, confirmed="yes").status_code == 404, path
    assert "bob" not in browser.page
    assert tokens.of(bob) == [row]
    assert certificate_subjects.of(bob) == [subject]
    assert applications.of_user(bob) == [app]


@pytest.mark.parametrize(
    "path", ["/account/tokens", "/account/apps", "/account/certificates", "/account/password", "/signout"]
)
def test_forms_are_for_posts_of_who_is_signed_in(browser: Browser, path: str) -> None:
    assert browser.get(path).status_code == 405
    stranger = Browser()
    stranger.get("/signin")
    assert stranger.post(path).headers["Location"].startswith("/signin")


def test_an_application_is_made_gets_another_secret_and_goes(browser: Browser, alice: User) -> None:
    uris = "https://gateway.example.org/callback http://localhost:8080/"
    assert browser.post("/account/apps", name="our gateway", redirect_uris=uris).status_code == 200
    client_id, secret = shown(browser, "Client id"), shown(browser, "Client secret")
    [app] = applications.of_user(alice)
    assert (app.client_id, app.name, app.redirect_uris) == (client_id, "our gateway", uris)
    assert clients.authenticate(client_id, secret) == app
    browser.post(f"/account/apps/{client_id}/secret")
    other = shown(browser, "Client secret")
    assert other != secret
    assert clients.authenticate(client_id, other) == clients.authenticate(client_id, secret) == app
    browser.get("/account")
    assert secret not in browser.page
    assert other not in browser.page
    assert browser.post(f"/account/apps/{client_id}/delete", confirmed="yes").status_code == 302
    assert clients.authenticate(client_id, secret) is None


@pytest.mark.parametrize("fields", [{}, {"name": "x", "redirect_uris": "http://elsewhere.example/"}])
def test_an_application_that_cannot_be_is_refused_in_words(browser: Browser, fields: dict[str, str]) -> None:
    assert browser.post("/account/apps", **fields).status_code == 400
    assert ("Https, or http on the loopback" in browser.text) == ("name" in fields)


def test_a_certificate_that_the_connection_shows_is_added(alice: User, settings: Any) -> None:
    settings.FRONT_SERVERS, settings.FRONT_SECRET = (ip_network("10.0.0.0/24"),), Secret("f" * 40)
    browser = Browser(
        HTTP_X_WAYBILL_FRONT_SECRET="f" * 40,
        REMOTE_ADDR="10.0.0.1",
        HTTP_X_SSL_CLIENT_VERIFY="SUCCESS",
        HTTP_X_SSL_CLIENT_S_DN="CN=Alice,OU=Site,O=Grid",
    )
    browser.sign_in(alice)
    browser.get("/account")
    assert f"<option>{SUBJECT}</option>" in browser.page
    assert browser.post("/account/certificates", subject=SUBJECT, label="laptop").status_code == 302
    assert browser.post("/account/certificates", subject=SUBJECT).status_code == 409
    [row] = certificate_subjects.of(alice)
    assert (row.subject, row.label) == (SUBJECT, "laptop")
    browser.get("/account")
    assert f"<option>{SUBJECT}</option>" not in browser.page
    browser.post(f"/account/certificates/{row.pk}/remove", confirmed="yes")
    assert certificate_subjects.of(alice) == []


@pytest.mark.parametrize(("subject", "status"), [("/CN=Somebody", 403), ("nonsense", 400), ("/CN=" + "x" * 2000, 400)])
def test_a_certificate_of_somebody_else_is_not_added(browser: Browser, subject: str, status: int) -> None:
    assert browser.post("/account/certificates", subject=subject).status_code == status
    assert not CertificateSubject.objects.exists()


def test_the_subject_of_a_credential_in_the_vault_is_offered(browser: Browser, alice: User) -> None:
    Credential.objects.create(
        user=alice, bound_to="myproxy:m:7512", kind="x509", subject=SUBJECT, stored_at=datetime.now(UTC), sealed=b"x"
    )
    browser.get("/account")
    assert f"<option>{SUBJECT}</option>" in browser.page
    assert browser.post("/account/certificates", subject="/o=Grid/ou=Site/cn=Alice").status_code == 302
    assert certificate_subjects.user_of(SUBJECT) == alice


def test_a_new_password_ends_the_other_sessions_and_keeps_this_one(browser: Browser, alice: User) -> None:
    other = Browser()
    other.sign_in(alice)
    new = "a much better one 7"
    assert browser.post("/account/password", old=PASSWORD, new=new, repeated=new).status_code == 302
    assert browser.get("/account").status_code == 200
    assert "Your password is changed." in browser.text
    assert other.get("/account").status_code == 302
    assert password_sign_in.sign_in("alice", Secret(new), "") == alice


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"old": "wrong", "new": "a much better one", "repeated": "a much better one"}, "This is not your password"),
        ({"old": PASSWORD, "new": "a much better one", "repeated": "another"}, "are not the same"),
        ({"old": PASSWORD, "new": "short", "repeated": "short"}, "too short"),
        ({}, "This is not your password"),
    ],
)
def test_a_password_that_does_not_do_changes_nothing(
    browser: Browser, alice: User, fields: dict[str, str], words: str
) -> None:
    assert browser.post("/account/password", **fields).status_code == 400
    assert words in browser.text
    assert password_sign_in.sign_in("alice", Secret(PASSWORD), "") == alice


def test_guesses_of_the_old_password_are_bounded(browser: Browser) -> None:
    new = "a much better one 7"
    for _ in range(password_sign_in.MOST_OF_A_PAIR):
        browser.post("/account/password", old="guess", new=new, repeated=new)
    assert browser.post("/account/password", old=PASSWORD, new=new, repeated=new).status_code == 429
