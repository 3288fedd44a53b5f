"""RETR and STOR of one file in MODE S (RFC 959 section 3.4.1), over a data connection that this service opens.

Every method raises FaultError. After an error, or where a file was not read to its end, the session must be closed,
unless the server has answered the command (`DataStream.is_answered`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Self, TypeVar

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import CONNECT_TIMEOUT, STALL_TIMEOUT, ControlConnection
from endpoints.gridftp.faults import FaultError, Kind, classify, make_fault
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.streams.passive import data_connection, passive_port
from identity.gsi.printable import error_text

from .protection import protect
from .tls_streams import ClientDataConnection

#: Octets that were sent last and that may be in the buffers of TCP and of the server.
UNCERTAIN = 16 * 2**20
#: Seconds for the answer to a file whose octets are all sent, at most.
LONGEST_END = 3600.0
_T = TypeVar("_T")


class RestartRefusedError(FaultError):
    """The server does not know REST, or not for this file: it moves whole files only."""


class DataStream:
    """The data connection of one RETR or STOR, and the answer to the command.

    Each wait is for the other end, and ends when nothing moves for the stall limit of the session. Between two of them
    this end may take its time: nobody counts the silence of the control connection.
    """

    def __init__(
        self,
        control: ControlConnection,
        answer: asyncio.Task[Reply],
        connection: ClientDataConnection,
        watched_here: contextlib.ExitStack,
    ) -> None:
        self._answer = answer
        self._connection = connection
        self._limit = STALL_TIMEOUT if control.stall_timeout is None else control.stall_timeout
        self._watched_here = watched_here
        self._begun = time.monotonic()
        connection.abort_if_refused(answer)

    @classmethod
    async def open(
        cls, session: GridFTPSession, verb: str, path: str, offset: int = 0, *, encrypt: bool = False
    ) -> Self:
        """Send the command, and connect. offset: of the first octet. encrypt: the endpoint demands it."""
        encoded = session.encode_path(path)
        context = await protect(session, encrypt=encrypt)
        control = session.connection
        way = await _agreed(session, context)
        if offset:
            await _restart(control, offset, way)
        answer = asyncio.create_task(control.request(verb, encoded))
        connecting = asyncio.create_task(_connect(way))
        try:
            await asyncio.wait((answer, connecting), return_when=asyncio.FIRST_COMPLETED)
            _raise_refusal(answer)
            opened = await asyncio.shield(connecting)
        except (OSError, TimeoutError) as error:
            raise await _explained(answer, error) from None
        except BaseException:
            answer.cancel()
            await _give_up(connecting)
            raise
        with contextlib.ExitStack() as stack:
            stack.enter_context(control.patient(math.inf))
            return cls(control, answer, opened, stack.pop_all())

    async def read(self) -> bytes:
        """The next octets; b"" at the end of the file, after the server has reported success."""
        try:
            data = await self._while_moving(self._connection.read(), self._limit)
            if not data:
                # ProFTPD waits for this end to be closed, for ten seconds, before it answers.
                self._connection.abort()
                async with asyncio.timeout(self._limit):
                    _raise_error(await asyncio.shield(self._answer))
                self._watched_here.close()
            return data
        except (OSError, TimeoutError) as error:
            raise await _explained(self._answer, error) from None

    async def send(self, piece: bytes) -> None:
        """Send the next octets; waits while too much is buffered."""
        try:
            _raise_refusal(self._answer)
            await self._while_moving(self._connection.write(piece), self._limit)
        except (OSError, TimeoutError) as error:
            raise await _explained(self._answer, error) from None

    async def end(self) -> None:
        """End the file, and wait until the server reports success."""
        try:
            async with asyncio.timeout(self._limit):
                await self._connection.end()
            _raise_error(await self._while_moving(asyncio.shield(self._answer), self._last_limit()))
            self._watched_here.close()
        except (OSError, TimeoutError) as error:
            raise await _explained(self._answer, error) from None

    @property
    def is_answered(self) -> bool:
        """Whether the server has answered the command with a result, so that the session can take the next one."""
        return self._answer.done() and not self._answer.cancelled() and self._answer.exception() is None

    async def cut(self) -> None:
        """Close the data connection in the middle of a file, and wait for the server's answer, whatever it is."""
        self._connection.abort()
        await asyncio.shield(self._answer)
        self._watched_here.close()

    async def close(self) -> None:
        """Close the data connection at once."""
        self._watched_here.close()
        self._connection.abort()
        self._answer.cancel()
        with contextlib.suppress(asyncio.CancelledError, FaultError):
            await self._answer

    async def _while_moving(self, work: Awaitable[_T], limit: float) -> _T:
        """Wait for this while octets come or go. Raises TimeoutError after `limit` seconds in which none did."""
        waited = asyncio.ensure_future(work)
        try:
            moved: int | None = None
            while not waited.done() and moved != (moved := self._connection.moved):
                await asyncio.wait((waited,), timeout=limit)
            if not waited.done():
                raise TimeoutError(f"nothing moved for {limit:.0f} s")
            return waited.result()
        finally:
            waited.cancel()

    def _last_limit(self) -> float:
        """The limit for the answer when all is sent: a slow server may still have `UNCERTAIN` octets to write."""
        rate = self._connection.sent / max(0.001, time.monotonic() - self._begun)
        least = min(UNCERTAIN, self._connection.sent)
        return min(max(self._limit, 2 * least / max(1.0, rate)), LONGEST_END)


async def _restart(control: ControlConnection, offset: int, way: Callable[[], Awaitable[ClientDataConnection]]) -> None:
    """REST. Raises RestartRefusedError, FaultError; a connection that was made before the command is closed then."""
    try:
        reply = await control.request("REST", b"%d" % offset)
        if reply.is_error:
            raise RestartRefusedError(classify(reply))
    except BaseException:
        for made in way.args if isinstance(way, partial) else ():
            if isinstance(made, asyncio.StreamWriter):
                made.close()
        raise


async def _give_up(connecting: asyncio.Task[ClientDataConnection]) -> None:
    """Close a connection that is not wanted any more, or stop connecting."""
    connecting.cancel()
    with contextlib.suppress(asyncio.CancelledError, OSError, TimeoutError, FaultError):
        (await connecting).abort()


async def _agreed(
    session: GridFTPSession, context: ssl.SSLContext | None
) -> Callable[[], Awaitable[ClientDataConnection]]:
    """Agree with the server on a data connection in MODE S; the function opens our end of it."""
    connection = session.connection
    if connection.relayed_data is not None:
        relayed = connection.relayed_data()
        command = b"WAYBILL DATA " + relayed.token.encode()
        await asyncio.gather(connection.ask("MODE", b"S"), connection.ask("SITE", command))
        return relayed.open
    if connection.forward_data is not None:
        _, port = await asyncio.gather(connection.ask("MODE", b"S"), passive_port(connection))
        return partial(connection.forward_data, port)
    tls = connection.data_tls() if connection.data_tls is not None else context
    _, way = await asyncio.gather(connection.ask("MODE", b"S"), data_connection(connection, tls))
    return way


async def _connect(way: Callable[[], Awaitable[ClientDataConnection]]) -> ClientDataConnection:
    async with asyncio.timeout(CONNECT_TIMEOUT):
        return await way()


def _raise_refusal(answer: asyncio.Task[Reply]) -> None:
    if answer.done():
        _raise_error(answer.result())


def _raise_error(reply: Reply) -> None:
    if reply.is_error:
        raise FaultError(classify(reply))


async def _explained(answer: asyncio.Task[Reply], error: Exception) -> FaultError:
    """A reply of the server says more about the cause than the error of the socket."""
    with contextlib.suppress(TimeoutError, FaultError):
        async with asyncio.timeout(1.0):
            reply = await answer
            if reply.is_error:
                return FaultError(classify(reply))
    answer.cancel()
    kind = Kind.TIMEOUT if isinstance(error, TimeoutError) else Kind.CONNECT_FAILED
    return FaultError(make_fault(kind, f"data connection: {error_text(error)}"))
