"""Reads a JSON document with a long list of items in bounded memory, whatever the document holds.

The body goes to a file first, so that a slow client does not delay other large bodies. Then the document is parsed
piece by piece. Of each item only the known fields are kept; the rest of the document is bounded as any other document.
Numbers: docs/security.md.
"""

from __future__ import annotations

import codecs
import ctypes
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from sys import getsizeof
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NoReturn

from django.conf import settings
from rest_framework.exceptions import ParseError

from endpoints.error_meanings import RequestTooLarge, TooManyRequests, Unavailable
from transferapi.tasks import request_rules

from .errors import BadRequest

#: Octets parsed at once (no other thread runs meanwhile); the most characters of one item, and of all that is no item.
PIECE, MAX_ITEM, MAX_REST = 1 << 16, 1 << 18, 1 << 20
#: The most commas and brackets for each allowed item, including those in texts: they cost more time than text does.
VALUES = 20
#: Octets of memory for the texts of one item, besides their own: ASCII paths never exceed the bound on memory.
TEXT_COST = 4 * 64
#: A body with more octets is a large one: a process reads one at a time. Seconds that the next one waits for its turn.
LARGE, WAIT_SECONDS = 1 << 20, 5.0
#: The fields of items. Of other fields only the names of a few stay, for a warning: so many, with so many characters.
MOST_UNKNOWN, NAME = 5, 64
FIELDS = (
    "DATA_TYPE", "source_path", "destination_path", "recursive", "external_checksum", "checksum_algorithm", "path",
)  # fmt: skip
_BLANKS = " \t\n\r"


def refuse_constant(word: str) -> NoReturn:
    """Refuse NaN and Infinity, which the standard library accepts."""
    raise ValueError(f"{word} is not JSON")


_decoder = json.JSONDecoder(parse_constant=refuse_constant)


def spooled(stream: IO[bytes], length: int) -> IO[bytes]:
    """The body in a file, in memory as long as it is small. Raises the error of the stream where the client is gone."""
    file = SpooledTemporaryFile(max_size=LARGE)  # noqa: SIM115 (the caller closes it)
    try:
        while length > 0 and (piece := stream.read(min(PIECE, length))):
            file.write(piece)
            length -= len(piece)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _give_memory_back() -> None:
    """Return freed memory to the system: glibc keeps up to 60 MB for the next request of each thread."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class _Turns:
    """Lets one large body at a time be read; a second large body of the same user is refused at once."""

    def __init__(self) -> None:
        self._one = threading.Lock()
        self._users: set[object] = set()
        self._guard = threading.Lock()

    @contextmanager
    def turn(self, user: object) -> Iterator[None]:
        """Raises TooManyRequests, Unavailable."""
        with self._guard:
            if user in self._users:
                raise TooManyRequests("Another large submission of yours is being read", int(WAIT_SECONDS))
            self._users.add(user)
        try:
            if not self._one.acquire(timeout=WAIT_SECONDS):
                raise Unavailable("Other large submissions are being read; try again")
            try:
                yield
            finally:
                _give_memory_back()
                self._one.release()
        finally:
            with self._guard:
                self._users.discard(user)


turns = _Turns()


def read(file: IO[bytes]) -> Any:
    """The document, with the kept parts of its items in DATA. Raises ParseError, RequestTooLarge, BadRequest."""
    window = _Window(file)
    try:
        return _Reader(window).document()
    except json.JSONDecodeError as error:
        raise ParseError(f"JSON parse error: {error.msg}: {window.place(error.pos)}") from None
    except RecursionError:
        raise ParseError("JSON parse error: the document is nested too deeply") from None
    except ValueError as error:
        raise ParseError(f"JSON parse error: {str(error)[:200]}") from None


class _Window:
    """The part of the text that is in memory. offset: characters before it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._over = False
        #: Whether `several` has parsed this part of the text.
        self._tried = False
        self._values = 0
        first = file.read(4)
        file.seek(0)
        self._decoder = codecs.getincrementaldecoder(json.detect_encoding(first))("surrogatepass")
        self.offset = 0
        #: The line of the first character in memory, and the characters of that line before it.
        self._line, self._column = 1, 0

    def place(self, at: int) -> str:
        """The place of a character of the text in memory, in the words of the standard library."""
        line, column = self._after(self._text[:at])
        return f"line {line} column {column + 1} (char {self.offset + at})"

    def _after(self, text: str) -> tuple[int, int]:
        """The line, and the characters of it, behind this beginning of the text in memory."""
        breaks = text.count("\n")
        column = len(text) - text.rfind("\n") - 1 if breaks else self._column + len(text)
        return self._line + breaks, column

    def next(self) -> str:
        """The next character that is not blank, without consuming it; "" at the end."""
        while True:
            text, at = self._text, self._at
            while at < len(text) and text[at] in _BLANKS:
                at += 1
            self._at = at
            if at < len(text):
                return text[at]
            if not self._more():
                return ""

    def take(self, wanted: str) -> str:
        """Consume the next character, which must be one of these."""
        found = self.next()
        if not found or found not in wanted:
            raise json.JSONDecodeError(f"Expecting {' or '.join(map(repr, wanted))}", self._text, self._at)
        self._at += 1
        return found

    def end(self) -> None:
        """Check that nothing follows. Raises JSONDecodeError."""
        if self.next():
            raise json.JSONDecodeError("Extra data", self._text, self._at)

    def value(self, most: int) -> tuple[Any, int]:
        """The next value, and its length in characters. Raises RequestTooLarge where it has more than `most`."""
        self.next()
        while True:
            whole = self._over
            try:
                value, end = _decoder.raw_decode(self._text, self._at)
            except ValueError:
                if whole:
                    raise
            else:
                # A number may continue after the end of the window.
                if whole or end < len(self._text):
                    length = end - self._at
                    self._at = end
                    return value, self._checked(length, most)
            pending = self._checked(len(self._text) - self._at, most)
            # At least twice as much: with each piece alone, the time would grow with the square of the length.
            while self._more() and len(self._text) < 2 * pending:
                pass

    def several(self) -> list[Any]:
        """All complete objects of a list in the window, at once: much faster than one by one.

        Empty where the last of them contains an object, or a string that looks like the end of one.
        """
        end = self._text.rfind("},", self._at) + 1
        if self._tried or not end:
            return []
        self._tried = True
        try:
            found: list[Any] = _decoder.decode(f"[{self._text[self._at : end]}]")
        except (ValueError, RecursionError):
            return []
        self._at = end
        return found

    def _checked(self, length: int, most: int) -> int:
        if length > most + PIECE:
            raise RequestTooLarge(f"A part of this document has more than {most} characters")
        return length

    def _more(self) -> bool:
        if self._over:
            return False
        data = self._file.read(PIECE)
        self._over = not data
        self._line, self._column = self._after(self._text[: self._at])
        self.offset += self._at
        self._tried = False
        text = self._decoder.decode(data, self._over)
        self._values += sum(map(text.count, ",[{"))
        if self._values > VALUES * settings.LIMITS.items:
            most = f"{VALUES} commas and brackets for each of {settings.LIMITS.items} items"
            raise RequestTooLarge(f"A document has at most {most}")
        self._text = self._text[self._at :] + text
        self._at = 0
        return not self._over


class _Reader:
    """Reads one document. `_rest`: characters outside of items. `_kept`: octets of the kept parts of items."""

    def __init__(self, window: _Window) -> None:
        self._window = window
        self._rest = 0
        self._kept = 0
        self._count = 0
        self._unknown: set[str] = set()

    def document(self) -> Any:
        if self._window.next() != "{":
            found: Any = self._small()
        else:
            found = {}
            for name in self._members("{", "}", lambda: [self._name()]):
                is_list = name == "DATA" and self._window.next() == "["
                found[name] = list(self._members("[", "]", self._items)) if is_list else self._small()
        self._window.end()
        return found

    def _members(self, begin: str, end: str, read: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """The elements between these brackets, separated by commas."""
        window = self._window
        window.take(begin)
        if window.next() == end:
            window.take(end)
            return
        while True:
            yield from read()
            if window.take("," + end) == end:
                return

    def _name(self) -> str:
        if self._window.next() != '"':
            self._window.take('"')
        name = self._small()
        self._window.take(":")
        return str(name)

    def _small(self) -> Any:
        value, length = self._window.value(MAX_REST)
        self._rest += length
        if self._rest > MAX_REST:
            raise RequestTooLarge(f"A document has at most {MAX_REST} characters besides its items")
        return value

    def _items(self) -> Iterator[Any]:
        """The next few items, as far as they are in memory; at least one."""
        return map(self._item, self._window.several() or [self._window.value(MAX_ITEM)[0]])

    def _item(self, value: Any) -> Any:
        self._count += 1
        if self._count > settings.LIMITS.items:
            raise BadRequest(f"DATA: {request_rules.too_many_items()}")
        if not isinstance(value, dict):
            return _plain(value)
        kept = {name: _plain(value[name]) for name in FIELDS if name in value}
        if len(kept) < len(value) and len(self._unknown) < MOST_UNKNOWN:
            self._keep_unknown(value, kept)
        self._kept += sum(map(getsizeof, kept.values()))
        if self._kept > settings.LIMITS.submission + TEXT_COST * self._count:
            raise RequestTooLarge("The paths of the items take too much memory")
        return kept

    def _keep_unknown(self, value: dict[str, Any], kept: dict[str, Any]) -> None:
        """Keep the names of unknown fields, each in one item only."""
        for name in value:
            if name not in FIELDS and name[:NAME] not in self._unknown and len(self._unknown) < MOST_UNKNOWN:
                self._unknown.add(name[:NAME])
                kept[name[:NAME]] = None


def _plain(value: Any) -> Any:
    """A list or an object is invalid here, whatever it contains."""
    return () if isinstance(value, (list, dict)) else value
