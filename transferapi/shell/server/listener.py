"""The listening socket, and the connections that it accepted."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time

import paramiko

from identity.networks import network_of
from transferapi.outages import watchdog
from transferapi.tasks.upkeep import tallies

from .admission import FailureLog, ShellConnectionLimits
from .bounds import ShellBounds
from .calls import Calls
from .connection import ServerState, ShellConnection
from .key_exchanges import KeyExchanges

log = logging.getLogger(__name__)
BACKLOG = 1024
#: Seconds between two looks at all connections.
_LOOK = 1.0
#: Seconds until a silent client is asked whether it is there, and until one that does not answer is given up.
_PROBE, _GIVE_UP = 60, 120
_GOODBYE = "The service restarts; tasks go on"


class Listener:
    """Accepts connections until `stop`."""

    def __init__(self, host: str, port: int, host_key: paramiko.PKey, bounds: ShellBounds | None = None) -> None:
        bounds = bounds or ShellBounds()
        of_network = bounds.calls_of_sign_ins_of_network
        self.state = ServerState(
            host_key=host_key,
            bounds=bounds,
            admission=ShellConnectionLimits(bounds),
            calls=Calls(bounds.calls, bounds.calls_of_user, bounds.turn_seconds),
            sign_ins=Calls(bounds.calls_of_sign_ins, of_network, bounds.turn_seconds, "sign-ins"),
            failures=FailureLog(),
            key_exchanges=KeyExchanges(bounds),
        )
        self._connections: set[ShellConnection] = set()
        self._stopping = threading.Event()
        self._socket = _listening(host, port)
        self.port: int = self._socket.getsockname()[1]
        _silence_paramiko()

    def serve(self) -> None:
        """Accept connections; returns after `stop`."""
        threading.Thread(target=self._look_after, name="time limits", daemon=True).start()
        self._socket.settimeout(_LOOK)
        while not self._stopping.is_set():
            watchdog.moved("the listening socket")
            try:
                sock, address = self._socket.accept()
            except TimeoutError:
                continue
            except OSError as error:
                if not self._stopping.is_set():
                    log.error("ssh: no connection can be accepted: %s", error.strerror)
                    self._stopping.wait(0.2)
                continue
            self._accept(sock, str(address[0]))

    def stop(self) -> None:
        """Accept no connections, send all clients a message, and end their connections within `stop_seconds`."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        goodbyes = [threading.Thread(target=one.end, args=(_GOODBYE,), daemon=True) for one in list(self._connections)]
        for goodbye in goodbyes:
            goodbye.start()
        until = time.monotonic() + self.state.bounds.stop_seconds
        while self._connections and time.monotonic() < until:
            time.sleep(0.02)
        for one in list(self._connections):
            one.end()

    def close(self) -> None:
        """Wait for the calls that run, after `stop`, and close the connections of the database."""
        self.state.calls.close()
        self.state.sign_ins.close()

    def gauges(self) -> dict[str, int]:
        """Numbers of the moment, for metrics."""
        return {"shell_sessions": self.state.admission.sessions, "shell_strangers": self.state.admission.strangers}

    def _accept(self, sock: socket.socket, address: str) -> None:
        ticket = self.state.admission.arrive(network_of(address), lambda: _hang_up(sock))
        if ticket is None:
            tallies.add("shell_refused")
            sock.close()
            return
        try:
            _configure(sock)
            connection = ShellConnection(sock, address, self.state, ticket, self._connections.discard)
            self._connections.add(connection)
            connection.start()
        except (OSError, RuntimeError) as error:
            # No thread can be started, or the client has gone.
            log.warning("ssh: a connection was dropped: %s", type(error).__name__)
            sock.close()
            self.state.admission.leave(ticket)
            self._connections = {one for one in self._connections if one.ticket is not ticket}

    def _look_after(self) -> None:
        while not self._stopping.wait(_LOOK):
            watchdog.moved("the time limits")
            now = time.monotonic()
            for one in list(self._connections):
                reason = one.overdue(now)
                if reason is not None:
                    # The client may not read: the others must not wait for it.
                    threading.Thread(target=_end, args=(one, reason), daemon=True).start()


def _end(connection: ShellConnection, reason: str) -> None:
    if reason:
        # The farewell may wait for a client that does not read.
        timer = threading.Timer(2.0, connection.end)
        timer.daemon = True
        timer.start()
    connection.end(reason)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=host == "::")


def _configure(sock: socket.socket) -> None:
    """Raises OSError."""
    # Without it each small packet waits for the acknowledgement of the one before (40 ms).
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GIVE_UP * 1000)


def _hang_up(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _silence_paramiko() -> None:
    """Its log lines hold what clients send, such as names of users, and a traceback for each broken connection."""
    logger = logging.getLogger("paramiko")
    logger.setLevel(logging.CRITICAL + 1)
    logger.propagate = False
