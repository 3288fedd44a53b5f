"""Sessions of the pool as the engine uses them: plain ones, and guarded ones for shared endpoints."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from datetime import datetime

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Side, make_fault
from endpoints.gridftp.listing import LISTING_TIMEOUT, Allowance
from endpoints.gridftp.streams import mode_s
from endpoints.gridftp.streams.digest import ALGORITHMS
from endpoints.sessions.remote import RemoteSession
from endpoints.sharing.confinement import resolved_path

from .pool import Address, SessionKey
from .share_access_guard import ShareAccessGuard


class PooledSession:
    """A session of the engine (ports.Session) that knows its place in the pool."""

    def __init__(self, session_key: SessionKey, side: Side, inner: RemoteSession) -> None:
        self.session_key = session_key
        self.side = side
        self.inner = inner
        #: Returns the checksum of a file as it was read at the source, by the task's path and the algorithm.
        self.read_checksum: Callable[[str, str], str | None] = lambda path, algorithm: None
        #: Seconds for which the server may be silent during a listing.
        self.listing_seconds = LISTING_TIMEOUT

    #: Whether it belongs to a shared endpoint.
    guarded = False

    @property
    def address(self) -> Address:
        return self.session_key.address

    @property
    def gridftp(self) -> GridFTPSession:
        """The session with a GridFTP or FTP server."""
        assert isinstance(self.inner, GridFTPSession)
        return self.inner

    @property
    def multiplexed(self) -> bool:
        """Whether it can move several files at once through this service."""
        return self.inner.multiplexed

    def fed_path(self, path: str) -> bytes:
        """The path of a file that is about to be moved, as the wire has it. Raises FaultError."""
        try:
            return self.inner.encode_path(self.plain_path(path))
        except FaultError as error:
            raise FaultError(error.fault.at(self.side)) from None

    def plain_path(self, path: str) -> str:
        """The same, before it is encoded. Raises FaultError."""
        return path

    def for_user(self, fault: Fault) -> Fault:
        """The fault of this side, as the user may see it."""
        return fault.at(self.side)

    @contextmanager
    def _faults_for_user(self) -> Iterator[None]:
        """Faults that pass through become those that the user may see."""
        try:
            yield
        except FaultError as error:
            error.fault = self.for_user(error.fault)
            raise

    def _real(self, path: str, *, fed: bool = False) -> str:
        """A path of the task as the server knows it. fed: also of files under way. Raises FaultError."""
        return path

    async def stat(self, path: str) -> Entry:
        with self._faults_for_user():
            return await self.inner.stat(path)

    async def listing(self, path: str) -> AsyncGenerator[Sequence[Entry], None]:
        listing = self.inner.listing(path, Allowance(seconds=self.listing_seconds))
        with self._faults_for_user():
            async with aclosing(listing) as batches:
                async for entries in batches:
                    yield entries

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        real = [self._real(path) for path in paths]
        with self._faults_for_user():
            return await self.inner.make_directories(real)

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        """Remove entries; the task may remove what it has begun to write, whatever the rules of a share allow now."""
        real = [(self._real(path, fed=True), folder) for path, folder in entries]
        with self._faults_for_user():
            faults = await self.inner.remove(real)
        return [fault and self.for_user(fault) for fault in faults]

    async def remove_unlisted(self, path: str) -> None:
        real = self._real(path)
        with self._faults_for_user():
            await self.inner.remove_unlisted(real)

    async def rename(self, old: str, new: str) -> None:
        real = self._real(old, fed=True), self._real(new, fed=True)
        with self._faults_for_user():
            await self.inner.rename(*real)

    @property
    def replaces(self) -> bool:
        """`Features.replaces`. On a shared endpoint a name may be a link that others have made: it is only renamed."""
        return isinstance(self.inner, GridFTPSession) and self.inner.features.replaces and not self.guarded

    @property
    def algorithms(self) -> Sequence[str]:
        """The checksum algorithms of the server. A plain FTP server has none: the worker reads the files."""
        return ALGORITHMS if self._reads_checksums else self.inner.algorithms

    @property
    def _reads_checksums(self) -> bool:
        inner = self.inner
        return isinstance(inner, GridFTPSession) and inner.is_plain_ftp and not inner.algorithms

    @property
    def tells_links(self) -> bool:
        return self.inner.tells_links

    @property
    def resolves_links(self) -> bool:
        return self.inner.resolves_links

    async def check_readable(self, path: str) -> None:
        real = self._real(path)
        with self._faults_for_user():
            await self.inner.check_readable(real)

    async def checksum(self, path: str, algorithm: str) -> str:
        """A file that was streamed has its checksum already."""
        real = self._real(path, fed=True)
        held = self.read_checksum(path, algorithm)
        if held is not None:
            return held
        with self._faults_for_user():
            if self._reads_checksums and isinstance(self.inner, GridFTPSession):
                return await mode_s.checksum(self.inner, real, algorithm, encrypt=self.inner.demands_encryption)
            return await self.inner.checksum(real, algorithm)

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        real = [(self._real(path, fed=True), modified) for path, modified in files]
        with self._faults_for_user():
            faults = await self.inner.set_modified(real)
        return [fault and self.for_user(fault) for fault in faults]

    async def make_symlink(self, target: str, path: str) -> None:
        with self._faults_for_user():
            await self.inner.make_symlink(target, path)


def fault_for_user(fault: Fault, sessions: Iterable[PooledSession]) -> Fault:
    """The fault of a lane between these, without the names of a shared endpoint's host.

    A fault of an unknown side may be of either one.
    """
    for session in sessions:
        if session.guarded and fault.side in (session.side, Side.UNKNOWN):
            fault = replace(session.for_user(fault), side=fault.side)
    return fault


class GuardedSession(PooledSession):
    """A session to the host of a shared endpoint: it translates the paths of the task and those of the answers."""

    guarded = True

    def __init__(self, session_key: SessionKey, access_guard: ShareAccessGuard, inner: RemoteSession) -> None:
        super().__init__(session_key, access_guard.side, inner)
        access_guard.set_home(inner.home)
        self._access_guard = access_guard
        self._confinement = access_guard.confinement(inner)

    def plain_path(self, path: str) -> str:
        return resolved_path(self._access_guard.feed(path), self.inner.places)

    def _real(self, path: str, *, fed: bool = False) -> str:
        """A path of the task as the host's servers know it, without the links on the way to its rule's folder."""
        real = self._access_guard.real(path, fed=fed)
        return resolved_path(real, self.inner.places, follow=not self._access_guard.deletes)

    async def _shown(self, folder: str, entries: Sequence[Entry]) -> Sequence[Entry]:
        if not any(entry.link_target is not None for entry in entries):
            return entries
        return await self._confinement.shown(self.inner, folder, entries)

    def for_user(self, fault: Fault) -> Fault:
        return self._access_guard.for_user(fault)

    @property
    def resolves_links(self) -> bool:
        """True if the guard resolves the links, whatever the server does."""
        return self._access_guard.follows_links or self.inner.resolves_links

    async def stat(self, path: str) -> Entry:
        """The facts of a path. A trailing slash is removed, because the server would follow a link before it."""
        real = self._real(path, fed=True)
        plain = real.rstrip("/") or "/"
        with self._faults_for_user():
            entry = await self.inner.stat(plain)
            if self._access_guard.is_root(self._access_guard.real(path, fed=True)):
                return entry._replace(name="/", link_target=None)
            (entry,) = await self._shown(plain.rpartition("/")[0], [entry])
            if plain != real and entry.kind == "file":
                raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path))
            return entry

    async def listing(self, path: str) -> AsyncGenerator[Sequence[Entry], None]:
        real = self._real(path).rstrip("/") or "/"
        listing = self.inner.listing(real, Allowance(seconds=self.listing_seconds))
        with self._faults_for_user():
            async with aclosing(listing) as batches:
                async for entries in batches:
                    yield await self._shown(real, entries)

    async def make_symlink(self, target: str, path: str) -> None:
        """Refused: other users of the shared endpoint would follow the link."""
        why = "No symbolic links are made on a shared endpoint."
        raise FaultError(Fault(Kind.INVALID_SYMLINK, self.side, retryable=False, advice=why, raw=path))
