"""Files that are written to an object store, and appear when they are whole.

A small file is one request (PutObject), which is sent when the source has reported its end: there are stores that make
an object of a body which ends early. A large one goes in parts (CreateMultipartUpload); the parts that the store has
confirmed stay, and CompleteMultipartUpload makes the object. A note beside the file, under the path that the caller
gives (`partial`), has the id of the upload, by which any worker continues or removes it.

The size of a part follows from the size of the file, so that an upload is continued at the same boundaries.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from typing import Self

from lxml import etree

from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.streams.data_stream import RestartRefusedError
from endpoints.gridftp.streams.file_streams import FileWriter, OctetShare

from .answers import StoreError, parsed, text_of
from .http import HttpConnection
from .places import ObjectPath, place_of
from .store import Store

#: Octets of the largest file that is one request, and in memory; MAX_STREAMS of `workers.streaming.host` at a time.
SMALL = 2**20
#: Octets of a part; stores take parts from 5 MiB on.
PART = 16 * 2**20
MAX_PARTS = 10_000
#: Seconds for a store to put the parts of a large object together.
COMPLETE_SECONDS = 900.0
#: The content type of a note: nothing else is read as one.
NOTE = "application/vnd.waybill.upload+json"
MAX_NOTE = 8192
NO_ETAG = "the store confirms an upload without an ETag"


def part_size(octets: int) -> int:
    """The octets of each part, but the last, of a file of this size: whole MiB, at most MAX_PARTS parts."""
    return max(PART, -(-octets // MAX_PARTS // 2**20) * 2**20)


async def open_writer(
    store: Store, path: ObjectPath, offset: int, share: OctetShare, total: int, note: ObjectPath | None
) -> FileWriter:
    """Write a file of `total` octets from this offset on. Raises FaultError, RestartRefusedError."""
    if not path.key:
        raise FaultError(make_fault(Kind.IS_A_DIRECTORY, path.path))
    if total <= SMALL:
        if offset:
            raise _not_continued("a file of this size is one request")
        return SmallWriter(store, path, share, total)
    return await PartsWriter.open(store, path, offset, share, total, note)


class _Body:
    """The body of the request of a part, of a known size."""

    def __init__(self, store: Store, octets: int) -> None:
        self.left = octets
        self._store = store
        self._opened = AsyncExitStack()
        self._connection: HttpConnection | None = None

    async def begin(self, path: str, query: dict[str, str]) -> None:
        request = self._store.upload(path, query, {}, self.left)
        self._connection = await self._opened.enter_async_context(request)

    async def send(self, data: bytes) -> None:
        """The next octets, which must not be more than are left."""
        assert self._connection
        try:
            await self._connection.send(data)
        except FaultError as error:
            raise await self._store.why_refused(self._connection, error) from None
        self.left -= len(data)

    async def answer(self) -> str:
        """End the body, and wait for the store's word; returns the ETag."""
        assert self._connection
        async with self._opened:
            await self._connection.end()
            etag = (await self._store.answered(self._connection)).etag
        if not etag:
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, NO_ETAG))
        return etag

    async def close(self) -> None:
        await self._opened.aclose()


class SmallWriter:
    """`FileWriter` of a file that is one request. Its checksum is signed: a store keeps no other octets than these."""

    def __init__(self, store: Store, path: ObjectPath, share: OctetShare, total: int) -> None:
        self.stored = 0
        self._store = store
        self._path = path
        self._share = share
        self._total = total
        self._content = bytearray()

    async def write(self, data: bytes) -> None:
        """`FileWriter.write`. The octets that are held are few, and stand beside the budget."""
        self._content += data
        self._share.give(len(data))
        if len(self._content) > self._total:
            raise _changed(len(self._content), self._total)

    async def finish(self) -> None:
        """`FileWriter.finish`: the object appears now."""
        if len(self._content) != self._total:
            raise _changed(len(self._content), self._total)
        answer = await self._store.ask("PUT", self._path.path, body=bytes(self._content))
        if not answer.etag:
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, NO_ETAG))
        self.stored = self._total

    async def confirm(self) -> None:
        """`FileWriter.confirm`: nothing is stored of a file that is not complete."""

    async def close(self) -> None:
        """`FileWriter.close`."""
        self._content.clear()


class PartsWriter:
    """`FileWriter` of a file in parts, one after the other; the answer to one is awaited while the next is sent."""

    def __init__(self, upload: PartedUpload, share: OctetShare, total: int, note: ObjectPath | None) -> None:
        self._upload = upload
        self._share = share
        self._total = total
        self._note = note
        self._size = part_size(total)
        self._came = min(len(upload.etags) * self._size, total)
        self._body: _Body | None = None
        self._answer: asyncio.Task[None] | None = None
        self._ended = False

    @classmethod
    async def open(
        cls, store: Store, path: ObjectPath, offset: int, share: OctetShare, total: int, note: ObjectPath | None
    ) -> Self:
        size = part_size(total)
        found = await read_note(store, note) if note else None
        if offset:
            if found is None or found.path != path or (offset % size and offset != total):
                raise _not_continued("there is no note of an upload to continue")
            await found.read_parts(offset, size)
            return cls(found, share, total, note)
        if found is not None:
            await found.abort()
        return cls(await PartedUpload.begin(store, path, note), share, total, note)

    @property
    def stored(self) -> int:
        """`FileWriter.stored`: the parts that the store has confirmed; without a note nobody finds them again."""
        return 0 if self._note is None else min(len(self._upload.etags) * self._size, self._total)

    async def write(self, data: bytes) -> None:
        """`FileWriter.write`."""
        while data:
            if self._came >= self._total:
                raise _changed(self._came + len(data), self._total)
            if self._body is None:
                self._body = _Body(self._upload.store, min(self._size, self._total - self._came))
                await self._upload.begin_part(self._body, self._came // self._size + 1)
            piece, data = data[: self._body.left], data[self._body.left :]
            await self._body.send(piece)
            self._share.give(len(piece))
            self._came += len(piece)
            if not self._body.left:
                await self._confirmed()
                body, self._body = self._body, None
                self._answer = asyncio.create_task(self._part(body))

    async def _part(self, body: _Body) -> None:
        self._upload.etags.append(await body.answer())

    async def _confirmed(self) -> None:
        """The answer to the part before. Raises its fault."""
        if self._answer is not None:
            answer, self._answer = self._answer, None
            await answer

    async def finish(self) -> None:
        """`FileWriter.finish`: the object appears now."""
        if self._came != self._total:
            raise _changed(self._came, self._total)
        await self._confirmed()
        await self._upload.complete()
        self._ended = True
        if self._note is not None:
            # A note without its upload does no harm, and is removed with the names of the task.
            with suppress(FaultError):
                await self._upload.store.ask("DELETE", self._note.path)

    async def confirm(self) -> None:
        """`FileWriter.confirm`: the parts before the one that is not complete stay."""
        await self._confirmed()

    async def close(self) -> None:
        """`FileWriter.close`: the parts stay, to be continued, where there is a note of them."""
        if self._answer is not None:
            self._answer.cancel()
            await asyncio.gather(self._answer, return_exceptions=True)
        if self._body is not None:
            await self._body.close()
        if self._note is None and not self._ended:
            self._ended = True
            await self._upload.abort()


class PartedUpload:
    """One upload in parts of the store. etags: of its parts in order, without a gap."""

    def __init__(self, store: Store, path: ObjectPath, upload_id: str) -> None:
        self.store = store
        self.path = path
        self.etags: list[str] = []
        self._id = upload_id

    @classmethod
    async def begin(cls, store: Store, path: ObjectPath, note: ObjectPath | None) -> Self:
        """Begin an upload, and note its id before the first octet is sent."""
        answer = await store.ask("POST", path.path, {"uploads": ""})
        upload_id = text_of(parsed(answer.body, "InitiateMultipartUploadResult"), "UploadId")
        if not upload_id:
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "the store names no upload"))
        upload = cls(store, path, upload_id)
        if note is not None:
            body = json.dumps({"upload": upload_id, "path": path.path}).encode()
            try:
                await store.ask("PUT", note.path, headers={"content-type": NOTE}, body=body)
            except BaseException:
                with suppress(FaultError):
                    await upload.abort()
                raise
        return upload

    async def begin_part(self, body: _Body, number: int) -> None:
        """Begin the request of a part; the first one has the number 1."""
        await body.begin(self.path.path, {"partNumber": str(number), "uploadId": self._id})

    async def read_parts(self, stored: int, size: int) -> None:
        """Read the parts that the store has. Raises RestartRefusedError where one of those for `stored` is missing."""
        found = await self._listed()
        count = -(-stored // size)
        octets = {number: min(size, stored - (number - 1) * size) for number in range(1, count + 1)}
        self.etags = [found[number][1] for number in octets if number in found and found[number][0] == octets[number]]
        if len(self.etags) != count:
            raise _not_continued(f"the store has {len(self.etags)} of {count} parts")

    async def stored(self) -> int:
        """The octets from the beginning of the file that the store has, as far as its list of parts shows."""
        found, octets = await self._listed(), 0
        for number in range(1, len(found) + 1):
            if number not in found:
                break
            octets += found[number][0]
        return octets

    async def _listed(self) -> dict[int, tuple[int, str]]:
        """The octets and the ETag of each part; of none, where the store does not have the upload any more."""
        found: dict[int, tuple[int, str]] = {}
        marker, truncated = "0", True
        while truncated:
            query = {"uploadId": self._id, "part-number-marker": marker}
            try:
                answer = await self.store.ask("GET", self.path.path, query)
            except StoreError as error:
                if error.fault.kind is not Kind.FILE_NOT_FOUND:
                    raise
                return {}
            root = parsed(answer.body, "ListPartsResult")
            rows = _parts(root)
            truncated = text_of(root, "IsTruncated") == "true"
            if truncated and (not rows or rows[-1][0] <= int(marker)):
                raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "a list of parts does not go on"))
            found |= {number: (octets, etag) for number, octets, etag in rows}
            marker = str(rows[-1][0]) if rows else marker
        return found

    async def complete(self) -> None:
        """Make the object of the parts. An answer of 200 may have an error in its body."""
        root = etree.Element("CompleteMultipartUpload")
        for number, etag in enumerate(self.etags, 1):
            part = etree.SubElement(root, "Part")
            etree.SubElement(part, "PartNumber").text = str(number)
            etree.SubElement(part, "ETag").text = etag
        answer = await self.store.ask(
            "POST", self.path.path, {"uploadId": self._id}, body=etree.tostring(root), stall_seconds=COMPLETE_SECONDS
        )
        parsed(answer.body, "CompleteMultipartUploadResult")

    async def abort(self) -> None:
        """Remove what the store has of it; one that is gone already is no fault."""
        try:
            await self.store.ask("DELETE", self.path.path, {"uploadId": self._id})
        except StoreError as error:
            if error.fault.kind is not Kind.FILE_NOT_FOUND:
                raise


def _parts(root: etree._Element) -> list[tuple[int, int, str]]:
    """The number, the octets and the ETag of each part. Raises FaultError."""
    try:
        rows = [(int(text_of(one, "PartNumber")), int(text_of(one, "Size")), one) for one in root.findall("Part")]
    except ValueError:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "a list of parts without their sizes")) from None
    return [(number, octets, text_of(one, "ETag")) for number, octets, one in rows]


async def read_note(store: Store, note: ObjectPath) -> PartedUpload | None:
    """The upload that a note names; None where there is no note. Raises FaultError."""
    async with AsyncExitStack() as opened:
        try:
            head, connection = await opened.enter_async_context(store.download(note.path, {}))
        except StoreError as error:
            if error.fault.kind is not Kind.FILE_NOT_FOUND:
                raise
            return None
        if head.headers.get("content-type") != NOTE or (head.length or 0) > MAX_NOTE:
            return None
        body = await connection.whole_body()
        try:
            noted = json.loads(body)
            upload_id, path = str(noted["upload"]), place_of(str(noted["path"]))
        except (ValueError, KeyError, TypeError, FaultError):
            return None
    if path.path.rpartition("/")[0] != note.path.rpartition("/")[0]:
        # Others may write notes into a shared folder.
        return None
    return PartedUpload(store, path, upload_id)


def _changed(came: int, total: int) -> FaultError:
    return FaultError(make_fault(Kind.FILE_SIZE_CHANGED, f"{came} octets came, and {total} were announced"))


def _not_continued(why: str) -> RestartRefusedError:
    return RestartRefusedError(make_fault(Kind.UNSUPPORTED, why))
