"""One control channel as a state machine: commands and reply bytes in, events and bytes out. No socket, no clock.

Commands may be queued at any time and go out at once (pipelining, GFD.47): the server answers strictly in order,
so a queue of the commands still unanswered tells which one a reply belongs to. What is not in `TRANSITIONS`
breaks the channel: nothing that comes after is believed.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from .commands import encode
from .faults import MAX_RAW, Fault, FaultError, Kind, Scope, make_fault
from .replies import MAX_LISTING_REPLY, MAX_REPLY, Reply, ReplyError, ReplyParser
from .security import Protection


class State(enum.IntEnum):
    GREETING = enum.auto()  # the server has yet to say 220
    READY = enum.auto()
    BROKEN = enum.auto()  # lost, or no longer to be believed


class Input(enum.IntEnum):
    PRELIMINARY = enum.auto()  # a 1xx reply
    FINAL = enum.auto()  # a 2xx..6xx reply
    CLOSING = enum.auto()  # 421: the server ends the session, asked or not (RFC 959 section 4.2)
    GARBAGE = enum.auto()  # bytes that are no reply
    EOF = enum.auto()


class Action(enum.IntEnum):
    WAIT = enum.auto()
    GREET = enum.auto()
    ANSWER = enum.auto()
    REPORT = enum.auto()
    BREAK = enum.auto()
    IGNORE = enum.auto()


TRANSITIONS: dict[tuple[State, Input], tuple[Action, State]] = {
    (State.GREETING, Input.PRELIMINARY): (Action.WAIT, State.GREETING),  # 120: ready in some minutes
    (State.GREETING, Input.FINAL): (Action.GREET, State.READY),
    (State.GREETING, Input.CLOSING): (Action.BREAK, State.BROKEN),
    (State.GREETING, Input.GARBAGE): (Action.BREAK, State.BROKEN),
    (State.GREETING, Input.EOF): (Action.BREAK, State.BROKEN),
    (State.READY, Input.PRELIMINARY): (Action.REPORT, State.READY),
    (State.READY, Input.FINAL): (Action.ANSWER, State.READY),
    (State.READY, Input.CLOSING): (Action.BREAK, State.BROKEN),
    (State.READY, Input.GARBAGE): (Action.BREAK, State.BROKEN),
    (State.READY, Input.EOF): (Action.BREAK, State.BROKEN),
    (State.BROKEN, Input.PRELIMINARY): (Action.IGNORE, State.BROKEN),
    (State.BROKEN, Input.FINAL): (Action.IGNORE, State.BROKEN),
    (State.BROKEN, Input.CLOSING): (Action.IGNORE, State.BROKEN),
    (State.BROKEN, Input.GARBAGE): (Action.IGNORE, State.BROKEN),
    (State.BROKEN, Input.EOF): (Action.IGNORE, State.BROKEN),
}


class Command(NamedTuple):
    """A command that awaits its final reply. `tag` is the caller's own and comes back with each event."""

    verb: str
    tag: object


class Greeting(NamedTuple):
    """The server is ready (220)."""

    reply: Reply


class Preliminary(NamedTuple):
    """A 1xx reply to a command; its final reply is still to come."""

    command: Command
    reply: Reply


class Answered(NamedTuple):
    """The final reply to a command."""

    command: Command
    reply: Reply


class Lost(NamedTuple):
    """The channel is of no more use. `unanswered` are the commands whose outcome nobody knows."""

    fault: Fault
    unanswered: tuple[Command, ...]


ControlEvent = Greeting | Preliminary | Answered | Lost

#: Their replies hold listings.
LISTINGS = frozenset({"MLSC", "MLSD", "MLSR"})
#: These go on as long as they take, and say meanwhile how far they are.
LONG = LISTINGS | {"STOR", "RETR", "ESTO", "ERET", "APPE", "CKSM"}
#: Preliminary replies to one of all other commands.
MAX_PRELIMINARIES = 1000


class ControlChannel:
    """The client's end of one control channel."""

    def __init__(self) -> None:
        self.state = State.GREETING
        self._parser = ReplyParser(self._most)
        self._expected: deque[Command] = deque()
        #: To the command that is answered next.
        self._preliminaries = 0
        self._outgoing: list[bytes] = []
        self._protection: Protection | None = None

    @property
    def protected(self) -> bool:
        """Commands and replies travel encrypted and authenticated (RFC 2228)."""
        return self._protection is not None

    def protect(self, protection: Protection) -> None:
        """From now on nothing is sent or believed in clear text. Raises FaultError.

        What has arrived before its time was said by nobody we know, and would be taken for the server's word.
        """
        if self._outgoing or self._expected or not self._parser.between_replies or self.state is not State.READY:
            raise FaultError(make_fault(Kind.INSECURE_SERVER, "clear text at the end of the handshake"))
        self._protection = protection

    @property
    def unanswered(self) -> int:
        """How many commands await their final reply."""
        return len(self._expected)

    def send(self, verb: str, argument: bytes = b"", *, tag: object = None) -> None:
        """Queue a command. Raises CommandError for an argument that must not reach a wire.

        On a broken channel nothing is sent: the caller has had its Lost event.
        """
        self.send_line(verb, encode(verb, argument), tag=tag)

    def send_line(self, verb: str, line: bytes, *, tag: object = None) -> None:
        """`send` for a line that `encode` has made already."""
        if self.state is not State.BROKEN:
            self._outgoing.append(line)
            self._expected.append(Command(verb, tag))

    def data_to_send(self) -> bytes:
        """What is to be written to the transport now; b"" when nothing is."""
        lines = self._outgoing
        data = b"".join(map(self._protection.wrap, lines) if self._protection else lines)
        lines.clear()
        return data

    def receive(self, data: bytes) -> Iterator[ControlEvent]:
        """Take bytes from the server; yield what they mean. Consume it fully."""
        try:
            for reply in self._parser.feed(self._protection.unwrap(data) if self._protection else data):
                event = self._reply(reply)
                if event:
                    yield event
        except FaultError as error:
            yield from filter(None, [self._step(Input.GARBAGE, fault=error.fault)])
        except ReplyError as error:
            fault = Fault(
                Kind.ENDPOINT_ERROR,
                scope=Scope.SESSION,
                advice="The server does not speak GridFTP here; check its host name and port.",
                # Its words stay unsaid: nobody reads here what other services than FTP servers greet with.
                raw=f"what the server sent is no FTP reply ({error.reason})",
            )
            yield from filter(None, [self._step(Input.GARBAGE, fault=fault)])

    def receive_eof(self, fault: Fault | None = None) -> Iterator[ControlEvent]:
        """The transport is gone; `fault` tells how, when that is known."""
        fault = fault or Fault(
            Kind.CONNECTION_BROKEN,
            scope=Scope.SESSION,
            advice="The server closed the control connection.",
            raw="end of file on the control connection",
        )
        yield from filter(None, [self._step(Input.EOF, fault=fault)])

    def _reply(self, reply: Reply) -> ControlEvent | None:
        if reply.code == 421:
            fault = Fault(
                Kind.ENDPOINT_TOO_BUSY if self.state is State.GREETING else Kind.CONNECTION_BROKEN,
                scope=Scope.SESSION,
                advice="The server ended the session.",
                raw=str(reply)[:MAX_RAW],
            )
            return self._step(Input.CLOSING, fault=fault)
        return self._step(Input.PRELIMINARY if reply.code < 200 else Input.FINAL, reply)

    def _step(self, what: Input, reply: Reply | None = None, fault: Fault | None = None) -> ControlEvent | None:
        action, self.state = TRANSITIONS[self.state, what]
        if action is Action.REPORT or action is Action.ANSWER:
            assert reply is not None
            return self._match(reply, final=action is Action.ANSWER)
        if action is Action.GREET:
            assert reply is not None
            return self._greet(reply)
        if action is Action.BREAK:
            assert fault is not None
            return self._break(fault)
        return None

    def _greet(self, reply: Reply) -> ControlEvent:
        if reply.code == 220:
            return Greeting(reply)
        advice = "The server refused the connection."
        return self._break(Fault(Kind.ENDPOINT_ERROR, scope=Scope.SESSION, advice=advice, raw=str(reply)[:MAX_RAW]))

    def _match(self, reply: Reply, *, final: bool) -> ControlEvent:
        if not self._expected:
            advice = "The server answered a command that was never sent."
            return self._break(Fault(Kind.ENDPOINT_ERROR, scope=Scope.SESSION, advice=advice, raw=str(reply)[:MAX_RAW]))
        if final:
            self._preliminaries = 0
            return Answered(self._expected.popleft(), reply)
        self._preliminaries += 1
        if self._preliminaries > MAX_PRELIMINARIES and self._expected[0].verb not in LONG:
            advice = "The server answers without end."
            return self._break(Fault(Kind.ENDPOINT_ERROR, scope=Scope.SESSION, advice=advice, raw=str(reply)[:MAX_RAW]))
        return Preliminary(self._expected[0], reply)

    def _most(self) -> int:
        """Octets of the reply that arrives."""
        return MAX_LISTING_REPLY if self._expected and self._expected[0].verb in LISTINGS else MAX_REPLY

    def _break(self, fault: Fault) -> Lost:
        self.state = State.BROKEN
        unanswered = tuple(self._expected)
        self._expected.clear()
        self._outgoing.clear()
        return Lost(fault, unanswered)
