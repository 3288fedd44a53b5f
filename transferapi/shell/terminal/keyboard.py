"""The terminal of the user, as the ssh server offers it, and its keys.

Keys are those that were typed ahead while a command ran, and those that arrive.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

from transferapi.shell.context import Signal
from transferapi.shell.errors import InterruptedByUserError
from transferapi.shell.words import MAX_LINE

from .keys import KeyReader, TerminalKey, Text


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


#: After the end of input, how often the connection is looked at.
_LOOK_SECONDS = 0.25


class Keyboard:
    """At most MAX_LINE characters and keys are kept. More are dropped, all of them: no part of a line may be run."""

    def __init__(self, channel: TerminalChannel) -> None:
        self._channel = channel
        self._reader = KeyReader()
        self._keys: deque[TerminalKey | Text] = deque()
        self._size = 0
        #: The client sends nothing more.
        self.ended = False
        #: All is dropped but CTRL-C, until somebody has reported it and resets this.
        self.dropped = False

    @property
    def waiting(self) -> bool:
        """Whether a key can be taken at once."""
        return bool(self._keys)

    def next(self) -> TerminalKey | Text | None:
        """The next key. None: none is complete, or the window has another size. Raises EOFError, DisconnectedError."""
        if not self._keys:
            if self.ended:
                raise EOFError
            data = self._channel.read(None)
            if data is None:
                return None
            self._add(data)
        if not self._keys:
            return None
        key = self._keys.popleft()
        self._size -= _size(key)
        return key

    def watch(self, seconds: float) -> Signal | None:
        """Wait while a command runs. CTRL-C takes all that was typed before it away; other lines stay for the prompt.

        CTRL-Z is the same as the line `bg`.

        Raises DisconnectedError.
        """
        deadline = time.monotonic() + seconds
        while (signal := self._signal()) is None and (left := deadline - time.monotonic()) > 0:
            if self.ended:
                time.sleep(min(left, _LOOK_SECONDS))
                self._channel.write(b"")
            elif (data := self._channel.read(left)) is not None:
                self._add(data)
        return signal

    def check(self) -> None:
        """Raises InterruptedByUserError where CTRL-C has arrived."""
        if not self.ended and (data := self._channel.read(0)) is not None:
            self._add(data)
        if self._interrupted():
            raise InterruptedByUserError

    def _signal(self) -> Signal | None:
        if self._interrupted():
            return Signal.INTERRUPT
        if self._suspended():
            # As if it had been typed: there is no job that a shell could stop, and the task goes on.
            self._channel.write(b" bg")
            return Signal.BACKGROUND
        return Signal.BACKGROUND if self._took_background() else None

    def _suspended(self) -> bool:
        """Whether CTRL-Z was typed; it is taken away with all that was typed before."""
        if TerminalKey.SUSPEND not in self._keys:
            return False
        while self._keys.popleft() is not TerminalKey.SUSPEND:
            pass
        self._size = sum(map(_size, self._keys))
        return True

    def _interrupted(self) -> bool:
        if TerminalKey.INTERRUPT not in self._keys:
            return False
        while self._keys.popleft() is not TerminalKey.INTERRUPT:
            pass
        self._size = sum(map(_size, self._keys))
        return True

    def _took_background(self) -> bool:
        """Whether the first line that was typed ahead is `bg`; it is taken away."""
        if TerminalKey.ENTER not in self._keys:
            return False
        first = self._keys.index(TerminalKey.ENTER)
        if _typed(list(self._keys)[:first]).strip() != "bg":
            return False
        for _ in range(first + 1):
            self._size -= _size(self._keys.popleft())
        return True

    def _add(self, data: bytes) -> None:
        if not data:
            self.ended = True
        for key in self._reader.feed(data):
            if key is TerminalKey.INTERRUPT or not self.dropped:
                self._keys.append(key)
                self._size += _size(key)
        if self._size > MAX_LINE:
            interrupted = TerminalKey.INTERRUPT in self._keys
            self._keys = deque([TerminalKey.INTERRUPT] if interrupted else [])
            self._size, self.dropped = len(self._keys), True


def _size(key: TerminalKey | Text) -> int:
    return len(key.text) if isinstance(key, Text) else 1


def _typed(keys: list[TerminalKey | Text]) -> str:
    text = ""
    for key in keys:
        if isinstance(key, Text):
            text += key.text
        elif key is TerminalKey.BACKSPACE:
            text = text[:-1]
    return text
