"""Files on a GridFTP or FTP server as streams, in MODE S, on a data connection of our own.

A session moves one file at a time. Where a file is given up half-way, the session ends with it; a file that the server
refuses to send leaves it usable.
"""

from __future__ import annotations

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError

from .data_stream import UNCERTAIN, DataStream
from .digest import Digest
from .file_streams import PIECE, OctetBudget, OctetShare
from .restarts import may_read_from


class _ModeSFile:
    def __init__(self, session: GridFTPSession, stream: DataStream, share: OctetShare) -> None:
        self._session = session
        self._stream = stream
        self._share = share
        self._ended = False

    async def close(self) -> None:
        """Stop at once; may be called repeatedly."""
        await self._stream.close()
        if not self._ended:
            self._session.abort()


class ModeSReader(_ModeSFile):
    """RETR: the server's success is the end of the file. skip: octets from the beginning that are not given away."""

    def __init__(self, session: GridFTPSession, stream: DataStream, share: OctetShare, skip: int = 0) -> None:
        super().__init__(session, stream, share)
        self._skip = skip

    async def close(self) -> None:
        """`FileReader.close`."""
        self._ended = self._ended or self._stream.is_answered
        await super().close()

    async def read(self) -> bytes:
        """`FileReader.read`."""
        await self._share.take(PIECE)
        data = b""
        try:
            data = await self._next()
        finally:
            self._share.give(PIECE - len(data))
        return data

    async def _next(self) -> bytes:
        while True:
            data = await self._stream.read()
            self._ended = not data
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            if self._ended or skipped < len(data):
                return data[skipped:]


class ModeSWriter(_ModeSFile):
    """STOR. A server writes the file from the beginning on, and reports nothing before the end.

    So `stored` is an estimate: whoever continues there first checks that the file is long enough. The toolkit's server
    may damage the beginning of an interrupted file (docs/decisions/settlement.md): there the file is sent again.
    """

    def __init__(self, session: GridFTPSession, stream: DataStream, share: OctetShare, offset: int) -> None:
        super().__init__(session, stream, share)
        self._begun = self._sent = offset

    @property
    def stored(self) -> int:
        """`FileWriter.stored`."""
        if self._ended:
            return self._sent
        return 0 if self._session.features.toolkit else max(self._begun, self._sent - UNCERTAIN)

    async def write(self, data: bytes) -> None:
        """`FileWriter.write`."""
        try:
            await self._stream.send(data)
        finally:
            self._share.give(len(data))
        self._sent += len(data)

    async def finish(self) -> None:
        """`FileWriter.finish`."""
        await self._stream.end()
        self._ended = True

    async def confirm(self) -> None:
        """`FileWriter.confirm`: the file has its name already, whatever it contains."""
        await self.finish()


async def open_reader(
    session: GridFTPSession, path: str, offset: int, share: OctetShare, *, encrypt: bool = False
) -> ModeSReader:
    """Read a file from this offset on. Raises FaultError.

    A server that cannot begin there sends all of it, and the octets before the offset are dropped here.
    """
    skip = offset if offset and not await may_read_from(session, path, encrypt=encrypt) else 0
    return ModeSReader(session, await _opened(session, "RETR", path, offset - skip, encrypt), share, skip)


async def open_writer(
    session: GridFTPSession, path: str, offset: int, share: OctetShare, *, encrypt: bool = False
) -> ModeSWriter:
    """Write a file from this offset on. Raises FaultError, RestartRefusedError."""
    return ModeSWriter(session, await _opened(session, "STOR", path, offset, encrypt), share, offset)


async def checksum(session: GridFTPSession, path: str, algorithm: str, *, encrypt: bool = False) -> str:
    """The checksum of a whole file, for a server that makes none: the file is read. Raises FaultError."""
    counted, share = Digest(algorithm), OctetBudget(2 * PIECE).share()
    async with session.one_data_connection:
        reader = await open_reader(session, path, 0, share, encrypt=encrypt)
        try:
            while data := await reader.read():
                counted.update(data)
                share.give(len(data))
        finally:
            await reader.close()
    return counted.hexdigest()


async def _opened(session: GridFTPSession, verb: str, path: str, offset: int, encrypt: bool) -> DataStream:
    """A refusal leaves the session usable; after any other error a data connection may be left open."""
    try:
        return await DataStream.open(session, verb, path, offset, encrypt=encrypt)
    except FaultError:
        raise
    except BaseException:
        session.abort()
        raise
