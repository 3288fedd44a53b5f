"""The input of one channel: octets that have arrived and that nobody has read, signals, and the end."""

from __future__ import annotations

import threading
import time

from transferapi.shell.context import Signal
from transferapi.shell.errors import DisconnectedError, InterruptedByUserError, UsageError
from transferapi.shell.words import MAX_LINE


class ChannelInput:
    """One thread feeds it, and one reads. Octets that are held are bounded by the window of the channel."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._data = bytearray()
        #: Where the search for a line end goes on.
        self._searched = 0
        self._ended = self._closed = self._resized = False
        self._signal: Signal | None = None

    # ---- for the thread of the connection

    def feed(self, data: bytes) -> None:
        with self._changed:
            self._data += data
            self._changed.notify_all()

    def end(self) -> None:
        """The client sends nothing more, but reads."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._data.clear()
            self._changed.notify_all()

    def resize(self) -> None:
        with self._changed:
            self._resized = True
            self._changed.notify_all()

    def signal(self, signal: Signal) -> None:
        with self._changed:
            self._signal = signal
            self._changed.notify_all()

    # ---- for the thread of the command

    def read(self, timeout: float | None) -> bytes | None:
        """All that is there, as soon as there is any; b"" at the end. None: the time is over, or the window changed.

        Raises DisconnectedError.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._data or self._ended or self._closed or self._resized, timeout)
            self._check()
            if self._data:
                data = bytes(self._data)
                self._data.clear()
                self._searched = 0
                return data
            self._resized = False
            return b"" if self._ended else None

    def line(self) -> tuple[bytes | None, int]:
        """The next line without its end, or None at the end of the input; and the octets that it took.

        Raises UsageError for a line of more than MAX_LINE octets (see `skip`), InterruptedByUserError and
        DisconnectedError.
        """
        with self._changed:
            self._check_signal()
            while (end := self._data.find(b"\n", self._searched)) < 0:
                self._check()
                if len(self._data) > MAX_LINE:
                    raise UsageError(f"a line is longer than {MAX_LINE} octets")
                self._searched = len(self._data)
                if self._ended:
                    return self._take_rest()
                self._changed.wait()
                self._check_signal()
            if end > MAX_LINE:
                raise UsageError(f"a line is longer than {MAX_LINE} octets")
            return self._take(end, end + 1)

    def skip(self) -> tuple[bool, int]:
        """Drop what has arrived of a line that is too long: whether its end was there; and the octets dropped."""
        with self._changed:
            self._changed.wait_for(lambda: self._data or self._ended or self._closed)
            self._check()
            end = self._data.find(b"\n")
            taken = len(self._data) if end < 0 else end + 1
            del self._data[:taken]
            self._searched = 0
            return end >= 0 or (self._ended and not self._data), taken

    def wait(self, seconds: float, word: bytes | None = None) -> Signal | None:
        """Wait; a signal ends the wait, and so does a line that is `word` (the signal is then BACKGROUND)."""
        until = time.monotonic() + seconds
        with self._changed:
            while True:
                if self._closed:
                    return Signal.DISCONNECTED
                if self._signal is not None:
                    signal, self._signal = self._signal, None
                    return signal
                if word is not None and self._has_line(word):
                    return Signal.BACKGROUND
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)

    def interrupted(self) -> bool:
        """Whether the user has interrupted the command. The interruption is taken."""
        with self._changed:
            if self._signal is not Signal.INTERRUPT:
                return False
            self._signal = None
            return True

    def _check(self) -> None:
        if self._closed:
            raise DisconnectedError

    def _check_signal(self) -> None:
        signal, self._signal = self._signal, None
        if signal is Signal.INTERRUPT:
            raise InterruptedByUserError
        if signal is Signal.DISCONNECTED:
            raise DisconnectedError

    def _has_line(self, word: bytes) -> bool:
        line, found, _ = self._data.partition(b"\n")
        if not found or line.strip() != word:
            return False
        del self._data[: len(line) + 1]
        return True

    def _take_rest(self) -> tuple[bytes | None, int]:
        return self._take(len(self._data), len(self._data)) if self._data else (None, 0)

    def _take(self, end: int, taken: int) -> tuple[bytes, int]:
        line = bytes(self._data[:end]).removesuffix(b"\r")
        del self._data[:taken]
        self._searched = 0
        return line, taken
