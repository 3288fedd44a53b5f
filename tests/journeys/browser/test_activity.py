"""Activity in a real browser: live numbers, causes and their retry, keyboard, no scripts, a lost connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from deploy.stack.free_ports import free_port
from tests.browsers.chromium import ENTER, Chromium
from tests.instance import Api
from tests.journeys.browser.test_pages import check_page, sign_in
from tests.journeys.conftest import Site
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(240)
ESCAPE = "\ue00c"
#: Count the copies of this page that its scripts get.
COUNT_COPIES = """
window.copies = 0;
const plain = window.fetch;
window.fetch = async (address, ...more) => {
    const answer = await plain(address, ...more);
    if (address === location.href) copies += 1;
    return answer;
};
"""


@pytest.fixture(scope="module")
def browser(service: Api, shared_browser: Chromium) -> Chromium:
    """One window for all tests of this module; the sample user is signed in."""
    shared_browser.renew()
    shared_browser.open(f"{service.url}/signin?next=/activity")
    sign_in(shared_browser, service)
    eventually(lambda: urlsplit(shared_browser.address).path == "/activity")
    return shared_browser


@pytest.fixture
def unreachable(service: Api) -> Iterator[dict[str, Any]]:
    """A task that meets a fault again and again, until it is canceled."""
    source = service.endpoint(f"nowhere-{free_port()}", free_port())
    task = service.transfer(
        source, "/data/", service.connection["endpoints"]["go#ep2"], "/x/", recursive=True, label="stuck"
    )
    yield {"id": task, "address": f"{service.url}/activity/{task}"}
    service.call("POST", f"/task/{task}/cancel")


def said(browser: Chromium, css: str) -> str:
    return str(browser.run(f"return document.querySelector({css!r})?.innerText ?? ''"))


def test_the_pages_of_tasks_fit_can_be_read_and_break_no_policy(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    browser.resize(1280)
    for address in (f"{service.url}/activity", f"{service.url}/activity?q=none-has-this-name", unreachable["address"]):
        browser.open(address)
        check_page(browser)
    eventually(lambda: browser.shows("The server cannot be reached"))
    check_page(browser)
    for part in ("files", "log", "scripts"):
        browser.open(f"{unreachable['address']}?part={part}")
        check_page(browser)
    browser.resize(1280)


def test_a_row_of_the_list_is_one_line(browser: Chromium, service: Api, unreachable: dict[str, Any]) -> None:
    browser.resize(1280)
    browser.open(f"{service.url}/activity")
    rows = "return [...document.querySelectorAll('.tasks tbody tr:not(.trouble)')].map((row) => row.offsetHeight)"
    eventually(lambda: len(browser.run(rows)) > 0)
    assert [height for height in browser.run(rows) if not 38 <= height <= 43] == []


def test_the_head_of_a_task_and_its_progress_are_seen_at_once(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    browser.resize(1280)
    browser.open(unreachable["address"])
    eventually(lambda: "The server cannot be reached" in said(browser, ".stall-box"))
    for css in ("h1", ".stall-box", ".tabs", ".phases", ".numbers", "form[action$='/cancel'] button"):
        assert browser.run(f"return document.querySelector({css!r}).getBoundingClientRect().bottom") < 800, css


def test_the_log_of_a_task_is_live_and_its_parts_are_links(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    browser.open(unreachable["address"])
    browser.click("a[href$='part=log']")
    eventually(lambda: "Met 2 times since" in said(browser, ".events"))
    browser.click("a[href$='part=files']")
    eventually(lambda: "/data/" in said(browser, ".paths"))
    assert said(browser, ".tabs [aria-current]") == "Files"


def test_a_task_that_changes_changes_on_the_page_by_itself(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    browser.open(f"{service.url}/activity?q={unreachable['id']}")
    eventually(lambda: browser.run("return document.getElementById('updated').textContent") != "")
    service.call("POST", f"/task/{unreachable['id']}/cancel")
    eventually(lambda: "Canceled" in said(browser, ".tasks .state"))


def test_the_page_of_a_task_shows_its_end_without_being_loaded_again(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    browser.open(unreachable["address"])
    browser.run("window.stays = true")
    service.call("POST", f"/task/{unreachable['id']}/cancel")
    eventually(lambda: browser.shows("Canceled after"))
    assert browser.run("return window.stays === true")


def test_a_task_is_canceled_with_the_keyboard_alone_after_a_question(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    browser.open(unreachable["address"])
    eventually(lambda: browser.run("return document.documentElement.classList.contains('scripted')"))
    browser.press("?")
    eventually(lambda: "Cancel the task" in said(browser, "dialog"))
    browser.press(ESCAPE)
    eventually(lambda: said(browser, "dialog") == "")
    browser.press("c")
    eventually(lambda: "Cancel this task?" in said(browser, "dialog"))
    browser.press(ESCAPE)
    assert service.call("GET", f"/task/{unreachable['id']}?fields=status")["status"] == "ACTIVE"
    browser.press("c")
    eventually(lambda: "Cancel this task?" in said(browser, "dialog"))
    browser.press("\ue004" + ENTER)
    eventually(lambda: browser.shows("The task"))
    eventually(lambda: service.call("GET", f"/task/{unreachable['id']}?fields=status")["status"] == "FAILED")


def test_what_is_opened_stays_while_the_page_around_it_is_new(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    browser.open(f"{unreachable['address']}?part=scripts")
    eventually(lambda: browser.run("return document.documentElement.classList.contains('scripted')"))
    browser.run("document.querySelector('details.fold:not([open])').open = true")
    service.call("POST", f"/task/{unreachable['id']}/cancel")
    eventually(lambda: "Canceled" in said(browser, "h1 + .chip"))
    assert browser.run("return document.querySelectorAll('details.fold[open]').length") == 2


def test_the_field_that_is_typed_into_keeps_its_text_in_a_part_that_is_new(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    browser.open(unreachable["address"])
    eventually(lambda: browser.run("return document.documentElement.classList.contains('scripted')"))
    browser.run("document.getElementById('label').value = 'half a na'; document.getElementById('label').focus()")
    service.call("PUT", f"/task/{unreachable['id']}", {"DATA_TYPE": "task", "label": "renamed elsewhere"})
    browser.run(COUNT_COPIES)
    browser.run("dispatchEvent(new Event('online'))")
    eventually(lambda: browser.run("return copies") > 0)
    eventually(lambda: "renamed elsewhere" in said(browser, "h1"))
    assert browser.run("return document.getElementById('label').value") == "half a na"
    assert browser.run("return document.activeElement.id") == "label"


def test_a_question_is_answered_although_the_page_was_read_again_meanwhile(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    """The live parts hold the form that the dialog asks about: a form that was replaced would not be sent."""
    browser.open(unreachable["address"])
    eventually(lambda: browser.run("return document.documentElement.classList.contains('scripted')"))
    browser.press("c")
    eventually(lambda: "Cancel this task?" in said(browser, "dialog"))
    browser.run(COUNT_COPIES)
    browser.run("dispatchEvent(new Event('online'))")
    eventually(lambda: browser.run("return copies") > 0)
    browser.run_until_done("setTimeout(arguments[0], 300)")
    browser.press("\ue004" + ENTER)
    eventually(lambda: service.call("GET", f"/task/{unreachable['id']}?fields=status")["status"] == "FAILED")


def test_the_list_and_cancel_work_without_scripts(browser: Chromium, service: Api, unreachable: dict[str, Any]) -> None:
    browser.scripts(enabled=False)
    try:
        browser.open(f"{service.url}/activity")
        browser.type("#q", "stuck" + ENTER)
        eventually(lambda: "q=stuck" in browser.address)
        browser.click(f"a[href='/activity/{unreachable['id']}']")
        browser.click("form[action$='/cancel'] button")
        eventually(lambda: browser.address.endswith(unreachable["id"]))
        eventually(lambda: service.call("GET", f"/task/{unreachable['id']}?fields=status")["status"] == "FAILED")
    finally:
        browser.scripts(enabled=True)


def test_a_lost_connection_is_said_and_what_was_missed_is_shown_when_it_is_back(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    browser.open(unreachable["address"])
    eventually(lambda: browser.run("return document.getElementById('updated').textContent") != "")
    browser.network(offline=True)
    try:
        eventually(lambda: "The connection to Waybill is lost" in said(browser, "#banners"), seconds=90)
        service.call("POST", f"/task/{unreachable['id']}/cancel")
    finally:
        browser.network(offline=False)
    eventually(lambda: browser.shows("Canceled after"))
    eventually(lambda: "is lost" not in said(browser, "#banners"))
    browser.complaints()


def test_a_task_that_does_not_go_on_says_so_in_the_list_on_its_page_and_below_the_panes(
    browser: Chromium, service: Api, unreachable: dict[str, Any]
) -> None:
    line = "The server cannot be reached"
    browser.open(unreachable["address"])
    eventually(lambda: line in said(browser, ".stall-box"))
    assert "Stalled" in said(browser, "h1 + .chip")
    assert browser.run("return document.title").startswith(line)
    assert "Time left" not in said(browser, ".numbers")
    assert browser.run("return document.querySelectorAll('.cause').length") == 0
    browser.open(f"{service.url}/activity")
    eventually(lambda: line in said(browser, f"tr[data-task='{unreachable['id']}'] + .trouble"))
    browser.open(f"{service.url}/transfer")
    eventually(lambda: line in said(browser, f"#dock [data-task='{unreachable['id']}']"))


def test_failed_files_are_found_by_their_cause_and_retried_in_two_presses(browser: Chromium, service: Api) -> None:
    ends = service.connection["endpoints"]
    missing = [(f"/missing/{number}", f"/gone/{number}") for number in range(3)]
    task = service.transfer_items(ends["go#ep1"], ends["go#ep2"], missing, label="lost files", skip_source_errors=True)
    service.wait(task)
    browser.open(f"{service.url}/activity?q={task}")
    browser.click(f"a[href='/activity/{task}']")
    eventually(lambda: browser.shows("File not found on 3 files"))
    assert browser.shows("Put the files back, or correct the paths.")
    browser.click("form[action$='/retry'] button")
    eventually(lambda: browser.shows("A new task was accepted."))
    assert not browser.address.endswith(task)
    service.wait(browser.address.rpartition("/")[2])


def test_a_mirror_of_a_source_that_is_not_mounted_waits_for_its_owner(
    browser: Chromium, service: Api, site: Callable[..., Site]
) -> None:
    left, right = site("left", "own"), site("right", "own")
    (left.folder / "run").mkdir()
    for name in ("one", "two"):
        (right.folder / "run").mkdir(exist_ok=True)
        (right.folder / "run" / name).write_text("precious")
    options = {"recursive": True, "delete_destination_extra": True, "confirm_deletion_above": 50}

    def ask() -> str:
        task = service.transfer(left.id, left.path("run/"), right.id, right.path("run/"), **options)
        assert service.wait(task)["nice_status"] == "DELETION_UNCONFIRMED"
        browser.open(f"{service.url}/activity/{task}")
        return task

    first = ask()
    assert browser.shows("2 of the 2 entries at the destination would be deleted")
    check_page(browser)
    browser.resize(1280)
    browser.click("form[action$=refuse-deletion] button")
    eventually(lambda: service.call("GET", f"/task/{first}")["status"] == "SUCCEEDED")
    assert sorted(one.name for one in (right.folder / "run").iterdir()) == ["one", "two"]
    second = ask()
    browser.click("form[action$=confirm-deletion] button")
    eventually(lambda: browser.run("return Boolean(document.querySelector('dialog .danger'))"))
    assert service.call("GET", f"/task/{second}")["status"] == "INACTIVE"
    browser.click("dialog .danger")
    eventually(lambda: service.call("GET", f"/task/{second}")["status"] == "SUCCEEDED")
    assert not list((right.folder / "run").iterdir())
