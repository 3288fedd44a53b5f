"""The progress line of `scp`, `rm` and `wait`: `[XXXX      ] done/total RATE mbps`, redrawn in its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from .context import Context, Signal

#: The columns of the whole line.
WIDTH = 79
_FIRST, _GROWTH, _LONGEST = 0.02, 1.2, 1.0
#: Larger numbers would leave no room for the bar.
_MOST = 10**15


@dataclass(frozen=True, slots=True)
class Progress:
    """done and total: files. mbps: megabits in a second. ended: nothing of it will change any more."""

    done: int
    total: int
    mbps: float
    ended: bool


class End(Enum):
    """Why `follow` returned, if no signal ended it."""

    ENDED = auto()
    TIMEOUT = auto()


def render(done: int, total: int, mbps: float) -> str:
    """The line, exactly WIDTH columns, without a line end."""
    done, total = (max(0, min(count, _MOST)) for count in (done, total))
    text = f" {done}/{total} {max(0.0, min(mbps, _MOST)):.2f} mbps"
    room = WIDTH - len("[]") - len(text)
    filled = min(room, room * done // total) if total else 0
    return f"[{'X' * filled:<{room}}]{text}"


def follow(
    context: Context, look: Callable[[], Progress], *, show: bool = True, seconds: float | None = None
) -> End | Signal:
    """Look again and again until the progress has ended, `seconds` are over, or the user or the connection ends it.

    show: draw the line on standard output, whether it is a terminal or not. `look` may call the services by
    `context.call`. Raises DisconnectedError where the client has gone while the line was written.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    end: End | Signal | None = None
    shown = ""
    delays = _delays()
    while end is None:
        state = look()
        if show:
            shown = _draw(context, state, shown)
        end = End.ENDED if state.ended else _wait(context, next(delays), deadline)
    if show and end is not Signal.DISCONNECTED:
        context.out("\n")
    return end


def _draw(context: Context, state: Progress, shown: str) -> str:
    """Draw the line where it differs from what is shown: the file of a redirected output does not grow without end."""
    line = render(state.done, state.total, state.mbps)
    if line != shown:
        context.out(f"\r{line}")
    return line


def _wait(context: Context, delay: float, deadline: float | None) -> End | Signal | None:
    """None: it is time to look again."""
    if deadline is not None:
        left = deadline - time.monotonic()
        if left <= 0:
            return End.TIMEOUT
        delay = min(delay, left)
    return context.pause(delay)


def _delays() -> Iterator[float]:
    """Short at first: a small file has arrived within the time of a few looks."""
    delay = _FIRST
    while True:
        yield delay
        delay = min(_LONGEST, delay * _GROWTH)
