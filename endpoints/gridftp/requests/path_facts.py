"""The facts of one path: by MLST (RFC 3659 section 7), or as far as a plain FTP server makes it necessary by CWD, SIZE
and MDTM, or by the listing of the folder above."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from endpoints.gridftp.connection import ControlConnection
from endpoints.gridftp.facts import Entry, FactsError, parse_line
from endpoints.gridftp.faults import Fault, FaultError, Kind, classify, make_fault
from endpoints.gridftp.listing import Allowance
from endpoints.gridftp.replies import Reply
from identity.gsi.printable import quoted

from . import plain_ftp

Listing = Callable[[str, Allowance], AsyncGenerator[Sequence[Entry], None]]


class _AsFarAsPossible(Allowance):
    partial = True


@dataclass(slots=True)
class _Look:
    """A listing, and the names that are looked for in it."""

    names: set[str] = field(default_factory=set)
    entries: dict[str, Entry] | None = None
    fault: Fault | None = None


class PathFacts:
    """The facts of paths on one session. listing: of the session."""

    def __init__(self, connection: ControlConnection, listing: Listing) -> None:
        self._connection = connection
        self._listing = listing
        #: False once the server has refused MLST as unknown.
        self.by_mlst = True
        #: MLST has shown a file. Some servers answer it for folders only, and refuse each file as if it were missing.
        self._shows_files = False
        #: Listings that have not begun, by their folders: one shows all names that are asked for meanwhile.
        self._looks: dict[str, _Look] = {}
        self._one_look = asyncio.Lock()

    async def knows_mlst(self, path: bytes) -> bool:
        """Ask for this path, whatever the answer says about it. Raises FaultError where the connection is lost."""
        self.by_mlst = not plain_ftp.is_unknown(await self._connection.request("MLST", path))
        return self.by_mlst

    async def stat(self, path: str, encoded: bytes, *, plain: bool) -> Entry:
        """The facts of one path. plain: the server is one of plain FTP. Raises FaultError."""
        if self.by_mlst:
            reply = await self._connection.request("MLST", encoded)
            entry = self._shown(reply, plain=plain)
            if entry is not None:
                return entry
        may_be_folder = not (self.by_mlst and self._shows_files)
        found = await plain_ftp.stat(self._connection, encoded, may_be_folder=may_be_folder)
        return found or await self._in_folder(path)

    def _shown(self, reply: Reply, *, plain: bool) -> Entry | None:
        """The entry of an answer to MLST; None: other commands may know more. Raises FaultError."""
        if not reply.is_error:
            try:
                entry = entry_of(reply)
            except FaultError:
                if not plain:
                    raise
                self.by_mlst = False
                return None
            self._shows_files = self._shows_files or not entry.is_directory
            return entry
        self.by_mlst = not (plain and plain_ftp.is_unknown(reply))
        fault = classify(reply)
        # ProFTPD and Pure-FTPd name no cause for a missing path.
        if not plain or (self._shows_files and not (plain_ftp.is_refused(reply) or fault.kind is Kind.UNKNOWN)):
            raise FaultError(fault)
        return None

    async def _in_folder(self, path: str) -> Entry:
        """The entry in the listing of the folder above. Raises FaultError."""
        folder, _, name = path.rstrip("/").rpartition("/")
        look = self._looks.setdefault(folder, _Look())
        look.names.add(name)
        async with self._one_look:
            if look.entries is None and look.fault is None:
                # Whoever asks from now on may know of a change that this listing does not show.
                self._looks.pop(folder, None)
                await self._run(look, folder)
        if look.fault and name not in (look.entries or {}):
            raise FaultError(look.fault)
        try:
            return (look.entries or {})[name]
        except KeyError:
            text = f"{quoted(name)} is not in the listing of its folder"
            raise FaultError(make_fault(Kind.FILE_NOT_FOUND, text)) from None

    async def _run(self, look: _Look, folder: str) -> None:
        entries: dict[str, Entry] = {}
        allowance = _AsFarAsPossible()
        try:
            async with aclosing(self._listing(folder or "/", allowance)) as batches:
                async for batch in batches:
                    entries.update((entry.name, entry) for entry in batch if entry.name in look.names)
            look.fault = allowance.incomplete
        except FaultError as error:
            look.fault = error.fault
        look.entries = entries


def entry_of(reply: Reply) -> Entry:
    """The line of facts in an answer to MLST: the second, but some servers send no other. Raises FaultError."""
    why = ""
    for line in (*reply.lines[1:], reply.lines[0]):
        try:
            entry = parse_line(line.removeprefix(b" "))
        except FactsError as error:
            why = why or str(error)
        else:
            return entry._replace(name=entry.name.rstrip("/").rpartition("/")[2] or "/")
    raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"MLST: {why}"))
