"""A proxy that is itself reached by TLS (`https://` in `https_proxy`).

The service's TLS runs inside that of the proxy. `ssl.SSLSocket` and asyncio take no TLS connection for their socket: a
thread copies between the two, through one end of a pair of sockets.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading

#: Octets that are held in each direction.
HELD = 64 << 10


def to_proxy(host: str, port: int, timeout: float) -> ssl.SSLSocket:
    """A TLS connection to the proxy, by the authorities of this system. Raises OSError (ssl.SSLError)."""
    sock = socket.create_connection((host, port), timeout)
    try:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


def plain_end(proxied: ssl.SSLSocket) -> socket.socket:
    """A socket with what the TLS connection carries; it closes that connection when it is closed itself."""
    ours, theirs = socket.socketpair()
    ours.settimeout(proxied.gettimeout())
    threading.Thread(target=_copy, args=(proxied, theirs), name="proxy-tls", daemon=True).start()
    return ours


def _copy(proxied: ssl.SSLSocket, plain: socket.socket) -> None:
    proxied.setblocking(False)
    plain.setblocking(False)
    inwards, outwards = _Way(proxied, plain), _Way(plain, proxied)
    with proxied, plain, selectors.DefaultSelector() as selector, contextlib.suppress(OSError, EOFError):
        while True:
            while inwards.advance() | outwards.advance():
                pass
            _wait(selector, inwards, outwards)


class _Way:
    """One direction: what was read and is not written yet."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source = source
        self.target = target
        self.held = b""

    def advance(self) -> bool:
        """Copy what can be copied; whether there was anything. Raises EOFError, OSError."""
        done = False
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not self.held:
                self.held = self.source.recv(HELD)
                if not self.held:
                    raise EOFError
                done = True
            self.held = self.held[self.target.send(self.held) :]
            done = True
        return done


def _wait(selector: selectors.BaseSelector, *ways: _Way) -> None:
    """Wait until a source has something, or a target that has something to take has room."""
    wanted: dict[socket.socket, int] = {}
    for way in ways:
        which, event = (way.target, selectors.EVENT_WRITE) if way.held else (way.source, selectors.EVENT_READ)
        wanted[which] = wanted.get(which, 0) | event
    for sock, events in wanted.items():
        selector.register(sock, events)
    selector.select()
    for sock in wanted:
        selector.unregister(sock)
