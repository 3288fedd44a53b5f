"""One client: what it has set up, and the worker thread that executes its commands one after another."""

from __future__ import annotations

import errno
import logging
import os
import queue
import re
import socket
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from endpoints.gridftp.facts import FACTS
from endpoints.gridftp.ranges import RangeSet

from . import addresses, checksums, dialogue, files, listings, transfers  # noqa: F401 - they fill COMMANDS
from .channel import DataChannel, PortRange
from .errors import ClientGoneError, RefusedError, ServerError, os_error_reply
from .interrupt import Interrupt
from .limits import Limits
from .outbox import Outbox
from .peers import everybody
from .progress import MarkerIntervals
from .receive import BUFFER_SIZE
from .registry import COMMANDS, Command
from .root import Root, normalize

log = logging.getLogger(__name__)

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
#: RFC 959 section 4.1.3: the Telnet sequences that a client may put before ABOR.
_TELNET = re.compile(rb"^(?:\xff[\xf0-\xf9]|\xff[\xfb-\xfe].)+")
#: They make a name: what stands against that is 553 (RFC 959 section 4.2.2).
_NAMING = frozenset((b"STOR", b"ESTO", b"APPE", b"MKD", b"RNTO"))


@dataclass(frozen=True, slots=True)
class Service:
    """What all sessions of a server have in common."""

    root: Root
    limits: Limits
    read_only: bool = False
    data_ports: PortRange | None = None
    #: Of listings: those that it tells, of those it could.
    facts: Collection[str] = FACTS
    #: Asked about each connection that comes in, of control and of data.
    admits: Callable[[socket.socket], bool] = everybody


@dataclass(slots=True)
class Restart:
    """What REST said, for the next transfer only: ranges that need not be sent again, or why it cannot be."""

    ranges: RangeSet = field(default_factory=RangeSet)
    bad: bool = False


class Session:
    """Lines go in by `feed`, replies come out by the outbox. Everything else happens in the session's own thread.

    local_host: our address as the client sees it, where passive data connections are awaited.
    """

    def __init__(self, service: Service, outbox: Outbox, local_host: str, when_done: Callable[[], None]) -> None:
        self.service = service
        self.limits = service.limits
        self.local_host = local_host
        self.interrupt = Interrupt()
        self.channel = DataChannel(service.limits, self.interrupt, outbox.flush, service.data_ports, service.admits)
        self.say = outbox.say
        self.flush = outbox.flush
        self.user = b""
        self.logged_in = False
        self.current = b"/"
        self.blocks = False  # MODE E, else MODE S
        self.parallelism = 1
        self.facts: frozenset[str] = frozenset(service.facts)
        self.intervals = MarkerIntervals()
        self.checksum_interval = 0.0
        self.restart: Restart | None = None
        self.rename_from: bytes | None = None
        self.link_target = b""
        self.quitting = False
        self._outbox = outbox
        self._when_done = when_done
        self._buffer: bytearray | None = None
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
        """A command line without its end. ABOR acts at once on the transfer at work, and is answered in its turn."""
        if _TELNET.sub(b"", line).strip().upper() == b"ABOR":
            self.interrupt.set()
        self._octets_fed += len(line)
        self._lines.put(line)

    @property
    def backlog(self) -> float:
        """How much waits to be done, as a part of what may wait: of lines, or of their octets."""
        lines = self._lines.qsize() / self.limits.queue
        return max(lines, (self._octets_fed - self._octets_done) / self.limits.queue_octets)

    @property
    def busy(self) -> bool:
        return self._executing or self._lines.qsize() > 0

    def hang_up(self) -> None:
        """The client is gone, or has to go: end what is at work and forget the rest."""
        self._gone = True
        self.interrupt.set()
        self._lines.put(None)

    # ---- the worker

    @property
    def buffer(self) -> bytearray:
        if self._buffer is None:
            self._buffer = bytearray(BUFFER_SIZE)
        return self._buffer

    def path(self, argument: bytes) -> bytes:
        """A client's path. -> RefusedError when there is none"""
        if not argument:
            raise RefusedError(501, "A path is needed.")
        return normalize(argument, self.current)

    def path_to_change(self, argument: bytes) -> bytes:
        """The path of something that is to be made, changed or removed. -> OSError, RefusedError"""
        self.require_writable()
        path = self.path(argument)
        self.service.root.require_writable(path)
        return path

    def reply(self, code: int, text: str) -> None:
        self.say(f"{code} {text}\r\n".encode("utf-8", "surrogateescape"))

    def require_writable(self) -> None:
        if self.service.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def take_restart(self) -> RangeSet:
        """What REST said, which is hereby used up. -> RefusedError when that could not be understood"""
        restart, self.restart = self.restart or Restart(), None
        if restart.bad:
            raise RefusedError(501, "The REST before this command was refused.")
        return restart.ranges

    def _work(self) -> None:
        try:
            while not (self._gone or self.quitting):
                line = self._next_line()
                if line is not None and not self._gone:
                    self.execute(line)
                    self._octets_done += len(line)
            self._outbox.flush()
            self._outbox.close()
        except ClientGoneError:
            pass
        except Exception:
            log.exception("a session ended by an error of the server")
            self._outbox.close()
        finally:
            self.channel.close()
            self.interrupt.close()
            self._when_done()

    def _next_line(self) -> bytes | None:
        """Replies go out before a wait, and else when there are enough of them."""
        if self._lines.qsize():
            self._outbox.flush_if_due()
            return self._lines.get()
        self._outbox.flush()
        self._executing = False
        line = self._lines.get()
        self._executing = True
        return line

    def execute(self, line: bytes) -> None:
        """Do one command and say its replies. Raises only when the session cannot go on."""
        verb, _, argument = _TELNET.sub(b"", line).partition(b" ")
        verb = verb.upper()
        command = COMMANDS.get(verb)
        try:
            self._check(command, line)
            assert command is not None
            command.handler(self, argument)
        except ServerError as error:
            if self._gone:
                raise ClientGoneError from error
            self.reply(error.code, error.text)
            self._fail(command)
        except OSError as error:
            self.say(os_error_reply(error, verb.decode("ascii", "replace"), naming=verb in _NAMING))
            self._fail(command)

    def _check(self, command: Command | None, line: bytes) -> None:
        if command is None:
            raise RefusedError(500, "Command not understood.")
        if not (self.logged_in or command.before_login):
            raise RefusedError(530, "Please login with USER and PASS.")
        if _CONTROL.search(line):
            raise RefusedError(501, "A control character cannot be part of a command.")

    def _fail(self, command: Command | None) -> None:
        """The rule of failing files: see the package. The reply goes first: it says more than what the partner sees."""
        if command is not None and (command.sends or command.receives):
            self._outbox.settle()
            self.restart = None
            self.channel.fail(resetting=not self.blocks, sending_blocks=self.blocks and command.sends)
