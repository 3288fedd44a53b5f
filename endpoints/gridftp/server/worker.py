"""The worker thread of a session, which executes the client's commands one after another."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Callable

from endpoints.gridftp.commands import CONTROL
from endpoints.gridftp.ranges import RangeSet

from .commands import COMMANDS, ServerCommand
from .commands.data_addresses import connect_ahead
from .data.file_watch import FileWatch
from .errors import ClientGoneError, CommandRefusedError, ServerError, os_error_reply
from .outbox import Outbox
from .session import ServerSession
from .wires import ClearWire

log = logging.getLogger(__name__)

#: RFC 959 section 4.1.3: the Telnet sequences that a client may put before ABOR.
_TELNET = re.compile(rb"^(?:\xff[\xf0-\xf9]|\xff[\xfb-\xfe].)+")


#: Commands after which the control channel may have another form: nothing is read until they are answered.
AUTHENTICATION = (b"AUTH", b"ADAT")


class SessionWorker:
    """Command lines go in by `feed`, replies come out by the outbox. Everything else happens in a thread of its own.

    has_disconnected: asked in that thread before each command; nothing is executed for a client that is gone.
    when_done: called there when the session has ended. when_answered: called in the loop when a command of
    `AUTHENTICATION` has been answered, with the new form of the control channel, if it has one.
    """

    def __init__(
        self,
        session: ServerSession,
        outbox: Outbox,
        has_disconnected: Callable[[], bool],
        when_done: Callable[[], None],
        when_answered: Callable[[ClearWire | None], None],
    ) -> None:
        self.session = session
        self._outbox = outbox
        self._has_disconnected = has_disconnected
        self._when_done = when_done
        self._when_answered = when_answered
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._gone = False
        self._executing = False
        # Each is written by one thread only.
        self._octets_fed = self._octets_done = 0
        self._thread = threading.Thread(target=self._work, name="gridftp-session", daemon=True)

    # ---- called from the loop

    def start(self) -> None:
        self._thread.start()

    def feed(self, line: bytes) -> None:
        """A command line without its end. ABOR ends the running transfer at once, and is answered in its turn."""
        if _TELNET.sub(b"", line).strip().upper() == b"ABOR":
            self.session.interrupt.set()
        if self.session.connects_ahead and self.busy:
            connect_ahead(self.session, line)
        self._octets_fed += len(line)
        self._lines.put(line)

    @property
    def backlog(self) -> float:
        """The waiting lines, or their octets, as a part of the limit."""
        limits = self.session.limits
        return max(self._lines.qsize() / limits.queue, (self._octets_fed - self._octets_done) / limits.queue_octets)

    @property
    def busy(self) -> bool:
        return self._executing or self._lines.qsize() > 0

    def hang_up(self) -> None:
        """The client is gone, or has to go: end the running command and forget the rest."""
        self._gone = True
        self.session.interrupt.set()
        self._lines.put(None)

    # ---- the worker

    def _work(self) -> None:
        try:
            while not (self._gone or self.session.quitting):
                line = self._next_line()
                if line is None or self._has_disconnected() or self._gone:
                    break
                self._execute(line)
                self._octets_done += len(line)
            self._outbox.flush()
            self._outbox.close()
        except ClientGoneError:
            pass
        except Exception:
            log.exception("a session ended by an error of the server")
            self._outbox.close()
        finally:
            self.session.replacing.forget()
            self.session.channel.close()
            self.session.channel.early.close()
            self.session.interrupt.close()
            self._when_done()

    def _next_line(self) -> bytes | None:
        """The next command line; None at the end. Replies go out before a wait, and also when many are held."""
        if self._lines.qsize():
            self._outbox.flush_if_due()
            return self._lines.get()
        self._outbox.flush()
        self.session.replacing.forget()
        self._executing = False
        line = self._lines.get()
        self._executing = True
        return line

    def _execute(self, line: bytes) -> None:
        """Do one command and reply to it. Raises only when the session cannot go on."""
        verb, _, argument = _TELNET.sub(b"", line).partition(b" ")
        verb = verb.upper()
        command = COMMANDS.get(verb)
        watch = FileWatch(self.session, verb, argument)
        self.session.tell_octets = watch.under_way
        try:
            self.session.channel.judge_waiting()
            self._check(command, line)
            assert command is not None
            command.handler(self.session, argument)
            watch.ended()
        except ServerError as error:
            if self._gone:
                raise ClientGoneError from error
            self.session.reply(error.code, error.text)
            self._fail(command)
            watch.ended(error.text)
        except OSError as error:
            makes_name = command is not None and command.makes_name
            self.session.say(os_error_reply(error, verb.decode("ascii", "replace"), naming=makes_name))
            self._fail(command)
            watch.ended(error.strerror or "failed")
        if verb in AUTHENTICATION:
            wire, self.session.next_wire = self.session.next_wire, None
            self._outbox.call(self._when_answered, wire)

    def _check(self, command: ServerCommand | None, line: bytes) -> None:
        if command is None:
            raise CommandRefusedError(500, "Command not understood.")
        if not (self.session.logged_in or command.before_login):
            raise CommandRefusedError(530, "Please login with USER and PASS.")
        if CONTROL.search(line):
            raise CommandRefusedError(501, "A control character cannot be part of a command.")

    def _fail(self, command: ServerCommand | None) -> None:
        """Close the data channel after a file that failed (see the package). The reply goes first: it says more."""
        if command is not None and (command.sends or command.receives):
            self._outbox.settle()
            session = self.session
            session.restart = RangeSet()
            session.channel.fail(resetting=not session.blocks, sending_blocks=session.blocks and command.sends)
