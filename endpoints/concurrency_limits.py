"""Limits on requests that wait for users' servers, and on the memory of their listings.

Such a request holds a thread of the web server until it is answered, and a process has eight threads
(deploy/web/gunicorn_conf.py). The counters are per process. A user who names servers that hang blocks only their own
requests; all such requests together leave some threads, and most of the memory and time of the process, to others.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from typing import NamedTuple, Self

from .errors import TooManyWaitingError


class ConcurrencyLimit(NamedTuple):
    """A limit on concurrent requests, or on octets: for one user, and for all users together."""

    per_user: int
    total: int


#: Credentials are entered by hand; operations may come from programs in parallel.
ACTIVATIONS = ConcurrencyLimit(2, 4)
#: Sign-ins at servers that may be slow, of one network in place of one user: anybody can begin them.
SIGN_INS = ConcurrencyLimit(2, 4)
OPERATIONS = ConcurrencyLimit(4, 6)
#: Files that are read or written for clients. Each has a slot of OPERATIONS too, and leaves some for listings.
FILES = ConcurrencyLimit(2, 3)
#: Bodies of requests that are read while they arrive; milliseconds, where a server in front has kept the body.
BODIES = ConcurrencyLimit(3, 5)
#: Octets of memory: 100,000 names of 255 octets need less than `per_user`. A process has 400 MB.
MEMORY = ConcurrencyLimit(100 * 10**6, 160 * 10**6)
#: Seconds that a listing sleeps at most after a portion of its work.
MAX_PAUSE = 0.02

#: Re-entrant: the garbage collector may run `__del__` of a slot while this thread holds the lock.
_lock = threading.RLock()
_waiting: Counter[uuid.UUID] = Counter()
_files: Counter[uuid.UUID] = Counter()
_bodies: Counter[uuid.UUID] = Counter()
_reserved: Counter[uuid.UUID] = Counter()


class CpuLock:
    """A lock for CPU-bound work such as formatting a listing, taken for some milliseconds at a time: all such work
    together occupies one thread of the interpreter.

    If others wait for the lock, its holder sleeps as long as it has worked: the work takes half of a core at most.
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
            time.sleep(min(MAX_PAUSE, time.monotonic() - self._since))
        self._lock.release()


cpu_lock = CpuLock()


class RequestSlot:
    """The slot of one waiting request, taken when it is created, for a `with` block or until `leave`.

    `leave` releases the slot and its memory.
    """

    def __init__(self, user_id: uuid.UUID, limit: ConcurrencyLimit) -> None:
        """Raises TooManyWaitingError at once when no slot is free."""
        self._user_id = user_id
        self._counter = _files if limit is FILES else _bodies if limit is BODIES else _waiting
        self.reserved = 0
        self._taken = False
        with _lock:
            _take(self._counter, user_id, 1, limit)
            self._taken = True

    def reserve(self, octets: int) -> None:
        """Count memory for this request. Raises TooManyWaitingError when all requests together hold too much."""
        with _lock:
            _take(_reserved, self._user_id, octets, MEMORY)
            self.reserved += octets

    def leave(self) -> None:
        """May be called repeatedly."""
        with _lock:
            if self._taken:
                self._taken = False
                _release(self._counter, self._user_id, 1)
                _release(_reserved, self._user_id, self.reserved)

    def __del__(self) -> None:
        """Release the slot of a response that was never started, so that nobody closed it."""
        self.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def _take(counter: Counter[uuid.UUID], user_id: uuid.UUID, number: int, limit: ConcurrencyLimit) -> None:
    if counter[user_id] + number > limit.per_user or counter.total() + number > limit.total:
        raise TooManyWaitingError
    counter[user_id] += number


def _release(counter: Counter[uuid.UUID], user_id: uuid.UUID, number: int) -> None:
    counter[user_id] -= number
    if not counter[user_id]:
        del counter[user_id]
