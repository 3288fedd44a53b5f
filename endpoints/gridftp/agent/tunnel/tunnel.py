"""The agent's tunnel: it is kept, and made again whenever it is lost.

A laptop sleeps and changes its network without a word to its connections. The relay pings each 1.5 s, so that silence
of 4 s means a dead connection. Earlier signs (the clocks disagree after a sleep, the address towards the service is
another one) lead to a ping that must be answered within a second and a half.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import random
import socket
import time
from collections.abc import Callable
from typing import Any

from .agent_end import WELCOME_SECONDS, AgentEnd, AgentFacts, TunnelEndedError, TunnelState, connect_end
from .connection import DEAD_SECONDS, PING_SECONDS
from .service import ServiceAddress
from .sign_in import Refused, SigningIdentity

#: Seconds for the loop to open a data channel, which waits for nobody.
OPEN_SECONDS = 10.0
#: Seconds for the other end to close the connections too.
CLOSE_SECONDS = 2.0
#: Seconds before the first new attempt, at random up to this; and at most between later attempts.
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 10.0
#: Seconds of a tunnel after which it counts as having worked.
WORKED_SECONDS = 5.0
#: Seconds by which two clocks differ where that is a sign of trouble.
CLOCKS_DIFFER = 2.0
#: Seconds before the next attempt where another program is connected with the same key.
CLONED_PAUSE = 30.0


class TunnelRefusedError(Exception):
    """The service does not want this agent, and a person must act. code: of `Refused`."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class Tunnel:
    """Keeps one tunnel to the relay of a service.

    on_control: gets one end of a connected pair of sockets for each control connection; must return at once.
    on_status: gets "connecting", "connected", or a reason such as "away: ..."; the word before the colon is "away" or
    a code of `Refused`. Both are called in the thread of `run`.
    """

    def __init__(
        self,
        service: ServiceAddress,
        identity: SigningIdentity,
        on_control: Callable[[socket.socket], None],
        on_status: Callable[[str], None] = lambda status: None,
        facts: AgentFacts = AgentFacts(),  # noqa: B008 - immutable
    ) -> None:
        self._service, self._identity, self._facts = service, identity, facts
        self._on_control, self._on_status = on_control, on_status
        self._state = TunnelState()
        #: Made by `run`, or the one on which `keep` runs.
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Made on the loop: before Python 3.10 an event belongs to the loop on which it was made.
        self._stopping: asyncio.Event | None = None
        self._stop_asked = False
        self._end: AgentEnd | None = None

    # ---- for any thread

    def run(self) -> None:
        """Keep the tunnel until `stop`; to be called once. Raises TunnelRefusedError."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self.keep())
        finally:
            loop.run_until_complete(_end_tasks())
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()

    def stop(self) -> None:
        """End the tunnel, and make `run` return."""
        self._stop_asked = True
        self._call(self._wake)

    def pause(self, paused: bool) -> None:
        """Report to the service that the user has paused the agent, or not any more."""
        self._state.paused = paused
        self._call(self._tell_paused)

    def open_data(self, token: str) -> socket.socket:
        """A relayed data channel, at once: octets wait in it until its other end is there.

        Where that does not come within half a minute the channel ends. Raises OSError.
        """
        if self._loop is None:
            raise ConnectionError("the tunnel has not begun")
        try:
            opening = asyncio.run_coroutine_threadsafe(self._open_data(token), self._loop)
        except RuntimeError:  # the loop is closed
            raise ConnectionError("the tunnel has been stopped") from None
        try:
            return opening.result(OPEN_SECONDS)
        except concurrent.futures.TimeoutError:
            opening.cancel()
            raise TimeoutError("the tunnel is stuck") from None

    # ---- on the loop

    async def _open_data(self, token: str) -> socket.socket:
        if self._end is None:
            raise ConnectionError("the service is not connected")
        return await self._end.open_data(token)

    def _call(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            if self._loop is not None:
                self._loop.call_soon_threadsafe(what)

    def _wake(self) -> None:
        if self._stopping is not None:
            self._stopping.set()

    def _tell_paused(self) -> None:
        if self._end is not None and self._end.signed_in:
            self._end.send_document({"paused": self._state.paused})

    async def keep(self) -> None:
        """`run` on the running event loop, where a program has one. Raises TunnelRefusedError."""
        loop = self._loop = asyncio.get_event_loop()
        self._stopping = asyncio.Event()
        failures = 0
        while not self._stop_asked:
            self._on_status("connecting")
            begun = loop.time()
            try:
                await self._one_tunnel()
            except TunnelEndedError as error:
                if error.code in Refused.FINAL:
                    raise TunnelRefusedError(error.code, error.reason) from None
                # The next tunnel asks the service again: the relay may have another port then.
                self._service = self._service._replace(relay=error.relay)
                if error.relay:
                    continue
                failures = 0 if loop.time() > begun + WORKED_SECONDS else failures + 1
                self._on_status(f"{error.code or 'away'}: {error.reason}")
                await self._sleep(_pause(failures, error))

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but not longer than until `stop`. Raises nothing."""
        assert self._stopping is not None
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _one_tunnel(self) -> None:
        """Keep one tunnel to its end. Raises TunnelEndedError, unless it is to stop."""
        end = await connect_end(
            self._service,
            lambda: AgentEnd(self._service, self._identity, self._facts, self._state, self._on_control),
        )
        try:
            await asyncio.wait_for(asyncio.shield(end.welcome), WELCOME_SECONDS)
            self._end = end
            self._on_status("connected")
            await self._watch(end)
        except asyncio.TimeoutError:
            raise TunnelEndedError("the service does not answer") from None
        finally:
            self._end = None
            if self._stop_asked:
                end.close("the agent stops")
            else:
                end.abort("given up")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(end.wait_closed(), CLOSE_SECONDS)
        if not self._stop_asked:
            raise end.error()

    async def _watch(self, end: AgentEnd) -> None:
        """Watch a tunnel until it is lost, is silent, or is to stop."""
        assert self._stopping is not None
        stopping = asyncio.ensure_future(self._stopping.wait())
        ends: set[asyncio.Future[Any]] = {end.lost, stopping}
        signs = _Signs(end)
        deadline = None
        try:
            while True:
                await asyncio.wait(ends, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if end.lost.done() or self._stop_asked:
                    return
                if end.silent_seconds() > DEAD_SECONDS or (deadline is not None and end.heard_at < deadline):
                    end.abort("the connection is dead")
                    return
                end.tick()
                deadline = None
                if signs.changed():
                    end.ping()
                    deadline = end.now()
        finally:
            stopping.cancel()


class _Signs:
    """Signs that a connection may be dead: this machine has slept, or has another address."""

    def __init__(self, end: AgentEnd) -> None:
        assert end.transport is not None
        self._peer = end.transport.get_extra_info("peername")
        self._address = self._own_address()
        self._wall, self._steady = time.time(), time.monotonic()

    def changed(self) -> bool:
        """Whether there is a sign since the last call."""
        wall, steady = time.time(), time.monotonic()
        slept = abs((wall - self._wall) - (steady - self._steady)) > CLOCKS_DIFFER
        self._wall, self._steady = wall, steady
        address = self._own_address()
        moved, self._address = address != self._address, address
        return slept or moved

    def _own_address(self) -> str:
        """The address from which this machine sends to the peer; "" where there is no way. Nothing is sent."""
        try:
            family = socket.AF_INET6 if ":" in self._peer[0] else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(self._peer[:2])
                return str(probe.getsockname()[0])
        except (OSError, TypeError, IndexError):
            return ""


def _pause(failures: int, error: TunnelEndedError) -> float:
    """Seconds until the next attempt, at random: many agents lose their tunnels at the same time."""
    if error.retry is not None:
        return error.retry + random.uniform(0, FIRST_PAUSE)  # noqa: S311 - only to spread
    if error.code == Refused.CLONED:
        return CLONED_PAUSE * random.uniform(0.5, 1)  # noqa: S311
    if failures == 0:
        return random.uniform(0, FIRST_PAUSE)  # noqa: S311
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 8)) * random.uniform(0.5, 1)  # noqa: S311


async def _end_tasks() -> None:
    """Cancel all other tasks of the loop, and let them close what they have open."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
