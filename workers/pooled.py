"""Sessions of the pool as the engine has them: bare ones, and those of shared endpoints, which a guard watches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime

from endpoints.confinement import placed
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Side, make_fault
from workers.guard import Guard
from workers.pool import Address, Door


class PooledSession:
    """A session of the engine (ports.Session) that knows where it goes back to."""

    def __init__(self, door: Door, side: Side, inner: GridFTPSession) -> None:
        self.door = door
        self.side = side
        self.inner = inner

    #: Whether a guard stands before it.
    guarded = False

    @property
    def address(self) -> Address:
        return self.door.address

    def fed_path(self, path: str) -> bytes:
        """A path of a file that is about to be moved, as it goes over the wire. Raises FaultError."""
        return self.inner.encode_path(path)

    def told(self, fault: Fault) -> Fault:
        """A fault of this side, as the user may hear of it."""
        return fault.at(self.side)

    async def stat(self, path: str) -> Entry:
        with _seen_from(self.side):
            return await self.inner.stat(path)

    async def listing(self, path: str) -> AsyncIterator[Sequence[Entry]]:
        with _seen_from(self.side):
            async for entries in self.inner.listing(path):
                yield entries

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        with _seen_from(self.side):
            return await self.inner.make_directories(paths)

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        with _seen_from(self.side):
            faults = await self.inner.remove(entries)
        return [fault and fault.at(self.side) for fault in faults]

    async def remove_unlisted(self, path: str) -> None:
        with _seen_from(self.side):
            await self.inner.remove_unlisted(path)

    async def rename(self, old: str, new: str) -> None:
        with _seen_from(self.side):
            await self.inner.rename(old, new)

    @property
    def algorithms(self) -> Sequence[str]:
        return self.inner.algorithms

    @property
    def tells_links(self) -> bool:
        return self.inner.tells_links

    @property
    def resolves_links(self) -> bool:
        return self.inner.resolves_links

    async def checksum(self, path: str, algorithm: str) -> str:
        with _seen_from(self.side):
            return await self.inner.checksum(path, algorithm)

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        with _seen_from(self.side):
            faults = await self.inner.set_modified(files)
        return [fault and fault.at(self.side) for fault in faults]

    async def make_symlink(self, target: str, path: str) -> None:
        with _seen_from(self.side):
            await self.inner.make_symlink(target, path)


class _seen_from:  # noqa: N801 - reads as a statement
    """Faults that pass through get the side they happened on."""

    def __init__(self, side: Side) -> None:
        self._side = side

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, FaultError):
            error.fault = error.fault.at(self._side)


class GuardedSession(PooledSession):
    """A session to the host of a shared endpoint: paths go in and come out as the task has them."""

    guarded = True

    def __init__(self, door: Door, guard: Guard, inner: GridFTPSession) -> None:
        super().__init__(door, guard.side, inner)
        guard.know_home(inner.home)
        self._guard = guard
        self._confinement = guard.confinement(inner)
        self._telling = _telling(guard)

    def fed_path(self, path: str) -> bytes:
        return super().fed_path(placed(self._guard.feed(path), self.inner.places))

    def _real(self, path: str, *, fed: bool = False) -> str:
        """A path of the task as the host's servers know it, behind no link that leads to its rule's folder."""
        real = self._guard.real(path, fed=fed)
        return placed(real, self.inner.places, follow=not self._guard.deletes)

    async def _shown(self, folder: str, entries: Sequence[Entry]) -> Sequence[Entry]:
        if not any(entry.link_target is not None for entry in entries):
            return entries
        return await self._confinement.shown(self.inner, folder, entries)

    def told(self, fault: Fault) -> Fault:
        return self._guard.told(fault)

    @property
    def resolves_links(self) -> bool:
        """The guard tells where in the share they lead, whatever the server does."""
        return self._guard.follows_links or self.inner.resolves_links

    async def stat(self, path: str) -> Entry:
        """With a slash behind its name a link would be looked through, and not be seen."""
        real = self._real(path, fed=True)
        plain = real.rstrip("/") or "/"
        with self._telling:
            entry = await self.inner.stat(plain)
            if self._guard.is_root(self._guard.real(path, fed=True)):
                return replace(entry, name="/", link_target=None)
            (entry,) = await self._shown(plain.rpartition("/")[0], [entry])
            if plain != real and entry.kind == "file":
                raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path))
            return entry

    async def listing(self, path: str) -> AsyncIterator[Sequence[Entry]]:
        real = self._real(path).rstrip("/") or "/"
        with self._telling:
            async for entries in self.inner.listing(real):
                yield await self._shown(real, entries)

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        real = [self._real(path) for path in paths]
        with self._telling:
            return await self.inner.make_directories(real)

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        """What the task has begun to write may go, whatever the rules say by now."""
        real = [(self._real(path, fed=True), folder) for path, folder in entries]
        with self._telling:
            faults = await self.inner.remove(real)
        return [fault and self._guard.told(fault) for fault in faults]

    async def remove_unlisted(self, path: str) -> None:
        real = self._real(path)
        with self._telling:
            await self.inner.remove_unlisted(real)

    async def rename(self, old: str, new: str) -> None:
        real = self._real(old, fed=True), self._real(new, fed=True)
        with self._telling:
            await self.inner.rename(*real)

    async def checksum(self, path: str, algorithm: str) -> str:
        real = self._real(path, fed=True)
        with self._telling:
            return await self.inner.checksum(real, algorithm)

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        real = [(self._real(path, fed=True), modified) for path, modified in files]
        with self._telling:
            faults = await self.inner.set_modified(real)
        return [fault and self._guard.told(fault) for fault in faults]

    async def make_symlink(self, target: str, path: str) -> None:
        """Not on what is shared, where others follow it."""
        why = "No symbolic links are made on a shared endpoint."
        raise FaultError(Fault(Kind.INVALID_SYMLINK, self.side, retryable=False, advice=why, raw=path))


class _telling:  # noqa: N801 - reads as a statement
    """Faults that pass through are told without what the guard keeps to itself."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, FaultError):
            error.fault = self._guard.told(error.fault)
