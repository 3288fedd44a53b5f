"""Looks for secrets where none may be: in files, in every column of every table, in texts, in what processes show.

    found = search({"alice's passphrase": "correct horse"}, folders=[home], database=url, texts={"stdout": output})
    assert found == []

A secret is found as it is, in base64 (also in the midst of something larger), hexadecimal, percent-encoded, as Python
and JSON spell it, and without its line ends; of PEM the body of each block is looked for, and the DER inside it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes

import psycopg2
from psycopg2 import sql

#: Shorter ones would be found everywhere.
SHORTEST = 6
CHUNK = 8 * 1024 * 1024
#: Octets from which a content is looked at once, however many copies of it there are.
LARGE = 64 * 1024
ROWS = 500
_PEM = re.compile(rb"-----BEGIN [^-]+-----(.*?)-----END [^-]+-----", re.DOTALL)
#: Line ends and blanks, as they are and as Python and JSON spell them.
_BLANK = re.compile(rb"\s|\\r|\\n|\\t")


@dataclass(frozen=True)
class Found:
    """Which secret, in which form, and where: a file, `table.column`, the name of a text, a process."""

    secret: str
    form: str
    where: str


@dataclass
class Search:
    """The forms of some secrets: `forms` in a text as it is, `squeezed` in one without blanks and line ends."""

    forms: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    squeezed: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    #: The secrets in large contents, by digest: the copies that a transfer makes are looked at once.
    known: dict[bytes, set[tuple[str, str]]] = field(default_factory=dict)

    def add(self, name: str, secret: bytes) -> None:
        if len(secret) < SHORTEST:
            raise ValueError(f"{name} is too short to be looked for")
        self._add_forms(name, secret, "")
        for block in _PEM.findall(secret):
            body = _BLANK.sub(b"", block.split(b"\n\n")[-1])
            try:
                inside = base64.b64decode(body, validate=True)
            except binascii.Error:
                continue
            self._add_forms(name, inside, "the DER of its PEM ")

    def _add_forms(self, name: str, secret: bytes, of: str) -> None:
        for form, octets in plain_forms(secret):
            self.forms.setdefault(octets, (name, of + form))
        for form, octets in encoded_forms(secret):
            self.squeezed.setdefault(octets, (name, of + form))

    @property
    def longest(self) -> int:
        return max(map(len, [*self.forms, *self.squeezed]), default=0)

    def look(self, content: bytes, where: str) -> set[Found]:
        if len(content) < LARGE:
            return {Found(*who, where) for who in self._forms_in(content)}
        digest = hashlib.sha256(content).digest()
        if digest not in self.known:
            self.known[digest] = self._forms_in(content)
        return {Found(*who, where) for who in self.known[digest]}

    def _forms_in(self, content: bytes) -> set[tuple[str, str]]:
        squeezed = _BLANK.sub(b"", content)
        # Hexadecimal digits may be of either case; base64 may not.
        lower = squeezed.lower()
        unescaped = {unquote_to_bytes(content), unquote_to_bytes(content.replace(b"+", b" "))} - {content}
        found = {who for octets, who in self.forms.items() if octets in content}
        for octets, who in self.squeezed.items():
            if octets in (lower if who[1].endswith("hexadecimal") else squeezed):
                found.add(who)
        for octets, (name, form) in self.forms.items():
            if any(octets in text for text in unescaped):
                found.add((name, f"{form}, percent-encoded"))
        return found


def plain_forms(secret: bytes) -> Iterator[tuple[str, bytes]]:
    yield "plain", secret
    yield "as Python spells it", repr(secret)[2:-1].encode()
    try:
        text = secret.decode()
    except UnicodeDecodeError:
        return
    yield "as Python spells it", repr(text)[1:-1].encode()
    yield "as JSON spells it", json.dumps(text)[1:-1].encode()
    yield "backwards", text[::-1].encode()


def encoded_forms(secret: bytes) -> Iterator[tuple[str, bytes]]:
    """To be looked for in a text without blanks; hexadecimal in lower case."""
    yield "without blanks", _BLANK.sub(b"", secret)
    yield "hexadecimal", secret.hex().encode()
    for offset in range(3):
        coded = inner_base64(secret, offset)
        if len(coded) >= SHORTEST:
            yield "base64", coded
            yield "base64", coded.translate(bytes.maketrans(b"+/", b"-_"))


def inner_base64(secret: bytes, offset: int) -> bytes:
    """The letters that these octets alone decide when they begin at this offset of what is encoded."""
    coded = base64.b64encode(bytes(offset) + secret).rstrip(b"=")
    first = (offset * 8 + 5) // 6
    last = (offset + len(secret)) * 8 // 6
    return coded[first:last]


def search(
    secrets: Mapping[str, bytes | str],
    *,
    folders: Iterable[Path] = (),
    database: str = "",
    texts: Mapping[str, bytes | str] | None = None,
    processes: Iterable[int] = (),
    exempt: Collection[Path] = (),
) -> list[Found]:
    """Find the places of these secrets. `exempt`: files that may hold them and are not read.

    `processes`: ids; their command lines and environments are searched. Raises OSError if a place cannot be read, so
    that an incomplete search never passes.
    """
    looking = Search()
    for name, secret in secrets.items():
        looking.add(name, secret.encode() if isinstance(secret, str) else secret)
    found: set[Found] = set()
    for folder in folders:
        for path in files_below(folder, exempt):
            found |= look_into_file(looking, path)
    for name, text in (texts or {}).items():
        found |= looking.look(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text, name)
    for pid in processes:
        found |= look_at_process(looking, pid)
    if database:
        found |= look_into_database(looking, database)
    return sorted(found, key=lambda one: (one.where, one.secret, one.form))


def files_below(folder: Path, exempt: Collection[Path]) -> Iterator[Path]:
    """Regular files; links are not followed, sockets and the like hold nothing."""
    spared = {path.absolute() for path in exempt}

    def complain(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for parent, _, names in os.walk(folder.absolute(), onerror=complain):
        for name in names:
            path = Path(parent) / name
            if path not in spared and stat.S_ISREG(_mode(path)):
                yield path


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def look_into_file(looking: Search, path: Path) -> set[Found]:
    """A chunk at a time, with what a secret broken into lines could take of the chunk before."""
    found = looking.look(os.fsencode(path.name), f"the name of {path}")
    kept = b""
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                found |= looking.look(kept + chunk, str(path))
                kept = (kept + chunk)[-2 * looking.longest :]
    except FileNotFoundError:
        pass  # a program that goes on has removed it since
    return found


def look_at_process(looking: Search, pid: int) -> set[Found]:
    found: set[Found] = set()
    for name in ("cmdline", "environ"):
        found |= looking.look(Path(f"/proc/{pid}/{name}").read_bytes(), f"{name} of process {pid}")
    return found


_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2, 3
"""


def look_into_database(looking: Search, url: str) -> set[Found]:
    """Every column of every table that is not the server's own."""
    found: set[Found] = set()
    with closing(psycopg2.connect(url)) as connection:
        connection.set_session(readonly=True)
        with connection.cursor() as cursor:
            cursor.execute(_COLUMNS)
            columns = cursor.fetchall()
        for number, (schema, table, column, kind) in enumerate(columns):
            wanted = sql.Identifier(column) + sql.SQL("" if kind == "bytea" else "::text")
            with connection.cursor(f"search{number}") as cursor:
                cursor.execute(sql.SQL("SELECT {} FROM {}").format(wanted, sql.Identifier(schema, table)))
                while rows := cursor.fetchmany(ROWS):
                    content = b"\0".join(
                        value.encode() if isinstance(value, str) else bytes(value)
                        for (value,) in rows
                        if value is not None
                    )
                    found |= looking.look(content, f"{table}.{column}")
    return found
