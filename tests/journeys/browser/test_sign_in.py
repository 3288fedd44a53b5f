"""Sign-in by another service in a real browser: a MyProxy server's name and passphrase, linked and unlinked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deploy.endpoint.authority import CertificateFiles
from tests.browsers import accessibility
from tests.browsers.chromium import ENTER, Chromium
from tests.gridftp.authority import Authority
from tests.gridftp.myproxy import MyProxyServer
from tests.instance import Api, instance
from tests.journeys.browser.test_pages import browser, check_page, sign_in
from tests.waiting import eventually

__all__ = ["browser"]
pytestmark = [pytest.mark.timeout(240), pytest.mark.toolkit]
PASSPHRASE, NAME = "correct horse of myproxy", "alice@grid.example.org"


@pytest.fixture
def service(
    myproxy_server: MyProxyServer,
    identity_of: Callable[..., CertificateFiles],
    authority: Authority,
    give_schema: Callable[[Path], object],
) -> Iterator[Api]:
    """An instance whose users may sign in by a MyProxy server, which has a proxy of alice's."""
    myproxy_server.keep("alice", PASSPHRASE, identity_of("alice"), hours=3)
    with instance(
        before=give_schema,
        WAYBILL_CERTIFICATES=str(authority.certificates),
        WAYBILL_MYPROXY_SIGN_IN=f"localhost:{myproxy_server.port} name=grid domain=grid.example.org label=The Grid",
        WAYBILL_ALLOW_PROVIDERS="127.0.0.0/8,::1/128",
    ) as api:
        yield api


def at(browser: Chromium, path: str) -> bool:
    return urlsplit(browser.address).path == path


def enter(browser: Chromium, passphrase: str = PASSPHRASE) -> None:
    browser.type("#username", "alice")
    browser.type("#passphrase", passphrase + ENTER)


def test_a_myproxy_identity_is_linked_signs_in_and_is_unlinked(browser: Chromium, service: Api) -> None:
    browser.open(f"{service.url}/signin?next=/account")
    check_page(browser)
    sign_in(browser, service)
    eventually(lambda: at(browser, "/account"))
    browser.click('a[href="/signin/myproxy/grid?link=1"]')
    eventually(lambda: browser.shows("Link an identity of The Grid"))
    check_page(browser)
    enter(browser)
    eventually(lambda: at(browser, "/account") and browser.shows(NAME))
    check_page(browser)
    browser.click("header .menu summary")
    browser.click("header .menu button")
    eventually(lambda: at(browser, "/signin"))
    browser.open(f"{service.url}/signin?next=/account")
    browser.click("button[name=language][value=de]")
    eventually(lambda: browser.shows("Mit The Grid anmelden"))
    browser.click('a[href^="/signin/myproxy/grid"]')
    eventually(lambda: browser.shows("und wird nicht gespeichert"))
    check_page(browser)
    enter(browser, "a wrong passphrase")
    eventually(lambda: browser.shows("nicht angenommen"))
    assert accessibility.faults(browser) == []
    assert all("status of 400" in one for one in browser.complaints())
    browser.type("#passphrase", PASSPHRASE + ENTER)
    eventually(lambda: at(browser, "/account"))
    browser.click(f'button[aria-label="{NAME} trennen"]')
    eventually(lambda: browser.run("return document.querySelector('dialog[open]') !== null"))
    browser.click("dialog button.danger")
    eventually(lambda: not browser.shows(NAME))
