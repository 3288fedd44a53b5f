"""A server of files in memory, for tests that try many orders: it does at once what real servers do when they like.

A file is what names lead to (an inode): who writes goes on writing it after a rename, and after a removal.
"""

from __future__ import annotations

from collections.abc import Sequence

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, make_fault
from endpoints.gridftp.streams.file_streams import OctetShare


class MemoryServer:
    """cuts: whether a broken data connection ends the file there, as in MODE S, where this is the end of a file."""

    def __init__(self, *, cuts: bool = False) -> None:
        self.files: dict[str, bytearray] = {}
        self.cuts = cuts

    def find(self, path: str) -> bytearray:
        if path not in self.files:
            raise FaultError(make_fault(Kind.FILE_NOT_FOUND, path))
        return self.files[path]

    def names(self) -> list[str]:
        return sorted(self.files)


class MemoryServerSession:
    """The methods of `endpoints.sessions.remote.StreamingSession` that uploads call."""

    home = "/"
    appears_whole = False
    usable = True

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def abort(self) -> None:
        self.usable = False

    async def close(self) -> None:
        self.usable = False

    async def stat(self, path: str) -> Entry:
        return Entry(path.rpartition("/")[2], "file", size=len(self._server.find(path)))

    async def rename(self, old: str, new: str) -> None:
        found = self._server.find(old)
        del self._server.files[old]
        self._server.files[new] = found

    async def give_name(self, written: str, name: str, size: int) -> None:
        await self.rename(written, name)

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        outcome: list[Fault | None] = []
        for path, _ in entries:
            gone = self._server.files.pop(path, None)
            outcome.append(None if gone is not None else make_fault(Kind.FILE_NOT_FOUND, path))
        return outcome

    async def open_reader(self, path: str, offset: int, share: OctetShare, *, expected: int = 0) -> object:
        raise NotImplementedError

    async def open_writer(
        self, path: str, offset: int, share: OctetShare, *, expected: int = 0, partial: str = ""
    ) -> MemoryWriter:
        file = self._server.files.setdefault(path, bytearray())
        if not offset:
            del file[:]
        return MemoryWriter(self, file, offset, share, cuts=self._server.cuts)


class MemoryWriter:
    """Writes behind the end leave a hole; the end of the data is the end of the file."""

    def __init__(
        self, session: MemoryServerSession, file: bytearray, offset: int, share: OctetShare, *, cuts: bool
    ) -> None:
        self._session, self._file, self._at, self._share, self._cuts = session, file, offset, share, cuts
        self._ended = False

    async def write(self, data: bytes) -> None:
        self._share.give(len(data))
        self._file.extend(bytes(max(0, self._at - len(self._file))))
        self._file[self._at : self._at + len(data)] = data
        self._at += len(data)

    async def finish(self) -> None:
        self._file.extend(bytes(max(0, self._at - len(self._file))))
        del self._file[self._at :]
        self._ended = True

    async def close(self) -> None:
        if not self._ended:
            self._session.abort()
            if self._cuts:
                await self.finish()
