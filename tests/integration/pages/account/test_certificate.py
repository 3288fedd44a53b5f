"""Sign-in to the pages by a certificate that the browser shows, as a front server reports it."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from identity import certificate_subjects, sign_up
from identity.hidden import Secret
from identity.models import AuditEvent, Invitation, User
from identity.sign_up_policy import parse
from tests.integration.pages import PASSWORD, Browser
from webui.sign_in import certificate

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
SUBJECT, SECRET = "/O=Grid/OU=Site/CN=Alice", "f" * 40
BUTTON = 'action="/signin/certificate"'


@pytest.fixture(autouse=True)
def front(settings: Any) -> None:
    settings.FRONT_SERVERS, settings.FRONT_SECRET = (ip_network("10.0.0.0/24"),), Secret(SECRET)


def browser_with(name: str = "CN=Alice,OU=Site,O=Grid", **more: str) -> Browser:
    told = {
        "HTTP_X_WAYBILL_FRONT_SECRET": SECRET,
        "REMOTE_ADDR": "10.0.0.1",
        "HTTP_X_SSL_CLIENT_VERIFY": "SUCCESS",
        "HTTP_X_SSL_CLIENT_S_DN": name,
    }
    return Browser(**{**told, **more})


@pytest.fixture
def registered(alice: User) -> User:
    certificate_subjects.add(alice, SUBJECT, proven=[SUBJECT])
    return alice


def user_in(browser: Browser) -> str | None:
    return browser.client.session.get("_auth_user_id")


def test_who_has_registered_the_subject_is_signed_in(registered: User) -> None:
    browser = browser_with()
    browser.get("/signin?next=/timers")
    assert BUTTON in browser.page
    assert SUBJECT in browser.text
    before = browser.client.session.session_key
    answer = browser.post("/signin/certificate", next="/timers")
    assert (answer.status_code, answer["Location"]) == (302, "/timers")
    assert user_in(browser) == str(registered.pk)
    assert browser.client.session.session_key != before
    browser.get("/account")
    assert "with a certificate" in browser.text
    assert AuditEvent.objects.filter(user_id=registered.pk, what="signed_in", way="certificate").count() == 1


def test_a_subject_that_nobody_has_added_signs_nobody_in(alice: User) -> None:
    browser = browser_with()
    browser.get("/signin")
    answer = browser.post("/signin/certificate")
    assert answer.status_code == 403
    assert "This certificate is not known here" in browser.text
    assert SUBJECT in browser.text
    assert "add the subject of this certificate on your account page" in browser.text
    assert "/signin/certificate/account" not in browser.page
    assert user_in(browser) is None
    assert AuditEvent.objects.filter(what="sign_in_refused", way="certificate").count() == 1


@pytest.mark.parametrize(
    "told",
    [
        {"HTTP_X_WAYBILL_FRONT_SECRET": "a guess"},
        {"REMOTE_ADDR": "192.0.2.1"},
        {"HTTP_X_SSL_CLIENT_VERIFY": "FAILED:self-signed certificate"},
        {"HTTP_X_SSL_CLIENT_VERIFY": "NONE"},
        {"HTTP_X_SSL_CLIENT_S_DN": ""},
        {"HTTP_X_SSL_CLIENT_S_DN": "CN=" + "x" * 5000},
        {"HTTP_X_SSL_CLIENT_S_DN": "no name"},
    ],
)
def test_a_certificate_that_no_front_server_has_verified_is_none(registered: User, told: dict[str, str]) -> None:
    browser = browser_with(**told)
    browser.get("/signin")
    assert BUTTON not in browser.page
    answer = browser.post("/signin/certificate")
    assert answer.status_code == 403
    assert certificate.NOT_SHOWN in browser.text
    assert user_in(browser) is None


@pytest.mark.parametrize("path", ["/signin/certificate", "/signin/certificate/account"])
def test_an_inactive_user_is_not_signed_in_and_gets_no_second_account(
    registered: User, invited: Browser, path: str
) -> None:
    User.objects.filter(pk=registered.pk).update(is_active=False)
    invited.get("/signin")
    assert invited.post(path, username="alice2").status_code in (403, 409)
    assert user_in(invited) is None
    assert not User.objects.filter(username="alice2").exists()
    assert Invitation.objects.get().used_at is None


# ---- an account by a certificate


@pytest.fixture
def invited(settings: Any) -> Browser:
    """A browser with a certificate that nobody has registered, and an invitation for anybody."""
    settings.SIGN_UP = parse("invitation")
    browser = browser_with()
    browser.get(f"/signup/invitation?code={_code(None)}")
    return browser


def _code(email: str | None) -> str:
    return sign_up.invite(None, email or "")[1].value.partition("code=")[2]


def test_an_invited_person_makes_an_account_and_signs_in_by_the_certificate(invited: Browser) -> None:
    invited.get("/signin?next=/timers")
    assert invited.post("/signin/certificate", next="/timers").status_code == 403
    assert 'action="/signin/certificate/account"' in invited.page
    assert invited.post("/signin/certificate/account", next="/timers", username="No Name").status_code == 400
    assert 'value="No Name"' in invited.page
    answer = invited.post("/signin/certificate/account", next="/timers", username="grid.alice")
    user = User.objects.get(username="grid.alice")
    assert (answer.status_code, answer["Location"], user_in(invited)) == (302, "/timers", str(user.pk))
    assert (user.email, user.has_usable_password()) == ("", False)
    assert [row.subject for row in certificate_subjects.of(user)] == [SUBJECT]
    assert Invitation.objects.get().used_by == user
    assert AuditEvent.objects.filter(user_id=user.pk, what="signed_up").exists()
    again = browser_with()
    again.get("/signin")
    again.post("/signin/certificate")
    assert user_in(again) == str(user.pk)


@pytest.mark.parametrize("rule", ["closed", "open", "domain:example.org", "invitation"])
def test_without_an_invitation_a_certificate_makes_no_account(db: None, settings: Any, rule: str) -> None:
    settings.SIGN_UP = parse(rule)
    browser = browser_with()
    browser.get("/signin")
    browser.post("/signin/certificate")
    assert ("you need an invitation" in browser.text) == (rule != "closed")
    assert browser.post("/signin/certificate/account", username="grid.alice").status_code in (400, 403)
    assert not User.objects.filter(username="grid.alice").exists()
    assert user_in(browser) is None


def test_an_invitation_for_an_address_is_not_for_a_certificate(db: None, settings: Any) -> None:
    settings.SIGN_UP = parse("invitation")
    browser = browser_with()
    browser.get(f"/signup/invitation?code={_code('alice@example.org')}")
    browser.get("/signin")
    browser.post("/signin/certificate")
    assert browser.post("/signin/certificate/account", username="grid.alice").status_code in (400, 403)
    assert not User.objects.filter(username="grid.alice").exists()


@pytest.mark.parametrize("told", [{"HTTP_X_SSL_CLIENT_VERIFY": "NONE"}, {"HTTP_X_WAYBILL_FRONT_SECRET": "a guess"}])
def test_without_an_accepted_certificate_no_account_is_made(invited: Browser, told: dict[str, str]) -> None:
    invited.get("/signin")
    invited.client.defaults.update(told)
    assert invited.post("/signin/certificate/account", username="grid.alice").status_code == 403
    assert not User.objects.filter(username="grid.alice").exists()


def test_a_page_of_another_site_makes_no_account(invited: Browser) -> None:
    assert invited.client.post("/signin/certificate/account", {"username": "grid.alice"}).status_code == 403
    assert not User.objects.filter(username="grid.alice").exists()


def test_the_last_way_to_sign_in_is_not_removed(invited: Browser) -> None:
    invited.get("/signin")
    invited.post("/signin/certificate/account", username="grid.alice")
    user = User.objects.get(username="grid.alice")
    [row] = certificate_subjects.of(user)
    invited.get("/account")
    assert invited.post(f"/account/certificates/{row.pk}/remove", confirmed="yes").status_code == 409
    assert "You could not sign in any more." in invited.text
    user.set_password(PASSWORD)
    user.save()
    certificate_subjects.remove(User.objects.get(pk=user.pk), row.pk)
    assert not certificate_subjects.of(user)


def test_a_page_of_another_site_signs_nobody_in(registered: User) -> None:
    """The browser sends the certificate with any request: only a form of this site begins a session."""
    browser = browser_with()
    answer = browser.client.post("/signin/certificate", {"next": "/"})
    assert answer.status_code == 403
    assert user_in(browser) is None
    assert browser.client.get("/signin/certificate").status_code == 405


def test_the_session_of_another_user_ends(registered: User, bob: User) -> None:
    browser = browser_with()
    browser.sign_in(bob, PASSWORD)
    browser.get("/signin?again=1")
    browser.post("/signin/certificate", next="//elsewhere.example/")
    assert user_in(browser) == str(registered.pk)
    assert not str(browser.client.session.get("signed_in_with"))


def test_nobody_is_led_elsewhere(registered: User) -> None:
    browser = browser_with()
    browser.get("/signin")
    answer = browser.post("/signin/certificate", next="https://elsewhere.example/")
    assert answer["Location"].startswith("/")
    assert not answer["Location"].startswith("//")
