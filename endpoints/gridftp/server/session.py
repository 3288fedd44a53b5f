"""The state of one client's session, and what the handlers of commands need of it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from endpoints.gridftp.facts import FACTS
from endpoints.gridftp.ranges import RangeSet

from .data.channel import DataChannel
from .data.connector import OpenRelayed, PortRange
from .data.files_moved import OnFile, OnProgress, TellOctets, tell_nobody
from .data.progress import MarkerIntervals
from .data.receive import BUFFER_SIZE
from .errors import CommandRefusedError
from .interrupt import Interrupt
from .limits import ServerLimits
from .outbox import Outbox
from .peers import everybody
from .roots.replacing import Replacing
from .roots.root import Root, normalize
from .security.control_security import ControlSecurity
from .security.data_protection import DataProtectionSettings
from .security.gss import GssAcceptor
from .wires import ClearWire


@dataclass(frozen=True)
class Service:
    """The settings that all sessions of a server share."""

    root: Root
    limits: ServerLimits
    read_only: bool = False
    #: For passive data connections; None: any free ports.
    data_ports: PortRange | None = None
    #: Opens the data connections of SITE WAYBILL DATA; None if it is refused.
    open_relayed: OpenRelayed | None = None
    #: Makes this a server with GSI: nobody logs in without a certificate.
    security: ControlSecurity | None = None
    #: The facts that listings offer, of `FACTS`.
    facts: Collection[str] = FACTS
    #: Whether to serve a connection that comes in, of control and of data.
    admits: Callable[[socket.socket], bool] = everybody
    #: The folder in which sessions begin.
    home: bytes = b"/"
    #: Learns of each file that was sent or received, or failed.
    on_file: OnFile | None = None
    #: Learns how far a large file is.
    on_progress: OnProgress | None = None


class ServerSession:
    """The state that commands read and change. Only the session's worker thread uses it, but for `logged_in`.

    local_host: our address as the client sees it, where passive data connections are awaited; "": none can be.
    vouched: the program that runs this server has let the client in, under any name.
    """

    def __init__(self, service: Service, outbox: Outbox, local_host: str, *, vouched: bool = False) -> None:
        self.service = service
        self.limits = service.limits
        self.local_host = local_host
        self.interrupt = Interrupt()
        self.vouched = vouched
        self.channel = DataChannel(
            service.limits,
            self.interrupt,
            outbox.flush,
            DataProtectionSettings(trust=service.security.trust if service.security else ""),
            service.data_ports,
            service.open_relayed,
            service.admits,
        )
        self.say = outbox.say
        self.flush = outbox.flush
        #: The name in the client's certificate, once it is authenticated, and the dialogue that leads to it.
        self.identity = ""
        self.acceptor: GssAcceptor | None = None
        #: The form of the control channel after this command; taken by the session's worker.
        self.next_wire: ClearWire | None = None
        self.protected = False
        self.send_raw = outbox.send_raw
        self.user = b""
        self.logged_in = False
        self.current = service.home
        self.blocks = False  # MODE E, else MODE S
        self.parallelism = 1
        #: Whether to connect for a PORT that waits behind other commands (OPTS PORT Ahead).
        self.connects_ahead = False
        self.facts: frozenset[str] = frozenset(service.facts)
        self.intervals = MarkerIntervals()
        self.checksum_interval = 0.0
        #: The ranges of REST, which the next transfer leaves out. None: REST was refused, and so is that transfer.
        self.restart: RangeSet | None = RangeSet()
        self.rename_from: bytes | None = None
        self.link_target = b""
        self.replacing = Replacing()
        #: For the command that runs; set by the session's worker.
        self.tell_octets: TellOctets = tell_nobody
        self.quitting = False
        self._buffer: bytearray | None = None

    @property
    def buffer(self) -> bytearray:
        if self._buffer is None:
            self._buffer = bytearray(BUFFER_SIZE)
        return self._buffer

    def authenticated(self, identity: str) -> None:
        """Note that the client has shown that this certificate is its own."""
        self.identity, self.protected = identity, True

    def path(self, argument: bytes) -> bytes:
        """A client's path, normalized. Raises CommandRefusedError where the argument is empty."""
        if not argument:
            raise CommandRefusedError(501, "A path is needed.")
        return normalize(argument, self.current)

    def path_to_change(self, argument: bytes) -> bytes:
        """The path of something that is to be made, changed or removed. Raises OSError, CommandRefusedError."""
        self.require_writable()
        path = self.path(argument)
        self.service.root.require_writable(path)
        return path

    def reply(self, code: int, text: str) -> None:
        self.say(f"{code} {text}\r\n".encode("utf-8", "surrogateescape"))

    def require_writable(self) -> None:
        """Raises OSError in a server that is read-only."""
        if self.service.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def take_restart(self) -> RangeSet:
        """The ranges of REST, which count once. Raises CommandRefusedError where REST was refused."""
        restart, self.restart = self.restart, RangeSet()
        if restart is None:
            raise CommandRefusedError(501, "The REST before this command was refused.")
        return restart
