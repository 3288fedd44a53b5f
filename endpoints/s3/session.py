"""A session with an object store: buckets and keys as folders and files.

It has the methods that the engine and the registry use (`sessions.remote.RemoteSession`). Every method raises
FaultError. A folder is what keys have in common up to a slash; an empty one is kept by a marker, an object without
content whose key ends with the slash. There are no symbolic links and no renames.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from endpoints.gridftp.connection import STALL_TIMEOUT
from endpoints.gridftp.facts import Entry, FactsError, moment_of
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, make_fault
from endpoints.gridftp.listing import Allowance, check_name
from endpoints.gridftp.requests.confirmed_removals import LATER, STILL_THERE
from endpoints.gridftp.restriction import AllowedPath
from endpoints.gridftp.streams.digest import ALGORITHMS, Digest
from endpoints.gridftp.streams.file_streams import FileWriter, OctetBudget, OctetShare
from endpoints.gridftp.wire.fence import Fence
from identity.gsi.printable import quoted

from .answers import ListedObject, ListPage, StoreError, bucket_names, list_page, parsed
from .files import S3Reader
from .http import AnswerHead
from .places import ObjectPath, place_of
from .store import CONNECTIONS, Store
from .uploads import NOTE, open_writer, read_note

#: Octets that the checksums of one session hold in memory.
CHECKSUM_OCTETS = 4 * 2**20
#: Removals in flight; each has a connection.
AT_ONCE = CONNECTIONS
#: Keys of a page.
PAGE = "1000"
#: Where the modification time of a file is kept, in seconds after 1970, as rclone does.
MTIME = "x-amz-meta-mtime"
#: The beginning of the names that may be notes of uploads (`workers.engine.queue.write_names`).
NOTES = ".waybill-"
NO_RENAME = "An object store cannot rename."
NO_LINKS = "An object store has no symbolic links."
NO_BUCKET = "Buckets are created and deleted by the tools of the store, not here."
OUTSIDE = "This path is outside of the shared folders."
TWO_OF_ONE_NAME = "there are a file and a folder of the name {}"


class S3Session:
    """Its methods may run side by side."""

    protocol = "S3"
    multiplexed = True
    appears_whole = True
    #: There are none, so none is left out.
    tells_links = True
    resolves_links = False
    #: Its connections are always encrypted.
    demands_encryption = False
    protected = True
    algorithms: Sequence[str] = ALGORITHMS
    home = "/"

    def __init__(self, store: Store) -> None:
        self.places: Mapping[str, str] = {}
        self.round_trip: float | None = None
        self._store = store
        self._checksums = OctetBudget(CHECKSUM_OCTETS)
        self._allowed: tuple[AllowedPath, ...] | None = None

    # ---- its state

    @property
    def server_address(self) -> tuple[str, int]:
        """Its server in `put_off`."""
        return self._store.address.host, self._store.address.port

    @property
    def usable(self) -> bool:
        return not (self._store.lost or self._store.fenced_off)

    @property
    def idle(self) -> bool:
        """Whether no request is unanswered."""
        return self._store.under_way == 0

    def abort(self) -> None:
        """Close the connections at once."""
        self._store.abort()

    def set_fence(self, fence: Fence | None) -> None:
        """Nothing leaves after this fence is closed: the connections break. None: no slice uses it now."""
        self._store.set_fence(fence)

    async def close(self) -> None:
        """Close the connections."""
        self.abort()

    def encode_path(self, path: str) -> bytes:
        """A path in the one spelling that it has here. Raises FaultError."""
        return place_of(path).path.encode()

    async def restrict(self, allowed_paths: Iterable[AllowedPath]) -> None:
        """Refuse other paths from now on. A key has one path only, so the session itself can keep to them."""
        self._allowed = tuple(replaced_root(path) for path in allowed_paths)

    def _place(self, path: str, *, write: bool = False) -> ObjectPath:
        place = place_of(path)
        if self._allowed is not None and not any(
            f"{place.path.rstrip('/')}/".startswith(f"{one.path}/") and (one.write or not write)
            for one in self._allowed
        ):
            raise FaultError(replace(make_fault(Kind.PERMISSION_DENIED, retryable=False), advice=OUTSIDE))
        return place

    # ---- facts

    async def free_space(self, path: str) -> int | None:
        """An object store does not say it."""
        return None

    async def stat(self, path: str) -> Entry:
        """The facts of one path; a file, where a file and a folder have the same name.

        The size of the note of an upload is that of what is stored of its file.
        """
        place = self._place(path)
        if not place.key:
            if place.bucket:
                await self._has_keys(place)
            return Entry(place.name, "dir")
        try:
            answer = await self._store.ask("HEAD", place.path)
        except StoreError as error:
            # The same for a missing object and for a refused account: the answer to the next request has a body.
            if error.fault.kind not in (Kind.FILE_NOT_FOUND, Kind.PERMISSION_DENIED):
                raise
            if await self._has_keys(place) and error.fault.kind is Kind.FILE_NOT_FOUND:
                return Entry(place.name, "dir")
            raise
        entry = file_entry(place.name, answer.head)
        if answer.head.headers.get("content-type") == NOTE and (upload := await read_note(self._store, place)):
            return entry._replace(size=await upload.stored())
        return entry

    async def _has_keys(self, place: ObjectPath) -> bool:
        """Whether it is a folder: a key begins with it, or is its marker."""
        page = await self._page(place, {"max-keys": "1"})
        return bool(page.objects or page.prefixes)

    async def _page(self, place: ObjectPath, more: Mapping[str, str], allowance: Allowance | None = None) -> ListPage:
        query = {"list-type": "2", "encoding-type": "url", "prefix": place.prefix, **more}
        seconds = STALL_TIMEOUT if allowance is None else allowance.seconds
        answer = await self._store.ask("GET", f"/{place.bucket}", query, stall_seconds=seconds)
        return await asyncio.to_thread(list_page, answer.body, place.prefix)

    async def listing(self, path: str, allowance: Allowance | None = None) -> AsyncGenerator[Sequence[Entry], None]:
        """The entries of a folder in pages; the modification times are those of the uploads.

        Raises FaultError at the end where a key can be no name, or is that of a file and of a folder.
        """
        place, allowance = self._place(path), allowance or Allowance()
        batches = self._entries(place, allowance) if place.bucket else self._buckets(allowance)
        async for entries in batches:
            if entries:
                allowance.keep(entries)
                yield entries
        allowance.end()

    async def _buckets(self, allowance: Allowance) -> AsyncGenerator[Sequence[Entry], None]:
        answer = await self._store.ask("GET", "/", stall_seconds=allowance.seconds)
        names = bucket_names(answer.body)
        allowance.take([name.encode() for name, _ in names])
        yield [Entry(name, "dir", modified=created) for name, created in names]

    async def _entries(self, place: ObjectPath, allowance: Allowance) -> AsyncGenerator[Sequence[Entry], None]:
        """A store that repeats a page, or that lists for ever, is stopped: by its token, and by the allowance."""
        more, tokens, is_there = {"delimiter": "/", "max-keys": PAGE}, set[str](), not place.key
        names = _Names(place, allowance)
        while True:
            page = await self._page(place, more, allowance)
            keys = [one.key for one in page.objects]
            allowance.take([key.encode("utf-8", "surrogateescape") for key in (*keys, *page.prefixes)])
            is_there = is_there or bool(keys or page.prefixes)
            if not (is_there or page.token):
                await self._raise_not_there(place)
            with allowance.turn():
                entries = names.entries(page)
            yield entries
            if not page.token:
                return
            if page.token in tokens:
                raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "a listing names the same next page again"))
            tokens.add(page.token)
            more = {**more, "continuation-token": page.token}

    async def _raise_not_there(self, place: ObjectPath) -> None:
        """Why a folder has no keys, not even a marker."""
        await self._store.ask("HEAD", place.path)
        raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, place.path))

    # ---- changes

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        """Create these folders, parents first; False for one that existed already."""
        made = []
        for path in paths:
            try:
                await self.make_directory(path)
                made.append(True)
            except FaultError as error:
                if error.fault.kind is not Kind.PATH_EXISTS:
                    raise
                if not (await self.stat(path)).is_directory:
                    raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, error.fault.raw)) from None
                made.append(False)
        return made

    async def make_directory(self, path: str) -> None:
        """Create the marker of a folder; an existing path raises FaultError(PATH_EXISTS)."""
        place = self._place(path, write=True)
        try:
            await self.stat(path)
        except FaultError as error:
            if error.fault.kind is not Kind.FILE_NOT_FOUND:
                raise
        else:
            raise FaultError(make_fault(Kind.PATH_EXISTS, place.path))
        if not place.key:
            raise FaultError(replace(make_fault(Kind.PERMISSION_DENIED), advice=NO_BUCKET))
        await self._store.ask("PUT", f"{place.path}/")

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        """Remove each (path, is_directory), what lies in a folder before it; None for success, or where nothing is."""
        outcome: list[Fault | None] = []
        for batch in _independent(entries):
            found = list(await asyncio.gather(*(self._fault_of_removal(*entry) for entry in batch)))
            outcome += await self._looked_at(batch, found)
        return outcome

    async def _fault_of_removal(self, path: str, folder: bool) -> Fault | None:
        try:
            await self._remove(path, folder)
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return error.fault
        return None

    async def _remove(self, path: str, folder: bool) -> None:
        place = self._place(path, write=True)
        if not place.key:
            raise FaultError(replace(make_fault(Kind.PERMISSION_DENIED, retryable=False), advice=NO_BUCKET))
        if not folder:
            if place.name.startswith(NOTES) and (upload := await read_note(self._store, place)) is not None:
                await upload.abort()
            await self._store.ask("DELETE", place.path)
            return
        page = await self._page(place, {"max-keys": "2"})
        keys = [one.key for one in page.objects]
        if page.prefixes or page.unreadable or any(key != place.prefix for key in keys):
            raise FaultError(make_fault(Kind.DIRECTORY_NOT_EMPTY, place.path))
        if keys:
            await self._store.ask("DELETE", f"{place.path}/")

    async def _looked_at(self, batch: Sequence[tuple[str, bool]], found: list[Fault | None]) -> Sequence[Fault | None]:
        """The outcomes, with a fault for what the store confirms, and keeps. The last removal stands for the others."""
        doubtful = [index for index, fault in enumerate(found) if fault is None][-1:]
        if not doubtful or not await self._is_there(*batch[doubtful[0]]):
            return found
        await asyncio.sleep(LATER)
        for index in [index for index, fault in enumerate(found) if fault is None]:
            if await self._is_there(*batch[index]):
                found[index] = make_fault(Kind.ENDPOINT_ERROR, STILL_THERE, retryable=False)
        return found

    async def _is_there(self, path: str, folder: bool) -> bool:
        place = self._place(path)
        if folder:
            return await self._has_keys(place)
        try:
            await self._store.ask("HEAD", place.path)
        except StoreError as error:
            # A store shows nothing of an object to somebody who may delete, and not read.
            if error.fault.kind in (Kind.FILE_NOT_FOUND, Kind.PERMISSION_DENIED):
                return False
            raise
        return True

    async def remove_unlisted(self, path: str) -> None:
        """A listing has everything: a folder that appears empty is empty."""
        await self._remove(path, folder=True)

    async def rename(self, old: str, new: str) -> None:
        """Raises FaultError: an object store has no rename."""
        raise _unsupported(NO_RENAME)

    async def give_name(self, written: str, name: str) -> None:
        """Raises FaultError: an object has its name from the beginning."""
        raise _unsupported(NO_RENAME)

    async def make_symlink(self, target: str, path: str) -> None:
        """Raises FaultError: there are none."""
        raise _unsupported(NO_LINKS)

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        """Note modification times in the objects, each of which the store copies onto itself; None for success."""
        outcome: list[Fault | None] = []
        for start in range(0, len(files), AT_ONCE):
            outcome += await asyncio.gather(*(self._note_modified(*one) for one in files[start : start + AT_ONCE]))
        return outcome

    async def _note_modified(self, path: str, modified: datetime) -> Fault | None:
        place = self._place(path, write=True)
        try:
            head = (await self._store.ask("HEAD", place.path)).head.headers
            kept = {name: head[name] for name in head if name == "content-type" or name.startswith("x-amz-meta-")}
            headers = {
                **kept,
                MTIME: mtime_text(modified),
                "x-amz-copy-source": place.quoted,
                "x-amz-copy-source-if-match": head.get("etag", "*"),
                "x-amz-metadata-directive": "REPLACE",
            }
            answer = await self._store.ask("PUT", place.path, headers=headers)
            parsed(answer.body, "CopyObjectResult")
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return error.fault
        return None

    # ---- files

    async def open_reader(self, path: str, offset: int, share: OctetShare, *, expected: int = 0) -> S3Reader:
        """Read a file from this offset on. expected: its size."""
        return await S3Reader.open(self._store, self._place(path), offset, share)

    async def open_writer(
        self, path: str, offset: int, share: OctetShare, *, expected: int = 0, partial: str = ""
    ) -> FileWriter:
        """Write a file from this offset on. expected: the octets that will come, which must be exact."""
        place = self._place(path, write=True)
        note = self._place(partial, write=True) if partial else None
        return await open_writer(self._store, place, offset, share, offset + expected, note)

    async def check_readable(self, path: str) -> None:
        """A store lets see the facts of an object whoever may read it."""
        if (await self.stat(path)).is_directory:
            raise FaultError(make_fault(Kind.IS_A_DIRECTORY, path))

    async def checksum(self, path: str, algorithm: str) -> str:
        """The checksum of a whole file, hexadecimal, lower case: the file is read."""
        counted = Digest(algorithm)
        share = self._checksums.share()
        reader = await self.open_reader(path, 0, share, expected=CHECKSUM_OCTETS)
        try:
            while data := await reader.read():
                counted.update(data)
                share.give(len(data))
        finally:
            await reader.close()
            share.close()
        return counted.hexdigest()


class _Names:
    """The names of one folder, as its pages come."""

    def __init__(self, place: ObjectPath, allowance: Allowance) -> None:
        self._place = place
        self._allowance = allowance
        #: The last keys of both kinds: those of a file "a" and of a folder "a/" may be on different pages.
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def entries(self, page: ListPage) -> list[Entry]:
        """The entries of a page; what cannot be one is noted as missing."""
        for why in page.unreadable:
            self._miss(why)
        found = [entry for one in page.objects if (entry := self._file(one)) is not None]
        for prefix in page.prefixes:
            name = self._name(prefix.removesuffix("/"))
            if name is not None:
                self._folders.add(name)
                found.append(Entry(name, "dir"))
        for name in self._files & self._folders:
            self._miss(TWO_OF_ONE_NAME.format(quoted(name)))
        both = self._files & self._folders
        return [entry for entry in found if entry.name not in both]

    def _file(self, one: ListedObject) -> Entry | None:
        if one.key == self._place.prefix:
            if one.size:
                self._miss(f"the marker of the folder has {one.size} octets, and cannot be moved")
            return None
        name = self._name(one.key)
        if name is None:
            return None
        self._files.add(name)
        return Entry(name, "file", size=one.size, modified=one.modified, unique=one.etag)

    def _name(self, key: str) -> str | None:
        name = key.removeprefix(self._place.prefix)
        try:
            check_name(name)
            place_of(f"{self._place.path.rstrip('/')}/{name}")
        except FactsError as error:
            self._miss(str(error))
        except FaultError as error:
            self._miss(error.fault.raw)
        else:
            return name
        return None

    def _miss(self, why: str) -> None:
        self._allowance.miss(self._place.path.encode(), why)


def replaced_root(allowed: AllowedPath) -> AllowedPath:
    """The folder in the spelling of `ObjectPath.path`, "" for the root."""
    return allowed._replace(path=place_of(allowed.path or "/").path.rstrip("/"))


def file_entry(name: str, head: AnswerHead) -> Entry:
    """The facts of an object. Raises FaultError where its size is missing."""
    if head.length is None:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"no size of {quoted(name)}"))
    return Entry(name, "file", size=head.length, modified=modified_of(head), unique=head.headers.get("etag", ""))


def modified_of(head: AnswerHead) -> datetime | None:
    """The modification time that was noted, else that of the upload."""
    with suppress(KeyError, ValueError):
        if (noted := moment_of(float(head.headers[MTIME]))) is not None:
            return noted
    try:
        return parsedate_to_datetime(head.headers.get("last-modified", "")).astimezone(UTC)
    except ValueError:
        return None


def mtime_text(moment: datetime) -> str:
    """Seconds after 1970, as rclone writes them."""
    return f"{moment.timestamp():.6f}".rstrip("0").rstrip(".")


def _independent(entries: Sequence[tuple[str, bool]]) -> Iterable[Sequence[tuple[str, bool]]]:
    """Batches of entries that may be removed side by side: a folder is in a later one than what lies in it."""
    batch: list[tuple[str, bool]] = []
    for path, folder in entries:
        above = f"{path.rstrip('/')}/"
        if len(batch) >= AT_ONCE or (folder and any(other.startswith(above) for other, _ in batch)):
            yield batch
            batch = []
        batch.append((path, folder))
    if batch:
        yield batch


def _unsupported(why: str) -> FaultError:
    return FaultError(Fault(Kind.UNSUPPORTED, retryable=False, advice=why))
