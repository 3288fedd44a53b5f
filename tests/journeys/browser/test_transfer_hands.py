"""The Transfer page under a mouse and a finger: each event is one of the browser, none is made by a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.browsers.chromium import ENTER, Chromium
from tests.browsers.hands import CONTROL, SHIFT, Finger, Mouse, middle
from tests.instance import Api
from tests.journeys.browser.test_pages import check_page
from tests.journeys.browser.test_transfer_page import (
    DOWN,
    LEFT,
    RIGHT,
    address,
    browser,
    clear_toasts,
    content,
    names,
    ready,
    row,
    said,
    show,
    sides,
    toast,
    window,
)
from tests.journeys.conftest import Site
from tests.waiting import eventually

__all__ = ["browser", "sides", "window"]
pytestmark = pytest.mark.timeout(400)

ESCAPE, ALT = "\ue00c", "\ue00a"
MENU = ".context-menu"
#: Entries of a folder that is read in many parts.
MANY = 30_000


@pytest.fixture
def mouse(browser: Chromium) -> Mouse:
    return Mouse(browser)


@pytest.fixture
def finger(browser: Chromium) -> Finger:
    return Finger(browser)


def there(browser: Chromium, css: str) -> bool:
    return bool(browser.run(f"return document.querySelector({css!r})?.checkVisibility() ?? false"))


def choose(browser: Chromium, mouse: Mouse, name: str) -> None:
    """Press the entry of the menu that is open."""
    mouse.click(f"{MENU} [data-name={name}]")


def scrolled(browser: Chromium, pane: str) -> int:
    return int(browser.run(f"return document.querySelector('{pane} .scroller').scrollTop"))


def selected(browser: Chromium, pane: str) -> list[str]:
    found = browser.run(
        f"return [...document.querySelectorAll('{pane} tr[aria-selected=true] bdi')].map(one => one.textContent)"
    )
    return list(found)


# ---- the mouse


def test_a_double_click_opens_a_folder_and_a_file(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    show(browser, service, *sides)
    mouse.double_click(f"{row(browser, LEFT, 'README.txt')} bdi")
    eventually(lambda: "Grüße." in browser.text("dialog pre"))
    browser.press(ESCAPE)
    mouse.double_click(f"{row(browser, LEFT, 'run1')} bdi")
    eventually(lambda: names(browser, LEFT) == ["deep"])
    assert "run1" in browser.address
    mouse.double_click(f"{row(browser, LEFT, 'deep')} .tick")
    mouse.click(f"{row(browser, LEFT, 'deep')} .open")
    eventually(lambda: names(browser, LEFT) == ["data.bin"])


def test_rows_stay_the_same_while_they_are_selected_scrolled_and_come(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    show(browser, service, *sides)
    browser.run(f"window.before = [...document.querySelectorAll('{LEFT} tr[data-at]')]")
    mouse.click(row(browser, LEFT, "README.txt"))
    mouse.click(row(browser, LEFT, "table.csv"), holding=CONTROL)
    browser.click(f"{LEFT} .dotfiles")
    browser.click(f"{LEFT} .dotfiles")
    browser.click(f"{LEFT} [data-sort=size] button")
    assert browser.run("return before.every(one => one.isConnected)")
    browser.click(f"{LEFT} [data-sort=name] button")


def test_an_unselected_row_is_dragged_to_the_other_side(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    left, right = sides
    show(browser, service, left, right)
    with mouse.dragging(row(browser, LEFT, "table.csv"), f"{RIGHT} .scroller"):
        eventually(lambda: browser.run(f"return document.querySelector('{RIGHT}').matches('.over')"))
    eventually(lambda: content(right.folder / "table.csv") == b"a,b\n1,2\n")
    assert not browser.run("return Boolean(document.querySelector('.over, .into'))")


def test_a_drop_goes_into_the_folder_under_the_pointer(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    left, right = sides
    (right.folder / "inbox").mkdir()
    show(browser, service, left, right)
    inbox = row(browser, RIGHT, "inbox")
    mouse.click(row(browser, LEFT, "README.txt"))
    mouse.click(row(browser, LEFT, "table.csv"), holding=CONTROL)
    with mouse.dragging(row(browser, LEFT, "table.csv"), inbox):
        eventually(lambda: browser.run(f"return document.querySelector('{inbox}').matches('.into')"))
    eventually(lambda: content(right.folder / "inbox" / "table.csv") is not None)
    eventually(lambda: content(right.folder / "inbox" / "README.txt") is not None)
    # Within a pane, too; but not a folder into itself.
    mouse.drag(row(browser, LEFT, "README.txt"), row(browser, LEFT, "run1"))
    eventually(lambda: content(left.folder / "run1" / "README.txt") is not None)
    mouse.drag(row(browser, LEFT, "run1"), row(browser, LEFT, "run1"))
    assert selected(browser, LEFT) == ["run1"]
    assert not (left.folder / "run1" / "run1").exists()


def test_a_range_is_selected_with_shift_and_single_rows_with_control(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    left, right = sides
    for number in range(9):
        (left.folder / f"x{number}").write_text("x")
    show(browser, service, left, right)
    mouse.click(row(browser, LEFT, "x2"))
    mouse.click(row(browser, LEFT, "x5"), holding=SHIFT)
    assert selected(browser, LEFT) == ["x2", "x3", "x4", "x5"]
    mouse.click(row(browser, LEFT, "x3"), holding=CONTROL)
    mouse.click(row(browser, LEFT, "x8"), holding=CONTROL)
    assert selected(browser, LEFT) == ["x2", "x4", "x5", "x8"]
    assert "4 selected" in said(browser, LEFT)


def test_a_right_click_selects_the_row_and_shows_its_menu(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    left, right = sides
    show(browser, service, left, right)
    mouse.click(row(browser, LEFT, "run1"))
    mouse.right_click(row(browser, LEFT, "table.csv"))
    assert selected(browser, LEFT) == ["table.csv"]
    check_page(browser)
    browser.resize(1280)
    mouse.right_click(row(browser, LEFT, "table.csv"))
    choose(browser, mouse, "rename")
    assert right.folder.name not in browser.text("dialog")
    browser.press("named")
    browser.press(ENTER)
    eventually(lambda: content(left.folder / "named.csv") is not None)
    eventually(lambda: "named.csv" in names(browser, LEFT))
    # Beside the rows it is the menu of the folder; a press elsewhere and Escape close it.
    x, y = middle(browser, f"{RIGHT} .scroller")
    mouse.right_click((x, y + 60))
    assert not there(browser, f"{MENU} [data-name=rename]")
    browser.press(ESCAPE)
    assert not there(browser, MENU)
    assert browser.run("return document.activeElement.closest('.pane')?.id") == RIGHT[1:]
    mouse.right_click((x, y + 60))
    mouse.click("h1")
    assert not there(browser, MENU)


def test_a_menu_is_used_by_keys(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> None:
    left, right = sides
    show(browser, service, left, right)
    browser.type(f"{LEFT} table", DOWN)
    keys(browser, "Shift+F10")
    assert browser.run("return document.activeElement.dataset.name") == "open"
    browser.press("n" + ENTER)
    assert left.folder.parent.name in browser.text("dialog")
    browser.type("#dialog-name", "by-keys" + ENTER)
    eventually(lambda: (left.folder / "by-keys").is_dir())


def test_a_selection_of_several_is_no_single_one(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    show(browser, service, *sides)
    mouse.click(row(browser, LEFT, "README.txt"))
    mouse.click(row(browser, LEFT, "table.csv"), holding=CONTROL)
    for name, may in {"rename": False, "download": True, "share": False, "delete": True, "copy-path": True}.items():
        button = f"document.querySelector('{LEFT} .tools [data-action={name}]')"
        assert (browser.run(f"return {button}.ariaDisabled") == "false") is may
        assert browser.run(f"return {button}.title") != ""
    mouse.click(f"{LEFT} .tools [data-action=rename]")
    assert not there(browser, "dialog")


def test_sorting_stays_at_the_top(browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse) -> None:
    left, right = sides
    for number in range(200):
        (left.folder / f"{number:03}.dat").write_bytes(b"x" * number)
    show(browser, service, left, right)
    mouse.click(f"{LEFT} [data-sort=size] button")
    mouse.click(f"{LEFT} [data-sort=size] button")
    assert names(browser, LEFT)[:2] == ["run1", "199.dat"]
    assert scrolled(browser, LEFT) == 0
    mouse.wheel(f"{LEFT} .scroller", 900)
    eventually(lambda: scrolled(browser, LEFT) > 0)
    mouse.click(f"{LEFT} [data-sort=name] button")
    assert names(browser, LEFT)[:2] == ["run1", "000.dat"]
    assert scrolled(browser, LEFT) == 0


@pytest.fixture
def large(sides: tuple[Site, Site]) -> Site:
    """A folder with many entries in no order, a server sends them as the disk has them."""
    folder = sides[0].folder / "large"
    folder.mkdir()
    for number in range(MANY):
        (folder / f"{number:06}").touch()
    return sides[0]


def test_a_large_folder_opens_at_its_first_row_under_a_pointer_that_rests(
    browser: Chromium, service: Api, sides: tuple[Site, Site], large: Site, mouse: Mouse
) -> None:
    show(browser, service, *sides)
    mouse.double_click(f"{row(browser, LEFT, 'large')} bdi")
    eventually(lambda: "30" in said(browser, LEFT) and "so far" not in said(browser, LEFT), seconds=120)
    assert scrolled(browser, LEFT) == 0
    assert names(browser, LEFT)[0] == "000000"


def test_what_is_looked_at_stays_while_rows_arrive(
    browser: Chromium, service: Api, sides: tuple[Site, Site], large: Site, mouse: Mouse
) -> None:
    show(browser, service, *sides)
    mouse.double_click(f"{row(browser, LEFT, 'large')} bdi")
    eventually(lambda: "so far" in said(browser, LEFT), seconds=60)
    mouse.wheel(f"{LEFT} .scroller", 3200)
    eventually(lambda: scrolled(browser, LEFT) >= 3200)
    seen = f"""
        const box = document.querySelector('{LEFT} .scroller').getBoundingClientRect();
        return document.elementFromPoint(box.left + 100, box.top + 70).closest('tr').querySelector('bdi').textContent"""
    first = browser.run(seen)
    eventually(lambda: "so far" not in said(browser, LEFT), seconds=120)
    assert browser.run(seen) == first


def test_a_folder_that_is_listed_again_stays_as_it_is_seen(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    left, right = sides
    for number in range(100):
        (left.folder / f"x{number:02}").write_text("x")
    show(browser, service, left, right)
    mouse.wheel(f"{LEFT} .scroller", 960)
    eventually(lambda: scrolled(browser, LEFT) == 960)
    browser.run(f"window.before = document.querySelector('{row(browser, LEFT, 'x33')}')")
    (left.folder / "later").write_text("x")
    browser._devtools("Network.enable", {})
    slow = {"offline": False, "latency": 1500, "downloadThroughput": -1, "uploadThroughput": -1}
    browser._devtools("Network.emulateNetworkConditions", slow)
    mouse.click(f"{LEFT} [data-action=reload]")
    # Meanwhile something is selected.
    mouse.click(row(browser, LEFT, "x33"))
    assert "1 selected" in said(browser, LEFT)
    browser.network(offline=False)
    eventually(lambda: browser.run(f"return document.querySelector('{LEFT} table').ariaRowCount") == "105")
    assert selected(browser, LEFT) == ["x33"]
    assert scrolled(browser, LEFT) == 960
    assert browser.run("return before.isConnected && before.matches('.now')")


# ---- what the page says


def test_a_new_folder_and_an_upload_name_the_side_that_receives(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse, tmp_path: Path
) -> None:
    left, right = sides
    show(browser, service, left, right)
    for pane, site in ((RIGHT, right), (LEFT, left)):
        assert site.folder.name in browser.run(f"return document.querySelector('{pane} [data-action=upload]').title")
        mouse.click(f"{pane} [data-action=new-folder]")
        assert f"-{site.folder.name}" in browser.text("dialog")
        assert browser.run(f"return document.querySelector('{pane}').matches('.here')")
        mouse.click("dialog .actions button:not(.main)")
        assert not there(browser, "dialog")
    browser.run("document.querySelector('#upload-files').addEventListener('click', event => event.preventDefault())")
    mouse.click(f"{RIGHT} [data-action=upload]")
    file = tmp_path / "sent.txt"
    file.write_text("sent")
    browser.type("#upload-files", str(file))
    assert f"sent.txt → {right.folder.parent.name}-right /" in browser.text("#uploads")
    eventually(lambda: content(right.folder / "sent.txt") == b"sent")
    assert [one.name for one in left.folder.iterdir() if one.name == "sent.txt"] == []


def test_a_side_without_an_endpoint_shows_only_where_to_choose_one(
    browser: Chromium, service: Api, sides: tuple[Site, Site]
) -> None:
    browser.open(f"{service.url}/transfer")
    eventually(lambda: browser.shows("Where is your data?"))
    for css in (".path-row", ".tools", ".filter", "thead"):
        assert not there(browser, f"{LEFT} {css}")
    show(browser, service, *sides)
    for css in (".path-row", ".tools", ".filter", "thead"):
        assert there(browser, f"{LEFT} {css}")


def test_a_button_that_does_nothing_does_not_light_up(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    show(browser, service, *sides)
    for css in (f"{LEFT} .copy", f"{LEFT} .tools [data-action=share]"):
        look = f"const one = getComputedStyle(document.querySelector('{css}')); return [one.backgroundColor, one.color]"
        mouse.click(row(browser, LEFT, "README.txt")) if "share" in css else None
        assert browser.run(f"return document.querySelector('{css}').ariaDisabled") == "true"
        mouse.move("h1")
        before = browser.run(look)
        mouse.move(css)
        assert browser.run(look) == before


def test_a_submission_that_takes_its_time_says_so(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    left, right = sides
    show(browser, service, left, right)
    mouse.click(row(browser, LEFT, "table.csv"))
    slow = {"offline": False, "latency": 1500, "downloadThroughput": -1, "uploadThroughput": -1}
    browser._devtools("Network.enable", {})
    browser._devtools("Network.emulateNetworkConditions", slow)
    try:
        mouse.click(f"{LEFT} .copy")
        eventually(lambda: "Submitting" in browser.text(f"{LEFT} .copy"))
        assert browser.run(f"return document.querySelector('{LEFT} .copy').ariaBusy") == "true"
        assert browser.run(f"return document.querySelector('{RIGHT} .copy').ariaDisabled") == "true"
    finally:
        browser.network(offline=False)
    eventually(lambda: content(right.folder / "table.csv") is not None)
    eventually(lambda: "Submitting" not in browser.text(f"{LEFT} .copy"))


def test_a_folder_is_shared_from_where_it_is(
    browser: Chromium, service: Api, sides: tuple[Site, Site], mouse: Mouse
) -> None:
    left, right = sides
    show(browser, service, left, right)
    for _ in range(2):  # the second time it is shared already
        mouse.click(row(browser, LEFT, "run1"))
        mouse.click(f"{LEFT} .tools [data-action=share]")
        if _ == 0:
            eventually(lambda: there(browser, "dialog"))
            mouse.click("dialog .main")
        eventually(lambda: browser.address.endswith("#rules"))
        show(browser, service, left, right)
    found = service.call("GET", f"/endpoint/{left.id}/my_shared_endpoint_list")["DATA"]
    assert [(one["display_name"], one["host_path"]) for one in found] == [("run1", left.path("run1/"))]


# ---- the finger


@pytest.fixture
def telephone(browser: Chromium, service: Api, sides: tuple[Site, Site]) -> Iterator[Chromium]:
    screen = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser._devtools("Emulation.setDeviceMetricsOverride", screen)
    browser._devtools("Emulation.setTouchEmulationEnabled", {"enabled": True})
    browser.open(address(service, *sides))
    ready(browser, LEFT, RIGHT)
    yield browser
    browser._devtools("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_a_long_press_shows_the_menu(telephone: Chromium, sides: tuple[Site, Site], finger: Finger) -> None:
    browser = telephone
    finger.rest(row(browser, LEFT, "table.csv"))
    assert there(browser, MENU)
    assert selected(browser, LEFT) == ["table.csv"]
    finger.tap(f"{MENU} [data-name=delete]")
    eventually(lambda: there(browser, "dialog .main.danger"))
    finger.tap("dialog .main.danger")
    eventually(lambda: content(sides[0].folder / "table.csv") is None)


def test_a_tap_shows_the_bar_and_its_last_button_the_menu(
    telephone: Chromium, sides: tuple[Site, Site], finger: Finger
) -> None:
    browser = telephone
    assert not there(browser, f"{LEFT} .tools [data-action=rename]")
    finger.tap(row(browser, LEFT, "README.txt"))
    finger.tap(f"{LEFT} .tools [data-action=open]")
    eventually(lambda: there(browser, "dialog pre"))
    finger.tap("dialog .icon-only")
    finger.tap(f"{LEFT} .tools [data-action=menu]")
    assert there(browser, f"{MENU} [data-name=share]")
    finger.tap(f"{MENU} [data-name=rename]")
    eventually(lambda: there(browser, "#dialog-name"))


def test_a_finger_that_scrolls_shows_no_menu(
    browser: Chromium, service: Api, sides: tuple[Site, Site], request: pytest.FixtureRequest, finger: Finger
) -> None:
    for number in range(100):
        (sides[0].folder / f"x{number:02}").write_text("x")
    request.getfixturevalue("telephone")
    finger.swipe(row(browser, LEFT, "x03"), 150)
    eventually(lambda: scrolled(browser, LEFT) > 0)
    assert not there(browser, MENU)
    assert selected(browser, LEFT) == []


# ---- the registry

KEYS = {
    "Enter": ENTER, "F2": "\ue032", "F5": "\ue035", "F7": "\ue037", "F10": "\ue03a", "Delete": "\ue017",
    "Escape": ESCAPE, "Tab": "\ue004", "Backspace": "\ue003", "Alt": ALT, "Ctrl": CONTROL, "Shift": SHIFT,
}  # fmt: skip


def keys(browser: Chromium, shortcut: str) -> None:
    """Press a shortcut as the registry writes it."""
    parts = [KEYS.get(part, part) for part in shortcut.split("+")] if len(shortcut) > 1 else [shortcut]
    acts = [{"type": "keyDown", "value": one} for one in parts] + [
        {"type": "keyUp", "value": one} for one in reversed(parts)
    ]
    browser.perform([{"type": "key", "id": "keys", "actions": acts}])


def registry(browser: Chromium) -> dict[str, dict[str, Any]]:
    """The actions of the page by name: its own, not those of every page."""
    found = browser.run_until_done("""
        const done = arguments[arguments.length - 1];
        const loaded = performance.getEntriesByType("resource").map(one => one.name);
        import(loaded.find(one => /\\/actions\\.\\w+\\.js/.test(one))).then(({ all, shortcutsOf }) =>
            done(all().map(one => [one.name, { group: one.group, key: shortcutsOf(one)[0] ?? "" }])));
    """)
    return {name: action for name, action in found if action["group"] in ("Transfer", "In a listing")}


@dataclass
class Act:
    """An action: what is selected, how one sees that it was done, what takes it back, its button if not of the bar."""

    did: Callable[[], object]
    back: Callable[[], object] = lambda: None
    selects: str = "README.txt"
    button: str = ""


class Desk:
    """A page with files to act on, and each action of the registry with its effect."""

    def __init__(self, browser: Chromium, service: Api, sides: tuple[Site, Site], downloads: Path) -> None:
        self._browser, self._service, self._sides, self._downloads = browser, service, sides, downloads
        left, right = sides
        self._home, self._there = left.folder / "run1", right.folder
        for name in ("README.txt", "table.csv"):
            (self._home / name).write_text(f"this is {name}")
        self._news = 0
        self.show()
        dialog = self._dialog
        self.acts = {
            "open": Act(dialog("this is README.txt"), self._escape),
            "copy": Act(lambda: content(self._there / "README.txt"), self._remove_copy, button=f"{LEFT} .copy"),
            "download": Act(lambda: content(downloads / "README.txt"), lambda: (downloads / "README.txt").unlink()),
            "share": Act(dialog("Share this folder"), self._escape, "deep"),
            "rename": Act(dialog("New name"), self._escape),
            "delete": Act(dialog("Delete 1"), self._escape),
            "copy-path": Act(lambda: self._clipboard() == left.path("run1/README.txt"), self._clear_clipboard),
            "toggle": Act(lambda: selected(browser, LEFT) == [], button="toggle"),
            "select-all": Act(lambda: len(selected(browser, LEFT)) == 3, button=f"{LEFT} .all"),
            "invert": Act(lambda: selected(browser, LEFT) == ["deep", "table.csv"]),
            "select-none": Act(lambda: selected(browser, LEFT) == []),
            "new-folder": Act(dialog("New folder"), self._escape, ""),
            "upload": Act(lambda: browser.run("return window.asksFiles"), self._ask_no_files, ""),
            "upload-folder": Act(lambda: browser.run("return window.asksFiles"), self._ask_no_files, ""),
            "parent": Act(lambda: "run1" in names(browser, LEFT), self.show),
            "reload": Act(lambda: f"new{self._news}" in names(browser, LEFT), self._no_news),
            "edit-path": Act(lambda: there(browser, f"{LEFT} .path-edit"), self._escape),
            "bookmark": Act(lambda: "Bookmarked" in toast(browser), self._forget_bookmark),
            "swap": Act(lambda: "README.txt" in names(browser, RIGHT), self.show, "", "[data-action=swap]"),
            "options": Act(lambda: there(browser, "#opt-label"), self._close_options, "", "#options summary"),
            "menu": Act(lambda: there(browser, MENU), self._escape),
            "other-listing": Act(lambda: browser.run("return document.activeElement.closest('.pane').id") == RIGHT[1:]),
        }  # fmt: skip

    def show(self) -> None:
        left, right = self._sides
        self._browser.open(address(self._service, left, right, origin_path=left.path("run1/")))
        ready(self._browser, LEFT, RIGHT)
        self._browser.run("""
            for (const one of document.querySelectorAll('#upload-files, #upload-folder'))
                one.addEventListener('click', event => { event.preventDefault(); window.asksFiles = true; });""")

    def prepare(self, name: str, mouse: Mouse) -> None:
        """Select what the action is done to."""
        act = self.acts[name]
        if name == "reload":
            self._news += 1
            (self._home / f"new{self._news}").touch()
        mouse.click(row(self._browser, LEFT, act.selects or "README.txt"))
        if not act.selects:
            self._browser.press(ESCAPE)
        eventually(lambda: bool(selected(self._browser, LEFT)) is bool(act.selects))

    def button(self, name: str) -> str:
        own = self.acts[name].button
        if own == "toggle":
            return f"{row(self._browser, LEFT, 'README.txt')} .tick"
        return own or f"{LEFT} button[data-action={name}]"

    def _dialog(self, words: str) -> Callable[[], object]:
        return lambda: words in str(self._browser.run("return document.querySelector('dialog')?.innerText"))

    def _escape(self) -> None:
        self._browser.press(ESCAPE)
        eventually(lambda: not there(self._browser, f"dialog, {MENU}"))

    def _remove_copy(self) -> None:
        # A file that is removed before it is verified is copied again.
        eventually(lambda: not self._copies_under_way())
        (self._there / "README.txt").unlink()
        clear_toasts(self._browser)
        self.show()
        self._browser.run("localStorage.removeItem('transfer-submitted')")

    def _copies_under_way(self) -> list[str]:
        tasks = self._service.call("GET", "/task_list?filter=status:ACTIVE")["DATA"]
        return [task["task_id"] for task in tasks if task["source_endpoint_id"] == self._sides[0].id]

    def _clipboard(self) -> str:
        read = "navigator.clipboard.readText().then(arguments[arguments.length - 1], () => arguments[0]?.(''))"
        return str(self._browser.run_until_done(read))

    def _clear_clipboard(self) -> None:
        self._browser.run_until_done("navigator.clipboard.writeText('-').then(arguments[arguments.length - 1])")

    def _ask_no_files(self) -> None:
        self._browser.run("window.asksFiles = false")

    def _no_news(self) -> None:
        for one in self._home.glob("new*"):
            one.unlink()
        self.show()

    def _forget_bookmark(self) -> None:
        clear_toasts(self._browser)
        for one in self._service.call("GET", "/bookmark_list")["DATA"]:
            if one["endpoint_id"] == self._sides[0].id:
                self._service.call("DELETE", f"/bookmark/{one['id']}")

    def _close_options(self) -> None:
        self._browser.run("document.querySelector('#options').open = false")


@pytest.fixture
def desk(browser: Chromium, service: Api, sides: tuple[Site, Site], tmp_path: Path) -> Desk:
    browser._devtools("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    granted = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser._devtools("Browser.grantPermissions", granted)
    return Desk(browser, service, sides, tmp_path)


def _each(
    desk: Desk, browser: Chromium, mouse: Mouse, found: dict[str, dict[str, Any]], by: Callable[[str], None]
) -> None:
    assert set(desk.acts) == set(registry(browser)), "an action without a test, or a test without an action"
    for name in found:
        act = desk.acts[name]
        desk.prepare(name, mouse)
        assert not act.did(), f"{name} is done already"
        by(name)
        eventually(act.did)
        act.back()


def test_each_action_has_a_key_that_does_it(browser: Chromium, desk: Desk, mouse: Mouse) -> None:
    found = registry(browser)
    assert [name for name, action in found.items() if not action["key"]] == []
    _each(desk, browser, mouse, found, lambda name: keys(browser, found[name]["key"]))


def test_each_action_has_a_button_that_does_it(browser: Chromium, desk: Desk, mouse: Mouse) -> None:
    found = {name: action for name, action in registry(browser).items() if name != "other-listing"}
    _each(desk, browser, mouse, found, lambda name: mouse.click(desk.button(name)))


def test_each_action_has_an_entry_in_the_menu_that_does_it(browser: Chromium, desk: Desk, mouse: Mouse) -> None:
    found = {name: action for name, action in registry(browser).items() if name not in ("menu", "other-listing")}

    def by_menu(name: str) -> None:
        mouse.click(f"{LEFT} .tools [data-action=menu]")
        choose(browser, mouse, name)

    _each(desk, browser, mouse, found, by_menu)
