"""The one session to each side that a slice keeps for looking and for small changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Scope, Side

from .bounds import DEFAULT, Bounds, Listed, Memory
from .ports import Session, SessionFactory

T = TypeVar("T")


class UnreachableError(FaultError):
    """No session could be opened: this says nothing of the thing that was asked for."""


class Desk:
    """Sessions are opened when first needed, shared by all who ask at once, and opened anew once they are lost.

    memory: for folders that were seen here and wait for their turn.
    """

    def __init__(
        self,
        sessions: SessionFactory,
        bounds: Bounds = DEFAULT,
        reached: Callable[[Side], Awaitable[None]] | None = None,
    ) -> None:
        self._factory = sessions
        self._listed = Listed(bounds)
        self.memory = Memory(bounds.memory)
        #: Awaited when a session of this side was opened.
        self._reached = reached
        #: Told when a session was opened.
        self.on_open: Callable[[], None] = lambda: None
        self._open: dict[Side, Session] = {}
        self._opening: dict[Side, asyncio.Task[Session]] = {}

    def open_ahead(self, side: Side) -> None:
        """Open the session of this side, that will be asked for soon; what goes wrong shows then."""
        if side not in self._open and side not in self._opening:
            opening = self._opening[side] = asyncio.create_task(self._open_one(side))
            opening.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def ask(self, side: Side, what: Callable[[Session], Awaitable[T]]) -> T:
        """Ask the session of this side. Raises FaultError; UnreachableError when there is no session to ask."""
        session = await self._session(side)
        try:
            return await what(session)
        except FaultError as error:
            await self._drop_if_lost(side, session, error)
            raise

    async def listing(self, side: Side, path: str) -> AsyncIterator[Sequence[Entry]]:
        """`Session.listing` on the session of this side, with the errors of `ask`; TooMuchError where it has no end."""
        session = await self._session(side)
        seen = 0
        try:
            async for entries in session.listing(path):
                seen = self._listed.check(path, seen, entries)
                yield entries
        except FaultError as error:
            await self._drop_if_lost(side, session, error)
            raise

    async def close(self) -> None:
        """Give all sessions back."""
        self.memory.close()
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        sessions = list(self._open.values())
        self._open.clear()
        for session in sessions:
            await self._factory.give_back(session)

    async def _session(self, side: Side) -> Session:
        session = self._open.get(side)
        if session:
            return session
        opening = self._opening.get(side)
        if opening is None:
            opening = self._opening[side] = asyncio.create_task(self._open_one(side))
        # Shared by all who wait: where a host is down, it is asked once, not by each of them in turn.
        return await asyncio.shield(opening)

    async def _open_one(self, side: Side) -> Session:
        try:
            session = self._open[side] = await self._factory.session(side)
            self.on_open()
            if self._reached:
                await self._reached(side)
        except FaultError as error:
            raise UnreachableError(error.fault) from None
        finally:
            del self._opening[side]
        return session

    async def _drop_if_lost(self, side: Side, session: Session, error: FaultError) -> None:
        """After a fault of the connection the factory, which can tell, keeps or ends it."""
        if error.fault.scope is not Scope.FILE and self._open.get(side) is session:
            del self._open[side]
            await self._factory.give_back(session)
