"""Documents as JSON text, in parts where they are long."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

#: Rows of a long list that are documents at one time: some milliseconds of work, also where their names are long.
PART = 200

T = TypeVar("T")


class Rows(Generic[T]):
    """The DATA of a long list: each row becomes a document only while it is written."""

    def __init__(self, rows: Sequence[T], document: Callable[[T], dict[str, Any]]) -> None:
        self._rows = rows
        self._document = document

    def __len__(self) -> int:
        return len(self._rows)

    def documents(self) -> Iterator[list[dict[str, Any]]]:
        """Them all, in parts."""
        for start in range(0, len(self._rows), PART):
            yield list(map(self._document, self._rows[start : start + PART]))


def dumps(value: object) -> bytes:
    """ASCII only: octets of names that are no UTF-8 are lone surrogates, which UTF-8 has no form for."""
    return b"".join(parts(value))


def parts(value: object) -> Iterator[bytes]:
    """The same in parts, each with some rows of a long list."""
    if not (isinstance(value, dict) and isinstance(value.get("DATA"), Rows)):
        yield _json(value)
        return
    between = _json({name: one for name, one in value.items() if name != "DATA"})[:-1] + b',"DATA":['
    for documents in value["DATA"].documents():
        yield between + _json(documents)[1:-1]
        between = b","
    yield b"]}" if between == b"," else between + b"]}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode("ascii")
