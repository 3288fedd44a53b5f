"""Lists of transfers and deletes on standard input, a line for each item: `SOURCE DESTINATION [-r] [-s LEVEL]`.

Each line is checked as it arrives and kept in a spool: a list of a million lines takes no memory. An error names the
line, the column, and where blanks are the cause, the quoting that works.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from endpoints import registry
from endpoints.permissions import Permission
from identity.models import User
from transferapi.tasks import request_rules
from transferapi.tasks.errors import RequestError
from transferapi.tasks.items.spool import Spool, SpooledItems

from . import names, words
from .context import Context
from .errors import ShellError, UsageError
from .names import Location
from .words import Word

#: Names of one endpoint, or bookmarks, that a list remembers; others are looked up again.
_REMEMBERED = 1000
_QUOTES = (b'"', b"'", b"\\")
_TRANSFER_FIELDS = 6
#: Characters of a line that an error repeats.
_REPEATED = 300


class LineError(ShellError):
    """A line of a list is wrong. It is no usage error: the command itself is well formed."""


def poor(number: int, text: str, advice: str = "") -> LineError:
    """The error of the historical shell; advice: of ours, behind it."""
    return LineError(f"Poorly formed input line {number}: '{text}'" + (f" ({advice})" if advice else ""))


@dataclass(frozen=True, slots=True)
class ListLine:
    """One line. number: from 1; 0: the operands of `transfer` or `delete`. sync: its own level."""

    number: int
    operands: tuple[Word, ...]
    recursive: bool = False
    sync: int | None = None

    @property
    def text(self) -> str:
        """The operands, separated by blanks."""
        return " ".join(word.text for word in self.operands)


def not_recursive(text: str, doing: str, number: int = 1) -> LineError:
    """The error of a folder without -r. text: the operands, or the line of this number.

    doing: "transfering" or "deleting"; the first one's spelling is historical.
    """
    return poor(number, f"-r option should be used when {doing} directories: {text} ")


def read(context: Context, count: int) -> Iterator[ListLine]:
    """The lines of standard input with `count` operands each, without empty lines and comments (`# ...`).

    Raises LineError, DisconnectedError.
    """
    number = 0
    try:
        for number, raw in enumerate(context.lines(), 1):
            if (found := parse(raw, number, count)) is not None:
                yield found
    except UsageError as error:
        raise LineError(f"line {number + 1}: {error.message}") from None


def parse(raw: bytes, number: int, count: int) -> ListLine | None:
    """None: an empty line or a comment. Raises LineError."""
    parts = raw.split()
    if not parts or parts[0].startswith(b"#"):
        return None
    text = raw.decode("utf-8", "surrogateescape")
    if len(parts) == count and not any(quote in raw for quote in _QUOTES) and not any(p[:1] == b"-" for p in parts):
        return ListLine(number, _plain(text, parts))
    try:
        split = words.split(text)
    except UsageError as error:
        raise poor(number, _repeated(text), error.message) from None
    return _with_options(split, text, number, count)


def of_operands(given: list[Word], count: int) -> ListLine:
    """The operands of a command as the one line of a list. Raises LineError."""
    text, operands = "", []
    for word in given:
        operands.append(Word(word.text, len(text) + 1))
        text += f"{word.text} "
    if len(operands) > count:
        raise _too_many(operands, text, 1, count)
    if len(operands) < count:
        raise _too_few(operands, text, 1, f"{_wanted(count)} wanted")
    return ListLine(0, tuple(operands))


def _wanted(count: int) -> str:
    return "SOURCE and DESTINATION are" if count == 2 else "ENDPOINT/PATH is"


def _plain(text: str, parts: list[bytes]) -> tuple[Word, ...]:
    """The words of a line without quotes."""
    found: list[Word] = []
    at = 0
    for part in parts:
        word = part.decode("utf-8", "surrogateescape")
        at = text.index(word, at)
        found.append(Word(word, at + 1))
        at += len(word)
    return tuple(found)


def _with_options(split: list[Word], text: str, number: int, count: int) -> ListLine:
    operands: list[Word] = []
    recursive, sync = False, None
    rest = iter(split)
    for word in rest:
        if word.text in ("-r", "--recursive"):
            recursive = True
        elif word.text.startswith("-s"):
            sync = _level(word.text[2:] or next(rest, Word("", 0)).text, word, number)
        elif word.text.startswith("-") and len(word.text) > 1:
            raise poor(number, f"Unknown option: {word.text}: {_repeated(text)}", f"column {word.column}")
        else:
            operands.append(word)
    if len(operands) > count:
        raise _too_many(operands, text, number, count)
    if len(operands) < count:
        raise _too_few(operands, text, number, f"{_wanted(count)} wanted on each line")
    return ListLine(number, tuple(operands), recursive, sync)


def _level(text: str, word: Word, number: int) -> int:
    if text not in ("0", "1", "2", "3"):
        raise poor(number, f"Invalid Number '{text}'", f"column {word.column}: -s takes a level from 0 to 3")
    return int(text)


def _too_few(operands: list[Word], text: str, number: int, advice: str) -> LineError:
    """One word that names no endpoint has an error of its own in the historical shell."""
    if operands and not names.parted(operands[0].text)[1] and not operands[0].text.startswith("^"):
        return LineError(f"Missing '/': '{_repeated(operands[0].text)}'", advice=f"{advice}.")
    return poor(number, _repeated(text), advice)


def _too_many(operands: list[Word], text: str, number: int, count: int) -> LineError:
    """A path with blanks and without quotes: name the first word too many, and the quoting that works."""
    at = _second_endpoint(operands) if count == 2 else len(operands)
    first = _between(text, operands[0], operands[at] if at < len(operands) else None)
    quoted = [words.quote(first)]
    if at < len(operands):
        quoted.append(words.quote(_between(text, operands[at], None)))
    extra = operands[1] if at > 1 else operands[at + 1]
    repeated = f"Unknown option: {extra.text}: {_repeated(text)}"
    return poor(number, repeated, f"column {extra.column}; quote a name with blanks: {' '.join(quoted)[:_REPEATED]}")


def _second_endpoint(operands: list[Word]) -> int:
    """The operand with which the destination most likely begins: the last that names an endpoint."""
    named = [number for number, word in enumerate(operands) if number and _names_endpoint(word.text)]
    return named[-1] if named else 1


def _names_endpoint(text: str) -> bool:
    name = text.partition("/")[0] if "/" in text else text.partition(":")[0]
    return name != text and name not in ("", ".", "..") and ("#" in name or name.startswith("^") or "/" in text)


def _between(text: str, begin: Word, end: Word | None) -> str:
    return text[begin.column - 1 : end.column - 1 if end else None].strip()


def _repeated(text: str) -> str:
    text = text.strip("\r\n")
    return text if len(text) <= _REPEATED else f"{text[:_REPEATED]}..."


# ---- endpoints and paths


@dataclass
class EndpointSide:
    """The source or the destination of a task: all paths are on one endpoint. side: as errors call it."""

    context: Context
    side: str
    #: `EP/PATH` has octets as %XX.
    decode: bool = True
    endpoint: str = ""
    _id: uuid.UUID | None = None
    _same: set[str] = field(default_factory=set)
    _bookmarks: dict[str, Location] = field(default_factory=dict)

    def path(self, word: Word, number: int = 0) -> str:
        """The path that this operand names, checked. number: the line that has it, if a list does.

        Raises LineError, and the errors of names of endpoints.
        """
        text = word.text
        try:
            found = self._location(text)
            path = request_rules.path(found.path, "")
        except RequestError as error:
            raise LineError(f"{error.reason.rstrip('.')} ({_place(word, number)}): '{_repeated(text)}'") from None
        except ShellError as error:
            raise LineError(error.message + (f" ({_place(word, number)})" if number else ""), error.code) from None
        if found.endpoint != self.endpoint:
            self._check_endpoint(found.endpoint, word, number)
        return path

    def _location(self, text: str) -> Location:
        if not text.startswith("^"):
            return names.location(self.context.user, text, decode=self.decode)
        head, rest = names.parted(text)
        if head not in self._bookmarks:
            if len(self._bookmarks) >= _REMEMBERED:
                self._bookmarks.clear()
            self._bookmarks[head] = self.context.call(names.location, self.context.user, f"{head}/")
        folder = self._bookmarks[head]
        below = names.location(self.context.user, f"x{rest or '/'}", decode=self.decode).path
        return Location(folder.endpoint, folder.path + below.removeprefix("/~/").lstrip("/"))

    def _check_endpoint(self, name: str, word: Word, number: int) -> None:
        """The first line gives the endpoint; others may spell it otherwise."""
        if not self.endpoint:
            self.endpoint = name
            if number:
                self._id = self.context.call(_endpoint_id, self.context.user, name)
            return
        if name in self._same:
            return
        if self._id is None or self.context.call(_endpoint_id, self.context.user, name) != self._id:
            raise LineError(
                f"{_place(word, number)}: the {self.side} endpoint is '{name}', and '{self.endpoint}' before;"
                " all lines of one task have one source endpoint and one destination endpoint"
            )
        if len(self._same) < _REMEMBERED:
            self._same.add(name)


def _place(word: Word, number: int) -> str:
    """For errors."""
    return f"line {number}, column {word.column}" if number else f"'{word.text}'"


def _endpoint_id(user: User, name: str) -> uuid.UUID:
    return registry.resolve(user, name, Permission.VIEW).pk


# ---- whole lists


@dataclass
class TransferLines:
    """Takes the lines of one transfer, checks them, and keeps them in a spool."""

    context: Context
    spool: Spool
    #: The options before the operands: for all lines.
    recursive: bool
    sync: int | None
    folders: int = 0

    def __post_init__(self) -> None:
        self.source = EndpointSide(self.context, "source")
        self.destination = EndpointSide(self.context, "destination")
        self._own_sync: int | None = None

    def take(self, line: ListLine) -> None:
        """Raises LineError, and errors of endpoints and of the spool."""
        source = self.source.path(line.operands[0], line.number)
        destination = self.destination.path(line.operands[1], line.number)
        kind = self._kind(line, source, destination)
        self.folders += kind == SpooledItems.RECURSIVE
        self._take_sync(line)
        columns = (str(word.column) for word in line.operands)
        self.spool.add(source, destination, kind, str(line.number), *columns)

    @property
    def level(self) -> int | None:
        """The sync level of the task."""
        return self._own_sync if self._own_sync is not None else self.sync

    def _kind(self, line: ListLine, source: str, destination: str) -> str:
        if self.recursive or line.recursive:
            return SpooledItems.RECURSIVE if source.endswith("/") else SpooledItems.FIND
        if source.endswith("/"):
            raise not_recursive(line.text, "transfering", line.number or 1)
        if destination.endswith("/"):
            whole = line.operands[1].text.rstrip("/") + "/" + source.rpartition("/")[2]
            advice = f"write the whole name of the new file: {words.quote(whole)}"
            raise poor(line.number or 1, f"the destination of a file is a file: {line.text} ", advice)
        return SpooledItems.FILE

    def _take_sync(self, line: ListLine) -> None:
        """A level on a line holds for the task: then each line has it, or the command."""
        level = line.sync if line.sync is not None else self.sync
        if len(self.spool) and level != self.level:
            raise poor(
                line.number or 1, "the sync level differs from that of the lines before", "one task has one level"
            )
        self._own_sync = level


def line_of(spool: Spool, error: RequestError) -> LineError | None:
    """The error of a service about an item (`DATA[3].source_path`), in terms of the line; None: about no item."""
    number, bracket, field_name = error.field.removeprefix("DATA[").partition("]")
    if not (bracket and error.field.startswith("DATA[") and number.isdigit()):
        return None
    record = spool.record(int(number))
    operand = 1 if "destination" in field_name else 0
    # A transfer: source, destination, kind, line, two columns; a delete: path, line, column.
    line, *columns = record[3:] if len(record) == _TRANSFER_FIELDS else record[1:]
    where = f"line {line}, column {columns[operand]}: " if line != "0" else ""
    return LineError(f"{where}{error.reason.rstrip('.')}: '{_repeated(record[operand])}'", error.code)
