"""The Transfer page in a real browser: the first transfer, files up and down, keys alone, no scripts, hostile names."""

from __future__ import annotations

import os
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.browsers.chromium import ENTER, Chromium
from tests.instance import Api
from tests.journeys.browser.test_pages import check_page, sign_in
from tests.journeys.conftest import Site
from tests.journeys.test_sync import open_to_all
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(240)

LEFT, RIGHT = "#pane-origin", "#pane-destination"
TAB, DOWN, BACKSPACE, SPACE, DELETE = "\ue004", "\ue015", "\ue003", " ", "\ue017"
F2, F5, F7, SHIFT = "\ue032", "\ue035", "\ue037", "\ue008"
EMPTY_GERMAN = "Auf die andere Seite kopieren"
#: Names that would become active, or look like others, where they were not shown as text alone.
HOSTILE = [
    '<img src=x onerror="document.title=1">',
    "<script>document.title=2<",
    "photo\u202egnp.exe",
    "a},{",
    "quote\"&amp;'\\",
    "\u0007bell"[1:] + "\u200bzero",
    "javascript:document.title=3",
]


@pytest.fixture(scope="module")
def window(service: Api, shared_browser: Chromium) -> Chromium:
    """One browser for all journeys, signed in."""
    shared_browser.renew()
    shared_browser.resize(1280)
    shared_browser.open(f"{service.url}/signin?next=/transfer")
    sign_in(shared_browser, service)
    eventually(lambda: urlsplit(shared_browser.address).path == "/transfer")
    return shared_browser


@pytest.fixture
def browser(window: Chromium) -> Chromium:
    window.resize(1280)
    window.open("about:blank")
    window.complaints()  # of servers that ended with their tests
    return window


@pytest.fixture
def sides(site: Callable[..., Site]) -> tuple[Site, Site]:
    """Two endpoints: some files on the left, an empty folder on the right."""
    left, right = site("left", "own"), site("right", "own")
    (left.folder / "run1" / "deep").mkdir(parents=True)
    (left.folder / "run1" / "deep" / "data.bin").write_bytes(random.Random(1).randbytes(100_000))
    (left.folder / "README.txt").write_text("Read me first.\nGrüße.\n")
    (left.folder / "table.csv").write_text("a,b\n1,2\n")
    (left.folder / ".hidden").write_text("x")
    return left, right


def address(service: Api, left: Site, right: Site, **more: str) -> str:
    query = {"origin_id": left.id, "origin_path": left.path(""), "destination_id": right.id}
    return f"{service.url}/transfer?{urlencode({**query, 'destination_path': right.path(''), **more})}"


def show(browser: Chromium, service: Api, left: Site, right: Site) -> None:
    browser.open(address(service, left, right))
    ready(browser, LEFT, RIGHT)


def ready(browser: Chromium, *panes: str) -> None:
    for pane in panes:
        eventually(lambda pane=pane: "entr" in said(browser, pane))  # type: ignore[misc]


def said(browser: Chromium, pane: str) -> str:
    """The status line: empty while nothing is listed."""
    return str(browser.run(f"return document.querySelector('{pane} .said')?.textContent ?? ''"))


def names(browser: Chromium, pane: str) -> list[str]:
    found = browser.run(f"return [...document.querySelectorAll('{pane} tbody bdi')].map(one => one.textContent)")
    return list(found)


def row(browser: Chromium, pane: str, name: str) -> str:
    """The selector of the row with this name."""
    at = browser.run(
        f"return [...document.querySelectorAll('{pane} tr[data-at]')]"
        f".find(row => row.querySelector('bdi').textContent === {name!r}).id"
    )
    return f"#{at}"


def toast(browser: Chromium) -> str:
    return str(browser.run("return [...document.querySelectorAll('.toast')].map(one => one.innerText).join(' ')"))


def clear_toasts(browser: Chromium) -> None:
    browser.run("document.querySelectorAll('.toast').forEach(one => one.remove())")


def content(path: Path) -> bytes | None:
    """None if it is not there (yet)."""
    return path.read_bytes() if path.exists() else None


def test_a_newcomer_presses_once_and_the_first_transfer_is_done(browser: Chromium, service: Api) -> None:
    browser.open(f"{service.url}/transfer")
    eventually(lambda: browser.shows("Where is your data?"))
    assert browser.run(f"return document.querySelector('{LEFT} .copy').title") != ""
    browser.click("#try-sample")
    eventually(lambda: "is on its way" in toast(browser))
    eventually(lambda: "godata" in names(browser, RIGHT))
    eventually(lambda: "Done" in browser.text("#dock"))
    assert "godata" in names(browser, LEFT)
    check_page(browser)


def test_files_are_opened_downloaded_and_uploaded(
    browser: Chromium, service: Api, sides: tuple[Site, Site], tmp_path: Path
) -> None:
    left, right = sides
    show(browser, service, left, right)
    assert names(browser, LEFT) == ["run1", "README.txt", "table.csv"]
    browser.type(f"{LEFT} table", DOWN + ENTER)
    eventually(lambda: "Grüße." in browser.text("dialog pre"))
    link = browser.run("return document.querySelector('dialog a.button').href")
    got = browser.run(f"return fetch({link!r}).then(one => one.headers.get('content-disposition'))")
    assert got == 'attachment; filename="README.txt"'
    browser.click("dialog .icon-only")
    large = tmp_path / "large.bin"
    large.write_bytes(random.Random(2).randbytes(20 << 20))
    browser.run(f"document.querySelector('{RIGHT} table').focus()")
    browser.type("#upload-files", str(large))
    eventually(lambda: content(right.folder / "large.bin") == large.read_bytes())
    eventually(lambda: "large.bin" in names(browser, RIGHT))
    assert not [one for one in right.folder.iterdir() if one.name.startswith(".waybill")]
    large.write_bytes(b"another")
    browser.type("#upload-files", str(large))
    eventually(lambda: browser.run("return document.querySelector('dialog')?.innerText.includes('there already')"))
    browser.click("dialog .actions .main")
    eventually(lambda: content(right.folder / "large.bin") == b"another")
    browser.run(
        "const ask = fetch; window.asked = []; window.fetch = (to, how) => (asked.push(how?.method), ask(to, how))"
    )
    eventually(lambda: browser.run("return Boolean(document.querySelector('#uploads .one:last-child .done'))"))
    browser.run("document.querySelector('#uploads .one:last-child button').click()")
    assert "DELETE" not in browser.run("return asked")


def test_a_folder_is_uploaded_with_its_structure_and_comes_back_as_an_archive(
    browser: Chromium, service: Api, sides: tuple[Site, Site], tmp_path: Path
) -> None:
    left, right = sides
    home, saved = tmp_path / "data", tmp_path / "saved"
    (home / "raw" / "day 1").mkdir(parents=True)
    (home / "raw" / "day 1" / "same").write_bytes(b"one")
    (home / "raw" / "same").write_bytes(b"two")
    (home / "grüße").write_bytes(b"three")
    (right.folder / "data" / "raw").mkdir(parents=True)
    (right.folder / "data" / "raw" / "same").write_bytes(b"before")
    open_to_all(right.folder / "data")
    browser._devtools("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(saved)})
    show(browser, service, left, right)
    browser.run(f"document.querySelector('{RIGHT} table').focus()")
    browser.type("#upload-folder", str(home))
    eventually(lambda: browser.run("return document.querySelector('dialog')?.innerText.includes('data/raw/same')"))
    browser.click("dialog .actions .main")
    for name, octets in {"raw/day 1/same": b"one", "raw/same": b"two", "grüße": b"three"}.items():
        eventually(lambda name=name, octets=octets: content(right.folder / "data" / name) == octets)  # type: ignore[misc]
    browser.run(f"document.querySelector('{RIGHT} table').focus()")
    eventually(lambda: "data" in names(browser, RIGHT))
    browser.run(
        f"[...document.querySelectorAll('{RIGHT} tbody tr')].find(row => row.innerText.includes('data')).click()"
    )
    browser.click(f"{RIGHT} .tools [data-action=download]")
    eventually(lambda: (saved / "data.zip").exists())
    with zipfile.ZipFile(saved / "data.zip") as archive:
        assert archive.read("data/raw/day 1/same") == b"one"
        assert archive.read("data/grüße") == b"three"
    check_page(browser)


def test_keys_alone_are_enough(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    left, right = sides
    show(browser, service, left, right)
    browser.run(f"document.querySelector('{LEFT} table').focus()")
    browser.type(f"{LEFT} table", ENTER)
    eventually(lambda: names(browser, LEFT) == ["deep"])
    assert "run1" in browser.address
    browser.type(f"{LEFT} table", BACKSPACE)
    eventually(lambda: "README.txt" in names(browser, LEFT))
    browser.type(f"{LEFT} table", DOWN + SPACE)
    assert "1 selected" in said(browser, LEFT)
    browser.type(f"{LEFT} table", F5)
    eventually(lambda: content(right.folder / "README.txt") is not None)
    browser.type(f"{LEFT} table", TAB)
    assert browser.run("return document.activeElement.closest('.pane').id") == RIGHT[1:]
    browser.type(f"{RIGHT} table", F7)
    browser.type("#dialog-name", "made" + ENTER)
    eventually(lambda: (right.folder / "made").is_dir())
    eventually(lambda: "made" in names(browser, RIGHT))
    browser.type(f"{RIGHT} table", F2)
    browser.type("#dialog-name", "other" + ENTER)
    eventually(lambda: (right.folder / "other").is_dir())
    eventually(lambda: "other" in names(browser, RIGHT))
    browser.type(f"{RIGHT} table", DELETE)
    eventually(lambda: browser.run("return Boolean(document.querySelector('dialog .main.danger'))"))
    browser.click("dialog .main.danger")
    eventually(lambda: not (right.folder / "other").exists())
    browser.type(f"{RIGHT} table", "?")
    assert "F7" in browser.text("dialog")
    browser.click("dialog .icon-only")


def test_typing_filters_and_sorting_is_announced(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    show(browser, service, *sides)
    browser.type(f"{LEFT} table", "tab")
    eventually(lambda: names(browser, LEFT) == ["table.csv"])
    browser.type(f"{LEFT} .filter-text", "nothing like it")
    eventually(lambda: browser.shows("No name contains"))
    browser.click(f"{LEFT} .state button")
    browser.click(f"{LEFT} .dotfiles")
    eventually(lambda: ".hidden" in names(browser, LEFT))
    browser.click(f"{LEFT} .dotfiles")
    browser.click(f"{LEFT} [data-sort=size] button")
    assert names(browser, LEFT) == ["run1", "table.csv", "README.txt"]
    assert browser.run(f"return document.querySelector('{LEFT} [data-sort=size]').ariaSort") == "ascending"
    browser.click(f"{LEFT} [data-sort=name] button")
    browser.click(f"{LEFT} .all")
    assert "3 selected" in said(browser, LEFT)


def test_a_mirror_shows_what_it_deletes_and_has_it_typed(
    browser: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    left, right = sides
    (right.folder / "run1" / "deep").mkdir(parents=True)
    (right.folder / "run1" / "deep" / "extra.dat").write_text("old")
    (right.folder / "run1" / "gone" / "below").mkdir(parents=True)
    (right.folder / "run1" / "gone" / "below" / "old.dat").write_text("old")
    show(browser, service, left, right)
    browser.click(row(browser, LEFT, "run1"))
    browser.run("document.querySelector('#options').open = true")
    browser.click("#opt-delete_destination_extra")
    browser.run("document.querySelector('#opt-confirm_deletion_above').value = ''")
    assert "mirror" in browser.text("#options-summary")
    browser.click(f"{LEFT} .copy")
    eventually(lambda: browser.run("return Boolean(document.querySelector('#dialog-typed'))"))
    # A folder counts with all that is in it.
    assert "To be deleted: 2 files and 2 folders." in browser.text("dialog")
    assert "extra.dat" in browser.text("dialog")
    assert "below/old.dat" in browser.text("dialog")
    assert browser.run("return document.querySelector('dialog .main.danger').disabled")
    browser.type("#dialog-typed", "delete")
    browser.click("dialog .main.danger")
    eventually(lambda: not (right.folder / "run1" / "deep" / "extra.dat").exists())
    eventually(lambda: content(right.folder / "run1" / "deep" / "data.bin") is not None)
    eventually(lambda: not (right.folder / "run1" / "gone").exists())
    # The user chooses a mirror for each copy anew.
    eventually(lambda: not browser.run("return document.querySelector('#opt-delete_destination_extra').checked"))
    assert "mirror" not in browser.text("#options-summary")
    browser.run("document.querySelector('#transfer-form').reset()")


def test_a_mirror_that_deletes_nothing_wants_no_word(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    show(browser, service, *sides)
    browser.click(row(browser, LEFT, "run1"))
    browser.run("document.querySelector('#options').open = true")
    browser.click("#opt-delete_destination_extra")
    browser.click(f"{LEFT} .copy")
    eventually(lambda: "Nothing would be deleted." in str(browser.run("return document.body.innerText")))
    assert not browser.run("return Boolean(document.querySelector('#dialog-typed'))")
    browser.click("dialog .main")
    eventually(lambda: content(sides[1].folder / "run1" / "deep" / "data.bin") is not None)


def test_a_double_click_submits_one_task(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    show(browser, service, *sides)
    clear_toasts(browser)
    before = service.call("GET", "/task_list?limit=1")["total"]
    browser.click(row(browser, LEFT, "table.csv"))
    browser.run(f"const one = document.querySelector('{LEFT} .copy'); one.click(); one.click(); one.click()")
    eventually(lambda: "on its way" in toast(browser))
    assert service.call("GET", "/task_list?limit=1")["total"] == before + 1
    assert "table.csv" not in browser.run("return localStorage.getItem('transfer-submitted')")


def test_hostile_names_stay_names(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    left, right = sides
    for name in HOSTILE:
        (left.folder / name).write_text("x")
    (left.folder / os.fsdecode(b"latin-\xfc")).write_text("x")
    (left.folder / "<b>fol\u202eder").mkdir()
    show(browser, service, left, right)
    title = browser.run("return document.title")
    shown = names(browser, LEFT)
    assert HOSTILE[0] in shown
    assert "photo\\u202egnp.exe" in shown
    assert "latin-\\xfc" in shown
    assert "\u202e" not in browser.run("return document.body.outerHTML")
    assert len(shown) == 4 + len(HOSTILE) + 1
    assert browser.run("return document.querySelectorAll('.pane img, .pane script, .pane tbody b').length") == 0
    assert browser.run(f"return [...document.querySelectorAll('{LEFT} tbody bdi')].every(one => one.dir !== 'rtl')")
    browser.click(f"{LEFT} .all")
    browser.click(f"{LEFT} .copy")
    wanted = {one.name for one in left.folder.iterdir() if not one.name.startswith(".")}
    eventually(lambda: {one.name for one in right.folder.iterdir()} == wanted)
    browser.click(row(browser, LEFT, "<b>fol\\u202eder"))
    browser.type(f"{LEFT} table", ENTER)
    eventually(lambda: browser.shows("This folder is empty."))
    assert browser.run("return document.title") == title
    assert browser.complaints() == []


def test_distinct_empty_states_say_what_to_do(
    browser: Chromium, service: Api, sides: tuple[Site, Site], workspace: Path
) -> None:
    left, right = sides
    show(browser, service, left, right)
    assert "This folder is empty." in browser.text(RIGHT)
    browser.open(address(service, left, right, origin_path="/no/such/"))
    eventually(lambda: "There is no such folder." in browser.text(LEFT))
    browser.click(f"{LEFT} .state button")
    ready(browser, LEFT)
    away = service.endpoint(f"{workspace.name}-away", 1)
    browser.open(f"{service.url}/transfer?origin_id={away}")
    eventually(lambda: browser.run(f"return Boolean(document.querySelector('{LEFT} .state details'))"))
    assert "Try again" in browser.text(LEFT)
    browser.open(f"{service.url}/transfer?origin_id={'0' * 8}-0000-0000-0000-{'0' * 12}")
    eventually(lambda: browser.run(f"return Boolean(document.querySelector('{LEFT} .state h2'))"))
    browser.complaints()


def test_an_endpoint_is_found_by_name_and_by_a_pasted_place(
    browser: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    browser.open(f"{service.url}/transfer")
    eventually(lambda: browser.shows("Where is your data?"))
    browser.type("#pick-origin", "sample")
    eventually(lambda: "ep1" in str(browser.run("return document.querySelector('#picks-origin').innerText")))
    browser.type("#pick-origin", DOWN + ENTER)
    ready(browser, LEFT)
    assert "origin_id=" in browser.address
    browser.run("document.querySelector('#pick-destination').value = ''")
    browser.type("#pick-destination", "go#ep1:/share/godata" + ENTER)
    eventually(lambda: "file1.txt" in names(browser, RIGHT))
    browser.run("history.back()")
    ready(browser, LEFT)


def test_a_telephone_shows_it_all(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    left, right = sides
    browser.resize(360)
    show(browser, service, left, right)
    check_page(browser)
    browser.resize(360)
    browser.click(f"{row(browser, LEFT, 'table.csv')} .tick")
    browser.click(f"{LEFT} .copy")
    eventually(lambda: content(right.folder / "table.csv") is not None)


def test_german_fits_a_telephone_and_has_its_own_order_of_words(browser: Chromium, service: Api) -> None:
    ends = service.connection["endpoints"]
    places = {"origin_id": ends["go#ep1"], "destination_id": ends["go#ep2"], "destination_path": "/"}
    browser.open(f"{service.url}/transfer")
    browser.click("button[name=language][value=de]")
    try:
        eventually(lambda: browser.run(f"return document.querySelector('{LEFT} .copy').innerText") == EMPTY_GERMAN)
        check_page(browser)
        browser.open(f"{service.url}/transfer?{urlencode(places)}")
        shown = f"return document.querySelector('{LEFT} .copy .what')?.textContent ?? ''"
        eventually(lambda: "ep2" in browser.run(shown))
        assert re.fullmatch("Nach .*ep2 kopieren", browser.run(shown))
    finally:
        browser.click("button[name=language][value=en]")


@pytest.fixture
def without_scripts(browser: Chromium) -> Iterator[Chromium]:
    browser._devtools("Emulation.setScriptExecutionDisabled", {"value": True})
    yield browser
    browser._devtools("Emulation.setScriptExecutionDisabled", {"value": False})


def test_without_scripts_a_folder_is_listed_and_copied(
    without_scripts: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    browser = without_scripts
    left, right = sides
    browser.open(address(service, left, right))
    eventually(lambda: "plain=1" in browser.address)
    eventually(lambda: "README.txt" in browser.text("main"))
    browser.click(f"{LEFT} td.tick input[value=dRUN]".replace("dRUN", "drun1"))
    browser.click(f"{LEFT} .status button")
    eventually(lambda: content(right.folder / "run1" / "deep" / "data.bin") is not None)
