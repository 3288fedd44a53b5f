"""A mouse and a finger for a browser: input events of the browser (WebDriver actions), none made by a script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .chromium import Chromium

CONTROL, SHIFT = "\ue009", "\ue008"
_LEFT, _RIGHT = 0, 2
_MIDDLE = """
const one = document.querySelector({css});
one.scrollIntoView({{ block: "nearest" }});
const at = one.getBoundingClientRect();
return [Math.round(at.left + at.width / 2), Math.round(at.top + at.height / 2)];
"""

Place = tuple[int, int]


def middle(browser: Chromium, css: str) -> Place:
    """Where the element is in the window."""
    x, y = browser.run(_MIDDLE.format(css=repr(css)))
    return x, y


class Mouse:
    """Each method takes the selector of an element, or a place in the window."""

    def __init__(self, browser: Chromium) -> None:
        self._browser = browser

    def move(self, to: str | Place) -> None:
        self._act([_move(self._place(to))])

    def click(self, at: str | Place, *, holding: str = "") -> None:
        """holding: a key that is down meanwhile."""
        self._act([_move(self._place(at)), *_press(_LEFT)], holding)

    def double_click(self, at: str | Place) -> None:
        self._act([_move(self._place(at)), *_press(_LEFT), *_press(_LEFT)])

    def right_click(self, at: str | Place) -> None:
        self._act([_move(self._place(at)), *_press(_RIGHT)])

    def drag(self, start: str | Place, end: str | Place) -> None:
        with self.dragging(start, end):
            pass

    @contextmanager
    def dragging(self, start: str | Place, end: str | Place) -> Iterator[None]:
        """Within, the button is still down, and the pointer is at the end."""
        first, last = self._place(start), self._place(end)
        between = ((first[0] + last[0]) // 2, (first[1] + last[1]) // 2)
        near = (first[0] + 6, first[1] + 6)
        down: list[dict[str, Any]] = [_move(first), {"type": "pointerDown", "button": _LEFT}]
        self._act([*down, _move(near), _move(between), _move(last), _move((last[0] + 1, last[1]))])
        yield
        self._act([{"type": "pointerUp", "button": _LEFT}])

    def wheel(self, at: str | Place, pixels: int) -> None:
        x, y = self._place(at)
        scroll = {"type": "scroll", "x": x, "y": y, "deltaX": 0, "deltaY": pixels, "duration": 0}
        self._browser.perform([{"type": "wheel", "id": "wheel", "actions": [scroll]}])

    def _place(self, at: str | Place) -> Place:
        return middle(self._browser, at) if isinstance(at, str) else at

    def _act(self, actions: list[dict[str, Any]], holding: str = "") -> None:
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        if not holding:
            self._browser.perform([mouse])
            return
        # One tick for the key before the mouse, one after it.
        still = {"type": "pause", "duration": 0}
        mouse["actions"] = [still, *actions, still]
        down, up = ({"type": kind, "value": holding} for kind in ("keyDown", "keyUp"))
        keys = {"type": "key", "id": "keys", "actions": [down, *[still] * len(actions), up]}
        self._browser.perform([keys, mouse])


class Finger:
    """One finger on a screen."""

    def __init__(self, browser: Chromium) -> None:
        self._browser = browser

    def tap(self, at: str) -> None:
        self._touch([_move(middle(self._browser, at)), *_press(_LEFT)])

    def rest(self, at: str, milliseconds: int = 900) -> None:
        """A long press."""
        down, up = _press(_LEFT)
        pause = {"type": "pause", "duration": milliseconds}
        self._touch([_move(middle(self._browser, at)), down, pause, up])

    def swipe(self, at: str, pixels: int) -> None:
        """Upwards, as to scroll down."""
        x, y = middle(self._browser, at)
        down, up = _press(_LEFT)
        steps = [_move((x, y - pixels * part // 8), 20) for part in range(1, 9)]
        self._touch([_move((x, y)), down, *steps, up])

    def _touch(self, actions: list[dict[str, Any]]) -> None:
        kind = {"pointerType": "touch"}
        self._browser.perform([{"type": "pointer", "id": "finger", "parameters": kind, "actions": actions}])


def _move(to: Place, milliseconds: int = 0) -> dict[str, Any]:
    return {"type": "pointerMove", "x": to[0], "y": to[1], "duration": milliseconds, "origin": "viewport"}


def _press(button: int) -> list[dict[str, Any]]:
    return [{"type": kind, "button": button} for kind in ("pointerDown", "pointerUp")]
