"""One control channel as a state machine: commands and reply bytes in, events and bytes out. No socket, no clock.

Commands may be queued at any time and go out at once (pipelining, GFD.47): the server answers strictly in order, and
so a reply belongs to the oldest command that is unanswered. `TRANSITIONS` has a row for each state and input; input
that breaks the protocol breaks the channel, and all later input is ignored.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import replace
from typing import NamedTuple

from .commands import WITH_PATH, encode, named_paths
from .faults import Fault, FaultError, FaultScope, Kind, is_full, make_fault
from .gsi_context import MessageProtection
from .replies import MAX_LISTING_REPLY, MAX_REPLY, Reply, ReplyError, ReplyParser


class ControlState(enum.IntEnum):
    GREETING = enum.auto()  # the server has not sent 220 yet
    READY = enum.auto()
    BROKEN = enum.auto()  # lost, or the server broke the protocol


class ControlInput(enum.IntEnum):
    PRELIMINARY = enum.auto()  # a 1xx reply
    FINAL = enum.auto()  # a 2xx..6xx reply
    CLOSING = enum.auto()  # 421: the server ends the session, asked or not (RFC 959 section 4.2)
    GARBAGE = enum.auto()  # octets that are no reply
    EOF = enum.auto()


class ControlAction(enum.IntEnum):
    WAIT = enum.auto()
    GREET = enum.auto()
    ANSWER = enum.auto()
    REPORT = enum.auto()
    BREAK = enum.auto()
    IGNORE = enum.auto()


S, I, A = ControlState, ControlInput, ControlAction  # noqa: E741 - the table is read in columns

TRANSITIONS: dict[tuple[ControlState, ControlInput], tuple[ControlAction, ControlState]] = {
    (S.GREETING, I.PRELIMINARY): (A.WAIT, S.GREETING),  # 120: ready in some minutes
    (S.GREETING, I.FINAL): (A.GREET, S.READY),
    (S.GREETING, I.CLOSING): (A.BREAK, S.BROKEN),
    (S.GREETING, I.GARBAGE): (A.BREAK, S.BROKEN),
    (S.GREETING, I.EOF): (A.BREAK, S.BROKEN),
    (S.READY, I.PRELIMINARY): (A.REPORT, S.READY),
    (S.READY, I.FINAL): (A.ANSWER, S.READY),
    (S.READY, I.CLOSING): (A.BREAK, S.BROKEN),
    (S.READY, I.GARBAGE): (A.BREAK, S.BROKEN),
    (S.READY, I.EOF): (A.BREAK, S.BROKEN),
    (S.BROKEN, I.PRELIMINARY): (A.IGNORE, S.BROKEN),
    (S.BROKEN, I.FINAL): (A.IGNORE, S.BROKEN),
    (S.BROKEN, I.CLOSING): (A.IGNORE, S.BROKEN),
    (S.BROKEN, I.GARBAGE): (A.IGNORE, S.BROKEN),
    (S.BROKEN, I.EOF): (A.IGNORE, S.BROKEN),
}


class ControlCommand(NamedTuple):
    """A command that awaits its final reply. `tag` is the caller's own and comes back with each event.

    line: b"" for one without a path, so that no password is kept. first: the line before it, where the two are a pair
    (RNFR, RNTO): the second is refused with the name of either.
    """

    verb: str
    tag: object
    line: bytes = b""
    first: bytes = b""

    @property
    def names(self) -> tuple[bytes, ...]:
        """The paths in it, and in the first of its pair."""
        return named_paths(self.first) + named_paths(self.line)


class Greeting(NamedTuple):
    """The server is ready (220)."""

    reply: Reply


class Preliminary(NamedTuple):
    """A 1xx reply to a command; its final reply is still to come."""

    command: ControlCommand
    reply: Reply


class Answered(NamedTuple):
    """The final reply to a command."""

    command: ControlCommand
    reply: Reply


class Lost(NamedTuple):
    """The channel cannot be used any more. The outcome of the `unanswered` commands is unknown."""

    fault: Fault
    unanswered: tuple[ControlCommand, ...]


ControlEvent = Greeting | Preliminary | Answered | Lost

#: Commands whose replies contain listings.
LISTINGS = frozenset({"MLSC", "MLSD", "MLSR"})
#: Commands without a limit of time, which report their progress by preliminary replies.
LONG = LISTINGS | {"STOR", "RETR", "ESTO", "ERET", "APPE", "CKSM"}
#: Commands without data whose success is 200, as that of NOOP is.
AS_NOOP = frozenset(
    {"NOOP", "TYPE", "MODE", "OPTS", "PORT", "SPOR", "EPRT", "PBSZ", "PROT", "DCAU", "SBUF", "SITE", "TREV", "QUIT"}
)
#: Maximum of preliminary replies to one of the other commands.
MAX_PRELIMINARIES = 1000

#: Codes with which servers say why they hang up ("500 OOPS: ...", "530 Sorry, ..."). Refusals of one file are others.
LAST_WORDS = frozenset({421, 430, 434, 451, 500, 530, 535})


class ControlChannel:
    """The client's end of one control channel."""

    def __init__(self) -> None:
        self.state = ControlState.GREETING
        self._parser = ReplyParser(self._most)
        self._expected: deque[ControlCommand] = deque()
        #: Preliminary replies so far to the oldest unanswered command.
        self._preliminaries = 0
        #: Final replies so far.
        self.answered = 0
        #: Each command waits for the greeting, and for the reply to the one before (`wire.pipelining`).
        self.one_at_a_time = False
        self._outgoing: list[bytes] = []
        #: The last reply, where a server that hangs up then has said why.
        self._last_words: Reply | None = None
        self._first_of_pair = b""
        #: Whether the server was ready (220), whatever has happened since.
        self.greeted = False
        self._protection: MessageProtection | None = None

    @property
    def protected(self) -> bool:
        """Commands and replies travel encrypted and authenticated (RFC 2228)."""
        return self._protection is not None

    def protect(self, protection: MessageProtection) -> None:
        """From now on all commands and replies are protected. Raises FaultError.

        Octets that have arrived early came in clear text: anybody could have sent them, and they would count as a reply
        of the authenticated server.
        """
        self.check_nothing_early()
        self._protection = protection

    def check_nothing_early(self) -> None:
        """Raises FaultError where anything is on its way in clear text at the moment when protection begins."""
        if self._outgoing or self._expected or not self._parser.between_replies or self.state is not ControlState.READY:
            raise FaultError(make_fault(Kind.INSECURE_SERVER, "clear text at the end of the handshake"))

    @property
    def unanswered(self) -> int:
        """The number of commands without their final reply."""
        return len(self._expected)

    @property
    def oldest(self) -> str:
        """The verb of the command that the next reply belongs to; "" where none is due."""
        return self._expected[0].verb if self._expected else ""

    def send(self, verb: str, argument: bytes = b"", *, tag: object = None) -> None:
        """Queue a command. Raises CommandError for an argument that must not reach a wire.

        On a broken channel nothing is sent: the caller has received its Lost event.
        """
        self.send_line(verb, encode(verb, argument), tag=tag)

    def send_line(self, verb: str, line: bytes, *, tag: object = None) -> None:
        """`send` for a line that `encode` has made already."""
        if self.state is not ControlState.BROKEN:
            self._outgoing.append(line)
            kept, first = line if verb in WITH_PATH else b"", self._first_of_pair
            begins_pair = verb == "RNFR" or (verb == "SITE" and line.startswith(b"SITE SYMLINKFROM "))
            self._first_of_pair = line if begins_pair else b""
            self._expected.append(ControlCommand(verb, tag, kept, first))

    def data_to_send(self) -> bytes:
        """The octets to be written to the transport now; may be empty."""
        lines = self._outgoing
        count = len(lines)
        if self.one_at_a_time:
            free = self.state is ControlState.READY and len(self._expected) == count
            count = min(count, 1) if free else 0
        some, lines[:count] = lines[:count], []
        return b"".join(map(self._protection.wrap, some) if self._protection else some)

    def receive(self, data: bytes) -> list[ControlEvent]:
        """Parse octets from the server, and return their events."""
        events: list[ControlEvent | None] = []
        try:
            for reply in self._parser.feed(self._protection.unwrap(data) if self._protection else data):
                events.append(self._reply(reply))
        except FaultError as error:
            events.append(self._step(ControlInput.GARBAGE, fault=error.fault))
        except ReplyError as error:
            fault = Fault(
                Kind.ENDPOINT_ERROR,
                scope=FaultScope.SESSION,
                advice="The server does not speak GridFTP here; check its host name and port.",
                # Its text is left out: no user shall read the greetings of other services than FTP servers here.
                raw=f"what the server sent is no FTP reply ({error.reason})",
            )
            events.append(self._step(ControlInput.GARBAGE, fault=fault))
        return [event for event in events if event]

    def receive_eof(self, fault: Fault | None = None) -> list[ControlEvent]:
        """The transport is closed; `fault` is the reason, where it is known."""
        fault = fault or Fault(
            Kind.CONNECTION_BROKEN,
            scope=FaultScope.SESSION,
            advice="The server closed the control connection.",
            raw="end of file on the control connection",
        )
        if self._last_words is not None and self._expected:
            fault = _with_last_words(fault, self._last_words)
        event = self._step(ControlInput.EOF, fault=fault)
        return [event] if event else []

    def _reply(self, reply: Reply) -> ControlEvent | None:
        if reply.code < 400 and self.state is ControlState.READY:
            # The two rows of nearly all replies, seven for a small file, without a look at the table.
            self._last_words = None
            return self._match(reply, final=reply.code >= 200)
        self._last_words = reply if reply.code in LAST_WORDS else None
        if reply.code == 421:
            full = self.state is ControlState.GREETING or is_full(reply)
            kind = Kind.ENDPOINT_TOO_BUSY if full else Kind.CONNECTION_BROKEN
            fault = _session_fault(reply, "The server ended the session.", kind)
            return self._step(ControlInput.CLOSING, fault=fault)
        return self._step(ControlInput.PRELIMINARY if reply.code < 200 else ControlInput.FINAL, reply)

    def _step(self, what: ControlInput, reply: Reply | None = None, fault: Fault | None = None) -> ControlEvent | None:
        action, self.state = TRANSITIONS[self.state, what]
        if action is ControlAction.REPORT or action is ControlAction.ANSWER:
            assert reply is not None
            return self._match(reply, final=action is ControlAction.ANSWER)
        if action is ControlAction.GREET:
            assert reply is not None
            return self._greet(reply)
        if action is ControlAction.BREAK:
            assert fault is not None
            return self._break(fault)
        return None

    def _greet(self, reply: Reply) -> ControlEvent:
        if reply.code == 220:
            self.greeted = True
            return Greeting(reply)
        kind = Kind.ENDPOINT_TOO_BUSY if is_full(reply) else Kind.ENDPOINT_ERROR
        return self._break(_session_fault(reply, "The server refused the connection.", kind))

    def _match(self, reply: Reply, *, final: bool) -> ControlEvent:
        expected = self._expected
        if not expected:
            kind = Kind.ENDPOINT_TOO_BUSY if is_full(reply) else Kind.ENDPOINT_ERROR
            return self._break(_session_fault(reply, "The server answered a command that was never sent.", kind))
        if reply.is_error:
            reply = reply._replace(names=expected[0].names)
        if final:
            self._preliminaries = 0
            self.answered += 1
            return Answered(expected.popleft(), reply)
        self._preliminaries += 1
        if self._preliminaries > MAX_PRELIMINARIES and expected[0].verb not in LONG:
            return self._break(_session_fault(reply, "The server sends preliminary replies without end."))
        return Preliminary(expected[0], reply)

    def _most(self) -> int:
        """The maximum of octets of the reply that arrives."""
        return MAX_LISTING_REPLY if self._expected and self._expected[0].verb in LISTINGS else MAX_REPLY

    def _break(self, fault: Fault) -> Lost:
        self.state = ControlState.BROKEN
        unanswered = tuple(self._expected)
        self._expected.clear()
        self._outgoing.clear()
        return Lost(fault, unanswered)


def _session_fault(reply: Reply, advice: str, kind: Kind = Kind.ENDPOINT_ERROR) -> Fault:
    """The fault of a reply that ends the session."""
    scope = FaultScope.ENDPOINT if kind is Kind.ENDPOINT_TOO_BUSY else FaultScope.SESSION
    return Fault(kind, scope=scope, advice=advice, raw=str(reply))


def _with_last_words(fault: Fault, reply: Reply) -> Fault:
    """The loss of a connection whose server has given the reason, and has closed it with commands unanswered."""
    if is_full(reply):
        return make_fault(Kind.ENDPOINT_TOO_BUSY, str(reply))
    return replace(fault, raw=f"{reply} ({fault.raw})")
