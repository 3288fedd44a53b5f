"""The browser that all tests of a process share is a new one for each of them."""

from __future__ import annotations

from tests.browsers.chromium import Chromium
from tests.journeys.browser.test_pages import browser, listener

__all__ = ["browser", "listener"]
STATE = """
return [document.cookie, localStorage.length, sessionStorage.length, (await indexedDB.databases()).length,
        matchMedia("(prefers-color-scheme: dark)").matches, innerWidth === 320, history.length];
"""


def state(browser: Chromium) -> object:
    done = "const done = arguments[arguments.length - 1];"
    return browser.run_until_done(f"{done} (async () => {{ {STATE} }})().then(done, error => done(String(error)));")


def test_nothing_of_a_test_is_left_for_the_next_one(browser: Chromium, listener: list[str]) -> None:
    browser.open(listener[0])
    fresh = state(browser)
    browser.run("""
        document.cookie = "left=1; max-age=3600";
        localStorage.left = sessionStorage.left = "1";
        indexedDB.open("left");
    """)
    browser.open(f"{listener[0]}/another")
    browser.prefer("dark")
    browser.resize(320)
    assert state(browser) == ["left=1", 1, 1, 1, True, True, 3]
    browser.network(offline=True)
    browser.scripts(enabled=False)
    browser.authenticator()
    browser.renew()
    browser.open(listener[0])
    assert state(browser) == fresh
    assert fresh == ["", 0, 0, 0, False, False, 2]
    assert len(browser.windows) == 1
    browser.authenticator()
