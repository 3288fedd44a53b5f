"""`python -m tests.journeys.bad_disk --root DIR --port N`: our own server, on an unreliable disk.

The beginning of a file's name selects the fault when its checksum is requested: "rot-once" changes one octet the first
time, "rot" one octet each time, "slow" waits for SECONDS, "cut-once" closes the connection without a reply the first
time. Files named "timeless" keep no modification time.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

from endpoints.gridftp.server.__main__ import main
from endpoints.gridftp.server.commands.table import COMMANDS
from endpoints.gridftp.server.errors import CommandRefusedError
from endpoints.gridftp.server.session import ServerSession

SECONDS = 4.0
_sound, _timely = COMMANDS[b"CKSM"], COMMANDS[b"MFMT"]
_asked: set[bytes] = set()


def checksum(session: ServerSession, argument: bytes) -> None:
    path = session.path(argument.split(b" ", 3)[3])
    name = path.rpartition(b"/")[2]
    first = path not in _asked
    _asked.add(path)
    if name.startswith(b"cut-once") and first:
        session.quitting = True
        return
    if name.startswith(b"rot") and (first or not name.startswith(b"rot-once")):
        _spoil(session, path)
    if name.startswith(b"slow"):
        time.sleep(SECONDS)
    _sound.handler(session, argument)


def modify(session: ServerSession, argument: bytes) -> None:
    if session.path(argument.partition(b" ")[2]).rpartition(b"/")[2].startswith(b"timeless"):
        raise CommandRefusedError(500, "Command not understood.")
    _timely.handler(session, argument)


def _spoil(session: ServerSession, path: bytes) -> None:
    with session.service.root.opened_file(path, os.O_RDWR) as (fd, _):
        (octet,) = os.pread(fd, 1, 0)
        os.pwrite(fd, bytes([octet ^ 1]), 0)


COMMANDS[b"CKSM"] = replace(_sound, handler=checksum)
COMMANDS[b"MFMT"] = replace(_timely, handler=modify)

if __name__ == "__main__":
    sys.exit(main())
