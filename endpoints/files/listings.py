"""Lists a folder for a client that takes the entries while the server sends them.

Raises the errors of `operations.list_directory`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack

from django.conf import settings

from endpoints import concurrency_limits, operations
from endpoints.gridftp.facts import Entry
from endpoints.listing_limits import ListingAllowance
from identity.models import User

from .sessions import Closable, FileSession


class ListingStream(Closable):
    """A folder whose entries come in batches of some hundreds, in the order of the server.

    `folder`: its facts, without entries. A slow client slows the server down: little is in memory. `close` must be
    called, also before the end.
    """

    def __init__(self, user: User, ref: str, path: str | None) -> None:
        """The first batch is read here, so that a refusal is raised here too."""
        folder = operations.folder_of(user, ref, path)
        self._asked = (user, folder)
        #: Seconds that the endpoint may still take; those of the client do not count.
        self._left = float(settings.OPERATION_SECONDS)
        with ExitStack() as opened:
            limits = (concurrency_limits.OPERATIONS,)
            session = FileSession(user, folder.granted, folder.path, write=False, limits=limits)
            opened.callback(session.close)
            self._session = session
            self._allowance = ListingAllowance(session.slot, only_links=True, partial=True)
            self._batches = operations.batches(
                session.session, folder, session.confinement, session.path, self._allowance
            )
            opened.callback(lambda: session.run(self._batches.aclose()))
            self.folder = operations.described(session.session, folder, session.path)
            self._first = self._next()
            self._opened = opened.pop_all()

    def __iter__(self) -> Iterator[Sequence[Entry]]:
        """Raises FaultError where the endpoint fails half-way, takes too long, or has too many entries."""
        batch = self._first
        while batch:
            yield batch
            batch = self._next()

    @property
    def incomplete(self) -> str:
        """After the last batch: why entries are missing; "" where there are none."""
        user, folder = self._asked
        return folder.incomplete(user, self._allowance)

    def __del__(self) -> None:
        """Release the slot of an answer that was never started, so that nobody closed it."""
        if hasattr(self, "_opened"):
            self.close()

    def _next(self) -> Sequence[Entry]:
        """The next batch; an empty one at the end."""
        begun = time.monotonic()
        batch = self._session.run(_next_of(self._batches), max(0.001, self._left))
        self._left -= time.monotonic() - begun
        return batch


async def _next_of(batches: AsyncIterator[Sequence[Entry]]) -> Sequence[Entry]:
    try:
        return await anext(batches)
    except StopAsyncIteration:
        return ()
