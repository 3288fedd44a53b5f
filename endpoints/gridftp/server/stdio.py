"""Standard input and output of a server that ssh starts, and what such a process needs of its account."""

from __future__ import annotations

import contextlib
import os
import socket
import threading

from .disconnects import POLLS, has_ended, has_no_reader
from .server import GridFtpServer

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_PIECE = 64 * 1024
#: For `ssh host server --stdio < commands`, whose client reads on after it has said all.
_FAREWELL = b"QUIT\r\n"


def serve_stdio(server: GridFtpServer) -> None:
    """Serve one session until the client quits, ends our input or reads no more. Raises OSError as `start` does."""
    ours, theirs = socket.socketpair()
    server.start()
    try:
        server.serve_socket(theirs, server.host)
        threading.Thread(target=copy_input, args=(ours, _FAREWELL), name="gridftp-stdin", daemon=True).start()
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


def copy_input(sock: socket.socket, farewell: bytes = b"") -> None:
    """Our standard input to the socket, up to its end, or until the client is gone.

    The last words of a client may be read when this process has stood still, and nobody wants them any more.
    Without a farewell a client is gone when it has ended our input. With one it is gone when nobody reads our output:
    else what it said is executed, then the farewell; but never the beginning of a line that was cut.
    """
    last = b"\n"
    with contextlib.suppress(OSError):
        while data := os.read(0, _PIECE):
            if has_no_reader(1) or (not farewell and has_ended(0)):
                break
            sock.sendall(data)
            last = data[-1:]
        else:
            if farewell and POLLS and last == b"\n" and not has_no_reader(1):
                sock.sendall(farewell)
                has_no_reader(1, None)
        sock.shutdown(socket.SHUT_RDWR if farewell else socket.SHUT_WR)


def copy_output(sock: socket.socket) -> None:
    """The socket to our standard output, up to its end, or until nobody reads the output: then the socket ends."""
    try:
        while data := sock.recv(_PIECE):
            while data:
                data = data[os.write(1, data) :]
    except OSError:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
