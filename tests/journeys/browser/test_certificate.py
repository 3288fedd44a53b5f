"""Sign-in by a real certificate in a real browser, behind our nginx that asks for it: an account, and the way back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.free_ports import free_port
from tests.browsers import accessibility, chromium, client_certificates
from tests.browsers.chromium import ENTER, Chromium
from tests.gridftp.authority import Authority
from tests.instance import Api, instance
from tests.journeys.browser.test_pages import check_page
from tests.journeys.conftest import waybill
from tests.servers.front_server import Nginx
from tests.servers.front_server import installed as nginx_installed
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(240)
SECRET = "f" * 40
NEEDS = "needs Chromium, certutil and nginx (tests/install-browser.sh, tests/install-nginx.sh)"


@dataclass
class Place:
    """A service behind a front server that asks browsers for a certificate of this authority."""

    api: Api
    url: str
    authority: Authority
    settings: dict[str, str]


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory,
    give_schema: Callable[[Path], object],
    host_of: Callable[[Authority], CertificateFiles],
) -> Iterator[Place]:
    if os.geteuid() != 0:
        pytest.skip("only root may write the policy of Chromium by which it chooses a certificate")
    there = (chromium.installed(), accessibility.AXE.exists(), client_certificates.installed(), nginx_installed())
    if not all(there):
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(NEEDS)
    authority = Authority(tmp_path_factory.mktemp("site"), name="Site Authority", namespace="/O=Site")
    authority.revoke()
    web, front = free_port(), free_port()
    url = f"https://localhost:{front}"
    settings = {
        "WAYBILL_PORT": str(web),
        "WAYBILL_PUBLIC_URL": url,
        "WAYBILL_FRONT_SERVERS": "127.0.0.1/32",
        "WAYBILL_FRONT_SECRET": SECRET,
        "WAYBILL_SIGN_UP": "invitation",
    }
    given = {"FRONT_MODE": "tls-with-certificates", "FRONT_SECRET": SECRET, "REQUEST_SECONDS": "60"}
    with ExitStack() as running:
        api = running.enter_context(instance(settings, before=give_schema))
        nginx = Nginx.of_the_product(front, **given, WEB=f"127.0.0.1:{web}")
        (nginx.folder / "tls").mkdir()
        files = {
            "certificate.pem": host_of(authority).certificate,
            "key.pem": host_of(authority).key,
            "authorities.pem": next(authority.certificates.glob("*.0")),
            "revoked.pem": next(authority.certificates.glob("*.r0")),
        }
        for name, path in files.items():
            (nginx.folder / "tls" / name).write_bytes(path.read_bytes())
        running.enter_context(nginx)
        yield Place(api, url, authority, settings)


def at(browser: Chromium, path: str) -> bool:
    return urlsplit(browser.address).path == path


def test_an_invited_person_makes_an_account_by_a_certificate_and_comes_back_by_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command reads the settings of the service.
    for name in ("WAYBILL_PUBLIC_URL", "WAYBILL_SIGN_UP"):
        monkeypatch.setenv(name, place.settings[name])
    alice = place.authority.issue_user("alice")
    home = client_certificates.home_with(tmp_path / "home", alice, place.authority)
    with client_certificates.chooses(place.url), Chromium(tmp_path, home) as browser:
        browser.open(f"{place.url}/signin?next=/account")
        eventually(lambda: browser.shows(alice.subject))
        browser.click('form[action="/signin/certificate"] button')
        eventually(lambda: browser.shows("you need an invitation"))
        [status] = browser.complaints()
        assert "403" in status
        check_page(browser)
        browser.open(waybill(place.api, "invite").strip())
        eventually(lambda: at(browser, "/signup"))
        browser.open(f"{place.url}/signin?next=/account")
        browser.click('form[action="/signin/certificate"] button')
        eventually(lambda: browser.shows("If you have none, make one"))
        browser.complaints()
        check_page(browser)
        browser.resize(1280)
        browser.type("#username", "grid.alice" + ENTER)
        eventually(lambda: at(browser, "/account"))
        assert browser.shows(alice.subject)
        browser.click("header .menu summary")
        browser.click("header .menu button")
        eventually(lambda: at(browser, "/signin"))
        browser.open(f"{place.url}/signin?next=/account")
        browser.click('form[action="/signin/certificate"] button')
        eventually(lambda: at(browser, "/account"))
        assert "grid.alice" in browser.text("header")
        assert "with a certificate" in browser.text("#sessions")


def test_a_certificate_of_an_authority_that_is_not_trusted_is_not_shown(place: Place, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", name="Other", namespace="/O=Other")
    stranger = other.issue_user("stranger")
    home = client_certificates.home_with(tmp_path / "home", stranger, place.authority)
    with client_certificates.chooses(place.url), Chromium(tmp_path / "stranger", home) as browser:
        browser.open(f"{place.url}/signin")
        eventually(lambda: browser.shows("User name"))
        assert not browser.shows("Sign in with your certificate")
