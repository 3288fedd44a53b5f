"""Ended spans wait here for a thread that sends them: the work that they describe never waits.

The queue is bounded, and what does not fit is dropped and counted. While the collector is away one batch is tried
again, with growing pauses; the begin and the end of that are one line of the log each, as of all outages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Generic, TypeVar

log = logging.getLogger("waybill.outages")
T = TypeVar("T")

#: Spans that wait at most (about 1 kB each), and spans of one message.
MOST, BATCH = 2048, 256
#: Seconds that spans wait for others, and pauses after a failure.
GATHER, FIRST_PAUSE, LONGEST_PAUSE = 1.0, 1.0, 30.0


class Sent(Enum):
    """ACCEPTED; REFUSED: these spans never will be; AWAY: try again."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    AWAY = "away"


class SpanQueue(Generic[T]):
    """send: sends a batch in bounded time. The thread starts with the first span, so never before a fork."""

    def __init__(self, send: Callable[[Sequence[T]], Sent], most: int = MOST) -> None:
        self._send, self._most = send, most
        self._changed = threading.Condition()
        self._waiting: deque[T] = deque()
        self._thread: threading.Thread | None = None
        self._stop_at: float | None = None
        #: Since the last `take_counts`.
        self._exported = self._dropped = 0
        self._away_since: float | None = None
        self._lost_meanwhile = 0

    def add(self, span: T) -> None:
        """Never waits for the collector, and raises nothing."""
        with self._changed:
            is_full = len(self._waiting) >= self._most or self._stop_at is not None
            if is_full:
                self._drop(1)
        if is_full:
            # Also where the collector takes the message octet by octet, so that no attempt has failed.
            self._is_away()
            return
        with self._changed:
            self._waiting.append(span)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
                self._thread.start()
            if len(self._waiting) == 1 or len(self._waiting) >= BATCH:
                self._changed.notify()

    def take_counts(self) -> tuple[int, int]:
        """Spans that were exported, and dropped, since the last call."""
        with self._changed:
            counts = self._exported, self._dropped
            self._exported = self._dropped = 0
            return counts

    def stop(self, seconds: float) -> None:
        """Send what waits, for at most so long; what is left then is lost."""
        with self._changed:
            thread = self._thread
            self._stop_at = time.monotonic() + seconds
            self._changed.notify()
        if thread is not None:
            thread.join(seconds)

    # ---- the thread

    def _run(self) -> None:
        while batch := self._next():
            self._deliver(batch)

    def _next(self) -> list[T]:
        """The next spans, as soon as there are many or the first ones have waited; none: the end."""
        with self._changed:
            while not self._waiting and self._stop_at is None:
                self._changed.wait()
            if self._stop_at is None and len(self._waiting) < BATCH:
                self._changed.wait(GATHER)
            if self._stop_at is not None and time.monotonic() > self._stop_at:
                return []
            return [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]

    def _deliver(self, batch: Sequence[T]) -> None:
        pause = FIRST_PAUSE
        while True:
            sent = self._send(batch)
            if sent is not Sent.AWAY:
                self._is_back()
                self._count(len(batch), accepted=sent is Sent.ACCEPTED)
                return
            self._is_away()
            if not self._wait(pause):
                # The process ends, and the collector has been asked once more than needed.
                self._count(len(batch), accepted=False)
                return
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _wait(self, seconds: float) -> bool:
        """False: the queue has been stopped."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._stop_at is None and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return self._stop_at is None

    def _count(self, number: int, *, accepted: bool) -> None:
        with self._changed:
            if accepted:
                self._exported += number
            else:
                self._drop(number)

    def _drop(self, number: int) -> None:
        self._dropped += number
        if self._away_since is not None:
            self._lost_meanwhile += number

    def _is_away(self) -> None:
        with self._changed:
            begins = self._away_since is None
            if begins:
                self._away_since, self._lost_meanwhile = time.monotonic(), 0
        if begins:
            log.warning("the collector of traces does not take them: spans wait, and are dropped when there are many")

    def _is_back(self) -> None:
        with self._changed:
            since, lost = self._away_since, self._lost_meanwhile
            self._away_since = None
        if since is not None:
            seconds = time.monotonic() - since
            log.warning("the collector of traces takes them again after %.1f s; spans dropped: %d", seconds, lost)
