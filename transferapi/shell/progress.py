"""The progress line of `scp`, `rm` and `wait`: `[XXXX      ] done/total RATE mbps`, redrawn in its place.

At a terminal that is wide enough, the octets and the time that is left follow: `34% of 1.2 TB, 0:05:10 left`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

from .context import Context, Signal

#: The columns of the whole line where there is no terminal; the fewest of a bar, and the most of the line.
WIDTH = 79
_LEAST_BAR, _WIDEST = 10, 160
#: Octets from which their part is shown.
_LARGE = 10**6
_FIRST, _GROWTH, _LONGEST = 0.02, 1.2, 1.0
#: Larger numbers would leave no room for the bar.
_MOST = 10**15
#: Seconds that are left, above which a forecast says nothing.
_LONGEST_LEFT = 100 * 86400


@dataclass(frozen=True, slots=True)
class Progress:
    """done and total: files. mbps: megabits in a second. ended: nothing of it will change any more.

    octets, all_octets: those of files that have arrived, also in part, and of those that were found.
    """

    done: int
    total: int
    mbps: float
    ended: bool
    octets: int = 0
    all_octets: int = 0


class End(Enum):
    """Why `follow` returned, if no signal ended it."""

    ENDED = auto()
    TIMEOUT = auto()


def render(state: Progress, columns: int | None = None) -> str:
    """The line without a line end: WIDTH columns, or one less than the terminal has, where a line would else break.

    columns: of the terminal; None: there is none.
    """
    done, total = (max(0, min(count, _MOST)) for count in (state.done, state.total))
    text = f" {done}/{total} {max(0.0, min(state.mbps, _MOST)):.2f} mbps"
    width = WIDTH if columns is None else min(columns - 1, _WIDEST)
    if columns is not None:
        text = next((text + more for more in _details(state) if len(text + more) + _LEAST_BAR + 2 <= width), text)
    room = width - len("[]") - len(text)
    if room < 1:
        return text.strip()[: max(1, width)]
    filled = int(room * _share(state))
    return f"[{'X' * filled:<{room}}]{text}"


def _share(state: Progress) -> float:
    """The part that is done, of the files or of their octets: the one that is further, for skipped files have none."""
    parts = ((state.done, state.total), (state.octets, state.all_octets))
    return max(min(1.0, max(0, done) / total) if total > 0 else 0.0 for done, total in parts)


def _details(state: Progress) -> Iterator[str]:
    """The octets and the time that is left, from the longest to the shortest."""
    if state.all_octets < _LARGE or state.ended:
        return
    part = f" {100 * min(state.octets, state.all_octets) // state.all_octets}%"
    of_all = f"{part} of {_readable(state.all_octets)}"
    left = (state.all_octets - state.octets) * 8 / (state.mbps * 1e6) if state.mbps > 0 else 0.0
    if 0 < left < _LONGEST_LEFT:
        yield f"{of_all}, {timedelta(seconds=round(left))} left"
    yield of_all
    yield part


def _readable(octets: int) -> str:
    """Octets in decimal units, as disks are sold: `1.2 TB`."""
    size, unit = float(octets), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if size < 999.95:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}"


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
    line = render(state, context.columns)
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
