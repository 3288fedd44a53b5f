"""Reports to the program around the server: of each file that was sent or received, or failed, and how far one is."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional


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


class FileUnderWay(NamedTuple):
    """A file, or a part of one, that is being moved. octets: moved so far, of `size`, which only a sender knows."""

    path: bytes
    sends: bool
    octets: int
    size: int | None
    seconds: float


#: Called in the thread of the session; must return at once.
OnFile = Callable[[FileMoved], None]
OnProgress = Callable[[FileUnderWay], None]
#: Called with the octets of the running transfer so far, and all that it moves (None: unknown).
TellOctets = Callable[[int, Optional[int]], None]


def tell_nobody(octets: int, size: int | None) -> None:
    """`TellOctets` of a transfer that nobody watches."""
