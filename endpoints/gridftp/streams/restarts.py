"""Whether a server begins where REST says (RFC 3659 section 5).

Some plain FTP servers refuse REST; some accept it and move the file from its beginning all the same. Whoever reads a
part of a file would take other octets for it. So before the first part that is read from a server, its last octet is
asked for: the whole file is more than that.
"""

from __future__ import annotations

import asyncio

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import session_fault
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.wire.server_memory import ServerMemory

from .data_stream import DataStream, RestartRefusedError

#: Octets after the last one that prove it, for a large file. A file that grows meanwhile has fewer.
PROOF = 2**20
#: Seconds for the answer of a server whose data connection was closed in the middle of a file.
ANSWER_OF_CUT = 5.0

#: Of servers that send, and of servers that store.
_reads: ServerMemory[bool] = ServerMemory()
_writes: ServerMemory[bool] = ServerMemory()


async def may_read_from(session: GridFTPSession, path: str, *, encrypt: bool) -> bool:
    """Whether RETR begins behind the octets that REST names. Raises FaultError."""
    if not session.is_plain_ftp:
        return True
    server = session.connection.peer
    known = _reads.get(server)
    if known is None:
        known = await _begins_at_end(session, path, encrypt)
        _reads.note(server, known)
    return known


def may_write_from(session: GridFTPSession) -> bool:
    """Whether STOR begins there, as far as it is known."""
    return _writes.get(session.connection.peer) is not False


def note_not_written(session: GridFTPSession) -> None:
    """STOR did not begin where REST said, or REST was refused."""
    _writes.note(session.connection.peer, False)


async def _begins_at_end(session: GridFTPSession, path: str, encrypt: bool) -> bool:
    size = (await session.stat(path)).size
    if size < 2:
        return False
    try:
        stream = await DataStream.open(session, "RETR", path, size - 1, encrypt=encrypt)
    except RestartRefusedError:
        return False
    got, proof = 0, min(size, PROOF)
    try:
        while got < proof:
            data = await stream.read()
            if not data:
                return True
            got += len(data)
        await _cut(session, stream)
        return False
    except BaseException:
        session.abort()
        raise


async def _cut(session: GridFTPSession, stream: DataStream) -> None:
    """End the file in its middle. Raises FaultError where the server does not answer then."""
    try:
        async with asyncio.timeout(ANSWER_OF_CUT):
            await stream.cut()
    except TimeoutError:
        session.abort()
        raise FaultError(session_fault(Kind.TIMEOUT, "no answer to a data connection that was closed")) from None
