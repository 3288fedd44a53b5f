"""The server's side of a GSI dialog, as honest or as false as a test wants it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Self

from deploy.endpoint.authority import CertificateFiles

#: The last reply of the toolkit in a login.
WELCOME = b"235 GSSAPI Authentication successful."


class Conversation:
    """One client, step by step. `heard` are all command lines as they came over the wire."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        self.reader = reader
        self.writer = writer
        self.heard: list[bytes] = []
        self.sync = b"\0"
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    # ---- clear text

    async def hear(self) -> bytes:
        line = await self.reader.readline()
        if not line:
            raise ConnectionResetError
        self.heard.append(line)
        return line.rstrip()

    async def say(self, *lines: bytes) -> None:
        self.writer.write(b"".join(line + b"\r\n" for line in lines))
        await self.writer.drain()

    async def hear_token(self) -> bytes:
        verb, _, text = (await self.hear()).partition(b" ")
        assert verb == b"ADAT", verb
        return base64.b64decode(text, validate=True)

    async def say_token(self, token: bytes) -> None:
        await self.say(b"335 ADAT=" + base64.b64encode(token))

    # ---- TLS

    def seal(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._outgoing.read()

    def open(self, token: bytes) -> bytes:
        self._incoming.write(token)
        return self.tls.read(65536)

    # ---- steps, in their order

    async def greet(self) -> None:
        await self.say(b"220 acceptor")
        assert await self.hear() == b"AUTH GSSAPI"

    async def shake_hands(self) -> None:
        """Up to and with the last token before the client's flag."""
        await self.say(b"334 Using authentication type; ADAT must follow.")
        done = False
        while not done:
            self._incoming.write(await self.hear_token())
            try:
                self.tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            if not done or self.tls.version() != "TLSv1.3":
                await self.say_token(self._outgoing.read())
        if self.tls.version() == "TLSv1.3":
            await self.say_token(self.seal(self.sync))

    async def first_token(self) -> bytes:
        """The answer to the client's first token."""
        self._incoming.write(await self.hear_token())
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._outgoing.read()

    def last_record(self) -> bytes:
        """The end of TLS (close_notify)."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self._outgoing.read()

    async def hear_flag(self) -> bytes:
        return self.open(await self.hear_token())

    async def accept(self) -> None:
        """The whole of an honest dialog without delegation."""
        await self.greet()
        await self.shake_hands()
        assert await self.hear_flag() == b"0"
        await self.say(WELCOME)

    # ---- protected

    async def hear_command(self) -> bytes:
        verb, _, text = (await self.hear()).partition(b" ")
        assert verb == b"ENC", verb
        return self.open(base64.b64decode(text, validate=True)).rstrip()

    def protected(self, line: bytes, code: bytes = b"632 ") -> bytes:
        return code + base64.b64encode(self.seal(line + b"\r\n"))

    async def serve(self) -> None:
        """Say 2xx to everything."""
        while True:
            verb = (await self.hear_command()).partition(b" ")[0]
            code = {b"USER": b"331", b"PASS": b"230", b"PWD": b'257 "/"'}.get(verb, b"200")
            await self.say(self.protected(code + b" fine"))


Script = Callable[[Conversation], Awaitable[None]]


class Acceptor:
    """Listens on a free port of loopback and plays `script` to each client; hangs when that is at its end."""

    def __init__(
        self,
        script: Script,
        identity: CertificateFiles,
        *,
        least: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> None:
        self.script = script
        self.conversations: list[Conversation] = []
        self.port = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if least < ssl.TLSVersion.TLSv1_2:
            self._context.set_ciphers("DEFAULT@SECLEVEL=0")
        self._context.minimum_version, self._context.maximum_version = least, most
        self._context.num_tickets = 0
        self._context.load_cert_chain(identity.certificate, identity.key)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def heard(self) -> bytes:
        """All that any client sent."""
        return b"".join(line for one in self.conversations for line in one.heard)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(self._play(reader, writer)))

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = Conversation(reader, writer, self._context)
        self.conversations.append(conversation)
        try:
            await self.script(conversation)
            while await reader.read(65536):
                pass
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()
