"""Reports to the program around the server, of each file that was sent or received, or failed."""

from __future__ import annotations

from typing import Callable, NamedTuple


class FileMoved(NamedTuple):
    """A file whose transfer has ended. path: as the client sees it. error: the reply to the client; "" for success.

    octets: the size of the file on the disk, so for a part of a file more than was moved. seconds: from the command to
    its end.
    """

    path: bytes
    sends: bool
    octets: int
    seconds: float
    error: str = ""


#: Called in the thread of the session; must return at once.
OnFile = Callable[[FileMoved], None]
