"""Sessions with servers of any protocol, and how they are opened, for the registry and the workers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from endpoints.gridftp.client import SCAN_FACTS, GridFTPSession
from endpoints.gridftp.connection import CONNECT_TIMEOUT, LateLoginError
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault
from endpoints.gridftp.listing import Allowance
from endpoints.gridftp.login import Login
from endpoints.gridftp.restriction import AllowedPath
from endpoints.gridftp.streams import mode_s
from endpoints.gridftp.streams.file_streams import FileReader, FileWriter, OctetShare
from endpoints.gridftp.wire import login_time
from endpoints.gridftp.wire.fence import Fence
from endpoints.gridftp.wire.put_off import SERVERS


class RemoteSession(Protocol):
    """`GridFTPSession`, `SftpSession`: the methods that both have. All raise FaultError.

    protocol: its name, as users know it. multiplexed: whether it moves several files at once through this service.
    appears_whole: whether a file that is written is not seen before it is complete: it needs no temporary name.
    """

    protocol: str
    multiplexed: bool
    appears_whole: bool
    home: str
    places: Mapping[str, str]
    demands_encryption: bool

    @property
    def usable(self) -> bool: ...
    @property
    def idle(self) -> bool: ...
    @property
    def protected(self) -> bool: ...
    @property
    def round_trip(self) -> float | None: ...
    @property
    def algorithms(self) -> Sequence[str]: ...
    @property
    def tells_links(self) -> bool: ...
    @property
    def resolves_links(self) -> bool: ...
    def abort(self) -> None: ...
    def set_fence(self, fence: Fence | None) -> None: ...
    async def close(self) -> None: ...
    def encode_path(self, path: str) -> bytes: ...
    async def restrict(self, allowed_paths: Iterable[AllowedPath]) -> None: ...
    async def free_space(self, path: str) -> int | None: ...
    async def stat(self, path: str) -> Entry: ...
    def listing(self, path: str, allowance: Allowance | None = None) -> AsyncGenerator[Sequence[Entry], None]: ...
    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]: ...
    async def make_directory(self, path: str) -> None: ...
    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]: ...
    async def remove_unlisted(self, path: str) -> None: ...
    async def give_name(self, written: str, name: str, size: int) -> None: ...
    async def rename(self, old: str, new: str) -> None: ...
    async def check_readable(self, path: str) -> None: ...
    async def checksum(self, path: str, algorithm: str) -> str: ...
    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]: ...
    async def make_symlink(self, target: str, path: str) -> None: ...


class StreamingSession(RemoteSession, Protocol):
    """A session that reads and writes files itself (SFTP, S3).

    expected: octets of the file that will come, where they are known. partial: where `appears_whole`, the path of a
    note about what is stored of the file, by which it is continued; `remove` of this path removes what is stored, too.
    """

    async def open_reader(self, path: str, offset: int, share: OctetShare, *, expected: int = 0) -> FileReader: ...
    async def open_writer(
        self, path: str, offset: int, share: OctetShare, *, expected: int = 0, partial: str = ""
    ) -> FileWriter: ...


@runtime_checkable
class SessionOpener(Protocol):
    """A login that opens its sessions itself: of SFTP, or of what the server has."""

    async def open_session(
        self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT, facts: str = SCAN_FACTS
    ) -> RemoteSession: ...


async def open_session(host: str, port: int, login: Login, *, facts: str = SCAN_FACTS) -> RemoteSession:
    """A logged-in session. host: an address that has passed the gate. facts: of GridFTP listings. Raises FaultError."""
    SERVERS.check(host, port)
    server = host, port
    seconds = login_time.of(server)
    try:
        if isinstance(login, SessionOpener):
            session = await login.open_session(host, port, timeout=seconds, facts=facts)
        else:
            session = await GridFTPSession.open(host, port, login=login, facts=facts, timeout=seconds)
    except LateLoginError:
        login_time.was_late(server, seconds)
        raise
    login_time.was_in_time(server)
    return session


async def open_reader(
    session: RemoteSession, path: str, offset: int, share: OctetShare, *, expected: int = 0, encrypt: bool = False
) -> FileReader:
    """Read a file through this service. encrypt: nothing may travel in clear. Raises FaultError."""
    if isinstance(session, GridFTPSession):
        return await mode_s.open_reader(session, path, offset, share, encrypt=encrypt)
    return await _streaming(session).open_reader(path, offset, share, expected=expected)


async def open_writer(
    session: RemoteSession,
    path: str,
    offset: int,
    share: OctetShare,
    *,
    expected: int = 0,
    encrypt: bool = False,
    partial: str = "",
) -> FileWriter:
    """Write a file through this service. encrypt: nothing may travel in clear. Raises FaultError."""
    if isinstance(session, GridFTPSession):
        return await mode_s.open_writer(session, path, offset, share, encrypt=encrypt)
    return await _streaming(session).open_writer(path, offset, share, expected=expected, partial=partial)


def _streaming(session: RemoteSession) -> StreamingSession:
    assert hasattr(session, "open_reader"), type(session)
    return session  # type: ignore[return-value]
