"""The forms in which commands show records: text (the default), csv, kv and json (`-O`), and selected fields (`-f`).

Text: `Key<padding>: value`, padded to the longest key among the selected fields; a blank line follows each record where
no field was selected. csv: the values only, without a header. kv: `field=value`. json: the document of REST.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from identity.gsi.printable import inert

from .command import show
from .context import Context
from .errors import UsageError
from .options import Arguments, Option, choice, option

T = TypeVar("T")
FORMS = ("text", "csv", "kv", "json")
UNSET = "n/a"


#: `-O`.
FORM: Option = option("-O", "--output-format", key="form", metavar="FORMAT", read=choice(*FORMS), default="text",
                      about="text, csv, kv or json")  # fmt: skip
#: `-f`.
FIELDS: Option = option("-f", "--fields", key="fields", metavar="FIELD,FIELD", about="show these fields only")


@dataclass(frozen=True)
class Column(Generic[T]):
    """One field of a record. key: as text shows it. get: text, a moment, a number, or None for `n/a`."""

    key: str
    get: Callable[[T], object]
    #: Other names in `-f`.
    aliases: tuple[str, ...] = ()
    #: Whether text shows the lines of the value, and not all of it on one line.
    keeps_lines: bool = False

    @property
    def name(self) -> str:
        """The name in `-f` and in kv: `Host(s)` is `hosts`, `MBits/sec` is `mbits_sec`."""
        return field_name(self.key)


def field_name(key: str) -> str:
    return re.sub(r"[ /]", "_", key.lower().replace("(s)", "s"))


class Table(Generic[T]):
    """The fields of a kind of record, in their order. document: the document of REST, for json."""

    def __init__(self, *columns: Column[T], document: Callable[[T], Mapping[str, Any]]) -> None:
        self.columns = columns
        self._document = document

    def select(self, arguments: Arguments) -> Sequence[Column[T]]:
        """The fields that `-f` names, in the order of `-f`. Raises UsageError, which lists the valid ones."""
        if arguments["fields"] is None:
            return self.columns
        known = {name: one for one in self.columns for name in (one.name, *one.aliases)}
        wanted = [name.strip().lower() for name in arguments["fields"].split(",")]
        for name in wanted:
            if name not in known:
                raise UsageError(
                    f"unknown field '{name}'; the fields are {', '.join(one.name for one in self.columns)}"
                )
        return [known[name] for name in wanted]

    def show(self, context: Context, arguments: Arguments, rows: Iterable[T], *, single: bool = False) -> None:
        """Write the records as they come: a task may have a million. single: json is an object and not a list.

        Rows that are read meanwhile are read by `Context.call`.
        """
        columns = self.select(arguments)
        form = arguments["form"]
        if form == "json":
            documents = (self._json(row, columns, arguments) for row in rows)
            if single:
                show(context, next(documents))
            else:
                write_list(context, documents)
            return
        write = {"text": _text, "csv": _csv, "kv": _kv}[form]
        blank = form == "text" and arguments["fields"] is None
        for row in rows:
            values = [(one, value_text(one.get(row))) for one in columns]
            context.out(write(values) + ("\n" if blank else ""))

    def _json(self, row: T, columns: Sequence[Column[T]], arguments: Arguments) -> Mapping[str, Any]:
        if arguments["fields"] is None:
            return self._document(row)
        return {one.name: value_text(one.get(row)) for one in columns}


def write_list(context: Context, documents: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON array, each document as it comes; nothing is written before the first one."""
    before = "["
    for document in documents:
        text = json.dumps(document, indent=2, default=str).replace("\n", "\n  ")
        context.out(f"{before}\n  {text}")
        before = ","
    context.out("[]\n" if before == "[" else "\n]\n")


def _text(values: Sequence[tuple[Column[Any], str]]) -> str:
    width = max(len(one.key) for one, _ in values)
    return "".join(f"{one.key:<{width}}: {_lines(one, value)}\n" for one, value in values)


def _lines(column: Column[Any], value: str) -> str:
    return "\n".join(map(line, value.splitlines())) if column.keeps_lines else line(value)


def _csv(values: Sequence[tuple[Column[Any], str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow([inert(value, keep="\n") for _, value in values])
    return buffer.getvalue()


def _kv(values: Sequence[tuple[Column[Any], str]]) -> str:
    return "".join(f"{one.name}={line(value)}\n" for one, value in values)


def value_text(value: object) -> str:
    """`n/a` for None, times as `2011-03-07 15:04:05Z`."""
    if value is None or value == "":
        return UNSET
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return str(value)


def encoded(text: str) -> bytes:
    """All that a command writes. No active character passes, whichever command has let it through.

    Names of files may have octets that are not UTF-8: they are sent as they are, but for those of C1.
    """
    text = inert(text, keep="\n\r\t")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def line(text: str) -> str:
    """The text on one line, without active characters."""
    return inert(text)


def left(seconds: float | None) -> str:
    """A time that is left, as HH:MM:SS; `-` where there is none."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
