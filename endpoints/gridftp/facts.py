"""MLSx facts (RFC 3659 section 7): parsing for the client, formatting for the server."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from sys import intern
from urllib.parse import quote, unquote

from .words import shown


class FactsError(ValueError):
    """A line that is not one of a listing: no space between facts and name, no name, or facts that are not facts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a listing.

    name: last path component, surrogateescape str. kind: "file", "dir", "link" (dangling or shown as such) or
    another type of the server ("OS.unix=pipe"). size in octets. mode is the octal permission string ("0644") or "".
    link_target is set when the thing is a symlink; the other facts then tell of its target, as the servers do.
    perm is the Perm fact of RFC 3659 section 7.5.5: what the session may do with it.
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


#: The facts that a server of ours can tell, in the order in which it does.
FACTS = (
    "Type", "Size", "Modify", "Perm", "UNIX.mode", "UNIX.owner", "UNIX.group", "Unique", "UNIX.slink",
)  # fmt: skip

#: As servers write them. RFC 3659 section 7.5 lets them be of any case, so others take the longer way.
_USUAL = frozenset((*FACTS, "UNIX.uid", "UNIX.gid", "Charset", "X.count", "Create", "Media-Type", "Lang"))
_UNUSUAL = {name.lower(): name for name in _USUAL}
_KINDS = frozenset(("file", "dir", "cdir", "pdir"))
_LINKS = ("os.unix=slink", "os.unix=symlink")
_MAX_SIZE = 2**63 - 1


def parse_line(line: bytes) -> Entry:
    """Read one line of MLST, MLSD, MLSC or MLSR, without its line end and without MLST's leading space.

    The name is what follows the first space, as it stands: a path where the command gives paths (MLST, MLSR).
    Unknown facts are passed over; a time that is none is unknown. -> FactsError
    """
    facts, _, name = line.decode("utf-8", "surrogateescape").partition(" ")
    if not name or (facts and not facts.endswith(";")):
        raise FactsError(f"no facts and name: {shown(line[:200])}")
    try:
        found = _split(facts)
        if not _USUAL.issuperset(found):
            found = {_UNUSUAL.get(fact.lower(), fact): value for fact, value in found.items()}
        get = found.get
        kind, target = get("Type", "file"), get("UNIX.slink")
        if target or kind not in _KINDS:
            kind, target = _kind_and_target(kind, target)
        size = int(get("Size", "0"))
        if not 0 <= size <= _MAX_SIZE:
            raise ValueError(size)
        # What most files of a folder share is kept once: a fifth of the memory of a long listing.
        mode, owner = intern(get("UNIX.mode", "")), intern(get("UNIX.owner", ""))
        group, perm = intern(get("UNIX.group", "")), intern(get("Perm", ""))
        moment = _parse_time(get("Modify", ""))
        return Entry(name, intern(kind), size, moment, mode, owner, group, target, get("Unique", ""), perm)
    except ValueError as error:
        raise FactsError(f"not facts: {shown(line[:200])}") from error


def _split(facts: str) -> dict[str, str]:
    """`a=1;b=2;` as a dict. Once for each file of a scan: hence the short way when no value holds a "="."""
    if facts.count("=") == facts.count(";"):
        words = iter(facts.replace("=", ";").split(";"))
        return dict(zip(words, words, strict=False))
    pairs = [fact.partition("=") for fact in facts[:-1].split(";")]
    return {fact: value for fact, _, value in pairs}


def _kind_and_target(kind: str, target: str | None) -> tuple[str, str | None]:
    """Types are case-insensitive too; some servers show a symlink as `OS.unix=slink:/its/target`.

    The toolkit writes a target as in a URL, since it may hold a blank or a semicolon.
    """
    folded = kind.lower()
    if folded.startswith(_LINKS):
        kind, target = "link", kind.partition(":")[2] or target
    elif folded in _KINDS:
        kind = folded
    return kind, unquote(target, errors="surrogateescape") if target else None


def _parse_time(stamp: str) -> datetime | None:
    """YYYYMMDDHHMMSS[.fraction] in UTC (RFC 3659 section 2.3)."""
    try:
        return datetime.fromisoformat(f"{stamp[:8]}T{stamp[8:]}Z") if stamp else None
    except ValueError:
        return None


def format_time(moment: datetime) -> str:
    """As RFC 3659 section 2.3 wants it: whole seconds, UTC."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return "%04d%02d%02d%02d%02d%02d" % (  # noqa: UP031 - strftime takes three times as long, for each file of a scan
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second,
    )  # fmt: skip


def format_line(entry: Entry, name: bytes, selection: Collection[str] = FACTS) -> bytes:
    """One line, without its end: the facts of `selection` that the entry has, in the order of FACTS, then `name`."""
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
    facts = "".join(
        [f"{fact}={value};" for fact, value in zip(FACTS, values, strict=True) if value and fact in selection]
    )
    # RFC 3659 section 7.2: with no fact at all the line is a space and the name.
    return b"%b %b" % (facts.encode("utf-8", "surrogateescape"), name)
