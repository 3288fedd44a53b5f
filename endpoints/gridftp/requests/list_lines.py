"""Lines of LIST, whose form RFC 959 leaves to the server: the one of `ls -l` with its variants, and the one of DOS.

Only what is certain is read. A line that can be read in no way, or in two, raises FactsError: it may stand for a file.
The times are local, and mostly to the minute: they are not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from endpoints.gridftp.facts import Entry, FactsError
from endpoints.gridftp.faults import FaultError
from endpoints.gridftp.listing import check_name
from identity.gsi.printable import shown

_KINDS = {b"-": "file", b"d": "dir", b"l": "link"}
#: Type and mode, and the mark of an ACL or of a security context.
_MODE = rb"([-dlbcpsDCnPw])[-rwxsStTlL]{9}[.+@]?"
_DAY = rb"(?:0?[1-9]|[12]\d|3[01])(?:\.|\xe6\x97\xa5|\xec\x9d\xbc)?"
_YEAR, _CLOCK = rb"[12]\d{3}", rb"[0-2]?\d:[0-5]\d"
_ENGLISH = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
#: A word, or a number with the Chinese, Japanese or Korean character for a month.
_WORD = rb"(?:[A-Za-z\x80-\xff]{2,16}\.?|\d{1,2}(?:\xe6\x9c\x88|\xec\x9b\x94))"
#: Months of several languages as `ls` writes them (the abbreviations of CLDR and glibc), in lower case.
_ABBREVIATIONS = """
    jan feb mar apr may jun jul aug sep oct nov dec sept
    jän jänner januar februar mär mrz märz april mai juni juli august september okt oktober november dez dezember
    janv janvier fév févr février mars avr avril juin juil juillet août aout octobre déc décembre novembre septembre
    ene enero abr abril mayo junio julio ago agosto set octubre dic diciembre
    gen gennaio febbraio marzo aprile mag maggio giu giugno lug luglio sett settembre ott ottobre dicembre
    fev fevereiro março maio out outubro janeiro dezembro mrt maart mei augustus
    led úno bře dub kvě čvn čvc srp zář říj lis pro sty lut kwi maj cze lip sie wrz paź gru
    tammi helmi maalis huhti touko kesä heinä elo syys loka marras joulu des
    янв фев мар апр мая май июн июл авг сен окт ноя дек
"""
_MONTHS = frozenset(_ABBREVIATIONS.split())
#: `ls --time-style`: full-iso and long-iso, also with slashes or a "T"; and iso, which has a date or a time. The
#: last is a date of a Japanese or Chinese `ls`.
_ISO = (
    rb"(?:\d{4}(?:-\d\d-\d\d|/\d\d/\d\d)[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?(?:Z| [+-]\d{4})?)?|\d{4}-\d\d-\d\d "
    rb"|(?<!\d)\d\d-\d\d \d\d:\d\d|\d{4}\xe5\xb9\xb4 *\d{1,2}\xe6\x9c\x88 *\d{1,2}\xe6\x97\xa5)"
)
#: A number in groups of three digits.
_GROUPED = re.compile(rb"\d{1,3}(?:,\d{3})+")


def _tail(month: bytes) -> bytes:
    """A size, or the numbers of a device; a date with such a month, before the day or behind it; and the name."""
    date = rb"(?:(%b)\s+%b|%b\s+(%b)),?\s+(?:%b|%b:\d\d\s+%b|%b)" % (
        month, _DAY, _DAY, month, _YEAR, _CLOCK, _YEAR, _CLOCK,
    )  # fmt: skip
    return rb"((?:\d+,\s*)*\d{1,19})\s+(?:%b|%b)\s(.+)" % (date, _ISO)


#: The form of most servers: a count of links, and a word each for the owner and the group.
_USUAL = re.compile(rb"%b\s+\d+\s+(\S+)\s+(\S+)\s+%b" % (_MODE, _tail(_ENGLISH)), re.DOTALL)
_HEAD = re.compile(rb"%b\s+" % _MODE)
_TAIL = re.compile(rb"(?<!\S)%b" % _tail(_WORD), re.DOTALL)
#: IIS and others: month, day and year in any order, a clock of 12 or 24 hours. The name of a folder begins in a column.
_DOS = re.compile(
    rb"(?:\d\d?[-/.]\d\d?[-/.](?:\d{4}|\d\d)|\d{4}[-/.]\d\d[-/.]\d\d)\s+\d?\d:\d\d(?::\d\d)?\s?(?:[AaPp][Mm])?\s+"
    rb"(?:<(DIR|JUNCTION|SYMLINKD?)>(?: {10}|\s+?)(?=\S|(?<= {10}))|(\d{1,3}(?:[.,]\d{3})+|\d{1,19})\s)(.+)",
    re.DOTALL,
)
#: `dir` shows the target of a link behind its name, which can have none of these characters.
_DOS_TARGET = re.compile(rb" \[(?=[^\]]*[\\/:])(.*)\]\Z", re.DOTALL)
#: The first line of `ls -l`: the blocks of all files.
_TOTAL = re.compile(
    r"(?:total|totale|totalt|totaal|totalu|insgesamt|gesamt|razem|celkem|celkom|yhteensä|összesen"
    r"|toplam|kokku|skupaj|ukupno|i alt|viso|kopā|tổng|σύνολο|итого|всього|загалом|общо|укупно|合計|总用量|总计|總計"
    r"|합계)"
    r":? \d[\d.,]*[KMGT]?(?: blocks)?\s*",
    re.IGNORECASE,
)


def read_list_line(line: bytes) -> Entry | None:
    """`parse_list_line` where a line that cannot be read proves nothing: None for it, too."""
    try:
        return parse_list_line(line)
    except (FactsError, FaultError):
        return None


def parse_list_line(line: bytes) -> Entry | None:
    """The entry of a line; None for "total 3", "." and "..". Raises FactsError, and FaultError for a name too long."""
    if usual := _USUAL.fullmatch(line):
        kind, owner, group, size, _, _, name = usual.groups()
        return _unix_entry(line, kind, size, name, owner, group)
    if dos := _DOS.fullmatch(line):
        return _dos_entry(line, *dos.groups())
    if _TOTAL.fullmatch(line.decode("utf-8", "replace")):
        return None
    head = _HEAD.match(line)
    if head is None:
        raise FactsError(f"no line of a listing: {shown(line)}")
    found = _certain(line, head.end())
    owners = line[head.end() : found.start()].split()
    if len(owners) > 1 and owners[0].isdigit():
        del owners[0]  # the number of links
    size, _, _, name = found.groups()
    return _unix_entry(line, head[1], size, name, b"".join(owners[:1]), b" ".join(owners[1:]))


def may_begin(line: bytes) -> bool:
    """Whether a line begins as one of a listing, rather than as the rest of a name with a line feed."""
    return _HEAD.match(line) is not None or line[:1].isdigit()


def _certain(line: bytes, start: int) -> re.Match[bytes]:
    """Where the size begins: the first place, if it is the only one or its month is known. Raises FactsError.

    A number right behind the mode is the count of links, unless nothing else can be the size.
    """
    found = list(islice(_tails(line, start), 3))
    later = [one for one in found if one.start() > start] or found
    if not later or not (len(later) == 1 or _has_known_month(later[0])):
        raise FactsError(f"{'several readings of' if later else 'no line of a listing:'} {shown(line)}")
    return later[0]


def _tails(line: bytes, at: int) -> Iterator[re.Match[bytes]]:
    while found := _TAIL.search(line, at):
        yield found
        at = found.start() + 1


def _has_known_month(found: re.Match[bytes]) -> bool:
    word = found[2] or found[3]
    if word is None or word[:1].isdigit():
        return True
    try:
        text = word.decode()
    except UnicodeDecodeError:
        text = word.decode("latin-1")
    return text.lower().rstrip(".") in _MONTHS


def _unix_entry(line: bytes, mark: bytes, size: bytes, name: bytes, owner: bytes, group: bytes) -> Entry | None:
    kind = _KINDS.get(mark, "OS.unix=special")
    target: bytes | None = None
    if mark == b"l":
        name, target = _name_and_target(line, name, size)
    if b"," in size:
        if mark not in b"bc" and not _GROUPED.fullmatch(size):
            raise FactsError(f"no size: {shown(line)}")
        # A device has its numbers in the place of a size.
        size = b"0" if mark in b"bc" else size.replace(b",", b"")
    return _entry(line, kind, size, name, target, owner, group)


def _name_and_target(line: bytes, text: bytes, size: bytes) -> tuple[bytes, bytes | None]:
    """A symlink, and what it leads to. Of several arrows the size, the length of the target, shows the one between."""
    found = [(text[: one.start()], text[one.start() + 4 :]) for one in re.finditer(rb"(?= -> )", text)]
    if len(found) > 1:
        found = [one for one in found if size == b"%d" % len(one[1])]
        if len(found) != 1:
            raise FactsError(f"several readings of {shown(line)}")
    return found[0] if found else (text, None)


def _dos_entry(line: bytes, mark: bytes | None, size: bytes | None, name: bytes) -> Entry | None:
    if mark in (None, b"DIR"):
        return _entry(line, "dir" if mark else "file", re.sub(rb"[.,]", b"", size or b"0"), name)
    if found := _DOS_TARGET.search(name):
        return _entry(line, "link", b"0", name[: found.start()], found[1])
    if name.endswith(b"]"):
        raise FactsError(f"several readings of {shown(line)}")
    # The target of a junction is not shown: it is a link that cannot be followed.
    return _entry(line, "link", b"0", name)


def _entry(
    line: bytes,
    kind: str,
    size: bytes,
    name: bytes,
    target: bytes | None = None,
    owner: bytes = b"",
    group: bytes = b"",
) -> Entry | None:
    if name in (b".", b".."):
        return None
    if b"/" in name or not name or int(size) >= 2**63:
        raise FactsError(f"no name or no size: {shown(line)}")
    text = name.decode("utf-8", "surrogateescape")
    check_name(text)
    return Entry(
        text,
        kind,
        size=int(size),
        owner=owner.decode("utf-8", "replace"),
        group=group.decode("utf-8", "replace"),
        link_target=None if target is None else target.decode("utf-8", "surrogateescape"),
    )
