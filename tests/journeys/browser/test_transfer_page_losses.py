"""The Transfer page after a sign-out elsewhere, without a connection, and with a selection that a filter hides."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browsers.chromium import Chromium
from tests.instance import Api
from tests.journeys.browser.test_pages import sign_in
from tests.journeys.browser.test_transfer_page import (
    LEFT,
    RIGHT,
    browser,
    names,
    ready,
    said,
    show,
    sides,
    toast,
    window,
)
from tests.journeys.conftest import Site
from tests.waiting import eventually

__all__ = ["browser", "sides", "window"]
pytestmark = pytest.mark.timeout(240)

LOST = "The connection to Waybill is lost"
SIGN_OUT = """
const done = arguments[arguments.length - 1];
const token = document.querySelector("form[action='/signout'] [name=csrfmiddlewaretoken]").value;
fetch("/signout", {method: "POST", body: new URLSearchParams({csrfmiddlewaretoken: token}), redirect: "manual"})
    .then(() => done(true));
"""


def banners(browser: Chromium) -> str:
    return str(browser.run("return document.querySelector('#banners').innerText"))


def test_a_lost_connection_is_said_and_what_failed_is_listed_when_it_is_back(
    browser: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    show(browser, service, *sides)
    browser.network(offline=True)
    try:
        eventually(lambda: LOST in banners(browser))
        browser.click(f"{LEFT} [data-action=reload]")
        eventually(lambda: "The service did not answer." in browser.text(f"{LEFT} .state"))
    finally:
        browser.network(offline=False)
    ready(browser, LEFT)
    assert names(browser, LEFT) == ["run1", "README.txt", "table.csv"]
    eventually(lambda: LOST not in banners(browser))
    browser.complaints()


def test_a_user_who_was_signed_out_elsewhere_reads_so_and_comes_back_to_the_folder(
    browser: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    show(browser, service, *sides)
    before = browser.address
    assert browser.run_until_done(SIGN_OUT)
    browser.click(f"{LEFT} [data-action=reload]")
    eventually(lambda: "You are signed out." in browser.text(f"{LEFT} .state"))
    assert "Authentication credentials" not in browser.text(LEFT)
    browser.click(f"{LEFT} .state a.main")
    eventually(lambda: urlsplit(browser.address).path == "/signin")
    assert parse_qs(urlsplit(browser.address).query)["next"] == [before.removeprefix(service.url)]
    sign_in(browser, service)
    eventually(lambda: browser.address == before)
    ready(browser, LEFT, RIGHT)
    browser.complaints()


def test_the_tasks_below_the_panes_say_that_the_reader_is_signed_out(
    browser: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    show(browser, service, *sides)
    assert browser.run_until_done(SIGN_OUT)
    browser.run("document.dispatchEvent(new Event('visibilitychange'))")
    eventually(lambda: "You are signed out." in banners(browser))
    browser.open(f"{service.url}/signin?next=/transfer")
    sign_in(browser, service)
    eventually(lambda: urlsplit(browser.address).path == "/transfer")
    browser.complaints()


def test_what_is_selected_and_not_shown_is_counted(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    show(browser, service, *sides)
    browser.click(f"{LEFT} .all")
    assert "not shown" not in said(browser, LEFT)
    browser.type(f"{LEFT} .filter-text", "table")
    eventually(lambda: names(browser, LEFT) == ["table.csv"])
    assert "3 selected" in said(browser, LEFT)
    assert "2 of them are not shown." in said(browser, LEFT)
    browser.click(f"{LEFT} [data-pane=selectShown]")
    eventually(lambda: said(browser, LEFT).startswith("1 selected"))
    assert "not shown" not in said(browser, LEFT)
    browser.click(f"{LEFT} .copy")
    eventually(lambda: "“\u2068table.csv\u2069” is on its way." in toast(browser))
    eventually(lambda: [one.name for one in sides[1].folder.iterdir()] == ["table.csv"])


def test_numbers_have_the_form_of_their_words(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    left, right = sides
    (right.folder / "only").mkdir()
    show(browser, service, left, right)
    assert said(browser, RIGHT) == "1 entry"
    browser.click(f"{RIGHT} .all")
    assert said(browser, RIGHT).endswith("what is in 1 folder")
