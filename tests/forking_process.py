"""A process of `tests.forking`: it loads libraries once, and each program that it is asked for is a fork of it.

It needs the standard library only, because it runs in the environments of other programs, too.

    python tests/forking_process.py DESCRIPTOR MODULE...

A request on the socket DESCRIPTOR is the length of a document in four octets, the pickled `Request`, and the standard
input, output and error of the program as descriptors. The answer is the process id in eight octets. The program is a
child of the process that asks: this one is a subreaper then (prctl(2)), and the process between the two ends at once.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import io
import os
import pickle
import runpy
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

LENGTH, PID = struct.Struct("!I"), struct.Struct("!q")
STANDARD = 3


class Request(NamedTuple):
    """A program: what follows the name of the interpreter (`-m MODULE`, `-c CODE`, or a file, and its arguments).

    group: of processes; 0: one of its own. before: is called in the child just before the program begins.
    """

    words: Sequence[str]
    environ: Mapping[str, str]
    folder: str
    group: int
    session: bool
    before: Callable[[], object] | None


class ClosedError(Exception):
    """Nobody asks any more."""


def receive(channel: socket.socket) -> tuple[Request, list[int]]:
    """Raises ClosedError."""
    room = socket.CMSG_SPACE(STANDARD * array.array("i").itemsize)
    head, ancillary, _, _ = channel.recvmsg(LENGTH.size, room)
    if not head:
        raise ClosedError
    descriptors = array.array("i")
    for _, _, octets in ancillary:
        descriptors.frombytes(octets)
    with channel.makefile("rb", buffering=0) as file:
        (length,) = LENGTH.unpack(head)
        document = bytearray()
        while len(document) < length:
            more = file.read(length - len(document))
            if not more:
                raise ClosedError
            document += more
    return Request(*pickle.loads(document)), list(descriptors)


def serve(channel: socket.socket) -> Request:
    """Fork for each request, and return in the child. Ends this process when nobody asks any more."""
    while True:
        try:
            request, descriptors = receive(channel)
        except (ClosedError, OSError):
            os._exit(0)
        (pid_in, pid_out), (adopted_in, adopted_out), (ready_in, ready_out) = os.pipe(), os.pipe(), os.pipe()
        middle = os.fork()
        if not middle:
            if grandchild := os.fork():
                os.write(pid_out, PID.pack(grandchild))
                os._exit(0)
            os.close(adopted_out)
            os.read(adopted_in, 1)
            prepare(request, descriptors)
            return request
        for descriptor in (*descriptors, pid_out, ready_out):
            os.close(descriptor)
        os.waitpid(middle, 0)
        pid = os.read(pid_in, PID.size)
        os.close(adopted_out)
        os.read(ready_in, 1)
        for descriptor in (pid_in, adopted_in, ready_in):
            os.close(descriptor)
        channel.sendall(pid)


def prepare(request: Request, descriptors: Sequence[int]) -> None:
    """Give the program its group, folder, variables and standard files. It closes all other descriptors at the end, by
    which the process that forks knows that it is done."""
    if request.session:
        os.setsid()
    else:
        os.setpgid(0, request.group)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environ)
    time.tzset()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    _open_standard_files()
    if request.before is not None:
        request.before()
    os.closerange(len(descriptors), os.sysconf("SC_OPEN_MAX"))


def run(request: Request) -> None:
    """As the interpreter does with these words."""
    kind, *rest = request.words
    sys.orig_argv = [sys.executable, *request.words]
    if kind == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *rest[1:]]
        main = type(sys)("__main__")
        main.__dict__["__builtins__"] = __builtins__
        sys.modules["__main__"] = main
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.path[0] = os.path.dirname(kind)
        sys.argv = [kind, *rest]
        runpy.run_path(kind, run_name="__main__")


def _open_standard_files() -> None:
    """New files for the new descriptors, with the encodings that the interpreter chose at its start."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        raw = io.FileIO(number, "wb" if number else "rb", closefd=False)
        buffered = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
        by_line = old.line_buffering if number == 2 else raw.isatty() and not old.write_through
        file = io.TextIOWrapper(
            buffered, old.encoding, old.errors, line_buffering=by_line, write_through=old.write_through
        )
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    sys.path[0] = os.getcwd()
    for name in sys.argv[2:]:
        importlib.import_module(name)
    # Loaded objects stay: the garbage collector need not visit them, and so they are not copied into each program.
    gc.collect()
    gc.freeze()
    request = serve(channel)
    channel.detach()
    try:
        run(request)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        _exit(end.code or 0)
    _exit(0)


def _exit(status: int) -> NoReturn:
    """End as the interpreter does, but without a visit to each object that is loaded, which takes 20 ms."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            file.flush()
    os._exit(status & 0xFF)


if __name__ == "__main__":
    main()
