"""Files of an object store: read by one request from an offset on."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Self

from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.streams.data_stream import RestartRefusedError
from endpoints.gridftp.streams.file_streams import PIECE, OctetShare

from .answers import StoreError
from .http import AnswerHead, HttpConnection
from .places import ObjectPath
from .store import Store


class S3Reader:
    """`FileReader` of one version of an object: one answer has the octets of one version only."""

    def __init__(self, connection: HttpConnection | None, opened: AsyncExitStack, share: OctetShare, rest: int) -> None:
        self._connection = connection
        self._opened = opened
        self._share = share
        #: Octets that were announced and have not come.
        self._rest = rest

    @classmethod
    async def open(cls, store: Store, place: ObjectPath, offset: int, share: OctetShare) -> Self:
        """Raises FaultError; RestartRefusedError where the store does not begin at the offset."""
        if not place.key:
            raise FaultError(make_fault(Kind.IS_A_DIRECTORY, place.path))
        async with AsyncExitStack() as opened:
            headers = {"range": f"bytes={offset}-"} if offset else {}
            try:
                head, connection = await opened.enter_async_context(store.download(place.path, headers))
            except StoreError as error:
                if error.status != 416 or await _size(store, place) != offset:
                    raise
                return cls(None, opened.pop_all(), share, 0)
            return cls(connection, opened.pop_all(), share, _announced(head, offset))
        raise AssertionError

    async def read(self) -> bytes:
        """`FileReader.read`."""
        if self._connection is None:
            return b""
        await self._share.take(PIECE)
        data = await self._connection.body()
        self._share.give(PIECE - len(data))
        self._rest -= len(data)
        if not data:
            self._connection = None
            await self._opened.aclose()
            if self._rest:
                raise FaultError(make_fault(Kind.FILE_SIZE_CHANGED, f"{self._rest} octets of the answer are missing"))
        return data

    async def close(self) -> None:
        """`FileReader.close`."""
        self._connection = None
        await self._opened.aclose()


async def _size(store: Store, place: ObjectPath) -> int | None:
    return (await store.ask("HEAD", place.path)).head.length


def _announced(head: AnswerHead, offset: int) -> int:
    """The octets of the body. Raises FaultError where they are not announced, or are others."""
    if head.length is None:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "the store does not announce the size of an object"))
    if head.headers.get("content-encoding", "identity") == "aws-chunked":
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "the store sends an object in a coding of uploads"))
    if not offset:
        if head.status != 200:
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"{head.status} to a request for a whole object"))
        return head.length
    sent = head.headers.get("content-range", "")
    if head.status != 206 or not sent.startswith(f"bytes {offset}-{offset + head.length - 1}/"):
        raise RestartRefusedError(make_fault(Kind.UNSUPPORTED, f"asked to begin at {offset}: {head.status} {sent}"))
    return head.length
