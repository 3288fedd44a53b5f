"""Facts and listings of FTP servers without MLST and MLSD (RFC 959 and the first sections of RFC 3659).

LIST has no standard form (`list_lines`). Its times are local, and to the minute: times are asked for by MDTM, in UTC.
CWD distinguishes folders from files.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import NamedTuple

from endpoints.gridftp.commands import CONTROL
from endpoints.gridftp.connection import MAX_PIPELINE, ControlConnection
from endpoints.gridftp.facts import Entry, format_time
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, classify, make_fault, says_nothing_there
from endpoints.gridftp.features import Features
from endpoints.gridftp.listing import Allowance, EntryReader, ListingRefusedError, blocks_on_data
from endpoints.gridftp.replies import Reply

from .list_lines import may_begin, parse_list_line, read_list_line

#: Entries whose times are asked for at once.
PORTION = MAX_PIPELINE // 3
_TIME = re.compile(r"(\d{14})(?:\.\d+)?")
#: Servers expand these in the argument of LIST, and take the words between blanks for several paths.
_PATTERN = re.compile(rb"[*?\[\]{}~\\ ]")


class _Form(NamedTuple):
    """A form of LIST. named: with the path, else for the folder that CWD has entered."""

    options: bytes
    named: bool


_FORMS = (_Form(b"-a", True), _Form(b"", True), _Form(b"", False))


async def set_time(connection: ControlConnection, path: bytes, modified: datetime, features: Features) -> None:
    """Set a modification time: MFMT (draft-somers-ftp-mfxx), else MDTM with a time, as vsftpd takes it, or SITE UTIME.

    Raises FaultError.
    """
    stamp = format_time(modified).encode()
    if "MFMT" in features or features.lists_facts:
        await connection.ask("MFMT", stamp + b" " + path)
        return
    reply = await connection.request("MDTM", stamp + b" " + path)
    if reply.is_error:
        await connection.ask("SITE", b"UTIME " + stamp + b" " + path)


def is_unknown(reply: Reply) -> bool:
    """Whether the server does not know a command at all."""
    return reply.code in (500, 502, 504)


def is_refused(reply: Reply) -> bool:
    """Whether the server does not know a command, or not with such an argument (501)."""
    return reply.code == 501 or is_unknown(reply)


def may_list_instead(reply: Reply) -> bool:
    """Whether LIST may show a folder for which MLSD is refused: the command is not known, or the folder seems empty."""
    return is_refused(reply) or says_nothing_there(reply)


async def stat(connection: ControlConnection, path: bytes, *, may_be_folder: bool = True) -> Entry | None:
    """The facts of one path, by CWD, SIZE and MDTM; symlinks are followed. One round trip. Raises FaultError.

    None where the server does not do these, or reports no size: the listing of the folder above has to show it.
    may_be_folder: False where MLST, which shows files and folders, has shown none here. CWD is not sent then, because
    Pure-FTPd delays its refusal more each time.
    """
    verbs = ("CWD", "SIZE", "MDTM") if may_be_folder else ("SIZE", "MDTM")
    *entered, size, modified = await asyncio.gather(*(connection.request(verb, path) for verb in verbs))
    name = path.rstrip(b"/").rpartition(b"/")[2].decode("utf-8", "surrogateescape") or "/"
    when = _time(modified)
    if entered and not entered[0].is_error:
        return Entry(name, "dir", modified=when)
    octets = size_of(size)
    if octets is not None:
        return Entry(name, "file", octets, when)
    if not size.is_error or when is not None or is_refused(size):
        return None
    return await _refused(connection, path, name, size)


async def _refused(connection: ControlConnection, path: bytes, name: str, size: Reply) -> Entry:
    """A path that is no folder and has no size is that of a special file. Raises FaultError where nothing is there."""
    fault = classify(size)
    if fault.kind is Kind.UNKNOWN and size.code == 550:
        if await _is_special(connection, path, name):
            return Entry(name, "OS.unix=special")
        fault = make_fault(Kind.FILE_NOT_FOUND, fault.raw)
    raise FaultError(fault)


def size_of(size: Reply) -> int | None:
    """The number in an answer to SIZE (RFC 3659 section 4); None of any other answer."""
    last = size.text.split()[-1] if size.text else ""
    return int(last) if not size.is_error and last.isdecimal() and len(last) < 20 else None


async def _is_special(connection: ControlConnection, path: bytes, name: str) -> bool:
    """Whether a pipe, a socket or a device is here, which has no size (STAT with a path, RFC 959 section 4.1.3)."""
    reply = await connection.request("STAT", path)
    if reply.is_error or len(reply.lines) != 3:
        return False
    only = read_list_line(reply.lines[1].strip())
    return only is not None and (only.kind, only.name) == ("OS.unix=special", name)


def _worse_refusal(before: ListingRefusedError | None, error: ListingRefusedError) -> ListingRefusedError:
    """Of the refusals of several forms the one that says "nothing" means an empty folder. Raises any other `error`."""
    if not (is_refused(error.reply) or error.reply.code in (450, 550)):
        raise error
    return error if before is None or says_nothing_there(error.reply) else before


async def enter(connection: ControlConnection, path: bytes) -> None:
    """CWD: whether this is a folder. Raises FaultError."""
    reply = await connection.request("CWD", path)
    if reply.is_error:
        fault = classify(reply)
        raise FaultError(make_fault(Kind.FILE_NOT_FOUND, fault.raw) if fault.kind is Kind.UNKNOWN else fault)


class PlainListings:
    """LIST on one session. It learns which form of the command the server understands."""

    def __init__(self, connection: ControlConnection) -> None:
        self._connection = connection
        #: The form that has shown entries. Until then an empty listing may be that of a file with the name "-a".
        self._form: _Form | None = None
        self._knows_mdtm = True

    async def listing(self, path: bytes, allowance: Allowance) -> AsyncGenerator[Sequence[Entry], None]:
        """The entries of a folder, in batches, without "." and "..". Raises FaultError.

        The time of a folder is not known. CWD comes first: for a missing folder servers send an empty listing.
        """
        await enter(self._connection, path)
        reader = EntryReader(path, allowance, parse_list_line, may_begin)
        found: list[Entry] = []
        async with aclosing(self._lines(path, allowance)) as blocks:
            async for lines in blocks:
                for entries in reader.read(lines):
                    found += entries
        found += reader.end()
        for start in range(0, len(found), PORTION):
            some = found[start : start + PORTION]
            yield await asyncio.gather(*(self._completed(path, one) for one in some))
        allowance.end()

    async def _lines(self, path: bytes, allowance: Allowance) -> AsyncGenerator[Sequence[bytes], None]:
        """The lines of the first form that shows any. The folder exists, so it is empty where no form does."""
        refused: ListingRefusedError | None = None
        for form in self._forms(path):
            shows_any = False
            try:
                async with aclosing(self._by(form, path, allowance)) as blocks:
                    async for lines in blocks:
                        shows_any = shows_any or any(lines)
                        yield lines
            except ListingRefusedError as error:
                if shows_any:
                    raise
                refused = _worse_refusal(refused, error)
            else:
                refused = None
            if shows_any:
                self._form = form
                return
        if refused and not says_nothing_there(refused.reply):
            raise refused

    def _forms(self, path: bytes) -> Sequence[_Form]:
        known = (self._form,) if self._form else _FORMS
        # A path with the characters of a pattern would be expanded.
        return [form._replace(named=False) for form in known] if _PATTERN.search(path) else known

    async def _by(self, form: _Form, path: bytes, allowance: Allowance) -> AsyncGenerator[Sequence[bytes], None]:
        argument = b" ".join(word for word in (form.options, path if form.named else b"") if word)
        before = None if form.named else path
        blocks = blocks_on_data(self._connection, path, allowance, verb="LIST", argument=argument, enter=before)
        async with aclosing(blocks):
            async for lines in blocks:
                yield lines

    async def _completed(self, folder: bytes, entry: Entry) -> Entry:
        """The entry with its time; a symlink with the facts of what it leads to."""
        path = folder.rstrip(b"/") + b"/" + entry.name.encode("utf-8", "surrogateescape")
        if CONTROL.search(path):
            return entry  # no command can name it: whoever uses it gets that fault
        if entry.kind == "file":
            return entry._replace(modified=await self._modified(path))
        if entry.kind != "link" or entry.link_target is None:
            return entry
        try:
            target = await stat(self._connection, path)
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return entry
        return target._replace(name=entry.name, link_target=entry.link_target) if target else entry

    async def _modified(self, path: bytes) -> datetime | None:
        if not self._knows_mdtm:
            return None
        reply = await self._connection.request("MDTM", path)
        if is_unknown(reply):
            self._knows_mdtm = False
        return _time(reply)


def _time(reply: Reply) -> datetime | None:
    """The time in an answer to MDTM (RFC 3659 section 3)."""
    found = _TIME.search(reply.text) if reply.code == 213 else None
    try:
        return datetime.strptime(found[1], "%Y%m%d%H%M%S").replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
