"""The one session to each side that a slice keeps for requests about single files and folders."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from itertools import takewhile
from typing import TypeVar

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side

from .bounds import DEFAULT, EngineBounds, ListingCounter, Memory
from .ports import Session, SessionFactory
from .trace import NO_TRACE, Trace

T = TypeVar("T")
#: Seconds without any answer after which a server counts as silent. Its requests are waited for all the same.
QUIET = 15.0

#: Paths whose facts are requested at once, and connections that may be lost meanwhile.
PARALLEL_FACTS = 500
TRIES = 3


class UnreachableError(FaultError):
    """No session could be opened: this says nothing about the requested file."""


class ControlSessions:
    """Opens a session when it is first needed, shares it between all callers, and replaces it after a loss.

    memory: for folders that were listed here and wait to be processed. reached: awaited after a session of this side
    was opened. trace: gets a step for each that is opened.
    """

    def __init__(
        self,
        sessions: SessionFactory,
        bounds: EngineBounds = DEFAULT,
        reached: Callable[[Side], Awaitable[None]] | None = None,
        trace: Trace = NO_TRACE,
    ) -> None:
        self._factory = sessions
        self._listing_counter = ListingCounter(bounds)
        self.memory = Memory(bounds.memory)
        self._reached = reached
        self._trace = trace
        #: Called after a session was opened.
        self.on_open: Callable[[], None] = lambda: None
        self._open: dict[Side, Session] = {}
        self._opening: dict[Side, asyncio.Task[Session]] = {}
        self._closed = False
        #: Called when a server is silent, and when it answers after that.
        self.on_silence: Callable[[Side], None] = lambda side: None
        self.on_answer: Callable[[Side], None] = lambda side: None
        self._unanswered: Counter[Side] = Counter()
        self._silence: dict[Side, asyncio.TimerHandle] = {}
        self._silent: set[Side] = set()

    def open_ahead(self, side: Side) -> None:
        """Open the session of this side before it is needed; an error shows at its first use."""
        if side not in self._open and side not in self._opening and not self._closed:
            self._begin(side)

    async def session(self, side: Side) -> Session:
        """The session of this side, for its properties; `ask` sends requests. Raises UnreachableError."""
        if self._closed:
            raise asyncio.CancelledError("the slice has ended")
        session = self._open.get(side)
        if session:
            return session
        # All callers share one attempt: an endpoint that is down is connected to once, not by each in turn.
        return await asyncio.shield(self._opening.get(side) or self._begin(side))

    async def ask(self, side: Side, what: Callable[[Session], Awaitable[T]]) -> T:
        """Send a request to this side. Raises FaultError; UnreachableError when no session can be opened."""
        session = await self.session(side)
        try:
            with self._waiting_for(side):
                return await what(session)
        except FaultError as error:
            await self._drop_if_lost(side, session, error)
            raise

    async def stat(self, side: Side, path: str) -> Entry:
        """`Session.stat` on this side, with the errors of `ask`."""
        return await self.ask(side, lambda session: session.stat(path))

    async def facts(self, side: Side, paths: Sequence[str]) -> Sequence[Entry | Fault]:
        """The facts, or the fault, of each path, in parallel; after a lost connection the rest is asked again.

        Raises UnreachableError where no session can be opened, or connections are lost again and again.
        """
        answers: list[Entry | Fault] = []
        lost = 0
        while len(answers) < len(paths):
            window = paths[len(answers) : len(answers) + PARALLEL_FACTS]
            found = await asyncio.gather(*(self._facts(side, path) for path in window))
            whole = list(takewhile(_is_answer, found))
            answers += whole
            if len(whole) < len(found):
                lost += 1
                if lost >= TRIES:
                    fault = found[len(whole)]
                    assert isinstance(fault, Fault)
                    raise UnreachableError(fault)
        return answers

    async def _facts(self, side: Side, path: str) -> Entry | Fault:
        return await self.answer(side, lambda session: session.stat(path))

    async def answer(self, side: Side, what: Callable[[Session], Awaitable[T]]) -> T | Fault:
        """As `ask`, with the fault of the request as a result. Raises UnreachableError."""
        try:
            return await self.ask(side, what)
        except UnreachableError:
            raise
        except FaultError as error:
            return error.fault

    async def listing(self, side: Side, path: str) -> AsyncGenerator[Sequence[Entry], None]:
        """`Session.listing` on this side, with the errors of `ask`, and TooMuchError for an endless listing."""
        session = await self.session(side)
        seen = 0
        batches = session.listing(path)
        try:
            while True:
                with self._waiting_for(side):
                    entries = await anext(batches, None)
                if entries is None:
                    break
                seen = self._listing_counter.check(path, seen, entries)
                yield entries
        except FaultError as error:
            await self._drop_if_lost(side, session, error)
            raise
        finally:
            await batches.aclose()

    async def close(self) -> None:
        """Give all sessions back, and open no other: a request that comes now is canceled."""
        self._closed = True
        for timer in self._silence.values():
            timer.cancel()
        self.memory.close()
        await self.put_away()

    async def put_away(self) -> None:
        """Give all sessions back until the next request."""
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        try:
            await asyncio.gather(*opening, return_exceptions=True)
        finally:
            sessions, self._open = list(self._open.values()), {}
            async with AsyncExitStack() as left:
                for session in sessions:
                    left.push_async_callback(self._factory.give_back, session)

    def _begin(self, side: Side) -> asyncio.Task[Session]:
        opening = self._opening[side] = asyncio.create_task(self._open_one(side))
        # The callers may have been canceled meanwhile.
        opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        return opening

    async def _open_one(self, side: Side) -> Session:
        try:
            with self._trace.step("session", side.value):
                session = self._open[side] = await self._factory.session(side)
            self.on_open()
            if self._reached:
                await self._reached(side)
        except FaultError as error:
            raise UnreachableError(error.fault) from None
        finally:
            del self._opening[side]
        return session

    @contextmanager
    def _waiting_for(self, side: Side) -> Iterator[None]:
        """Notice where no request to this side is answered for QUIET seconds."""
        self._unanswered[side] += 1
        if side not in self._silence:
            self._watch(side)
        try:
            yield
            answered = True
        except FaultError as error:
            answered = error.fault.scope is FaultScope.FILE
            raise
        except BaseException:
            answered = False
            raise
        finally:
            self._unanswered[side] -= 1
            self._no_longer_waiting(side, answered=answered)

    def _watch(self, side: Side) -> None:
        def silent() -> None:
            self._silent.add(side)
            self.on_silence(side)

        if not self._closed:
            self._silence[side] = asyncio.get_running_loop().call_later(QUIET, silent)

    def _no_longer_waiting(self, side: Side, *, answered: bool) -> None:
        if timer := self._silence.pop(side, None):
            timer.cancel()
        if self._unanswered[side]:
            self._watch(side)
        was_silent = side in self._silent
        self._silent.discard(side)
        if was_silent and answered and not self._closed:
            self.on_answer(side)

    async def _drop_if_lost(self, side: Side, session: Session, error: FaultError) -> None:
        """Drop a session whose connection failed. The factory knows whether it can be kept."""
        if error.fault.scope is not FaultScope.FILE and self._open.get(side) is session:
            del self._open[side]
            await self._factory.give_back(session)


def is_missing(answer: Entry | Fault | None) -> bool:
    """Whether a server has answered that there is no such entry. None is no answer."""
    return isinstance(answer, Fault) and answer.kind is Kind.FILE_NOT_FOUND


def _is_answer(found: Entry | Fault) -> bool:
    """Whether the server has answered, be it with a refusal."""
    return isinstance(found, Entry) or found.scope is FaultScope.FILE
