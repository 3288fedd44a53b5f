"""RETR and STOR of one file in MODE S (RFC 959 section 3.4.1), over a data connection that this service opens.

Every method raises FaultError. After an error, or where a file was not read to its end, the session must be closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Self

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import CONNECT_TIMEOUT, STALL_TIMEOUT
from endpoints.gridftp.faults import FaultError, Kind, classify, make_fault
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.requests.passive import passive_port
from identity.gsi.printable import error_text

from .protection import protect
from .tls_streams import ClientDataConnection


class DataStream:
    """The data connection of one RETR or STOR, and the answer to the command."""

    def __init__(self, answer: asyncio.Task[Reply], connection: ClientDataConnection) -> None:
        self._answer = answer
        self._connection = connection
        connection.abort_if_refused(answer)

    @classmethod
    async def open(
        cls, session: GridFTPSession, verb: str, path: str, offset: int = 0, *, encrypt: bool = False
    ) -> Self:
        """Send the command, and connect. offset: of the first octet. encrypt: the endpoint demands it."""
        encoded = session.encode_path(path)
        context = await protect(session, encrypt=encrypt)
        ask = session.connection.ask
        way = await _agreed(session, context)
        if offset:
            await ask("REST", b"%d" % offset)
        answer = asyncio.create_task(session.connection.request(verb, encoded))
        connecting = asyncio.create_task(_connect(way))
        try:
            await asyncio.wait((answer, connecting), return_when=asyncio.FIRST_COMPLETED)
            _raise_refusal(answer)
            return cls(answer, await asyncio.shield(connecting))
        except (OSError, TimeoutError) as error:
            raise await _explained(answer, error) from None
        except BaseException:
            answer.cancel()
            await _give_up(connecting)
            raise

    async def read(self) -> bytes:
        """The next octets; b"" at the end of the file, after the server has reported success."""
        try:
            async with asyncio.timeout(STALL_TIMEOUT):
                data = await self._connection.read()
                if not data:
                    # ProFTPD waits for this end to be closed, for ten seconds, before it answers.
                    self._connection.abort()
                    _raise_error(await asyncio.shield(self._answer))
                return data
        except (OSError, TimeoutError) as error:
            raise await _explained(self._answer, error) from None

    async def send(self, piece: bytes) -> None:
        """Send the next octets; waits while too much is buffered."""
        try:
            _raise_refusal(self._answer)
            async with asyncio.timeout(STALL_TIMEOUT):
                await self._connection.write(piece)
        except (OSError, TimeoutError) as error:
            raise await _explained(self._answer, error) from None

    async def end(self) -> None:
        """End the file, and wait until the server reports success."""
        try:
            async with asyncio.timeout(STALL_TIMEOUT):
                await self._connection.end()
                _raise_error(await asyncio.shield(self._answer))
        except (OSError, TimeoutError) as error:
            raise await _explained(self._answer, error) from None

    async def close(self) -> None:
        """Close the data connection at once."""
        self._connection.abort()
        self._answer.cancel()
        with contextlib.suppress(asyncio.CancelledError, FaultError):
            await self._answer


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
    _, port = await asyncio.gather(connection.ask("MODE", b"S"), passive_port(connection))
    if connection.forward_data is not None:
        return partial(connection.forward_data, port)
    tls = connection.data_tls() if connection.data_tls is not None else context
    return partial(ClientDataConnection.open, connection.peer_host, port, tls)


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
