"""Draw the prompt and the line that is being edited, with as few octets as the change needs.

Typing at the end of the line is echoed as it is, and the terminal wraps long lines: programs that drive the shell read
their own line back. Other changes redraw from the first difference. The escape sequences for that (cursor movement,
erase) are sent where a key asks for one, and never to a terminal whose TERM is `dumb` or unset. Such a terminal, and a
line that has more rows than the window, show a part of the line around the cursor in one row, with carriage returns and
blanks only.
"""

from __future__ import annotations

from collections.abc import Callable

from .widths import columns, end, shown, width

_DEFAULT = (80, 24)
_LEAST, _MOST = 8, 1000
_UP, _RIGHT, _ERASE_BELOW, _CLEAR = "\x1b[{}A", "\x1b[{}C", "\x1b[J", "\x1b[H\x1b[2J"


class Display:
    """write: takes octets. term: the TERM of the client. `resize` before the first use."""

    def __init__(self, write: Callable[[bytes], None], term: str) -> None:
        self._write = write
        self._plain = term in ("", "dumb")
        self._columns, self._rows = _DEFAULT
        self._out: list[str] = []
        self._reset()

    def _reset(self) -> None:
        """The cursor stands at the left of an empty row."""
        self._drawn = ""
        self._at = 0
        #: Where the row of the window begins in `_drawn`; None: the whole line is shown.
        self._first: int | None = None
        self._cells = 0

    def show(self, prompt: str, text: str, cursor: int) -> None:
        """Make the terminal show the prompt and the text, and the cursor before the character `cursor` of the text."""
        new, at = prompt + shown(text), len(prompt) + cursor
        if self._first is None and not self._change_at_end(new, at):
            if not self._plain and self._fits(self._drawn) and self._fits(new):
                self._redraw(new, at)
            else:
                self._enter_window()
        if self._first is not None:
            self._draw_window(new, at)
        self._drawn, self._at = new, at
        self._flush()

    def finish(self, more: str = "") -> None:
        """Go behind the line, and then to the next row; `more` stands behind the line."""
        if self._first is None:
            self._go(self._place(self._drawn, self._at), end(self._drawn, self._columns))
        self._out.append(f"{more}\r\n")
        self._flush()
        self._reset()

    def lines(self, text: str) -> None:
        """Write lines below the line that is being edited. The next `show` draws that anew."""
        self.finish()
        self._out.append(text.replace("\n", "\r\n"))
        self._flush()

    def bell(self) -> None:
        self._write(b"\a")

    def clear(self) -> None:
        """Clear the window; without escape sequences, begin a new row."""
        if self._plain:
            self.finish()
        else:
            self._out.append(_CLEAR)
            self._reset()

    def resize(self, size: tuple[int, int]) -> None:
        """Draw anew where the window has another width and the line more than one row."""
        found = [given or default for given, default in zip(size, _DEFAULT, strict=True)]
        width_now, self._rows = max(_LEAST, min(found[0], _MOST)), max(1, min(found[1], _MOST))
        width_before, self._columns = self._columns, width_now
        if width_now == width_before or columns(self._drawn) < min(width_now, width_before):
            return
        text, at = self._drawn, self._at
        if self._plain or self._first is not None or not self._fits(text):
            self._enter_window()
            self._draw_window(text, at)
        else:
            # Terminals wrap the text anew: its first row is as far away as in the new width.
            self._go(self._place(text, at), (0, 0))
            self._out.append(_ERASE_BELOW)
            self._drawn, self._at = "", 0
            self._redraw(text, at)
            self._drawn, self._at = text, at
        self._flush()

    def _change_at_end(self, new: str, at: int) -> bool:
        """Draw the frequent changes without moving the cursor: none, characters more or one less at the end."""
        old = self._drawn
        if new == old and at == self._at:
            return True
        if self._at != len(old) or at != len(new):
            return False
        if new.startswith(old):
            self._out.append(new[len(old) :])
            return True
        return len(new) < len(old) and old.startswith(new) and self._rub_out(new)

    def _rub_out(self, new: str) -> bool:
        """Erase the last characters of the row by backspaces and blanks."""
        (row, column), (old_row, old_column) = end(new, self._columns), end(self._drawn, self._columns)
        size = old_column - column
        if row != old_row or old_column >= self._columns or size < 1 or not width(self._drawn[len(new)]):
            return False
        self._out.append("\b" * size + " " * size + "\b" * size)
        return True

    def _fits(self, text: str) -> bool:
        return end(text, self._columns)[0] < self._rows - 1

    def _redraw(self, new: str, at: int) -> None:
        """Draw from the first difference on. The cursor moves by escape sequences."""
        old = self._drawn
        same = self._same(old, new)
        place = end(new[:same], self._columns)
        if same < len(old) or same < len(new):
            self._go(self._place(old, self._at), place)
            if same < len(old):
                self._out.append(_ERASE_BELOW)
            self._out.append(new[same:])
            place = end(new, self._columns)
        else:
            place = self._place(old, self._at)
        self._go(place, self._place(new, at))

    def _same(self, old: str, new: str) -> int:
        """The length of the common beginning that can stay: behind it is a whole character, not in the last column."""
        same = _common(old, new)
        while same and self._is_awkward(same, old, new):
            same -= 1
        return same

    def _is_awkward(self, same: int, old: str, new: str) -> bool:
        if any(same < len(text) and not width(text[same]) for text in (old, new)):
            return True
        return end(new[:same], self._columns)[1] >= self._columns - 1

    def _place(self, text: str, at: int) -> tuple[int, int]:
        """Row and column of the cursor before the character `at`."""
        row, column = end(text[:at], self._columns)
        if at < len(text) and column + max(1, width(text[at])) > self._columns:
            return row + 1, 0
        return row, column

    def _go(self, here: tuple[int, int], there: tuple[int, int]) -> None:
        if here == there:
            return
        (row, column), (to_row, to_column) = here, there
        if row == to_row and to_column < column < self._columns and column - to_column <= 4:
            self._out.append("\b" * (column - to_column))
            return
        if row > to_row:
            self._out.append("\r" + _UP.format(row - to_row))
        else:
            self._out.append("\r" + "\n" * (to_row - row))
        if to_column:
            self._out.append(_RIGHT.format(to_column))

    def _enter_window(self) -> None:
        """From now on, one row shows a part of the line: this one where it is the first, else a new one."""
        cells = columns(self._drawn)
        if self._first is not None or cells >= self._columns:
            if self._first is None and not self._plain:
                self._go(self._place(self._drawn, self._at), end(self._drawn, self._columns))
            self._out.append("\r\n")
            cells = 0
        self._first, self._cells = 0, cells

    def _draw_window(self, new: str, at: int) -> None:
        room = self._columns - 1
        first = self._first_shown(new, at, room)
        last, cells = first, 0
        while last < len(new) and cells + width(new[last]) <= room:
            cells += width(new[last])
            last += 1
        self._out.append("\r" + new[first:last] + " " * (self._cells - cells))
        if at < last or self._cells > cells:
            self._out.append("\r" + new[first:at])
        self._first, self._cells = first, cells

    def _first_shown(self, new: str, at: int, room: int) -> int:
        """The first character of the row: the same as before while the cursor stays in the row."""
        first = min(self._first or 0, len(new))
        if first <= at <= first + room and columns(new[first:at]) < room:
            return first
        if at <= room and columns(new[:at]) < room:
            return 0
        first, cells = at, 0
        while first and cells + width(new[first - 1]) <= room * 2 // 3:
            first -= 1
            cells += width(new[first])
        while first < at and not width(new[first]):
            first += 1
        return first

    def _flush(self) -> None:
        if self._out:
            text, self._out = "".join(self._out), []
            self._write(text.encode())


def _common(old: str, new: str) -> int:
    """The length of the common beginning of two texts, by bisection: texts of many thousand characters are usual."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
