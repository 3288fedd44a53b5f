"""Data connections on their way: connecting, and TLS with the octets that GSI sends after it (DCAU).

With PROT P the connection goes on by TLS. With PROT C it goes on in clear, after the octets that end the handshake of
GSI: the side that accepted sends, in TLS 1.3, one octet 0; then the other one sends "0" (it delegates nothing).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable, Collection, Generator, Iterator
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from endpoints.gridftp.server.errors import DataError
from endpoints.gridftp.server.polling import POLLIN, POLLOUT
from endpoints.gridftp.server.security.certificates import CertificateError
from endpoints.gridftp.server.security.data_protection import DataProtectionSettings

from .connection import DataConnection

if TYPE_CHECKING:
    #: Yields the event of poll(2) that it waits for.
    Steps = Generator[int, None, DataConnection]

T = TypeVar("T")
_NO_DELEGATION = b"0"


class PendingConnection:
    """One connection on its way. deadline: monotonic seconds, after which it is given up."""

    def __init__(self, fd: int, steps: Steps, deadline: float) -> None:
        self.fd = fd
        self.deadline = deadline
        #: The event that it waits for; 0: nothing, it can go on.
        self.event = 0
        self._steps = steps

    def step(self) -> DataConnection | None:
        """Go on as far as possible; the connection, once it is open. Raises DataError, and is closed then."""
        if monotonic() >= self.deadline:
            self.close()
            raise DataError.not_opened("the other side took too long to open the data connection")
        try:
            self.event = next(self._steps)
        except StopIteration as end:
            found: DataConnection = end.value
            return found
        return None

    def close(self) -> None:
        self._steps.close()


class PendingConnections:
    """All connections of a channel that are on their way. An accepted one that fails leaves its reason in `failure`.

    A stranger, who connects to the port and is not the agreed peer, must not end a transfer that is about to begin: the
    wait goes on, but for `PEER_TIMEOUT` only.
    """

    #: Seconds of waiting for the right peer after a wrong one, and after one that may not connect here at all.
    PEER_TIMEOUT, REFUSED_TIMEOUT = 10.0, 8.0

    def __init__(self) -> None:
        self._all: list[PendingConnection] = []
        self.failure: DataError | None = None
        self.wait_until = 0.0

    def __iter__(self) -> Iterator[PendingConnection]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, fd: int, steps: Steps, seconds: float) -> None:
        self._all.append(PendingConnection(fd, steps, monotonic() + seconds))

    def note_refused(self, why: str) -> None:
        """A connection was closed that may not be used here. The sender may take its octets for delivered."""
        self.failure, self.wait_until = DataError.not_opened(why), monotonic() + self.REFUSED_TIMEOUT

    def give_up_oldest(self) -> None:
        self._all.pop(0).close()

    def clear(self) -> None:
        for pending in self._all:
            pending.close()
        self._all.clear()
        self.failure = None

    def advance(self, ready: Collection[int], *, lenient: bool) -> list[DataConnection]:
        """Go on with those that can; return the connections that are open now. lenient: failures raise no DataError."""
        now = monotonic()
        fresh: list[DataConnection] = []
        for pending in list(self._all):
            if pending.event and pending.fd not in ready and now < pending.deadline:
                continue
            try:
                connection = pending.step()
            except DataError as error:
                self._all.remove(pending)
                if not lenient:
                    for one in fresh:
                        one.close()
                    raise
                self.failure, self.wait_until = error, now + self.PEER_TIMEOUT
            else:
                if connection:
                    self._all.remove(pending)
                    fresh.append(connection)
        return fresh


def steps(sock: socket.socket, protection: DataProtectionSettings, *, connecting: bool, as_client: bool) -> Steps:
    """The way of one socket, which is closed if it fails. as_client: of TLS. Raises DataError."""
    try:
        if connecting:
            yield POLLOUT
            _finish_connect(sock)
        if not protection.authenticates:
            return DataConnection(sock)
        sock.setblocking(False)
        sock = protection.context(server_side=not as_client).wrap_socket(
            sock, server_side=not as_client, do_handshake_on_connect=False
        )
        yield from _shake_hands(sock, protection, as_client=as_client)
        if not protection.encrypts:
            sock = socket.socket(sock.family, sock.type, sock.proto, fileno=sock.detach())
        return DataConnection(sock)
    except CertificateError as error:
        sock.close()
        raise DataError.not_opened(str(error)) from error
    except OSError as error:  # ssl.SSLError too
        sock.close()
        raise DataError.not_opened(error.strerror or str(error)) from error
    except BaseException:
        sock.close()
        raise


def _shake_hands(
    tls: ssl.SSLSocket, protection: DataProtectionSettings, *, as_client: bool
) -> Generator[int, None, None]:
    yield from _insist(tls.do_handshake)
    protection.check(tls)
    if protection.encrypts:
        return
    acknowledged = tls.version() == "TLSv1.3"
    if as_client:
        if acknowledged:
            yield from _expect(tls, b"\0")
        yield from _insist(lambda: tls.send(_NO_DELEGATION))
    else:
        if acknowledged:
            yield from _insist(lambda: tls.send(b"\0"))
        yield from _expect(tls, _NO_DELEGATION)


def _expect(tls: ssl.SSLSocket, wanted: bytes) -> Generator[int, None, None]:
    found = yield from _insist(lambda: tls.recv(1))
    if found != wanted or tls.pending():
        raise CertificateError("the other side of the data connection does not speak GSI")


def _insist(call: Callable[[], T]) -> Generator[int, None, T]:
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            yield POLLIN
        except ssl.SSLWantWriteError:
            yield POLLOUT


def _finish_connect(sock: socket.socket) -> None:
    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    # On one machine, a connect to a free ephemeral port can meet itself (RFC 793 section 3.4, simultaneous open).
    # A connection that is reset already has no peer name: its next use raises the error.
    with contextlib.suppress(OSError):
        if not number and sock.getsockname() == sock.getpeername():
            number = errno.ECONNREFUSED
    if number:
        raise OSError(number, os.strerror(number))
