"""The terminal of the user, as the ssh server offers it to this package."""

from __future__ import annotations

from typing import Protocol


class TerminalChannel(Protocol):
    """Octets from and to a terminal, which the client has set to raw mode.

    Each method raises DisconnectedError where the connection has ended.
    """

    #: The name of the terminal that the client gave; "" where it gave none.
    term: str

    def read(self, timeout: float | None) -> bytes | None:
        """Some octets, as soon as there are any; b"" where the client sends nothing more, but may still read.

        None: `timeout` seconds are over, or the window has another size. The time None has no end.
        """

    def write(self, data: bytes) -> None:
        """Send all of `data`; wait while the client does not read."""

    def size(self) -> tuple[int, int]:
        """Columns and rows of the window; 0 where the client gave none."""
