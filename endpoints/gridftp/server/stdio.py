"""Standard input and output of a server that ssh starts, and what such a process needs of its account."""

from __future__ import annotations

import contextlib
import os
import socket
import threading

from .server import GridFtpServer

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_PIECE = 64 * 1024


def serve_stdio(server: GridFtpServer) -> None:
    """Serve one session until the client quits, or closes our standard input. Raises OSError as `start` does."""
    ours, theirs = socket.socketpair()
    server.start()
    try:
        server.serve_socket(theirs, server.host)
        threading.Thread(target=copy_input, args=(ours,), name="gridftp-stdin", daemon=True).start()
        copy_output(ours)
    finally:
        server.stop()
        ours.close()


def host_of_ssh() -> str:
    """Our address as the ssh client sees it (sshd(8), SSH_CONNECTION); "" without ssh."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else ""


def home_folder() -> str:
    """The home of the account; "/" where it has none."""
    home = os.path.realpath(os.path.expanduser("~"))
    return home if os.path.isdir(home) else "/"


def allow_many_files() -> None:
    """Raise the soft limit of open files: each session may hold dozens. The usual limit of 1024 is for select()."""
    if resource is None:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def copy_input(sock: socket.socket) -> None:
    """Our standard input to the socket, up to its end."""
    try:
        while data := os.read(0, _PIECE):
            sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def copy_output(sock: socket.socket) -> None:
    """The socket to our standard output, up to its end, or until nobody reads the output: then the socket ends."""
    try:
        while data := sock.recv(_PIECE):
            while data:
                data = data[os.write(1, data) :]
    except OSError:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
