"""Reads files and folders of one folder of an endpoint as a zip archive, as long as its client takes it.

All folders are listed before the first octet, so that what is too large is refused, and not cut. The files are stored
without compression (APPNOTE.TXT of PKWARE, 6.3.10), with names in UTF-8 and sizes of 64 bits. A text file at the end
names each entry that the archive cannot have.

Raises the registry's errors, PathNotPermittedError, OperationPausedError, FILE_TOO_LARGE, TOO_MANY_FILES, and the
errors of `sessions`.
"""

from __future__ import annotations

import struct
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import NamedTuple

from django.conf import settings

from endpoints import operations
from endpoints.errors import FILE_TOO_LARGE, TOO_MANY_FILES
from endpoints.gridftp.connection import STALL_TIMEOUT
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, make_fault
from endpoints.gridftp.streams.file_streams import OctetBudget
from endpoints.listing_limits import ListingAllowance
from endpoints.operations import ListableFolder
from endpoints.pause_rules import PausableOperation
from endpoints.sessions.remote import open_reader
from endpoints.sharing.confinement import LeadsOutError
from identity.error_categories import RefusedError
from identity.gsi.printable import readable
from identity.models import User

from .downloads import AHEAD, PAUSE, SLOWEST
from .sessions import Closable, FileSession

#: Files and folders of one archive; each takes about 1 kB of memory.
MOST = 20_000
#: Seconds for the listings of all folders.
LISTING_SECONDS = 60.0
LEFT_OUT = "waybill-left-out.txt"
#: Years that a date of a zip archive can have.
_FIRST, _LAST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2107, 12, 31, tzinfo=UTC)


class Member(NamedTuple):
    """A file or folder of the archive. name: its path there. path: on the endpoint, as the user knows it."""

    name: str
    path: str
    entry: Entry


class Archive(Closable):
    """The archive of some entries of a folder, or of all: `name` is that of its file. `close` must be called.

    names: entries of the folder; none: the folder with all that is in it.
    """

    def __init__(self, user: User, ref: str, path: str, names: Sequence[str] = ()) -> None:
        granted = operations.access_for(user, ref, PausableOperation.DOWNLOAD)
        folder = path.rstrip("/")
        wanted = [f"{folder}/{name}" for name in dict.fromkeys(names)] or [folder or "/"]
        for one in wanted:
            granted.check(one, write=False)
        self.name = f"{readable(_own_name(wanted[0] if len(wanted) == 1 else folder)) or 'files'}.zip"
        self._members: list[Member] = []
        #: Names and reasons.
        self._left_out: list[tuple[str, str]] = []
        self._octets = 0
        self._listing_ends = time.monotonic() + LISTING_SECONDS
        with ExitStack() as opened:
            self._session = FileSession(user, granted, f"{folder}/", write=False)
            opened.callback(self._session.close)
            self._find(wanted)
            self._opened = opened.pop_all()

    def __iter__(self) -> Iterator[bytes]:
        """The octets. Raises FaultError where a file breaks off, or where the client is too slow."""
        sink, given, waited = _Sink(), 0, 0.0
        for data in self._all(sink):
            asked = time.monotonic()
            yield data
            given, waited = given + len(data), waited + time.monotonic() - asked
            if waited > PAUSE + given / SLOWEST:
                raise FaultError(make_fault(Kind.TIMEOUT, f"slower than {SLOWEST} octets a second"))

    def __del__(self) -> None:
        """Release the slots of an answer that was never started, so that nobody closed it."""
        if hasattr(self, "_opened"):
            self.close()

    # ---- what is in it

    def _find(self, wanted: Sequence[str]) -> None:
        """Fill the members. A folder comes before what is in it."""
        waiting: list[Member] = []
        for path in reversed(wanted):
            resolved = self._session.resolve(path)
            entry = self._session.run(self._session.session.stat(resolved))
            name = _own_name(path)
            waiting.append(Member(name, path, entry._replace(name=name)))
        while waiting:
            member = waiting.pop()
            if len(self._members) + len(self._left_out) >= MOST:
                raise RefusedError(TOO_MANY_FILES, limit=MOST)
            if self._is_left_out(member):
                continue
            self._take(member)
            for entry in reversed(self._listed(member) if member.entry.is_directory else ()):
                name = f"{member.name}/{entry.name}" if member.name else entry.name
                waiting.append(Member(name, f"{member.path.rstrip('/')}/{entry.name}", entry))

    def _is_left_out(self, member: Member) -> bool:
        """Links would lead out of the folder, or in a circle; some names lead elsewhere where they are unpacked."""
        entry = member.entry
        if entry.is_link:
            return self._leave_out(member, "a symbolic link")
        if not entry.is_directory and entry.kind != "file":
            return self._leave_out(member, "neither a file nor a folder")
        if "/" in entry.name or ".." in entry.name.split("\\") or entry.name == ".":
            return self._leave_out(member, "its name leads to another folder")
        return False

    def _leave_out(self, member: Member, reason: str) -> bool:
        self._left_out.append((member.name, reason))
        return True

    def _take(self, member: Member) -> None:
        """Add a member. Raises RefusedError where there are too many octets."""
        if not member.entry.is_directory:
            self._octets += member.entry.size
            self._check_octets(0)
        self._members.append(member)

    def _listed(self, member: Member) -> Sequence[Entry]:
        """The entries of a folder; none where the server refuses this folder, which is then named as left out.

        Raises FaultError where a listing is incomplete, or where all of them take too long.
        """
        left = self._listing_ends - time.monotonic()
        if left <= 0:
            raise FaultError(make_fault(Kind.TIMEOUT, f"the folders were not listed within {LISTING_SECONDS:g} s"))
        room = MOST - len(self._members) - len(self._left_out)
        session = self._session
        folder = ListableFolder(f"{member.path.rstrip('/')}/", session.granted)

        async def listed(resolved: str) -> list[Entry]:
            allowance = ListingAllowance(session.slot, room)
            found: list[Entry] = []
            async for batch in operations.batches(session.session, folder, session.confinement, resolved, allowance):
                found += batch
            return found

        try:
            return session.run(listed(session.resolve(member.path)), left)
        except FaultError as error:
            if error.fault.kind is Kind.LIMIT_EXCEEDED:
                raise RefusedError(TOO_MANY_FILES, limit=MOST) from None
            if not _is_of_this_file(error):
                raise
            self._left_out.append((f"{member.name}/", error.fault.advice))
            return ()

    # ---- its octets

    def _all(self, sink: _Sink) -> Iterator[bytes]:
        """The octets of the archive, as they are written into the sink."""
        with zipfile.ZipFile(sink, "w") as archive:  # type: ignore[call-overload]
            yield from self._written(archive, sink)
        yield sink.taken()

    def _written(self, archive: zipfile.ZipFile, sink: _Sink) -> Iterator[bytes]:
        for member in self._members:
            if not member.name:
                continue
            info = _info(member)
            if info.filename in archive.NameToInfo:
                self._leave_out(member, "another name is shown in the same way")
            elif member.entry.is_directory:
                archive.writestr(info, b"")
            else:
                yield from self._stored(archive, info, member, sink)
        if self._left_out:
            archive.writestr(_free_name(archive), _lines(self._left_out))

    def _stored(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, member: Member, sink: _Sink) -> Iterator[bytes]:
        """One file, up to the end that the server reports. Once it has begun, the archive can only break off.

        It is resolved again: since it was listed, it may have become a link. Raises FaultError where it is shorter than
        it was, RefusedError where it has grown beyond what the archive may have.
        """
        session, share, length = self._session, OctetBudget(AHEAD).share(), 0
        with ExitStack() as opened:
            try:
                place = session.resolve(member.path)
                reader = open_reader(
                    session.session, place, 0, share, expected=member.entry.size, encrypt=session.encrypt
                )
                stream = session.run(reader)
                opened.callback(lambda: session.run(stream.close()))
                data = session.run(stream.read(), STALL_TIMEOUT + 1)
            except FaultError as error:
                if not _is_of_this_file(error):
                    raise
                self._leave_out(member, error.fault.advice)
                return
            with archive.open(info, "w", force_zip64=True) as file:
                while data:
                    share.give(len(data))
                    length += len(data)
                    self._check_octets(max(0, length - member.entry.size))
                    file.write(data)
                    yield sink.taken()
                    data = session.run(stream.read(), STALL_TIMEOUT + 1)
        if length < member.entry.size:
            raise FaultError(make_fault(Kind.FILE_SIZE_CHANGED, "the file is shorter than it was"))
        self._octets += length - member.entry.size

    def _check_octets(self, more: int) -> None:
        """Raises RefusedError where the files, and `more` octets, are more than one answer may have."""
        if self._octets + more > settings.LIMITS.download:
            raise RefusedError(FILE_TOO_LARGE, limit=settings.LIMITS.download)


class _Sink:
    """The file that `ZipFile` writes. It cannot seek, so that sizes and checksums follow the data of each file."""

    def __init__(self) -> None:
        self._held: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._held.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def taken(self) -> bytes:
        """The octets that were written since the last call."""
        data, self._held = b"".join(self._held), []
        return data


def _own_name(path: str) -> str:
    """The last name of a path; "" of a root and of a home, whose entries are at the top of the archive."""
    name = path.rpartition("/")[2]
    return "" if path == "/~" else name


def _is_of_this_file(error: FaultError) -> bool:
    return error.fault.scope is FaultScope.FILE or isinstance(error, LeadsOutError)


def _info(member: Member) -> zipfile.ZipInfo:
    entry, name = member.entry, readable(member.name)
    modified = min(max(entry.modified or _FIRST, _FIRST), _LAST)
    info = zipfile.ZipInfo(f"{name}/" if entry.is_directory else name, modified.timetuple()[:6])
    info.external_attr = (0o40755 << 16 | 0x10) if entry.is_directory else 0o100644 << 16
    seconds = int(entry.modified.timestamp()) if entry.modified else 0
    if 0 < seconds < 2**31:
        # "Extended timestamp" of Info-ZIP: the dates of zip have no time zone, and this has.
        info.extra = struct.pack("<HHBl", 0x5455, 5, 1, seconds)
    return info


def _free_name(archive: zipfile.ZipFile) -> str:
    number, name = 1, LEFT_OUT
    while name in archive.NameToInfo:
        number += 1
        name = LEFT_OUT.replace(".txt", f"-{number}.txt")
    return name


def _lines(left_out: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{readable(name)}: {reason}\n" for name, reason in left_out)
