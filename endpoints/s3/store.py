"""Signed requests to one address of an object store, on a bounded number of connections.

Requests are in path style (`/bucket/key`). The region is that of AWS's default until the store names another one in a
refusal: it is a part of the signature only, and a signature is valid for the host that it names.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from endpoints.gridftp.connection import CONNECT_TIMEOUT, STALL_TIMEOUT, session_fault
from endpoints.gridftp.faults import FaultError, FaultScope, Kind
from endpoints.gridftp.wire.fence import Fence

from .answers import StoreError, refusal
from .http import AnswerHead, HttpConnection, StoreAddress
from .signature import EMPTY, UNSIGNED, AccessKey, encoded_path, encoded_query, signed

#: Connections of one session; a request waits for one.
CONNECTIONS = 16
#: Seconds after which an idle connection is not used again: stores close theirs after 20 s and more.
IDLE_SECONDS = 15.0
#: Seconds for the answer to a refused body.
LATE_ANSWER = 2.0
DEFAULT_REGION = "us-east-1"
_NO_QUERY: Mapping[str, str] = {}


class StaleConnectionError(FaultError):
    """The store had closed a connection that was used before, and has not seen the request."""


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """A whole answer."""

    head: AnswerHead
    body: bytes

    @property
    def etag(self) -> str:
        return self.head.headers.get("etag", "")


class Store:
    """key: None for anonymous requests. Every method raises FaultError."""

    def __init__(self, address: StoreAddress, key: AccessKey | None) -> None:
        self.address = address
        self.region = DEFAULT_REGION
        #: Whether a signature for this region was accepted.
        self._region_fits = False
        self._key = key
        self._fence: Fence | None = None
        self._free: deque[HttpConnection] = deque()
        self._open: set[HttpConnection] = set()
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self.under_way = 0
        self.lost = False

    @property
    def fenced_off(self) -> bool:
        return any(one.wire.fenced_off for one in self._open)

    def set_fence(self, fence: Fence | None) -> None:
        """Nothing leaves after this fence is closed. None: no slice uses the store now."""
        self._fence = fence
        for one in self._open:
            one.wire.set_fence(self, fence)

    def abort(self) -> None:
        """Close all connections at once."""
        self.lost = True
        for one in self._open:
            one.abort()
        self._open.clear()
        self._free.clear()

    def add(self, connection: HttpConnection) -> None:
        """A connection that was opened already."""
        self._open.add(connection)
        self._release(connection)

    # ---- requests

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NO_QUERY,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        stall_seconds: float = STALL_TIMEOUT,
    ) -> StoreAnswer:
        """The whole answer to a request whose body is in memory. stall_seconds: seconds without an octet of it.

        Raises StoreError for a refusal. A request that found its old connection closed is sent once again.
        """
        payload = hashlib.sha256(body).hexdigest() if body else EMPTY
        more = dict(headers or {})
        if body or method in ("PUT", "POST"):
            more["content-length"] = str(len(body))
        if method == "POST" and body:
            more["content-md5"] = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        if body:
            await self._find_region(path)
        for again in (True, False):
            try:
                async with self._answer(method, path, query, more, payload, body, stall_seconds) as (head, connection):
                    return self.accepted(head, await connection.whole_body())
            except FaultError as error:
                if not (again and await self._may_repeat(error, method, path)):
                    raise
        raise AssertionError

    @asynccontextmanager
    async def download(
        self, path: str, headers: Mapping[str, str]
    ) -> AsyncGenerator[tuple[AnswerHead, HttpConnection], None]:
        """The head of an object, whose body is read from the connection; one that is not read to its end is closed."""
        async with AsyncExitStack() as opened:
            for again in (True, False):
                try:
                    found = await opened.enter_async_context(self._object(path, headers))
                    break
                except FaultError as error:
                    if not (again and await self._may_repeat(error, "GET", path)):
                        raise
            yield found

    @asynccontextmanager
    async def _object(
        self, path: str, headers: Mapping[str, str]
    ) -> AsyncGenerator[tuple[AnswerHead, HttpConnection], None]:
        async with self._answer("GET", path, {}, headers, EMPTY) as (head, connection):
            if head.status not in (200, 206):
                raise refusal(head.status, head.headers, await connection.whole_body())
            yield head, connection

    @asynccontextmanager
    async def upload(
        self, path: str, query: Mapping[str, str], headers: Mapping[str, str], octets: int
    ) -> AsyncGenerator[HttpConnection, None]:
        """A PUT whose body of so many octets the caller sends, and whose answer `answered` reads.

        Without all of its octets the connection is closed, and the store keeps nothing.
        """
        await self._find_region(path)
        async with self.connection(fresh=True) as connection:
            sent = {**headers, "content-length": str(octets)}
            await self._begin(connection, "PUT", path, query, sent, UNSIGNED)
            yield connection

    async def answered(self, connection: HttpConnection, stall_seconds: float = STALL_TIMEOUT) -> StoreAnswer:
        """The answer to an upload. Raises StoreError."""
        head = await connection.head(stall_seconds)
        return self.accepted(head, await connection.whole_body())

    async def why_refused(self, connection: HttpConnection, error: FaultError) -> FaultError:
        """The refusal that the store has sent before it closed the connection; else the error itself."""
        try:
            await self.answered(connection, LATE_ANSWER)
        except StoreError as refused:
            return refused
        except FaultError:
            pass
        return error

    def accepted(self, head: AnswerHead, body: bytes) -> StoreAnswer:
        """The answer, if it is a success. Raises StoreError."""
        if not 200 <= head.status < 300:
            raise refusal(head.status, head.headers, body)
        self._region_fits = True
        return StoreAnswer(head, body)

    # ---- inside

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        payload: str,
        body: bytes = b"",
        stall_seconds: float = STALL_TIMEOUT,
    ) -> AsyncGenerator[tuple[AnswerHead, HttpConnection], None]:
        """The head of the answer to one request. Raises StaleConnectionError where it may be sent again."""
        async with self.connection() as connection:
            was_used = connection.used
            try:
                await self._begin(connection, method, path, query, headers, payload)
                if body:
                    await connection.send(body)
                await connection.end()
                head = await connection.head(stall_seconds)
            except FaultError as error:
                if was_used and not connection.answering and error.fault.scope is FaultScope.SESSION:
                    raise StaleConnectionError(error.fault) from None
                raise
            yield head, connection

    async def _may_repeat(self, error: FaultError, method: str, path: str) -> bool:
        """Whether the same request may have another outcome now."""
        if isinstance(error, StaleConnectionError):
            return True
        if not isinstance(error, StoreError):
            return False
        return self._learned(error) or (method == "HEAD" and await self._learns(error, path))

    async def _find_region(self, path: str) -> None:
        """Learn the region before a body is sent: a store that refuses one may reset the connection without a word."""
        if self._key and not self._region_fits:
            with suppress(StoreError):
                await self.ask("GET", "/" + path.split("/")[1], {"location": ""})
            self._region_fits = True

    def _learned(self, error: StoreError) -> bool:
        """Whether the store has named another region to sign for."""
        if not self._key or not error.region or error.region == self.region or error.status not in (400, 403):
            return False
        self.region = error.region
        return True

    async def _learns(self, error: StoreError, path: str) -> bool:
        """The same where the refusal had no body that could name one, as that of HEAD."""
        if error.status != 400:
            return False
        before = self.region
        await self._find_region(path)
        return self.region != before

    async def _begin(
        self,
        connection: HttpConnection,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        payload: str,
    ) -> None:
        sent = {**headers, "host": self.address.host_header}
        if self._key:
            # "content-length" belongs to the connection, and is not signed.
            length = {name: sent.pop(name) for name in ("content-length",) if name in sent}
            sent = signed(self._key, self.region, datetime.now(UTC), method, path, query, sent, payload) | length
        target = encoded_path(path) + (f"?{encoded_query(query)}" if query else "")
        await connection.begin(method, target, sent)

    @asynccontextmanager
    async def connection(self, *, fresh: bool = False) -> AsyncGenerator[HttpConnection, None]:
        """A connection for one request. fresh: used a moment ago at most, because the body cannot be sent again."""
        async with self._slots:
            self.under_way += 1
            connection: HttpConnection | None = None
            try:
                connection = self._idle(1.0 if fresh else IDLE_SECONDS) or await self._connected()
                yield connection
            finally:
                self.under_way -= 1
                if connection is not None:
                    self._release(connection)

    def _idle(self, seconds: float) -> HttpConnection | None:
        now = asyncio.get_running_loop().time()
        while self._free:
            found = self._free.pop()
            if found.reusable and now - found.idle_since <= seconds:
                return found
            self._drop(found)
        return None

    async def _connected(self) -> HttpConnection:
        connection = await HttpConnection.open(self.address, CONNECT_TIMEOUT)
        if self.lost:
            connection.abort()
            raise FaultError(session_fault(Kind.CONNECTION_BROKEN, "the session is closed"))
        if self._fence is not None:
            connection.wire.set_fence(self, self._fence)
        self._open.add(connection)
        return connection

    def _release(self, connection: HttpConnection) -> None:
        if connection.reusable and not self.lost:
            connection.idle_since = asyncio.get_running_loop().time()
            self._free.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        connection.abort()
