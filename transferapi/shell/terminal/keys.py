"""Octets of a terminal to keys: UTF-8 text, control characters, and the escape sequences of ECMA-48 and of xterm."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto


class TerminalKey(Enum):
    """The keys that the editor knows. Each other one is ignored."""

    ENTER = auto()
    INTERRUPT = auto()
    SUSPEND = auto()
    LEAVE_OR_DELETE = auto()
    LEFT = auto()
    RIGHT = auto()
    UP = auto()
    DOWN = auto()
    HOME = auto()
    END = auto()
    BACKSPACE = auto()
    DELETE = auto()
    WORD_LEFT = auto()
    WORD_RIGHT = auto()
    KILL_TO_END = auto()
    KILL_TO_START = auto()
    KILL_BLANK_WORD = auto()
    KILL_WORD_LEFT = auto()
    KILL_WORD_RIGHT = auto()
    YANK = auto()
    TRANSPOSE = auto()
    TRANSPOSE_WORDS = auto()
    COMPLETE = auto()
    SEARCH = auto()
    CANCEL = auto()
    REDRAW = auto()
    OLDEST = auto()
    NEWEST = auto()
    PASTE_BEGIN = auto()
    PASTE_END = auto()


@dataclass(frozen=True, slots=True)
class Text:
    """Characters to insert. An octet that is no UTF-8 is a lone surrogate, as in names of files."""

    text: str


_CONTROL = {
    0x01: TerminalKey.HOME, 0x02: TerminalKey.LEFT, 0x03: TerminalKey.INTERRUPT, 0x04: TerminalKey.LEAVE_OR_DELETE,
    0x05: TerminalKey.END, 0x06: TerminalKey.RIGHT, 0x07: TerminalKey.CANCEL, 0x08: TerminalKey.BACKSPACE,
    0x09: TerminalKey.COMPLETE, 0x0B: TerminalKey.KILL_TO_END, 0x0C: TerminalKey.REDRAW, 0x0E: TerminalKey.DOWN,
    0x10: TerminalKey.UP, 0x12: TerminalKey.SEARCH, 0x14: TerminalKey.TRANSPOSE, 0x15: TerminalKey.KILL_TO_START,
    0x17: TerminalKey.KILL_BLANK_WORD, 0x19: TerminalKey.YANK, 0x1A: TerminalKey.SUSPEND, 0x7F: TerminalKey.BACKSPACE,
}  # fmt: skip
_META = {
    "b": TerminalKey.WORD_LEFT, "f": TerminalKey.WORD_RIGHT, "d": TerminalKey.KILL_WORD_RIGHT,
    "\x7f": TerminalKey.KILL_WORD_LEFT, "\x08": TerminalKey.KILL_WORD_LEFT, "t": TerminalKey.TRANSPOSE_WORDS,
    "<": TerminalKey.OLDEST, ">": TerminalKey.NEWEST,
}  # fmt: skip
_FINAL = {
    "A": TerminalKey.UP, "B": TerminalKey.DOWN, "C": TerminalKey.RIGHT, "D": TerminalKey.LEFT, "H": TerminalKey.HOME,
    "F": TerminalKey.END,
}  # fmt: skip
_TILDE = {
    "1": TerminalKey.HOME, "3": TerminalKey.DELETE, "4": TerminalKey.END, "7": TerminalKey.HOME, "8": TerminalKey.END,
    "200": TerminalKey.PASTE_BEGIN, "201": TerminalKey.PASTE_END,
}  # fmt: skip
_WITH_WORDS = {TerminalKey.LEFT: TerminalKey.WORD_LEFT, TerminalKey.RIGHT: TerminalKey.WORD_RIGHT}
#: A longer sequence is not waited for.
_LONGEST_SEQUENCE = 32
_ESCAPE = "\x1b"
_PLAIN = re.compile("[^\x00-\x1f\x7f]+")


class KeyReader:
    """Keeps what is left of a character or a sequence between two reads; a few octets at most."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._sequence = ""
        self._after_return = False

    def feed(self, data: bytes) -> Iterator[TerminalKey | Text]:
        """The keys of these octets. Use up the iterator before the next call."""
        text = self._decoder.decode(data)
        at = 0
        while at < len(text):
            if not self._sequence and (plain := _PLAIN.match(text, at)):
                at = plain.end()
                self._after_return = False
                yield Text(plain.group())
                continue
            key = self._one(text[at])
            at += 1
            if key is not None:
                yield key

    def _one(self, letter: str) -> TerminalKey | None:
        if self._sequence:
            return self._in_sequence(letter)
        after_return, self._after_return = self._after_return, letter == "\r"
        if letter == _ESCAPE:
            self._sequence = letter
            return None
        if letter in "\r\n":
            # Enter is CR or LF; the two together are one Enter.
            return None if letter == "\n" and after_return else TerminalKey.ENTER
        return _CONTROL.get(ord(letter))

    def _in_sequence(self, letter: str) -> TerminalKey | None:
        if letter in "\x03\r\n\x1b":
            # A sequence that is cut short does not hide Ctrl-C, Enter, or the next sequence.
            self._sequence = ""
            return self._one(letter)
        if self._sequence == _ESCAPE:
            self._sequence = _ESCAPE + letter if letter in "[O" else ""
            return None if self._sequence else _META.get(letter.lower())
        if letter.isascii() and (letter.isdigit() or letter in ";:<=>?!\"#$%&'()*+,-./ "):
            self._sequence = self._sequence + letter if len(self._sequence) < _LONGEST_SEQUENCE else ""
            return None
        parameters, self._sequence = self._sequence[2:].split(";"), ""
        key = _TILDE.get(parameters[0]) if letter == "~" else _FINAL.get(letter)
        return _WITH_WORDS.get(key, key) if key is not None and len(parameters) > 1 else key
