"""`python -m tests.journeys.bad_disk --root DIR --port N`: our own server, on a disk that is not to be trusted.

What a file's name begins with says what happens when its checksum is asked for, before it is made:
"rot-once" one octet changes, the first time. "rot" one octet changes, each time. "slow" it takes SECONDS.
"cut-once" the connection ends without a word, the first time.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

from endpoints.gridftp.server.__main__ import main
from endpoints.gridftp.server.registry import COMMANDS
from endpoints.gridftp.server.session import Session

SECONDS = 4.0
_sound = COMMANDS[b"CKSM"]
_asked: set[bytes] = set()


def checksum(session: Session, argument: bytes) -> None:
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


def _spoil(session: Session, path: bytes) -> None:
    with session.service.root.opened_file(path, os.O_RDWR) as (fd, _):
        (octet,) = os.pread(fd, 1, 0)
        os.pwrite(fd, bytes([octet ^ 1]), 0)


COMMANDS[b"CKSM"] = replace(_sound, handler=checksum)

if __name__ == "__main__":
    sys.exit(main())
