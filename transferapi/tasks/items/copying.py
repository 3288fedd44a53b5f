"""Write the items of a task by COPY: 100,000 rows in a second, streamed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.db import connection

from transferapi.tasks.upkeep import space

from .rows import CheckedItem

_COLUMNS = "task_id, position, source_path, destination_path, recursive, attempts, extra"
_WORDS = {None: "\\N", True: "t", False: "f"}


class CopiedRows(NamedTuple):
    """octets: of the paths in the rows."""

    rows: int
    octets: int


def copy(task_id: uuid.UUID, rows: Iterable[CheckedItem]) -> CopiedRows:
    """Write the items of a task, in this order."""
    lines = _Lines(task_id, rows)
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY tasks_item ({_COLUMNS}) FROM STDIN", lines, 1 << 18)
    return CopiedRows(lines.rows, lines.octets)


class _Lines:
    """A file for COPY to read, in its text format: tabs between columns, `\\N` for NULL, every backslash doubled."""

    def __init__(self, task_id: uuid.UUID, rows: Iterable[CheckedItem]) -> None:
        self.rows = self.octets = 0
        self._lines = self._made(str(task_id), rows)

    def read(self, size: int) -> bytes:
        found: list[bytes] = []
        length = 0
        for line in self._lines:
            found.append(line)
            length += len(line)
            if length >= size:
                break
        return b"".join(found)

    def _made(self, task_id: str, rows: Iterable[CheckedItem]) -> Iterator[bytes]:
        for row in rows:
            self.octets += space.octets(row.source, row.destination)
            destination = "\\N" if row.destination is None else _octets(row.destination)
            extra = json.dumps(row.extra).replace("\\", "\\\\") if row.extra else "{}"
            columns = (task_id, str(self.rows), _octets(row.source), destination, _WORDS[row.recursive], "0", extra)
            self.rows += 1
            yield ("\t".join(columns) + "\n").encode()


def _octets(path: str) -> str:
    return "\\\\x" + path.encode("utf-8", "surrogateescape").hex()
