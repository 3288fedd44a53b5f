"""Journeys on the Transfer page that need a slow or a lost connection, a second user, or both hands."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from endpoints.gridftp.server import GridFtpServer
from tests.browsers.chromium import ENTER, Chromium
from tests.instance import Api
from tests.journeys.browser.test_transfer_page import (
    DOWN,
    LEFT,
    RIGHT,
    TAB,
    address,
    browser,
    clear_toasts,
    content,
    names,
    ready,
    row,
    show,
    sides,
    toast,
    window,
    without_scripts,
)
from tests.journeys.conftest import Site, waybill
from tests.waiting import eventually

__all__ = ["browser", "sides", "window", "without_scripts"]
pytestmark = pytest.mark.timeout(240)

#: Octets of an upload that is interrupted: two parts.
LONG = 20 << 20


@pytest.fixture
def slowly(browser: Chromium) -> Iterator[Callable[..., None]]:
    """Set the speed of the connection, in octets a second, or cut it."""

    def set_speed(speed: int = -1, *, offline: bool = False) -> None:
        browser._devtools("Network.enable", {})
        limits = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": speed}
        browser._devtools("Network.emulateNetworkConditions", {"offline": offline, **limits})

    yield set_speed
    set_speed()


def parts_left(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir() if one.name.startswith(".waybill")]


def is_refused(browser: Chromium, button: str) -> bool:
    return bool(browser.run(f"return {button}.title") == "You may only read this folder.")


def asked(browser: Chromium, words: str) -> bool:
    """Whether a dialog shows these words."""
    return words in str(browser.run("return document.querySelector('dialog')?.innerText"))


def begin_upload(browser: Chromium, file: Path) -> None:
    # By a key, as people do: a window that has no focus sends no event for one that a script gives.
    browser.type(f"{RIGHT} table", DOWN)
    browser.type("#upload-files", str(file))


def test_an_upload_goes_on_after_a_lost_connection(
    browser: Chromium, service: Api, sides: tuple[Site, Site], tmp_path: Path, slowly: Callable[..., None]
) -> None:
    show(browser, service, *sides)
    long, folder = tmp_path / "long.bin", sides[1].folder
    long.write_bytes(random.Random(5).randbytes(LONG))
    slowly(8_000_000)
    begin_upload(browser, long)
    eventually(lambda: parts_left(folder))
    slowly(offline=True)
    eventually(lambda: browser.run("return document.querySelector('#uploads .say').textContent.length > 0"))
    slowly()
    eventually(lambda: content(folder / "long.bin") == long.read_bytes())
    assert parts_left(folder) == []


def test_an_upload_that_is_stopped_leaves_nothing_behind(
    browser: Chromium, service: Api, sides: tuple[Site, Site], tmp_path: Path, slowly: Callable[..., None]
) -> None:
    show(browser, service, *sides)
    long, folder = tmp_path / "stopped.bin", sides[1].folder
    long.write_bytes(random.Random(6).randbytes(LONG))
    slowly(8_000_000)
    begin_upload(browser, long)
    eventually(lambda: parts_left(folder))
    browser.run("document.querySelector('#uploads .one button').click()")
    eventually(lambda: not parts_left(folder))
    eventually(lambda: "Stopped" in browser.text("#uploads"))
    assert content(folder / "stopped.bin") is None


def test_a_file_is_dropped_into_a_pane(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    show(browser, service, *sides)
    browser.run(f"""
        const held = new DataTransfer();
        held.items.add(new File(["dropped text"], "dropped.txt"));
        const pane = document.querySelector("{RIGHT}");
        for (const kind of ["dragover", "drop"])
            pane.dispatchEvent(new DragEvent(kind, {{ bubbles: true, cancelable: true, dataTransfer: held }}));
    """)
    eventually(lambda: content(sides[1].folder / "dropped.txt") == b"dropped text")
    eventually(lambda: "dropped.txt" in names(browser, RIGHT))


def test_the_sides_are_swapped_and_a_folder_is_bookmarked(
    browser: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    left, right = sides
    show(browser, service, left, right)
    browser.run("document.querySelector('[data-action=swap]').click()")
    eventually(lambda: "README.txt" in names(browser, RIGHT))
    eventually(lambda: f"origin_id={right.id}" in browser.address)
    clear_toasts(browser)
    browser.click(f"{RIGHT} [data-action=bookmark]")
    eventually(lambda: "Bookmarked." in toast(browser))
    found = service.call("GET", "/bookmark_list")["DATA"]
    assert (left.id, left.path("")) in {(one["endpoint_id"], one["path"]) for one in found}


def test_names_that_are_taken_are_reported_before_anything_is_copied(
    browser: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    left, right = sides
    (right.folder / "table.csv").write_text("precious")
    show(browser, service, left, right)
    browser.click(row(browser, LEFT, "table.csv"))
    browser.click(f"{LEFT} .copy")
    eventually(lambda: asked(browser, "exists there already"))
    assert content(right.folder / "table.csv") == b"precious"
    browser.click("dialog .actions .main")
    eventually(lambda: content(right.folder / "table.csv") == b"a,b\n1,2\n")


def test_a_folder_that_cannot_be_written_to_is_reported_before_anything_is_copied(
    browser: Chromium, service: Api, sides: tuple[Site, Site], workspace: Path
) -> None:
    left, right = sides
    with GridFtpServer(right.folder, read_only=True) as server:
        closed = service.endpoint(f"{workspace.name}-closed", server.port)
        browser.open(address(service, left, Site(closed, right.folder, right.path)))
        ready(browser, LEFT, RIGHT)
        browser.click(row(browser, LEFT, "table.csv"))
        browser.click(f"{LEFT} .copy")
        eventually(lambda: asked(browser, "you may not write"))


def test_bob_is_given_a_folder_and_downloads_from_it(
    browser: Chromium, service: Api, sides: tuple[Site, Site], bob_name: str, tmp_path: Path
) -> None:
    left, _ = sides
    browser.open(f"{service.url}/endpoints/{left.id}")
    browser.type("#shares input[name=path]", "/run1/")
    browser.type("#shares input[name=display_name]", "for bob")
    browser.run("document.querySelector('#shares form button:not([type=button])').click()")
    eventually(lambda: browser.address.endswith("#rules"))
    share = browser.address.split("/")[-1].removesuffix("#rules")
    browser.type("#rules input[name=user]", bob_name)
    browser.run("document.querySelector('#rules input[name=user]').form.requestSubmit()")
    # Pages name users of this service without its domain.
    eventually(lambda: browser.shows(bob_name.partition("@")[0]))
    password = waybill(service, "password", bob_name, "--generate").split()[-1]
    with Chromium(tmp_path) as bobs:
        bobs.resize(1280)
        bobs.open(f"{service.url}/signin?next=/activity")
        bobs.type("#username", bob_name)
        bobs.type("#password", password + ENTER)
        eventually(lambda: "/activity" in bobs.address)
        bobs.open(f"{service.url}/transfer?origin_id={share}&origin_path={quote('/deep/')}")
        eventually(lambda: names(bobs, LEFT) == ["data.bin"])
        got = bobs.run_until_done(f"""
            const done = arguments[arguments.length - 1];
            fetch("/v0.10/operation/endpoint/{share}/file?path=/deep/data.bin")
                .then(one => one.arrayBuffer()).then(one => done(one.byteLength));
        """)
        assert got == 100_000
        bobs.open(f"{service.url}/transfer?origin_id={share}&origin_path=/")
        eventually(lambda: names(bobs, LEFT) == ["deep"])
        # Bob may only read: the page does not offer what the service would refuse.
        bobs.click(row(bobs, LEFT, "deep"))
        for action in ("new-folder", "upload", "rename", "delete"):
            button = f"document.querySelector('{LEFT} [data-action={action}]')"
            eventually(partial(is_refused, bobs, button))
            assert bobs.run(f"return {button}.ariaDisabled") == "true"
        assert bobs.run(f"return document.querySelector('{LEFT} [data-action=copy-path]').ariaDisabled") == "false"


def test_a_timer_copies_at_its_time_and_is_deleted_after_a_question(
    browser: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    left, right = sides
    browser.open(f"{service.url}/timers")
    for field, text in (
        ("name", "nightly"),
        ("source", f"{left.id}:{left.path('run1/')}"),
        ("destination", f"{right.id}:{right.path('copy/')}"),
    ):
        browser.type(f"main [name={field}]", text)
    browser.run("document.querySelector('main [name=source]').form.requestSubmit()")
    eventually(lambda: browser.shows("The timer was made."))
    eventually(lambda: content(right.folder / "copy" / "deep" / "data.bin") is not None, seconds=90)
    browser.open(f"{service.url}/timers")
    browser.run("document.querySelector('form[action$=\"/delete\"]').requestSubmit()")
    eventually(lambda: browser.shows("Delete this timer?"))
    browser.click("main .danger")
    eventually(lambda: browser.address.endswith("/timers"))
    assert not browser.run("return Boolean(document.querySelector('form[action$=\"/delete\"]'))")


def test_without_scripts_a_folder_whose_name_is_not_text_is_entered(
    without_scripts: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    left, right = sides
    odd = left.folder / os.fsdecode(b"old-\xfc")
    odd.mkdir()
    (odd / "inside.txt").write_text("found")
    without_scripts.open(f"{address(service, left, right)}&plain=1")
    eventually(lambda: "old-" in without_scripts.text("main"))
    without_scripts.click(f"{LEFT} .entry.folder a[href*='%FC']")
    eventually(lambda: "inside.txt" in without_scripts.text("main"))
    without_scripts.click(f"{LEFT} td.tick input")
    without_scripts.click(f"{LEFT} .status button")
    eventually(lambda: content(right.folder / "inside.txt") == b"found")


def test_single_keys_are_turned_off(browser: Chromium, service: Api) -> None:
    browser.open(f"{service.url}/activity")
    browser.press("?")
    eventually(lambda: browser.run("return Boolean(document.querySelector('dialog #single-keys'))"))
    browser.click("dialog #single-keys")
    browser.click("dialog .icon-only")
    browser.press("?")
    browser.press(TAB)
    assert not browser.run("return Boolean(document.querySelector('dialog[open]'))")
    browser.click("[data-action=help]")
    eventually(lambda: browser.run("return Boolean(document.querySelector('dialog #single-keys'))"))
    browser.click("dialog #single-keys")
