"""An object store that answers as a test wants: TLS, and an answer of octets for each request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

#: Gets the head of a request, and the octets of its body as far as they have come; returns those of the answer.
#: Afterwards the connection is closed.
Answer = Callable[[str, bytes], bytes | Awaitable[bytes]]


def ok(body: bytes = b"", *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """A whole answer. length: another one than that of the body."""
    octets = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {octets}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def lying_store(pem: Path, answer: Answer) -> AsyncIterator[int]:
    """The port of the store, and the requests in order are those that `answer` sees."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lengths = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
            octets = int(lengths[0].partition(":")[2]) if lengths else 0
            body = b""
            while len(body) < octets and (more := await reader.read(octets - len(body))):
                body += more
            found = answer(head, body)
            writer.write(found if isinstance(found, bytes) else await found)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
