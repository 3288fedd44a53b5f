"""One session on standard input and output: the control channel of a server that ssh starts."""

from __future__ import annotations

import os
import socket
import threading

from .server import GridFtpServer

_PIECE = 64 * 1024


def serve_stdio(server: GridFtpServer) -> None:
    """Serve one session until the client quits, or closes our standard input. Raises OSError as `start` does."""
    ours, theirs = socket.socketpair()
    server.start()
    try:
        server.serve_socket(theirs, server.host)
        threading.Thread(target=_copy_input, args=(ours,), name="gridftp-stdin", daemon=True).start()
        _copy_output(ours)
    finally:
        server.stop()
        ours.close()


def host_of_ssh() -> str:
    """Our address as the ssh client sees it (sshd(8), SSH_CONNECTION); "" without ssh."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else ""


def _copy_input(sock: socket.socket) -> None:
    try:
        while data := os.read(0, _PIECE):
            sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def _copy_output(sock: socket.socket) -> None:
    """Up to the end of the session, or until nobody reads our output."""
    try:
        while data := sock.recv(_PIECE):
            while data:
                data = data[os.write(1, data) :]
    except OSError:
        pass
