"""The pages in a real browser: they fit, can be read, need no mouse, and lead where their policy lets them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

from tests.browsers import accessibility
from tests.browsers.chromium import ENTER, Chromium
from tests.instance import Api
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(240)

#: Texts with less contrast to what is behind them than WCAG AA asks for.
HARD_TO_READ = """
const parts = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
const light = c => { const [r, g, b] = parts(c).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = e => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor; if (parts(c)[3] === 1) return c; } return "rgb(255, 255, 255)"; };
const found = [];
for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(e.outerHTML.slice(0, 200));
}
return found;
"""
#: The elements that reach beyond the window.
TOO_WIDE = """return [...document.querySelectorAll("main *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth)
  .map((one) => `${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 40)}`).slice(0, 9)"""
WIDTH = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@pytest.fixture
def browser(shared_browser: Chromium) -> Chromium:
    shared_browser.renew()
    return shared_browser


@pytest.fixture
def listener() -> Iterator[list[str]]:
    """A program on the user's machine that waits for its answer; the last entry is what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"thank you")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Not to the output of the tests."""

    with HTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        asked.append(f"http://localhost:{server.server_port}")
        yield asked
        server.shutdown()
        thread.join(60)


def sign_in(browser: Chromium, service: Api) -> None:
    """Sign in with the keyboard alone: the name field has the focus."""
    browser.type("#username", service.connection["username"])
    browser.type("#password", service.connection["password"] + ENTER)


def check_page(browser: Chromium) -> None:
    """It fits into 320 px, can be read in both colour schemes, has no fault that axe finds, and breaks no policy."""
    assert accessibility.faults(browser) == []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        assert browser.run(HARD_TO_READ) == []
        for width in (320, 768, 1280):
            browser.resize(width)
            needed, there = browser.run(WIDTH)
            assert needed <= there, (browser.address, scheme, width, browser.run(TOO_WIDE))
    assert browser.complaints() == []


def test_the_pages_fit_can_be_read_and_break_no_policy(browser: Chromium, service: Api) -> None:
    browser.open(service.url)
    assert browser.shows("Move research data")
    check_page(browser)
    browser.open(f"{service.url}/account")
    assert urlsplit(browser.address).path == "/signin"
    check_page(browser)
    assert browser.run("return document.activeElement.id") == "username"
    sign_in(browser, service)
    eventually(lambda: urlsplit(browser.address).path == "/account")
    check_page(browser)
    browser.type(
        "#token-label", "a label that is so long that it would need more than the width of a telephone" + ENTER
    )
    eventually(lambda: browser.shows("only time"))
    check_page(browser)
    browser.open(f"{service.url}/v2/web/auth-code?code={'x' * 40}")
    check_page(browser)
    browser.open(f"{service.url}/v2/web/auth-code?error=access_denied")
    assert browser.shows("You did not allow it")
    browser.complaints()  # the status
    browser.open(f"{service.url}/account")
    browser.click(".menu summary")
    browser.click(".menu button")
    eventually(lambda: urlsplit(browser.address).path == "/signin")


@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_an_answer_gets_to_the_program_that_asked(
    browser: Chromium, service: Api, listener: list[str], answer: str
) -> None:
    browser.open(f"{service.url}/signin?next={quote('/account')}")
    sign_in(browser, service)
    eventually(lambda: urlsplit(browser.address).path == "/account")
    browser.type("#app-name", "a program")
    browser.type("#app-redirects", listener[0] + ENTER)
    eventually(lambda: browser.shows("Client secret"))
    client_id = browser.run("return document.getElementById('shown-1').value")
    question = {"client_id": client_id, "redirect_uri": listener[0], "response_type": "code", "prompt": "login"}
    browser.open(f"{service.url}/v2/oauth2/authorize?{urlencode(question)}")
    assert browser.shows("sign in once more")
    browser.type("#password", service.connection["password"] + ENTER)
    eventually(lambda: browser.shows("asks to act for you"))
    check_page(browser)
    browser.click(f"button[value={answer}]")
    eventually(lambda: len(listener) > 1)
    told = parse_qs(urlsplit(listener[1]).query)
    assert ("code" in told, "error" in told) == (answer == "allow", answer == "deny")
