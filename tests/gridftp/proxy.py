"""A proxy for control channels that misbehaves once, at a step of our choosing.

It stands between our client and a real server and follows their dialogue, so that a step has a name of its own ("the
226 of the third STOR") and is the same in every run, however many markers come between. The proxy records in `steps`
what it has seen: a run without faults lists the places where faults can be injected.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
import re
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from endpoints.gridftp.commands import format_host_port, parse_host_port
from tests.gridftp.data_proxy import DataProxy

#: Seconds by which a late line is late.
LATE = 0.15
#: No server knows it: sent in place of a command, it makes the server's own refusal come where it belongs.
UNKNOWN = b"XFAULT\r\n"
#: Octets of one step, at most, of a dialogue that is not understood.
CHUNK = 65536
_HOST_PORT = re.compile(rb"\d+(?:,\d+){5}")


class Deed(enum.Enum):
    """The misbehaviour of the proxy at the step."""

    REFUSE = enum.auto()  # the server never gets the command, and answers 500
    PERMANENT_ERROR = enum.auto()  # what the server said is replaced by a 5xx
    TRANSIENT_ERROR = enum.auto()  # the same by a 4xx
    CLOSE = enum.auto()
    RESET = enum.auto()
    HANG = enum.auto()  # half open: both connections stay, nothing passes any more
    DELAY = enum.auto()
    HALF_LINE_THEN_CLOSE = enum.auto()
    GARBAGE = enum.auto()
    ENDLESS_LINE = enum.auto()
    CALL = enum.auto()  # the proxy behaves, and something else happens (see `hook`)


class Watch(enum.Enum):
    COMMANDS = enum.auto()
    REPLIES = enum.auto()


class Step(NamedTuple):
    """The command that is the nth (from 0) with this verb, or the first reply with this code to it.

    The greeting counts as the reply to the verb "".
    """

    watch: Watch
    verb: str
    nth: int
    code: int = 0

    def __str__(self) -> str:
        name = f"{self.verb or 'greeting'}.{self.nth + 1}"
        return f"{name} {self.code}" if self.watch is Watch.REPLIES else name

    def allows(self, deed: Deed) -> bool:
        """Whether the deed makes sense here."""
        if deed is Deed.REFUSE:
            return self.watch is Watch.COMMANDS
        if deed in (Deed.PERMANENT_ERROR, Deed.TRANSIENT_ERROR, Deed.GARBAGE, Deed.ENDLESS_LINE):
            return self.watch is Watch.REPLIES
        return True


class Plan(NamedTuple):
    """Do `deed` at `step`, once."""

    step: Step
    deed: Deed


_ERRORS = {
    Deed.PERMANENT_ERROR: b"500 Command failed. : injected.\r\n",
    Deed.TRANSIENT_ERROR: b"451 Local error in processing. : injected.\r\n",
}


class MisbehavingProxy:
    """Listens on a free port of loopback. `deeds` counts how often the plan came true.

    hook: what Deed.CALL calls, with the port that the server sees as its client's; the line waits for what it awaits.
    data: where data connections are led through (mode E and S with PORT over IPv4).
    passive_port: named by each 227 and 229 in place of the server's own port; 0: none.
    opaque: it understands nothing, as for ssh: what arrives at once is one step, with the verb CHUNK.
    """

    def __init__(
        self,
        target_port: int,
        plan: Plan | None = None,
        hook: Callable[[int], object] = lambda _: None,
        data: DataProxy | None = None,
        passive_port: int = 0,
        opaque: bool = False,
    ) -> None:
        self.target = target_port
        self.opaque = opaque
        self.passive_port = passive_port
        self.plan = plan
        self.hook = hook
        self.data = data
        self.deeds = 0
        self.port = 0
        self.steps: list[Step] = []
        self._seen: set[Step] = set()
        self._counts: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._conversations: set[_Conversation] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.hang_up()

    async def hang_up(self) -> None:
        """End all connections, those that hang as well."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # aborted transports close their sockets in the loop's next turn

    def fall_silent(self) -> None:
        """As Deed.HANG, for all connections: the client's computer is not there any more."""
        for conversation in self._conversations:
            conversation.silent = True

    def upstream_ports(self) -> list[int]:
        """The current client ports, as the server sees them."""
        return [one.server.get_extra_info("sockname")[1] for one in self._conversations]

    def next(self, verb: str) -> int:
        """Count a command with this verb; how many there were before."""
        self._counts[verb] += 1
        return self._counts[verb] - 1

    def deed_at(self, step: Step) -> Deed | None:
        """Note that the dialogue has come to this step; what is to be done there."""
        if step in self._seen:
            return None
        self._seen.add(step)
        self.steps.append(step)
        if self.plan is None or self.plan.step != step:
            return None
        self.deeds += 1
        return self.plan.deed

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, to_server = await asyncio.open_connection("127.0.0.1", self.target, limit=2**20)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
            return
        conversation = _Conversation(self, writer, to_server)
        self._conversations.add(conversation)
        try:
            async with asyncio.TaskGroup() as group:
                if self.opaque:
                    group.create_task(conversation.chunks(Watch.COMMANDS, reader, to_server))
                    group.create_task(conversation.chunks(Watch.REPLIES, upstream, writer))
                else:
                    group.create_task(conversation.commands(reader))
                    group.create_task(conversation.replies(upstream))
        except* (OSError, _EndError):
            pass
        finally:
            # abort, not close: a peer that reads nothing must not keep a transport alive beyond the test.
            self._conversations.discard(conversation)
            writer.transport.abort()
            to_server.transport.abort()


@dataclass(eq=False)
class _Conversation:
    """One client and its server."""

    proxy: MisbehavingProxy
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    #: Commands without their final reply: verb, number.
    expected: deque[tuple[str, int]] = field(default_factory=deque)
    #: Commands whose client has an answer already: further replies of the server are dropped.
    muted: set[tuple[str, int]] = field(default_factory=set)
    silent: bool = False

    def __post_init__(self) -> None:
        self.expected.append(("", self.proxy.next("")))

    async def commands(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            verb = line.split(None, 1)[0].decode("ascii", "replace").upper()
            key = (verb, self.proxy.next(verb))
            self.expected.append(key)
            deed = self.proxy.deed_at(Step(Watch.COMMANDS, *key))
            if deed is Deed.REFUSE:
                line = UNKNOWN
            elif deed:
                await self._misbehave(deed, line, self.server)
            if verb == "PORT" and self.proxy.data and line != UNKNOWN:
                line = b"PORT " + await _led_through(line, self.proxy.data) + b"\r\n"
            await self._pass(self.server, line)
        raise _EndError

    async def replies(self, reader: asyncio.StreamReader) -> None:
        while reply := await _whole_reply(reader):
            code = int(reply[:3])
            key = self.expected[0] if self.expected else ("?", 0)
            if code >= 200 and self.expected:
                self.expected.popleft()
            if key in self.muted:
                continue
            deed = self.proxy.deed_at(Step(Watch.REPLIES, *key, code))
            if deed in _ERRORS:
                reply = _ERRORS[deed]
                self.muted.add(key)
            elif deed:
                await self._misbehave(deed, reply, self.client)
            if code in (227, 229) and self.proxy.passive_port:
                reply = _HOST_PORT.sub(format_host_port("127.0.0.1", self.proxy.passive_port), reply)
            await self._pass(self.client, reply)
        raise _EndError

    async def chunks(self, watch: Watch, reader: asyncio.StreamReader, onward: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            step = Step(watch, "CHUNK", self.proxy.next(f"CHUNK {watch}"))
            if deed := self.proxy.deed_at(step):
                await self._misbehave(deed, chunk, onward)
            await self._pass(onward, chunk)
        raise _EndError

    async def _pass(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        if self.silent:
            await asyncio.sleep(3600)
        writer.write(line)
        await writer.drain()

    async def _misbehave(self, deed: Deed, line: bytes, onward: asyncio.StreamWriter) -> None:
        match deed:
            case Deed.CLOSE:
                raise _EndError
            case Deed.RESET:
                for writer in (self.client, self.server):
                    raw = writer.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raise _EndError
            case Deed.HANG:
                self.silent = True
            case Deed.DELAY:
                await asyncio.sleep(LATE)
            case Deed.HALF_LINE_THEN_CLOSE:
                onward.write(line[: len(line) // 2])
                await onward.drain()
                raise _EndError
            case Deed.GARBAGE:
                self.client.write(b"\x00\xff\x16\x03\x01 this is no reply\r\n" * 3)
                await self.client.drain()
                raise _EndError
            case Deed.ENDLESS_LINE:
                self.client.write(b"2" * 200_000)
                await self.client.drain()
                self.silent = True
            case Deed.CALL:
                done = self.proxy.hook(self.server.get_extra_info("sockname")[1])
                if inspect.isawaitable(done):
                    await done


async def _whole_reply(reader: asyncio.StreamReader) -> bytes:
    """All lines of one reply (RFC 959 section 4.2); b"" at the end."""
    line = await reader.readline()
    lines = [line]
    if line[3:4] == b"-":
        last = line[:3] + b" "
        while line and not line.startswith(last):
            line = await reader.readline()
            lines.append(line)
    return b"".join(lines) if line.endswith(b"\n") else b""


async def _led_through(line: bytes, data: DataProxy) -> bytes:
    host, port = parse_host_port(line.split(None, 1)[1])
    return format_host_port("127.0.0.1", await data.door(host, port))


class _EndError(Exception):
    """This connection is over."""
