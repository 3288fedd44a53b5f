"""The data connections of one session (RFC 959 section 3.2, GFD.20). Only the session's worker thread uses them."""

from __future__ import annotations

import contextlib
import math
import socket
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from endpoints.gridftp.server.errors import AbortedError, DataError
from endpoints.gridftp.server.interrupt import Interrupt
from endpoints.gridftp.server.limits import ServerLimits
from endpoints.gridftp.server.peers import everybody
from endpoints.gridftp.server.polling import POLLIN, POLLOUT, Poller
from endpoints.gridftp.server.security.data_protection import DataProtectionSettings

from .connection import DataConnection
from .connector import Address, OpenRelayed, PortRange, connect, listen, set_buffers
from .early import EarlyConnections
from .judged_listener import JudgedListener, NotAdmittedError
from .pending_connections import PendingConnections, steps

if TYPE_CHECKING:
    Listener = socket.socket | JudgedListener

#: Seconds to free a receiver that waits for a sender that will not come.
_HANG_UP_SECONDS = 5.0
_NOT_ADMITTED = "it came from another account or machine, and this server serves its own account only"


class DataChannel:
    """The data channel: a listening socket (PASV), an address (PORT) or tokens of a relay, and their connections.

    before_wait: called before the worker sleeps, to send the replies so far. data_ports: for PASV; None: any free ones.
    admits: whether an incoming connection may be used; others are closed, and the wait goes on.
    """

    def __init__(
        self,
        limits: ServerLimits,
        interrupt: Interrupt,
        before_wait: Callable[[], None],
        protection: DataProtectionSettings,
        data_ports: PortRange | None = None,
        open_relayed: OpenRelayed | None = None,
        admits: Callable[[socket.socket], bool] = everybody,
    ) -> None:
        self.connections: list[DataConnection] = []
        self.buffer_size = 0
        self._limits = limits
        self._interrupt = interrupt
        self._before_wait = before_wait
        self._ports = data_ports
        self.early = EarlyConnections()
        self._begun_early: socket.socket | None = None
        self._open_relayed = open_relayed
        self._admits = admits
        #: How connections that are opened from now on are protected.
        self.protection = protection
        self._pending = PendingConnections()
        self._listener: Listener | None = None
        self._target: Address | None = None
        self._tokens: Sequence[str] = ()
        self._failed = False

    # ---- opening and closing

    def listen(self, host: str) -> Address:
        """Listen at a new port (PASV)."""
        self.close()
        streams = self._limits.streams
        listener = self._ports.listen(host, streams) if self._ports else listen(host, streams)
        set_buffers(listener, self.buffer_size)
        address = listener.getsockname()
        judged = self._admits is not everybody
        self._listener = JudgedListener(listener, self._admits, streams) if judged else listener
        return address[0], address[1]

    def set_target(self, target: Address) -> None:
        """Set the address to connect to when data is to be sent (PORT)."""
        self.close()
        self._target = target
        self._begun_early = self.early.take(target)

    def set_tokens(self, tokens: Sequence[str]) -> None:
        """Set the tokens of a relay, one for each data connection (SITE WAYBILL DATA)."""
        self.close()
        self._tokens = tokens

    def close(self) -> None:
        """Close the channel. Octets already sent still arrive."""
        for connection in self.connections:
            connection.close()
        self.connections.clear()
        self._pending.clear()
        if self._listener:
            self._listener.close()
        if self._begun_early:
            self._begun_early.close()
        self._listener = self._target = self._begun_early = None
        self._tokens = ()
        self._failed = False

    def fail(self, *, resetting: bool = False, sending_blocks: bool = False) -> None:
        """Close the channel after a file that failed, by the rule of failing files (see the package)."""
        if resetting:
            for connection in self.connections:
                connection.reset()
        elif not self.connections and (self._tokens or (sending_blocks and self._target)):
            with contextlib.suppress(DataError, AbortedError, OSError):
                self._open(1, _HANG_UP_SECONDS)
        self.close()
        self._failed = True

    def require(self) -> None:
        """Raises DataError when no transfer can begin."""
        if self._failed:
            raise DataError.not_opened("closed after an earlier transfer failed, send PASV or PORT")
        if not (self._listener or self._target or self._tokens):
            raise DataError.not_opened("send PASV or PORT first")
        self.protection.require()

    @property
    def passive(self) -> bool:
        """Whether the other side connects."""
        return self._listener is not None

    @property
    def takes_blocks(self) -> bool:
        """Whether a file can be received in MODE E, where the sender connects, or both sides do so to a relay."""
        return bool(self._listener or self._tokens)

    @property
    def reused(self) -> bool:
        return bool(self.connections)

    # ---- connections

    def single(self, *, sending: bool) -> DataConnection:
        """The one connection of a MODE S transfer, opened by us or by the other side."""
        if not self._listener:
            self._open(1, self._limits.connect_seconds, sending=sending)
        else:
            until = monotonic() + self._limits.connect_seconds
            while not self.connections:
                self.wait([], POLLIN, until, DataError.not_opened("timed out waiting for a connection"))
        return self.connections[0]

    def outgoing(self, parallelism: int) -> list[DataConnection]:
        """The connections of a MODE E sender, opened when there are none.

        All are opened before the first file and all are used for each file: if one were first used for a later file, a
        receiver that is still at an earlier one could take its octets for a part of that.
        """
        if not self.connections:
            count = len(self._tokens) or min(parallelism, self._limits.streams)
            self._open(count, self._limits.connect_seconds)
        return self.connections

    def incoming(self) -> list[DataConnection]:
        """The connections of a MODE E receiver so far: those through a relay are opened here, others are accepted."""
        if self._tokens and not self.connections:
            self._open(len(self._tokens), self._limits.connect_seconds, sending=False)
        return self.connections

    def check(self) -> None:
        """Call between two pieces of work. Raises AbortedError when interrupted."""
        self._interrupt.check()

    def drop(self, connection: DataConnection) -> None:
        self.connections.remove(connection)
        connection.close()

    def wait(
        self,
        connections: Iterable[DataConnection],
        event: int,
        until: float,
        late: DataError,
        wake_at: float = math.inf,
    ) -> list[DataConnection]:
        """Sleep until some of the connections are ready, or new ones are open; return those.

        `until`, `wake_at`: monotonic seconds. Raises `late` at `until`, AbortedError when interrupted; returns nothing
        at `wake_at`.
        """
        fresh = self._already_connected() if event == POLLIN else []
        self._before_wait()
        return fresh or self._wait(connections, event, until, late, wake_at)

    def _wait(
        self, connections: Iterable[DataConnection], event: int, until: float, late: DataError, wake_at: float
    ) -> list[DataConnection]:
        by_fd: dict[int, DataConnection] = {}
        for connection in connections:
            if event == POLLIN and connection.holds_octets:
                return [connection]
            by_fd[connection.fileno()] = connection
        accepting = self._listener if event == POLLIN else None
        if accepting and not self.connections:
            until, late = self._limit_after_failure(until, late)
        found = self._poll(by_fd, event, accepting, min(until, wake_at))
        self._interrupt.check()
        if not found and monotonic() >= until:
            raise late
        ready = [by_fd[fd] for fd in found & by_fd.keys()]
        if accepting or self._pending:
            ready += self._opened(found, accepting)
        return ready

    def judge_waiting(self) -> None:
        """Judge the connections that have come, where accounts are judged: before each command is answered."""
        if isinstance(self._listener, JudgedListener):
            self._listener.judge_all()

    def _already_connected(self) -> list[DataConnection]:
        """The first connections, where they wait in the queue of the listener already.

        They are judged before the client hears 150: then it may close at once.
        """
        self.judge_waiting()
        fresh: list[DataConnection] = []
        while self._listener and not self.connections and not self._pending and self._is_ready(self._listener):
            self._accept(self._listener)
            fresh = self._opened(set(), None)
        return fresh

    @staticmethod
    def _is_ready(listener: Listener) -> bool:
        poller = Poller()
        poller.register(listener.fileno(), POLLIN)
        return bool(poller.poll(0.0))

    def _limit_after_failure(self, until: float, late: DataError) -> tuple[float, DataError]:
        """Until when the first connection is waited for, and the error then: sooner where one has failed."""
        failure = self._pending.failure
        return (until, late) if failure is None else (min(until, self._pending.wait_until), failure)

    def _opened(self, found: set[int], accepting: Listener | None) -> list[DataConnection]:
        """The connections that are open now, also among those that are accepted here."""
        if accepting and accepting.fileno() in found:
            self._accept(accepting)
        if not self._pending:
            return []
        fresh = self._pending.advance(found, lenient=self.passive)
        self.connections += fresh
        return fresh

    def _poll(self, fds: Iterable[int], event: int, accepting: Listener | None, until: float) -> set[int]:
        poller = Poller()
        for fd in fds:
            poller.register(fd, event)
        poller.register(self._interrupt.fd, POLLIN)
        if accepting:
            poller.register(accepting.fileno(), POLLIN)
        for pending in self._pending:
            poller.register(pending.fd, pending.event)
            until = min(until, pending.deadline)
        return poller.poll(max(0.0, until - monotonic()))

    def _accept(self, listener: Listener) -> None:
        try:
            sock = listener.accept() if isinstance(listener, JudgedListener) else listener.accept()[0]
        except NotAdmittedError:
            self._pending.note_refused(_NOT_ADMITTED)
            return
        except (BlockingIOError, ConnectionError):
            return
        if len(self.connections) >= self._limits.streams:
            sock.close()
            return
        if len(self.connections) + len(self._pending) >= self._limits.streams:
            self._pending.give_up_oldest()
        self._begin(sock, connecting=False, as_client=False)

    def _begin(self, sock: socket.socket, *, connecting: bool, as_client: bool, seconds: float = math.inf) -> None:
        way = steps(sock, self.protection, connecting=connecting, as_client=as_client)
        self._pending.begin(sock.fileno(), way, min(seconds, self._limits.handshake_seconds))

    def _open(self, count: int, seconds: float, *, sending: bool = True) -> None:
        """Open the data connections of our side, all at once. Raises DataError."""
        late = DataError.not_opened("opening the data connections timed out")
        until = monotonic() + seconds
        try:
            self._begin_all(count, seconds, sending=sending)
            self.connections += self._pending.advance((), lenient=False)
            while self._pending:
                self.wait([], POLLOUT, until, late)
        except OSError as error:
            raise DataError.not_opened(error.strerror or str(error)) from error
        finally:
            self._pending.clear()

    def _begin_all(self, count: int, seconds: float, *, sending: bool) -> None:
        """The side that connects is the client of TLS; where both connect to a relay, it is the sender."""
        for token in self._tokens[:count]:
            assert self._open_relayed is not None
            self._begin(self._open_relayed(token), connecting=False, as_client=sending, seconds=seconds)
        for _ in range(count if self._target else 0):
            assert self._target is not None
            sock = self._begun_early or connect(self._target, self.buffer_size)
            self._begun_early = None
            self._begin(sock, connecting=True, as_client=True, seconds=seconds)
