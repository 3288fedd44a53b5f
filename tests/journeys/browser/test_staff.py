"""The page of a user in a real browser: staff add a user, who comes by the mail; and help one who has lost a device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial

import pytest

from tests.browsers.chromium import ENTER, Chromium
from tests.instance import Api
from tests.journeys.browser.test_pages import browser, check_page
from tests.journeys.browser.test_people import NEW, at, mail_server, says, service, sign_in
from tests.journeys.conftest import waybill
from tests.servers.mail_server import MailServer
from tests.waiting import eventually

__all__ = ["browser", "mail_server", "service"]
pytestmark = pytest.mark.timeout(240)
#: Gives a user an identity of a provider, a passkey, an API token and an ssh key.
WAYS = """
import os, sys, time
from deploy.stack.embedded import use_embedded_stack
use_embedded_stack()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
import django
django.setup()
from identity import tokens
from identity import linked_identities
from identity.proven_identities import Proven
from identity.models import Passkey, User
user = User.objects.get(username=sys.argv[1])
name = f"{user.username}.of-a-department-with-a-long-name@physics.uni.example.edu"
issuer = "saml:https://idp.physics.uni.example.edu/idp/shibboleth/with/a/long/path"
linked_identities.link(user, Proven.of(issuer, user.username, name, time.time(), name="Gina Gauss"), time.time())
Passkey.objects.create(user=user, label="a key on the ring", credential_id=user.pk.bytes, public_key=b"2")
tokens.make(user, "nightly")
"""


def user_page(browser: Chromium, service: Api, name: str) -> None:
    browser.open(f"{service.url}/console/users?q={name}")
    browser.click(".data th a")
    eventually(lambda: says(browser, "Ways to sign in"))


def test_staff_add_a_user_who_comes_by_the_mail(browser: Chromium, service: Api, mail_server: MailServer) -> None:
    sign_in(browser, service.url, "/console/users")
    browser.click("#add summary")
    browser.type("#username", "gina")
    browser.type("#email", "gina@example.org")
    browser.type("#full_name", "Gina Gauss" + ENTER)
    eventually(lambda: browser.shows("has no way to sign in yet"))
    browser.click('form[action$="/recovery"] button')
    eventually(lambda: "Send a link for a new password?" in browser.text("dialog"))
    browser.click("dialog button.danger")
    eventually(lambda: browser.shows("The mail is on its way to gina@example.org."))
    check_page(browser)

    def text() -> str:
        return next((str(mail.get_content()) for mail in mail_server.mails if "gina" in str(mail["To"])), "")

    eventually(lambda: "/recover/link" in text())
    [path] = re.findall(r"http://[^/\s]+(/recover/link\?code=\S+)", text())
    browser.open(f"{service.url}/account")
    browser.click("header details summary")
    browser.click('form[action="/signout"] button')
    eventually(lambda: not at(browser, "/account"))
    browser.open(f"{service.url}{path}")
    browser.type("#new", NEW)
    browser.type("#repeated", NEW + ENTER)
    eventually(lambda: at(browser, "/signin"))
    browser.type("#username", "gina")
    browser.type("#password", NEW + ENTER)
    eventually(lambda: not at(browser, "/signin"))


def test_staff_see_and_end_the_ways_of_a_user_to_sign_in(browser: Chromium, service: Api) -> None:
    waybill(service, "user", "add", "hana", "--email", "hana@example.org")
    environ = os.environ | {"WAYBILL_HOME": str(service.home)}
    subprocess.run([sys.executable, "-c", WAYS, "hana"], env=environ, check=True, timeout=60)
    browser.open(f"{service.url}/signin")
    browser.click("button[name=language][value=de]")
    eventually(lambda: browser.shows("Benutzername"))
    sign_in(browser, service.url, "/console/users")
    browser.open(f"{service.url}/console/users?q=hana")
    browser.click(".data th a")
    eventually(lambda: browser.shows("verknüpfte Identität"))
    check_page(browser)
    browser.resize(1280)
    browser.click('form[action$="/unlink"] button')
    eventually(lambda: "Diese Identität trennen?" in browser.text("dialog"))
    browser.click("dialog button.danger")
    eventually(lambda: browser.shows("Die Identität ist nicht mehr verknüpft."))
    browser.click("#about summary")
    browser.click("#end button.danger")
    eventually(lambda: browser.shows("hana darf sich nicht mehr anmelden."))
    browser.click("#end summary")
    check_page(browser)


def test_the_page_of_a_user_works_without_scripts(browser: Chromium, service: Api) -> None:
    waybill(service, "user", "add", "ivan")
    environ = os.environ | {"WAYBILL_HOME": str(service.home)}
    subprocess.run([sys.executable, "-c", WAYS, "ivan"], env=environ, check=True, timeout=60)
    browser.scripts(enabled=False)
    sign_in(browser, service.url, "/console/users")
    user_page(browser, service, "ivan")
    for form, question, done in (
        ("/passkeys", "Remove all passkeys of this user?", "The passkeys are removed."),
        ("/unlink", "Unlink this identity?", "The identity is no longer linked."),
        ("/revoke", "Revoke this token?", "The token is revoked."),
    ):
        browser.click(f'form[action$="{form}"] button')
        eventually(partial(says, browser, question))
        browser.click("button.main.danger")
        eventually(partial(says, browser, done))
    assert says(browser, "No program acts for this user.")
    browser.click("#end form button")
    eventually(lambda: says(browser, "ivan may not sign in any more."))
    browser.click("#end summary")
    browser.type("#confirm-name", "ivan" + ENTER)
    eventually(lambda: says(browser, "The user ivan was deleted."))
