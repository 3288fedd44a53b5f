"""Octets of a terminal to keys: UTF-8 text, control characters, and the escape sequences of ECMA-48 and of xterm."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto


class Key(Enum):
    """The keys that the editor knows. Each other one is ignored."""

    ENTER = auto()
    INTERRUPT = auto()
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
    0x01: Key.HOME, 0x02: Key.LEFT, 0x03: Key.INTERRUPT, 0x04: Key.LEAVE_OR_DELETE, 0x05: Key.END, 0x06: Key.RIGHT,
    0x07: Key.CANCEL, 0x08: Key.BACKSPACE, 0x09: Key.COMPLETE, 0x0B: Key.KILL_TO_END, 0x0C: Key.REDRAW,
    0x0E: Key.DOWN, 0x10: Key.UP, 0x12: Key.SEARCH, 0x14: Key.TRANSPOSE, 0x15: Key.KILL_TO_START,
    0x17: Key.KILL_BLANK_WORD, 0x19: Key.YANK, 0x7F: Key.BACKSPACE,
}  # fmt: skip
_META = {
    "b": Key.WORD_LEFT, "f": Key.WORD_RIGHT, "d": Key.KILL_WORD_RIGHT, "\x7f": Key.KILL_WORD_LEFT,
    "\x08": Key.KILL_WORD_LEFT, "t": Key.TRANSPOSE_WORDS, "<": Key.OLDEST, ">": Key.NEWEST,
}  # fmt: skip
_FINAL = {
    "A": Key.UP, "B": Key.DOWN, "C": Key.RIGHT, "D": Key.LEFT, "H": Key.HOME, "F": Key.END,
}  # fmt: skip
_TILDE = {
    "1": Key.HOME, "3": Key.DELETE, "4": Key.END, "7": Key.HOME, "8": Key.END,
    "200": Key.PASTE_BEGIN, "201": Key.PASTE_END,
}  # fmt: skip
_WITH_WORDS = {Key.LEFT: Key.WORD_LEFT, Key.RIGHT: Key.WORD_RIGHT}
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

    def feed(self, data: bytes) -> Iterator[Key | Text]:
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

    def _one(self, letter: str) -> Key | None:
        if self._sequence:
            return self._in_sequence(letter)
        after_return, self._after_return = self._after_return, letter == "\r"
        if letter == _ESCAPE:
            self._sequence = letter
            return None
        if letter in "\r\n":
            # Enter is CR or LF; the two together are one Enter.
            return None if letter == "\n" and after_return else Key.ENTER
        return _CONTROL.get(ord(letter))

    def _in_sequence(self, letter: str) -> Key | None:
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
