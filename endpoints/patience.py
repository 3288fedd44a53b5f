"""How many requests may wait at once for servers that somebody has named, and how much memory their listings may take.

Each holds a thread of the web server until it has been answered. Counted in each process, which has eight threads
(deploy/stack/gunicorn_conf.py). Whoever names servers that hang gets stuck himself; all of them together leave some
threads, and the most of the memory and of the time of the process, to who asks for nothing of the kind.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from types import TracebackType
from typing import NamedTuple, Self

from .errors import TooManyWaitingError


class Share(NamedTuple):
    """Requests that may wait at once, or octets: of one user, and of all users, whatever they wait for."""

    of_one: int
    of_all: int


#: For what people do by hand, and for what programs do side by side.
ACTIVATIONS = Share(2, 4)
OPERATIONS = Share(4, 6)
#: Octets of memory: 100,000 names of 255 octets are below the share of one. A process has 400 MB.
MEMORY = Share(100 * 10**6, 160 * 10**6)
#: Seconds.
LONGEST_REST = 0.02

#: Re-entrant: what is forgotten may be given back at any moment, by the collector of garbage.
_lock = threading.RLock()
_waiting: Counter[uuid.UUID] = Counter()
_held: Counter[uuid.UUID] = Counter()


class Turn:
    """Work that takes the interpreter for long, as the rows of a listing do, is done in portions of some milliseconds,
    each with this held: all who are busy so count for one thread to those who are not.

    Where others wait for their turn, who has worked rests as long: so they take half of a core at most.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._since = 0.0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            with _lock:
                self._waiting += 1
            self._lock.acquire()
            with _lock:
                self._waiting -= 1
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        if self._waiting:
            time.sleep(min(LONGEST_REST, time.monotonic() - self._since))
        self._lock.release()


turn = Turn()


class Seat:
    """A request among those that wait, from its making until it is left. What it holds it gives back then."""

    def __init__(self, user_id: uuid.UUID, share: Share) -> None:
        """-> TooManyWaitingError, at once"""
        self._user_id = user_id
        self.held = 0
        self._taken = False
        with _lock:
            _take(_waiting, user_id, 1, share)
            self._taken = True

    def hold(self, octets: int) -> None:
        """Count memory for it. -> TooManyWaitingError where all requests together hold too much"""
        with _lock:
            _take(_held, self._user_id, octets, MEMORY)
            self.held += octets

    def leave(self) -> None:
        """Once more does no harm."""
        with _lock:
            if self._taken:
                self._taken = False
                _give_back(_waiting, self._user_id, 1)
                _give_back(_held, self._user_id, self.held)

    def __del__(self) -> None:
        """An answer that nobody closed was never begun."""
        self.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()


def waiting(user_id: uuid.UUID, share: Share) -> Seat:
    """For a block, or until `leave`. -> TooManyWaitingError, at once"""
    return Seat(user_id, share)


def _take(counter: Counter[uuid.UUID], user_id: uuid.UUID, number: int, share: Share) -> None:
    if counter[user_id] + number > share.of_one or counter.total() + number > share.of_all:
        raise TooManyWaitingError
    counter[user_id] += number


def _give_back(counter: Counter[uuid.UUID], user_id: uuid.UUID, number: int) -> None:
    counter[user_id] -= number
    if not counter[user_id]:
        del counter[user_id]
