"""People come, are administered and prove again who they are, in a real browser: staff, sign-up, step-up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browsers.chromium import ENTER, Chromium
from tests.instance import Api, instance
from tests.journeys.browser.test_pages import browser, check_page
from tests.journeys.conftest import waybill
from tests.servers.mail_server import MailServer
from tests.waiting import eventually

__all__ = ["browser"]
pytestmark = pytest.mark.timeout(240)
PASSWORD, NEW = "a password of the staff 1", "wet paper on a roof 7"


@pytest.fixture(scope="module")
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def service(mail_server: MailServer, give_schema: Callable[[Path], object]) -> Iterator[Api]:
    """An instance where everybody makes an account, and that sends mails."""
    mail = f"smtp://127.0.0.1:{mail_server.port}?starttls=no"
    with instance(before=give_schema, WAYBILL_MAIL=mail, WAYBILL_SIGN_UP="open") as api:
        waybill(api, "user", "add", "erin", "--staff", "yes")
        words = (sys.executable, "-m", "deploy.cli", "password", "erin")
        given = os.environ | {"WAYBILL_HOME": str(api.home)}
        subprocess.run(words, env=given, input=f"{PASSWORD}\n", text=True, check=True, capture_output=True, timeout=60)
        yield api


def at(browser: Chromium, path: str) -> bool:
    return urlsplit(browser.address).path == path


def sign_in(browser: Chromium, home: str, after: str) -> None:
    """erin of the staff signs in."""
    browser.open(f"{home}/signin?next={after}")
    browser.type("#username", "erin")
    browser.type("#password", PASSWORD + ENTER)
    eventually(lambda: at(browser, after))


def says(browser: Chromium, words: str) -> bool:
    """As `shows`, where no script runs."""
    try:
        return words in browser.text("main")
    except AssertionError:
        return False


def test_staff_use_their_pages_in_german(browser: Chromium, service: Api) -> None:
    browser.open(f"{service.url}/signin")
    browser.click("button[name=language][value=de]")
    eventually(lambda: browser.shows("Benutzername"))
    sign_in(browser, service.url, "/console/invitations")
    browser.type("#email", "a-very-long-name-of-a-person-who-comes@department.example.org" + ENTER)
    eventually(lambda: browser.shows("Die Einladung ist erstellt"))
    check_page(browser)
    browser.resize(1280)
    browser.click(".data button.danger")
    eventually(lambda: browser.run("return document.querySelector('dialog') !== null"))
    assert "Diese Einladung zurückziehen?" in browser.text("dialog")
    browser.click("dialog button.danger")
    eventually(lambda: browser.shows("Die Einladung ist zurückgezogen."))
    check_page(browser)
    browser.open(f"{service.url}/console/users?q=erin")
    check_page(browser)
    browser.resize(1280)
    browser.click('.data a[href$="/sessions"]')
    eventually(lambda: browser.shows("Sitzungen von erin"))
    check_page(browser)
    browser.open(f"{service.url}/console/audit?user=erin&since=2020-01-31T12:00")
    assert browser.shows("Einladung zurückgezogen")
    check_page(browser)
    browser.open(f"{service.url}/console/audit?since=yesterday")
    [status] = browser.complaints()
    assert "400" in status
    check_page(browser)


def test_the_pages_of_staff_work_without_scripts(browser: Chromium, service: Api) -> None:
    browser.scripts(enabled=False)
    sign_in(browser, service.url, "/console/invitations")
    browser.type("#days", ENTER)
    eventually(lambda: says(browser, "Send this link to the person"))
    browser.click(".data button.danger")
    eventually(lambda: says(browser, "Withdraw this invitation?"))
    browser.click("button.main.danger")
    eventually(lambda: says(browser, "The invitation is withdrawn."))
    browser.open(f"{service.url}/console/audit")
    browser.type("#user", "erin" + ENTER)
    eventually(lambda: at(browser, "/console/audit") and "user=erin" in browser.address)
    eventually(lambda: says(browser, "Invitation withdrawn"))
    browser.open(f"{service.url}/console/users?q=erin")
    browser.click('.data a[href$="/sessions"]')
    eventually(lambda: says(browser, "Sessions of erin"))
    browser.click("form.panel button.danger")
    eventually(lambda: says(browser, "End all sessions of erin?"))
    browser.click("button.main.danger")
    eventually(lambda: at(browser, "/signin"))


def test_a_person_signs_up_from_the_mail_to_the_first_page(
    browser: Chromium, service: Api, mail_server: MailServer
) -> None:
    browser.open(f"{service.url}/signin")
    browser.click('a[href="/signup"]')
    eventually(lambda: at(browser, "/signup"))
    check_page(browser)
    browser.type("#email", "frank@example.org" + ENTER)
    eventually(lambda: browser.shows("A mail is on its way"))
    check_page(browser)

    def text() -> str:
        return next((str(mail.get_content()) for mail in mail_server.mails if "frank" in str(mail["To"])), "")

    eventually(lambda: "/signup/link" in text())
    [path] = re.findall(r"http://[^/\s]+(/signup/link\?code=\S+)", text())
    browser.open(f"{service.url}{path}")
    eventually(lambda: at(browser, "/signup/account"))
    assert "code" not in urlsplit(browser.address).query
    check_page(browser)
    browser.type("#username", "frank")
    browser.type("#new", NEW)
    browser.type("#repeated", NEW + ENTER)
    eventually(lambda: browser.shows("Your account frank is ready."))
    browser.type("#password", NEW + ENTER)
    eventually(lambda: not at(browser, "/signin"))
    browser.open(f"{service.url}/account")
    assert browser.shows("Your account")
    # The link serves once.
    browser.open(f"{service.url}{path}")
    eventually(lambda: browser.shows("This link is over"))


# Demands a sign-in of the last hour at the sample endpoint, and makes all sessions of the pages two hours old.
DEMAND = """
import os
from deploy.stack.embedded import use_embedded_stack
use_embedded_stack()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
import django
django.setup()
from endpoints.models import Endpoint
from identity.models import UserSession
from identity.sessions import SessionStore
Endpoint.objects.filter(name="ep1", owner__username="go").update(authentication_timeout_mins=60)
for row in UserSession.objects.filter(user__isnull=False):
    session = SessionStore(row.session_key)
    session["signed_in_at"] -= 7200
    session.save()
"""


def test_a_user_meets_the_demand_of_an_endpoint_and_goes_on(browser: Chromium, service: Api) -> None:
    name, password = service.connection["username"], service.connection["password"]
    place = f"/transfer?origin_id={service.connection['endpoints']['go#ep1']}&origin_path=%2Fshare%2F"
    browser.open(f"{service.url}/signin")
    browser.type("#username", name)
    browser.type("#password", password + ENTER)
    eventually(lambda: not at(browser, "/signin"))
    browser.open(service.url + place)
    eventually(lambda: browser.shows("godata"))
    environ = os.environ | {"WAYBILL_HOME": str(service.home)}
    subprocess.run([sys.executable, "-c", DEMAND], env=environ, check=True, timeout=60)
    browser.open(service.url + place)
    eventually(lambda: browser.shows("This endpoint asks for another sign-in."))
    browser.complaints()  # the status
    check_page(browser)
    browser.resize(1280)
    browser.click('.pane a[href^="/signin?again=1"]')
    eventually(lambda: browser.shows("needs that you sign in once more"))
    check_page(browser)
    browser.type("#password", password + ENTER)
    eventually(lambda: at(browser, "/transfer"))
    eventually(lambda: browser.shows("godata"))
    assert not browser.shows("asks for another sign-in")
    assert service.connection["endpoints"]["go#ep1"] in browser.address
