"""MLSx facts (RFC 3659 section 7): parsing for the client, formatting for the server."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from sys import intern
from typing import NamedTuple
from urllib.parse import quote, unquote

from identity.gsi.printable import shown

from .commands import CONTROL

#: Millions of entries are in memory at once. Our server runs on Python 3.8 and later, and the service on 3.11.
_SLOTS: dict[str, bool] = {"slots": True} if sys.version_info >= (3, 10) else {}


class FactsError(ValueError):
    """A line that is not one of a listing: no space between facts and name, no name, or malformed facts."""


class Entry(NamedTuple):
    """One line of a listing.

    name: last path component, surrogateescape str. kind: "file", "dir", "link" (dangling or shown as such) or
    another type of the server ("OS.unix=pipe"). size in octets. mode is the octal permission string ("0644") or "".
    link_target is set for a symlink; the other facts are then those of its target, as the servers send them.
    perm is the Perm fact of RFC 3659 section 7.5.5: the operations that the session may do.
    """

    name: str
    kind: str
    size: int = 0
    modified: datetime | None = None
    mode: str = ""
    owner: str = ""
    group: str = ""
    link_target: str | None = None
    unique: str = ""
    perm: str = ""

    @property
    def is_directory(self) -> bool:
        return self.kind in ("dir", "cdir", "pdir")

    @property
    def is_link(self) -> bool:
        """Whether this is a symlink, even one whose target is missing."""
        return self.link_target is not None or self.kind == "link"


#: The facts that our server offers, in the order in which it sends them.
FACTS = (
    "Type", "Size", "Modify", "Perm", "UNIX.mode", "UNIX.owner", "UNIX.group", "Unique", "UNIX.slink",
)  # fmt: skip
#: The name of an entry, percent-encoded: a fact of our server (RFC 3659 section 7.5: local facts begin with "X.") for a
#: name with a control character, which a line cannot contain. The line then has a question mark for each of them.
ENCODED_NAME = "X.name"
#: Facts that begin a line, up to the first "; ". A value may contain a space (`UNIX.group=domain users`).
_FACTS = re.compile(r"(?:[^ =;]+=[^;]*;)+? ")
#: The beginning of a fact.
_FACT = re.compile(rb" ?[A-Za-z][^ =;]*=[^;]*;")

#: A fact behind the first space: some servers put one behind each fact.
_FURTHER = re.compile(r"((?:Type|Size|Sizd|Modify|Create|Perm|Unique|Lang|Charset|UNIX\.\w+)=[^;]*); ?", re.IGNORECASE)
#: RFC 3659 section 7.2 allows these in the name of a fact.
_FACT_NAME = re.compile(r"[\w.-]*", re.ASCII)

#: The usual spellings. RFC 3659 section 7.5 allows any case: facts in other spellings are looked up in `_UNUSUAL`.
_USUAL = frozenset((*FACTS, "UNIX.uid", "UNIX.gid", "Charset", "X.count", "Create", "Media-Type", "Lang", ENCODED_NAME))
_UNUSUAL = {name.lower(): name for name in _USUAL}
_KINDS = frozenset(("file", "dir", "cdir", "pdir"))
_LINKS = ("os.unix=slink", "os.unix=symlink")
_MAX_SIZE = 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse_line(line: bytes) -> Entry:
    """Read one line of MLST, MLSD, MLSC or MLSR, without its line end and without MLST's leading space.

    The name is all that follows the space behind the facts, unchanged: a path where the command gives paths (MLST,
    MLSR). Unknown facts are ignored, and so is a malformed time. Raises FactsError, also where the type, or the size of
    a file, is missing: an unknown fact must not look like an empty file.
    """
    text = line.decode("utf-8", "surrogateescape")
    facts, _, name = text.partition(" ")
    if not (name and facts.endswith(";")):
        facts, name = _facts_with_blanks(text)
    try:
        found = _named(_split(facts))
        if "Size" not in found and (further := _FURTHER.match(name)):
            found, name = _read_further(found, name, further)
        get = found.get
        kind, target = found["Type"], get("UNIX.slink")
        if ENCODED_NAME in found:
            name = unquote(found[ENCODED_NAME], errors="surrogateescape")
        if target or kind not in _KINDS:
            kind, target = _kind_and_target(kind, target)
        size = int(found["Size"] if kind == "file" else get("Size", "0"))
        if not 0 <= size <= _MAX_SIZE:
            raise ValueError(size)
        # Values that most files of a folder share are stored once: that saves a fifth of the memory of a long listing.
        mode, owner = intern(get("UNIX.mode", "")), intern(get("UNIX.owner", ""))
        group, perm = intern(get("UNIX.group", "")), intern(get("Perm", ""))
        moment = _parse_time(get("Modify", ""))
        return Entry(name, intern(kind), size, moment, mode, owner, group, target, get("Unique", ""), perm)
    except KeyError as error:
        raise FactsError(f"without the fact {error.args[0]}: {shown(line[:200])}") from None
    except ValueError as error:
        raise FactsError(f"not facts: {shown(line[:200])}") from error


def begins_with_facts(line: bytes) -> bool:
    """Whether this may be a line of a listing, rather than the rest of a name with a line feed."""
    return _FACT.match(line) is not None


def _split(facts: str) -> dict[str, str]:
    """`a=1;b=2;` as a dict. It runs for each file of a scan, and so is faster when no value contains a "="."""
    if facts.count("=") == facts.count(";"):
        words = iter(facts.replace("=", ";").split(";"))
        return dict(zip(words, words))
    pairs = [fact.partition("=") for fact in facts[:-1].split(";")]
    return {fact: value for fact, _, value in pairs}


def _facts_with_blanks(text: str) -> tuple[str, str]:
    """The facts of a line, with a space in one of them, and the name. Raises FactsError."""
    complete = _FACTS.match(text)
    if complete is None or complete.end() == len(text):
        raise FactsError(f"no facts and name: {shown(text[:200].encode('utf-8', 'surrogateescape'))}")
    return text[: complete.end() - 1], text[complete.end() :]


def _named(found: dict[str, str]) -> dict[str, str]:
    """The facts by their usual spellings. Raises ValueError for a name that no fact can have: a part of a value."""
    if _USUAL.issuperset(found):
        return found
    return {_UNUSUAL.get(fact.lower()) or _unknown(fact): value for fact, value in found.items()}


def _unknown(fact: str) -> str:
    """The name of a fact that this module does not know. Raises ValueError for one that no fact can have."""
    if not _FACT_NAME.fullmatch(fact):
        raise ValueError(fact)
    return fact


def _read_further(found: dict[str, str], name: str, further: re.Match[str] | None) -> tuple[dict[str, str], str]:
    """The facts with those that follow behind a space, as far as they are new, and the name behind them."""
    while further and not found.keys() & (more := _named(_split(further[1] + ";"))).keys():
        found = {**found, **more}
        name = name[further.end() :]
        further = _FURTHER.match(name)
    return found, name


def _kind_and_target(kind: str, target: str | None) -> tuple[str, str | None]:
    """Types are case-insensitive too; some servers show a symlink as `OS.unix=slink:/its/target`.

    The toolkit percent-encodes a target, which may contain a space or a semicolon. Raises ValueError for no type.
    """
    if not kind:
        raise ValueError(kind)
    folded = kind.lower()
    if folded.startswith(_LINKS):
        kind, target = "link", kind.partition(":")[2] or target
    elif folded in _KINDS:
        kind = folded
    return kind, unquote(target, errors="surrogateescape") if target else None


def _parse_time(stamp: str) -> datetime | None:
    """YYYYMMDDHHMMSS[.fraction] in UTC (RFC 3659 section 2.3). Needs Python 3.11, as the service has it."""
    try:
        return datetime.fromisoformat(f"{stamp[:8]}T{stamp[8:]}Z") if stamp else None
    except ValueError:
        return None


def moment_of(seconds: float) -> datetime | None:
    """The time so many seconds after 1970; None outside of the years 1 to 9999, which no reply can give."""
    try:
        return EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


def format_time(moment: datetime) -> str:
    """YYYYMMDDHHMMSS in UTC (RFC 3659 section 2.3)."""
    if moment.tzinfo is not timezone.utc:
        moment = moment.astimezone(timezone.utc)
    return "%04d%02d%02d%02d%02d%02d" % (  # noqa: UP031 - strftime takes three times as long, for each file of a scan
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second,
    )  # fmt: skip


def format_line(entry: Entry, name: bytes, selection: Collection[str] = FACTS) -> bytes:
    """One line, without its end: the facts of `selection` that the entry has, in the order of FACTS, and `name`.

    A name with a control character is sent as `ENCODED_NAME`, whatever the selection is.
    """
    values = (
        entry.kind,
        str(entry.size),
        format_time(entry.modified) if entry.modified else "",
        entry.perm,
        entry.mode,
        entry.owner,
        entry.group,
        entry.unique,
        quote(entry.link_target, errors="surrogateescape") if entry.link_target else "",
    )
    facts = "".join([f"{fact}={value};" for fact, value in zip(FACTS, values) if value and fact in selection])
    if CONTROL.search(name):
        facts += f"{ENCODED_NAME}={quote(name)};"
        name = printable_name(name)
    # RFC 3659 section 7.2: without any fact the line is a space and the name.
    return b"%b %b" % (facts.encode("utf-8", "surrogateescape"), name)


def printable_name(name: bytes) -> bytes:
    """A name with a question mark for each control character, as `ls -q` shows it."""
    return CONTROL.sub(b"?", name)
