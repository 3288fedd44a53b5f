"""How many requests may wait at once for servers that somebody has named: each holds a thread of the web server.

Counted in each process. Whoever names servers that hang gets stuck himself; all of them together leave half of the
threads to others.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import TooManyWaitingError

#: Requests of one user, and of all; a process has eight threads (deploy/stack/gunicorn_conf.py).
MAX_OF_ONE = 2
MAX_OF_ALL = 4

_lock = threading.Lock()
_waiting: Counter[uuid.UUID] = Counter()


@contextmanager
def waiting(user_id: uuid.UUID) -> Iterator[None]:
    """-> TooManyWaitingError, at once"""
    with _lock:
        if _waiting[user_id] >= MAX_OF_ONE or _waiting.total() >= MAX_OF_ALL:
            raise TooManyWaitingError
        _waiting[user_id] += 1
    try:
        yield
    finally:
        with _lock:
            _waiting[user_id] -= 1
            if not _waiting[user_id]:
                del _waiting[user_id]
