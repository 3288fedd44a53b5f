"""The line editor of the shell's terminal: keys, the line, and the screen that a person sees."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.screen import Screen
from transferapi.shell.context import Signal
from transferapi.shell.errors import InterruptedByUserError, UsageError
from transferapi.shell.terminal.editor import Completion, Editor, History
from transferapi.shell.terminal.keyboard import Keyboard
from transferapi.shell.terminal.keys import KeyReader, TerminalKey, Text
from transferapi.shell.terminal.line import MAX_TYPED, Line
from transferapi.shell.terminal.widths import columns, shown
from transferapi.shell.words import MAX_LINE

LEFT, RIGHT, UP, DOWN, DELETE = b"\x1b[D", b"\x1b[C", b"\x1b[A", b"\x1b[B", b"\x1b[3~"


class Typist:
    """A terminal at which somebody types: gives the parts one after the other, and draws what it receives."""

    def __init__(self, parts: Iterable[bytes], screen: Screen, term: str = "xterm") -> None:
        self._parts: Iterator[bytes] = iter(parts)
        self.screen = screen
        self.term = term
        self.sent = b""

    def read(self, timeout: float | None) -> bytes | None:
        return next(self._parts, b"")

    def write(self, data: bytes) -> None:
        self.sent += data
        self.screen.feed(data)

    def size(self) -> tuple[int, int]:
        return self.screen.columns, self.screen.height


def typed(*parts: bytes, columns: int = 40, rows: int = 12, term: str = "xterm") -> tuple[list[str], Typist]:
    """The lines that the editor returns until the input ends, and the terminal."""
    terminal = Typist(parts, Screen(columns, rows, plain=term in ("", "dumb")), term)
    editor, history = Editor(terminal, Keyboard(terminal)), History()
    found = []
    while True:
        try:
            found.append(editor.read("$ ", history))
        except InterruptedByUserError:
            found.append("^C")
        except EOFError:
            return found, terminal


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ([b"abc", LEFT, LEFT, b"X"], "aXbc"),
        ([b"abc", b"\x01", b"X", b"\x05", b"Y"], "XabcY"),
        ([b"abc", b"\x1b[H", DELETE, b"\x1bOF", b"\x7f"], "b"),
        ([b"abc\x08\x08d"], "ad"),
        ([b"ls ep1/some/path", b"\x17"], "ls "),
        ([b"ls ep1/some/path", b"\x1b\x7f", b"x"], "ls ep1/some/x"),
        ([b"one two three", b"\x1bb\x1bb", b"\x0b", b"\x01\x19 "], "two three one "),
        ([b"one two", b"\x15", b"x", b"\x19"], "xone two"),
        ([b"one two three", b"\x17\x17", b"\x01\x19"], "two threeone "),
        ([b"sl", b"\x14", b" a"], "ls a"),
        ([b"one two", b"\x1bt"], "two one"),
        ([b"one two", b"\x1b[1;5D\x1b[1;5D\x1b[1;5CX"], "oneX two"),
        ([b"one two", b"\x01\x1bd"], " two"),
        ([b"e\xcc\x81a", b"\x7f\x7f"], ""),
        (["\N{CJK UNIFIED IDEOGRAPH-65E5}\N{CJK UNIFIED IDEOGRAPH-672C}".encode(), LEFT, b"a"], "\u65e5a\u672c"),
        ([b"a\xff\xfeb"], "a\udcff\udcfeb"),
        ([b"a", b"\x1a\x1c\x13\x11\x00", b"b"], "ab"),
        ([b"\x1b[200~a\tb\x1b[201~"], "a b"),
        ([b"a\x1b[99;99;99zb"], "ab"),
        ([b"a\xe6", b"\x97", b"\xa5b"], "a\u65e5b"),
    ],
)
def test_keys_edit_the_line(keys: list[bytes], line: str) -> None:
    assert typed(*keys, b"\r")[0] == [line]


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
def test_enter_is_cr_or_lf_and_a_pasted_block_runs_line_by_line(end: bytes) -> None:
    assert typed(b"one" + end + b"two" + end)[0] == ["one", "two"]


def test_the_last_line_of_the_input_needs_no_line_end() -> None:
    assert typed(b"one\ntwo")[0] == ["one", "two"]


def test_ctrl_c_clears_the_line_and_ctrl_d_leaves_on_an_empty_line_only() -> None:
    found, terminal = typed(b"abc", b"\x03", b"de", LEFT, b"\x04", b"\r", b"\x04", b"never read\r")
    assert found == ["^C", "d"]
    assert terminal.screen.lines() == ["$ abc^C", "$ d", "$"]


def test_lines_are_recalled_and_the_unfinished_one_comes_back() -> None:
    assert typed(b"one\rtwo\r", b"unfin", UP, UP, UP, DOWN, DOWN, b"!\r")[0][-1] == "unfin!"
    assert typed(b"one\rtwo\r", UP, UP, b"\r")[0][-1] == "one"


def test_lines_that_begin_with_a_blank_and_repetitions_are_not_kept() -> None:
    assert typed(b"one\r one secret\rtwo\rtwo\r", UP, UP, b"\r")[0][-1] == "one"


def test_ctrl_r_searches_backwards() -> None:
    found, terminal = typed(b"ls a\rls b\rstatus\r", b"\x12ls", b"\x12", b"\r")
    assert found[-1] == "ls a"
    assert terminal.screen.lines() == ["$ ls a", "$ ls b", "$ status", "$ ls a", "$"]


def test_a_search_is_shown_and_cancelled() -> None:
    keys, rows = [b"ls a\r", b"un", b"\x12", b"l", b"\x07", b"!\r", b"\x12", b"zz", b"\x03", b"x\r"], []

    class Watched(Typist):
        def read(self, timeout: float | None) -> bytes | None:
            rows.append(self.screen.lines()[-1])
            return super().read(timeout)

    terminal = Watched(keys, Screen(40, 12))
    editor, history = Editor(terminal, Keyboard(terminal)), History()
    assert [editor.read("$ ", history) for _ in range(3)] == ["ls a", "un!", "x"]
    assert rows[3:6] == ["(reverse-i-search)`': un", "(reverse-i-search)`l': ls a", "$ un"]
    assert rows[8:10] == ["(failed reverse-i-search)`zz':", "$"]


def test_the_history_is_bounded_by_lines_and_characters() -> None:
    history = History()
    for number in range(10_000):
        history.add(f"{number} " + "x" * 1000)
    newest = history.search("")
    assert newest is not None
    assert newest < 299
    assert history[newest].startswith("9999 ")


def test_a_line_that_is_too_long_is_refused_and_not_run() -> None:
    terminal = Typist([b"x" * MAX_TYPED, b"y", b"\r"], Screen(80, 24))
    with pytest.raises(UsageError, match=f"at most {MAX_TYPED} octets"):
        Editor(terminal, Keyboard(terminal)).read("$ ")
    assert terminal.screen.bells == 1


def test_a_passphrase_is_neither_shown_nor_kept() -> None:
    terminal = Typist([b"sec", b"rex", UP, b"\x12", b"\x7ft\r", UP, b"\x19\r"], Screen(40, 12))
    editor, history = Editor(terminal, Keyboard(terminal)), History()
    assert editor.read("Passphrase: ", echo=False) == "secret"
    assert terminal.screen.lines() == ["Passphrase:"]
    assert editor.read("$ ", history) == ""
    assert history.search("") is None
    assert b"sec" not in terminal.sent


@pytest.mark.parametrize("term", ["", "dumb", "xterm"])
def test_typing_sends_no_escape_sequence_and_echoes_long_lines_as_they_are(term: str) -> None:
    line = b"transfer -- " + b"ep1/" * 30
    _, terminal = typed(*(line[at : at + 1] for at in range(len(line))), b"\r", columns=20, rows=24, term=term)
    assert terminal.sent == b"$ " + line + b"\r\n$ \r\n"


def test_a_plain_terminal_gets_no_escape_sequence_whatever_is_typed() -> None:
    """The screen of a plain terminal refuses them."""
    keys = [b"x" * 50, LEFT, b"y", b"\x01", b"z", UP, b"\x12", b"\x0c", b"\x05\x7f\x7f", b"\r", UP, b"\x17\r"]
    assert typed(*keys, columns=20, term="dumb")[0][0] == "z" + "x" * 49 + "y"[:0]


def test_tab_completes_or_lists_the_choices() -> None:
    choices = ("endpoint-add", "endpoint-list")

    def complete(text: str) -> Completion | None:
        if text == "end":
            return Completion(0, "endpoint-", choices)
        return Completion(0, text, choices) if text == "endpoint-" else None

    terminal = Typist([b"end", b"\t", b"\t", b"\x02", b"\t", b"\r"], Screen(40, 12))
    assert Editor(terminal, Keyboard(terminal)).read("$ ", None, complete) == "endpoint-"
    assert terminal.screen.lines() == ["$ endpoint-", "endpoint-add   endpoint-list", "$ endpoint-"]
    assert terminal.screen.bells == 1


def test_a_new_width_of_the_window_draws_a_long_line_anew() -> None:
    class Resized(Typist):
        def read(self, timeout: float | None) -> bytes | None:
            data = super().read(timeout)
            if data == b"resize":
                self.screen = Screen(30, 12)
                self.screen.feed(b"$ " + b"x" * 50)
                return None
            return data

    terminal = Resized([b"x" * 50, b"resize", b"\x01", b"y"], Screen(20, 12))
    with pytest.raises(EOFError):
        _read_twice(terminal)
    assert terminal.screen.lines() == ["$ y" + "x" * 27, "x" * 23, "$"]


def _read_twice(terminal: Typist) -> None:
    editor = Editor(terminal, Keyboard(terminal))
    editor.read("$ ")
    editor.read("$ ")


LETTERS = st.sampled_from("ab /\"'\u00e9\u0301\u65e5\N{GRINNING FACE}\u200d\ufeff\u202e\u1160")
_CONTROL = b"\x7f\x01\x05\x0b\x15\x17\x19\x14\x04\x0c\x03\r\n\t\x1b"
_META = b"btfd<>"
KEYS = st.sampled_from(
    [LEFT, RIGHT, UP, DOWN, DELETE] + [bytes([one]) for one in _CONTROL] + [b"\x1b" + bytes([one]) for one in _META]
)
TYPED = st.lists(
    st.one_of(KEYS, st.text(LETTERS, max_size=30).map(str.encode), st.text(LETTERS, max_size=3).map(str.encode)),
    max_size=40,
)


class Checked(Typist):
    """Compares the screen with the line each time when the editor waits for a key."""

    def __init__(self, parts: Iterable[bytes], screen: Screen, term: str) -> None:
        super().__init__(parts, screen, term)
        self.editor = Editor(self, Keyboard(self))

    def read(self, timeout: float | None) -> bytes | None:
        line: Line = self.editor._line
        text, at = "$ " + shown(line.text), 2 + line.cursor
        if self.editor._display._first is None:
            self._check_whole(text, at)
        else:
            self._check_window(text, at)
        return super().read(timeout)

    def _check_whole(self, text: str, at: int) -> None:
        """The rows that end with the line are those of a terminal that shows nothing else."""
        alone = Screen(self.screen.columns, 400)
        alone.feed(text.encode())
        rows = list(map("".join, alone.rows[: alone.row + 1]))
        height = min(len(rows), self.screen.height)
        place = Screen(self.screen.columns, 400)
        place.feed(text[:at].encode())
        wide = at < len(text) and place.column + max(1, columns(text[at])) > self.screen.columns
        if at < len(text) and (place._late or wide):
            place.row, place.column = place.row + 1, 0
        below = len(rows) - 1 - place.row
        last = self.screen.row + below
        assert ["".join(row) for row in self.screen.rows[last + 1 - height : last + 1]] == rows[-height:]
        assert self.screen.column == place.column
        assert all(cell == " " for row in self.screen.rows[last + 1 :] for cell in row)

    def _check_window(self, text: str, at: int) -> None:
        row = self.screen.rows[self.screen.row]
        before = "".join(row[: self.screen.column])
        assert text[:at].endswith(before)
        assert text[at:].startswith("".join(row[self.screen.column :]).rstrip()[: len(text) - at])


@settings(max_examples=300, deadline=None)
@given(TYPED, st.integers(8, 30), st.integers(1, 8), st.sampled_from(["xterm", "dumb"]))
@example([b"x" * 18, LEFT, b"\x7f"], 20, 8, "xterm")
@example([b"x" * 17 + "\u65e5".encode(), LEFT, LEFT, b"\x7f"], 20, 8, "xterm")
def test_the_screen_shows_the_line_after_each_key(parts: list[bytes], width: int, rows: int, term: str) -> None:
    terminal = Checked(parts, Screen(width, rows, plain=term == "dumb"), term)
    history = History()
    while True:
        try:
            terminal.editor.read("$ ", history)
        except InterruptedByUserError:
            continue
        except EOFError:
            return


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=20), st.sampled_from(["xterm", "dumb"]))
def test_any_octets_are_only_a_line(parts: list[bytes], term: str) -> None:
    typed(*filter(None, parts), columns=17, rows=5, term=term)


@given(st.binary(max_size=200), st.data())
def test_keys_do_not_depend_on_how_their_octets_arrive(octets: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(octets)))
    parted = KeyReader()
    assert _joined(KeyReader().feed(octets)) == _joined([*parted.feed(octets[:at]), *parted.feed(octets[at:])])


def _joined(keys: Iterable[TerminalKey | Text]) -> list[TerminalKey | str]:
    found: list[TerminalKey | str] = []
    for key in keys:
        if isinstance(key, Text) and found and isinstance(found[-1], str):
            found[-1] += key.text
        else:
            found.append(key.text if isinstance(key, Text) else key)
    return found


def test_while_a_command_runs_ctrl_c_and_bg_are_signals_and_the_rest_is_kept() -> None:
    terminal = Typist([b"status\r", b"x\x03", b"bx\x7fg\r", b"next\r"], Screen(40, 12))
    keyboard = Keyboard(terminal)
    assert keyboard.watch(60) is Signal.INTERRUPT
    assert keyboard.watch(60) is Signal.BACKGROUND
    assert keyboard.watch(0) is None
    assert Editor(terminal, keyboard).read("$ ") == "next"


def test_what_is_typed_ahead_is_bounded() -> None:
    terminal = Typist([b"y" * 40_000] * 10, Screen(40, 12))
    keyboard = Keyboard(terminal)
    assert keyboard.watch(0.01) is None
    assert keyboard.dropped
    assert sum(len(key.text) for key in keyboard._keys if isinstance(key, Text)) <= MAX_LINE


@given(st.text(max_size=30))
def test_no_text_controls_the_terminal(text: str) -> None:
    assert len(shown(text)) == len(text)
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in shown(text))
