"""How many requests may wait at once for servers that somebody has named: each holds a thread of the web server.

Counted in each process, which has eight threads (deploy/stack/gunicorn_conf.py). Whoever names servers that hang gets
stuck himself; all of them together leave some threads to who asks for nothing of the kind.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .errors import TooManyWaitingError


class Share(NamedTuple):
    """Requests that may wait at once: of one user, and of all users, whatever they wait for."""

    of_one: int
    of_all: int


#: For what people do by hand, and for what programs do side by side.
ACTIVATIONS = Share(2, 4)
OPERATIONS = Share(4, 6)

_lock = threading.Lock()
_waiting: Counter[uuid.UUID] = Counter()


@contextmanager
def waiting(user_id: uuid.UUID, share: Share) -> Iterator[None]:
    """-> TooManyWaitingError, at once"""
    with _lock:
        if _waiting[user_id] >= share.of_one or _waiting.total() >= share.of_all:
            raise TooManyWaitingError
        _waiting[user_id] += 1
    try:
        yield
    finally:
        with _lock:
            _waiting[user_id] -= 1
            if not _waiting[user_id]:
                del _waiting[user_id]
