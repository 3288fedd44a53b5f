"""Facts and listings of FTP servers without MLST and MLSD (RFC 959 and the first sections of RFC 3659).

LIST has no standard form: the one of `ls -l` is read, which Unix servers send. Its times are local, and to the minute:
times are asked for by MDTM, in UTC. CWD distinguishes folders from files.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime

from endpoints.gridftp.connection import MAX_PIPELINE, ControlConnection
from endpoints.gridftp.facts import Entry, format_time
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, classify, make_fault
from endpoints.gridftp.features import Features
from endpoints.gridftp.listing import Allowance, blocks_on_data, check_name
from endpoints.gridftp.replies import Reply

#: Entries whose times are asked for at once.
PORTION = MAX_PIPELINE // 3
_LINE = re.compile(
    rb"([-dlbcps])([-rwxsStTlL]{9})[.+@]?\s+\d+\s+(\S+)\s+(\S+)\s+(?:\d+,\s+)?(\d{1,19})\s"
    rb"+([A-Za-z]{3}\s+\d{1,2}\s+[\d:]{4,5}|\d{4}-\d\d-\d\d\s+\d\d:\d\d)\s(.+)"
)
_TIME = re.compile(r"(\d{14})(?:\.\d+)?")
_KINDS = {b"-": "file", b"d": "dir", b"l": "link"}


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


async def stat(connection: ControlConnection, path: bytes) -> Entry:
    """The facts of one path; symlinks are followed. One round trip. Raises FaultError."""
    request = connection.request
    folder, size, modified = await asyncio.gather(request("CWD", path), request("SIZE", path), request("MDTM", path))
    name = path.rstrip(b"/").rpartition(b"/")[2].decode("utf-8", "surrogateescape") or "/"
    when = _time(modified)
    if not folder.is_error:
        return Entry(name, "dir", modified=when)
    octets = size.text.split()[-1] if size.text else ""
    if not size.is_error and octets.isdecimal() and len(octets) < 20:
        return Entry(name, "file", int(octets), when)
    fault = classify(size)
    if fault.kind is Kind.UNKNOWN and size.code == 550:
        if await _is_special(connection, path, name):
            return Entry(name, "OS.unix=special")
        fault = make_fault(Kind.FILE_NOT_FOUND, fault.raw)
    raise FaultError(fault)


async def _is_special(connection: ControlConnection, path: bytes, name: str) -> bool:
    """Whether a pipe, a socket or a device is here, which has no size (STAT with a path, RFC 959 section 4.1.3)."""
    reply = await connection.request("STAT", path)
    if reply.is_error or len(reply.lines) != 3:
        return False
    only = parse_line(reply.lines[1].strip())
    return only is not None and (only.kind, only.name) == ("OS.unix=special", name)


async def listing(
    connection: ControlConnection, path: bytes, allowance: Allowance
) -> AsyncGenerator[Sequence[Entry], None]:
    """The entries of a folder, in batches, without "." and "..". Raises FaultError.

    The time of a folder is not known. CWD comes first: for a missing folder servers send an empty listing.
    """
    reply = await connection.request("CWD", path)
    if reply.is_error:
        fault = classify(reply)
        raise FaultError(make_fault(Kind.FILE_NOT_FOUND, fault.raw) if fault.kind is Kind.UNKNOWN else fault)
    found: list[Entry] = []
    async with aclosing(blocks_on_data(connection, b"-a " + path, allowance, verb="LIST")) as blocks:
        async for lines in blocks:
            with allowance.turn():
                entries = [entry for line in lines if (entry := parse_line(line)) is not None]
            allowance.keep(entries)
            found += entries
    for start in range(0, len(found), PORTION):
        yield await asyncio.gather(*(_completed(connection, path, one) for one in found[start : start + PORTION]))


async def _completed(connection: ControlConnection, folder: bytes, entry: Entry) -> Entry:
    """The entry with its time; a symlink with the facts of what it leads to."""
    path = folder.rstrip(b"/") + b"/" + entry.name.encode("utf-8", "surrogateescape")
    if entry.kind == "file":
        return replace(entry, modified=_time(await connection.request("MDTM", path)))
    if entry.kind != "link":
        return entry
    try:
        target = await stat(connection, path)
    except FaultError as error:
        if error.fault.scope is not FaultScope.FILE:
            raise
        return entry
    return replace(target, name=entry.name, link_target=entry.link_target)


def parse_line(line: bytes) -> Entry | None:
    """Read one line of `ls -l`; None for "total 3", "." and "..", and what cannot be read. Raises FaultError."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    kind, _, owner, group, size, _, name = found.groups()
    target: bytes | None = None
    if kind == b"l":
        name, arrow, target = name.partition(b" -> ")
        target = target if arrow else None
    if name in (b".", b"..") or b"/" in name or int(size) >= 2**63:
        return None
    text = name.decode("utf-8", "surrogateescape")
    check_name(text)
    return Entry(
        text,
        _KINDS.get(kind, "OS.unix=special"),
        size=int(size),
        owner=owner.decode("utf-8", "replace"),
        group=group.decode("utf-8", "replace"),
        link_target=None if target is None else target.decode("utf-8", "surrogateescape"),
    )


def _time(reply: Reply) -> datetime | None:
    """The time in an answer to MDTM (RFC 3659 section 3)."""
    found = _TIME.search(reply.text) if reply.code == 213 else None
    try:
        return datetime.strptime(found[1], "%Y%m%d%H%M%S").replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
