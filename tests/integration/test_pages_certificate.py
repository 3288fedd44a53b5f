"""Sign-in to the pages by a certificate that the browser shows, as a front server reports it."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from identity import certificate_subjects
from identity.audit.models import AuditEvent
from identity.hidden import Secret
from identity.models import User
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
    assert certificate.NOT_REGISTERED in browser.text
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


def test_an_inactive_user_is_not_signed_in(registered: User) -> None:
    User.objects.filter(pk=registered.pk).update(is_active=False)
    browser = browser_with()
    browser.get("/signin")
    assert browser.post("/signin/certificate").status_code == 403
    assert user_in(browser) is None


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
