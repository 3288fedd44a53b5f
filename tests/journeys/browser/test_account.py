"""The account page and sign-in in a real browser: passkeys, a lost password, keyboard, no scripts, German."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browsers.chromium import ENTER, TAB, Chromium
from tests.instance import Api, instance
from tests.journeys.browser.test_pages import browser, check_page
from tests.journeys.conftest import waybill
from tests.servers.mail_server import MailServer
from tests.waiting import eventually

__all__ = ["browser"]
pytestmark = pytest.mark.timeout(240)
_MADE: set[Path] = set()
PASSWORD, NEW = "a password that is hers 1", "another one that is hers 2"


@pytest.fixture(scope="module")
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def service(mail_server: MailServer, give_schema: Callable[[Path], object]) -> Iterator[Api]:
    """An instance that sends mails."""
    with instance(before=give_schema, WAYBILL_MAIL=f"smtp://127.0.0.1:{mail_server.port}?starttls=no") as api:
        yield api


@pytest.fixture(scope="module")
def home(service: Api) -> str:
    """The address at which passkeys work: they belong to a name."""
    return f"http://localhost:{urlsplit(service.url).port}"


@pytest.fixture
def dora(service: Api) -> str:
    """A user with a mail address, and a password and no passkey at the beginning of each test."""
    if service.home not in _MADE:
        waybill(service, "user", "add", "dora", "--email", "dora@example.org")
        _MADE.add(service.home)
    waybill(service, "user", "no-passkeys", "dora")
    words = (sys.executable, "-m", "deploy.cli", "password", "dora")
    given = os.environ | {"WAYBILL_HOME": str(service.home)}
    subprocess.run(words, env=given, input=f"{PASSWORD}\n", text=True, check=True, capture_output=True, timeout=60)
    return "dora"


def sign_in(browser: Chromium, home: str, name: str, password: str = PASSWORD) -> None:
    browser.open(f"{home}/signin?next=/account")
    browser.type("#username", name)
    browser.type("#password", password + ENTER)


def at(browser: Chromium, path: str) -> bool:
    return urlsplit(browser.address).path == path


def sign_out(browser: Chromium) -> None:
    browser.click("header .menu summary")
    browser.click("header .menu button")
    eventually(lambda: at(browser, "/signin"))


def test_a_passkey_is_made_and_signs_in_alone_and_as_second_factor(browser: Chromium, home: str, dora: str) -> None:
    device = browser.authenticator()
    sign_in(browser, home, dora)
    eventually(lambda: at(browser, "/account"))
    browser.type("#passkey-label", "laptop" + ENTER)
    eventually(lambda: browser.shows("The passkey laptop signs you in from now on."))
    [key] = browser.credentials(device)
    assert (key["isResidentCredential"], key["rpId"]) == (True, "localhost")
    check_page(browser)
    browser.resize(1280)

    sign_out(browser)
    check_page(browser)
    browser.resize(1280)
    browser.click("form[data-passkey=sign-in] button")
    eventually(lambda: not at(browser, "/signin"))
    browser.open(f"{home}/account")
    assert browser.shows("with a passkey")

    browser.click("button[name=wanted][value=yes]")
    eventually(lambda: browser.shows("Sign-in asks for a passkey after your password."))
    sign_out(browser)
    sign_in(browser, home, dora)
    eventually(lambda: browser.shows("Your passkey is asked for, too."))
    check_page(browser)
    browser.resize(1280)
    browser.click("form[data-passkey=second] button")
    eventually(lambda: at(browser, "/account"))
    assert browser.shows("with your password and a passkey")

    # A device whose user does not show the finger is refused by the service, and says why.
    sign_out(browser)
    browser.unplug(device)
    browser.authenticator(verifies=False)
    browser.click("form[data-passkey=sign-in] button")
    eventually(lambda: browser.shows("no device has such a passkey"))
    browser.complaints()


def test_an_endpoint_that_demands_a_second_factor_is_reached_by_a_passkey(
    browser: Chromium, home: str, dora: str, service: Api
) -> None:
    endpoint = service.endpoint("guarded", 1)
    service.call("PUT", f"/endpoint/{endpoint}", {"DATA_TYPE": "endpoint", "mfa_required": True})
    browser.authenticator()
    sign_in(browser, home, dora)
    eventually(lambda: at(browser, "/account"))
    browser.type("#passkey-label", "laptop" + ENTER)
    eventually(lambda: browser.shows("The passkey laptop signs you in from now on."))
    browser.open(f"{home}/transfer?origin_id={endpoint}&origin_path=%2F")
    eventually(lambda: browser.shows("by a passkey or by a one-time code after the password"))
    browser.complaints()  # the refusal of the listing
    check_page(browser)
    browser.resize(1280)
    # The password alone does not help.
    browser.click('a[href^="/signin?again=1"]')
    eventually(lambda: at(browser, "/signin"))
    browser.type("#password", PASSWORD + ENTER)
    eventually(lambda: at(browser, "/transfer") and browser.shows("This endpoint asks for another sign-in."))
    browser.click('a[href^="/signin?again=1"]')
    eventually(lambda: at(browser, "/signin"))
    browser.click("form[data-passkey=sign-in] button")
    # The demand is met: now the server is asked, and none is there.
    eventually(lambda: at(browser, "/transfer") and browser.shows("The endpoint did not list this folder."))
    assert not browser.shows("asks for another sign-in")
    browser.complaints()


def test_a_lost_password_without_scripts(browser: Chromium, home: str, dora: str, mail_server: MailServer) -> None:
    browser.scripts(enabled=False)
    browser.open(f"{home}/signin")
    browser.click('a[href="/recover"]')
    browser.type("#name", "dora@example.org" + ENTER)
    assert "a mail is on its way" in browser.text("main")
    eventually(lambda: any("new password" in mail["Subject"] for mail in mail_server.mails))
    text = next(str(mail.get_content()) for mail in mail_server.mails if "new password" in mail["Subject"])
    [path] = re.findall(r"http://[^/\s]+(/recover/link\?code=\S+)", text)
    browser.open(f"{home}{path}")
    assert at(browser, "/recover/password")
    assert "code" not in urlsplit(browser.address).query
    browser.type("#new", NEW)
    browser.type("#repeated", NEW + ENTER)
    assert "Your new password is set" in browser.text("main")
    browser.open(f"{home}{path}")
    assert "This link is over" in browser.text("main")


def test_the_pages_of_the_way_back_fit_and_can_be_read(browser: Chromium, home: str) -> None:
    browser.open(f"{home}/recover")
    check_page(browser)
    browser.type("#name", "nobody" + ENTER)
    eventually(lambda: browser.shows("a mail is on its way"))
    check_page(browser)
    browser.open(f"{home}/recover/link?code=wrong")
    browser.complaints()  # the status
    check_page(browser)


def test_the_account_page_by_keyboard_alone(browser: Chromium, home: str, dora: str) -> None:
    """A refused form has the focus in the field that is wrong, and keeps what was typed."""
    sign_in(browser, home, dora)
    eventually(lambda: at(browser, "/account"))
    browser.run("document.getElementById('webhook-url').focus()")
    browser.press("https://10.0.0.1/x" + ENTER)
    eventually(lambda: browser.run("return document.activeElement?.id") == "webhook-url")
    eventually(lambda: browser.run("return document.activeElement?.getAttribute('aria-invalid')") == "true")
    assert browser.run("return document.activeElement.value") == "https://10.0.0.1/x"
    browser.complaints()
    check_page(browser)
    browser.resize(1280)
    browser.run("document.getElementById('token-label').focus()")
    browser.press("nightly" + TAB + TAB + ENTER)
    eventually(lambda: browser.shows("Your new token"))
    browser.open(f"{home}/account")
    browser.run("document.querySelector('#tokens .danger').focus()")
    browser.press(ENTER)
    eventually(lambda: browser.run("return document.querySelector('dialog') !== null"))
    assert "Scripts that use it stop working at once." in browser.text("dialog")
    browser.click("dialog button.danger")
    eventually(lambda: browser.shows("The token is revoked."))


def test_one_time_codes_are_a_picture_to_scan(browser: Chromium, home: str, dora: str, tmp_path: Path) -> None:
    sign_in(browser, home, dora)
    eventually(lambda: at(browser, "/account"))
    browser.type("#codes-present", PASSWORD + ENTER)
    eventually(lambda: browser.run("return document.querySelector('svg.qr') !== null"))
    check_page(browser)
    width = browser.run("return document.querySelector('svg.qr').getBoundingClientRect().width")
    assert width > 150
    # The secret leaves by no request.
    asked = browser.run("return performance.getEntriesByType('resource').map(one => one.name).join(' ')")
    assert "secret=" not in asked


def test_sign_in_and_account_in_german_fit_too(browser: Chromium, home: str, dora: str) -> None:
    browser.open(f"{home}/signin")
    browser.click("button[name=language][value=de]")
    eventually(lambda: browser.shows("Mit einem Passkey anmelden"))
    check_page(browser)
    sign_in(browser, home, dora)
    eventually(lambda: at(browser, "/account"))
    eventually(lambda: browser.shows("Ihr Konto"))
    check_page(browser)
