"""People of other providers in a real browser: an OpenID provider and a SAML provider that others wrote."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from deploy.stack.free_ports import free_port
from identity.federation import openid
from tests.browsers.chromium import ENTER, Chromium
from tests.identity_providers.institution_site import institution_site
from tests.identity_providers.openid_provider import PASSWORD, OpenIdProvider
from tests.identity_providers.pysaml2_idp import XMLSEC, Pysaml2Idp
from tests.instance import Api, instance
from tests.journeys.browser.test_pages import browser, check_page, sign_in
from tests.memory import folder_in_memory
from tests.waiting import eventually

__all__ = ["browser"]
pytestmark = [
    pytest.mark.real_clients,
    pytest.mark.timeout(300),
    pytest.mark.skipif(XMLSEC is None, reason="needs xmlsec1, which tests/install-tools.sh installs"),
    # pysaml2 warns of functions that it uses itself, and that Python will remove.
    pytest.mark.filterwarnings("ignore"),
]
LAB = "lab.example.org"
SECONDS = 60


@dataclass
class Place:
    """A service whose users may come from two providers."""

    api: Api
    provider: OpenIdProvider
    institution: Pysaml2Idp

    def open(self, browser: Chromium, path: str) -> None:
        browser.open(f"{self.api.url}{path}")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """For files that the instance reads: one that root starts runs as an account of its own."""
    with folder_in_memory("waybill-providers-", 0o755) as folder:
        yield folder


@pytest.fixture(scope="module")
def place(folder: Path, give_schema: Callable[[Path], object]) -> Iterator[Place]:
    port = free_port()
    callback = f"http://127.0.0.1:{port}/signin/with/lab/callback"
    key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "saml.key").write_bytes(key)
    with institution_site(folder) as idp, OpenIdProvider(folder, callback, ("carol", "erin")) as provider:
        (folder / "federation.xml").write_bytes(idp.metadata)
        with instance(
            before=give_schema,
            WAYBILL_PORT=str(port),
            WAYBILL_PROVIDERS=provider.line,
            WAYBILL_ALLOW_PROVIDERS="127.0.0.0/8",
            WAYBILL_SAML_METADATA=str(folder / "federation.xml"),
            WAYBILL_SAML_KEY_FILE=str(folder / "saml.key"),
            WAYBILL_SIGN_UP="open",
        ) as api:
            with urllib.request.urlopen(f"{api.url}/saml/metadata", timeout=30) as answer:
                idp.learn(answer.read())
            yield Place(api, provider, idp)


def at(browser: Chromium, path: str) -> bool:
    return urlsplit(browser.address).path == path


def has(browser: Chromium, css: str) -> bool:
    try:
        browser.find(css)
    except AssertionError:
        return False
    return True


def sign_out(browser: Chromium) -> None:
    browser.click("header .menu summary")
    browser.click("header .menu button")
    eventually(lambda: at(browser, "/signin"), seconds=SECONDS)


def say_who(browser: Chromium, name: str) -> None:
    """Sign in on the pages of the OpenID provider, and consent where it asks."""
    eventually(lambda: has(browser, "#login"), seconds=SECONDS)
    browser.type("#login", name + ENTER)
    eventually(lambda: has(browser, "#password"), seconds=SECONDS)
    browser.type("#password", PASSWORD + ENTER)


def consent(browser: Chromium, place: Place) -> None:
    """Consent where the provider asks: it may know of an earlier consent."""
    eventually(lambda: has(browser, "#accept") or is_here(browser, place), seconds=SECONDS)
    if not is_here(browser, place):
        browser.click("#accept")


def is_here(browser: Chromium, place: Place) -> bool:
    return urlsplit(browser.address).netloc == urlsplit(place.api.url).netloc


def make_account(browser: Chromium, name: str, identity: str) -> None:
    eventually(lambda: browser.shows(f"No account of this service is linked to {identity}."), seconds=SECONDS)
    # The status of the page, and what the pages of the provider lack.
    browser.complaints()
    check_page(browser)
    browser.resize(1280)
    browser.type("#username", name + ENTER)


def test_an_identity_is_linked_signs_in_with_new_keys_and_is_unlinked(browser: Chromium, place: Place) -> None:
    place.open(browser, "/signin?next=/account")
    sign_in(browser, place.api)
    eventually(lambda: at(browser, "/account"), seconds=SECONDS)
    browser.click('form[action="/signin/with/lab"] button')
    say_who(browser, "erin")
    consent(browser, place)
    eventually(lambda: at(browser, "/account") and browser.shows("The identity is linked"), seconds=SECONDS)
    assert browser.shows(f"erin@{LAB}")
    browser.complaints()  # what the pages of the provider lack
    check_page(browser)
    browser.resize(1280)
    sign_out(browser)
    # The provider has new keys, and has forgotten the browser: the new keys are read when they are needed.
    place.provider.restart()
    time.sleep(openid.AGAIN_SECONDS)
    place.open(browser, "/signin?next=/account")
    browser.click('form[action="/signin/with/lab"] button')
    say_who(browser, "erin")
    consent(browser, place)
    eventually(lambda: at(browser, "/account") and browser.shows(place.api.connection["username"]), seconds=SECONDS)
    # A new sign-in is demanded: the provider, which knows the browser, asks again, and says when it has.
    place.open(browser, "/signin?again=1&fresh=required&next=/timers")
    browser.click('form[action="/signin/with/lab"] button')
    eventually(lambda: has(browser, "#password"), seconds=SECONDS)
    browser.type("#password", PASSWORD + ENTER)
    consent(browser, place)
    eventually(lambda: at(browser, "/timers"), seconds=SECONDS)
    place.open(browser, "/account")
    browser.click(f'button[aria-label="Unlink erin@{LAB}"]')
    eventually(lambda: browser.run("return document.querySelector('dialog[open]') !== null"), seconds=SECONDS)
    browser.click("dialog button.danger")
    eventually(lambda: browser.shows("no longer linked"), seconds=SECONDS)
    assert not has(browser, f'[aria-label="Unlink erin@{LAB}"]')
    sign_out(browser)
    place.open(browser, "/signin")
    browser.click('form[action="/signin/with/lab"] button')
    # The provider knows the browser, and the consent.
    eventually(lambda: browser.shows(f"No account of this service is linked to erin@{LAB}."), seconds=SECONDS)


def test_a_refusal_and_an_address_that_nobody_has_proven(browser: Chromium, place: Place) -> None:
    """Canaille says of no address that it is verified: its people make an account by an invitation, or link."""
    place.provider.restart()
    time.sleep(openid.AGAIN_SECONDS)
    place.open(browser, "/signin")
    browser.click('form[action="/signin/with/lab"] button')
    say_who(browser, "carol")
    eventually(lambda: has(browser, "#deny"), seconds=SECONDS)
    browser.click("#deny")
    eventually(lambda: has(browser, "#reason"), seconds=SECONDS)
    assert is_here(browser, place)
    assert "You did not allow it" in browser.text("#reason")
    place.open(browser, "/signin")
    browser.click('form[action="/signin/with/lab"] button')
    consent(browser, place)
    make_account(browser, "carol", f"carol@{LAB}")
    eventually(lambda: browser.shows("Nobody has proven that this mail address is yours."), seconds=SECONDS)


def test_a_person_finds_the_institution_makes_an_account_and_comes_again(browser: Chromium, place: Place) -> None:
    place.open(browser, "/signin?next=/account")
    browser.click('a[href^="/signin/institution"]')
    eventually(lambda: at(browser, "/signin/institution"), seconds=SECONDS)
    check_page(browser)
    browser.type("#q", "example.edu" + ENTER)
    eventually(lambda: has(browser, 'form[action^="/signin/institution/"] button'), seconds=SECONDS)
    check_page(browser)
    browser.click('form[action^="/signin/institution/"] button')
    eventually(lambda: has(browser, "#go"), seconds=SECONDS)
    browser.click("#go")
    make_account(browser, "dave", "dave@example.edu")
    eventually(lambda: at(browser, "/account") and browser.shows("dave@example.edu"), seconds=SECONDS)
    sign_out(browser)
    # The browser remembers the institution.
    place.open(browser, "/signin/institution?next=/account")
    eventually(lambda: browser.shows("Chosen before"), seconds=SECONDS)
    browser.click('form[action^="/signin/institution/"] button')
    eventually(lambda: has(browser, "#go"), seconds=SECONDS)
    browser.click("#go")
    eventually(lambda: at(browser, "/account") and browser.shows("Dave Bowman"), seconds=SECONDS)


#: Makes sessions old, and endpoints demand another sign-in; it runs in the instance.
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
found = Endpoint.objects.filter(name="ep1", owner__username="go")
found.update(public=True, authentication_timeout_mins=60, authentication_domains=["example.edu"])
for row in UserSession.objects.filter(user__isnull=False):
    session = SessionStore(row.session_key)
    session["signed_in_at"] -= 7200
    session.save()
"""


def test_a_demand_for_an_identity_of_the_institution_leads_there_and_back(browser: Chromium, place: Place) -> None:
    place.open(browser, "/signin/institution?q=example.edu&next=/account")
    browser.click('form[action^="/signin/institution/"] button')
    eventually(lambda: has(browser, "#go"), seconds=SECONDS)
    assert not place.institution.forced
    browser.click("#go")
    eventually(lambda: at(browser, "/account") or browser.shows("No account of this service"), seconds=SECONDS)
    if not at(browser, "/account"):
        make_account(browser, "dave", "dave@example.edu")
        eventually(lambda: at(browser, "/account"), seconds=SECONDS)
    environ = os.environ | {"WAYBILL_HOME": str(place.api.home)}
    subprocess.run([sys.executable, "-c", DEMAND], env=environ, check=True, timeout=SECONDS)
    wanted = place.api.connection["endpoints"]["go#ep1"]
    place.open(browser, f"/transfer?origin_id={wanted}&origin_path=%2Fshare%2F")
    eventually(lambda: browser.shows("This endpoint asks for another sign-in."), seconds=SECONDS)
    browser.complaints()  # the status
    browser.click('.pane a[href^="/signin?again=1"]')
    eventually(lambda: browser.shows("Use an identity of example.edu."), seconds=SECONDS)
    check_page(browser)
    browser.resize(1280)
    browser.click('a[href^="/signin/institution"]')
    eventually(lambda: has(browser, 'form[action^="/signin/institution/"] button'), seconds=SECONDS)
    browser.click('form[action^="/signin/institution/"] button')
    eventually(lambda: has(browser, "#go"), seconds=SECONDS)
    assert place.institution.forced
    browser.click("#go")
    eventually(lambda: at(browser, "/transfer"), seconds=SECONDS)
    eventually(lambda: browser.shows("godata"), seconds=SECONDS)
    assert not browser.shows("asks for another sign-in")
    assert wanted in browser.address
