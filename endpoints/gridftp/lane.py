"""A lane: two logged-in sessions and a `ThirdPartyPair`, driven by asyncio. The data never passes through here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from .client import GridFTPSession
from .connection import STALL_TIMEOUT
from .control import ControlEvent, Lost
from .data_path import DataAddress, DataPath
from .faults import Fault, Kind, Scope, Side, make_fault
from .pair import Flush, PairEvent, State, ThirdPartyPair, Transfer

#: Seconds for the connection that frees a destination from accept().
FLUSH_TIMEOUT = 5.0


class ThirdPartyLane:
    """Moves files from the source session's server to the destination session's.

    accept_address: `data_path.refusal`, of the destination's endpoint.
    stall_timeout: seconds without a word from either side, while files are under way, after which the lane is lost.
    The sessions are the lane's until `release` gives them back.
    """

    def __init__(
        self,
        source: GridFTPSession,
        destination: GridFTPSession,
        *,
        parallelism: int | None,
        stream_mode: bool = False,
        accept_address: Callable[[DataAddress], bool],
        stall_timeout: float = STALL_TIMEOUT,
    ) -> None:
        self.source = source
        self.destination = destination
        self._stall_timeout = stall_timeout
        self._loop = asyncio.get_running_loop()
        self._events: list[PairEvent] = []
        self._ready = asyncio.Event()
        self._flushes: set[asyncio.Task[None]] = set()
        self._watch: asyncio.TimerHandle | None = None
        self._busy_since = self._loop.time()
        self._pair = ThirdPartyPair(
            source.connection.channel,
            destination.connection.channel,
            parallelism=parallelism,
            stream_mode=stream_mode,
            accept_address=accept_address,
            path=_data_path(source, destination, several_streams=not stream_mode),
        )
        #: The sessions' own, for when they are given back.
        self._limits = (source.connection.stall_timeout, destination.connection.stall_timeout)
        for side, session in ((Side.SOURCE, source), (Side.DESTINATION, destination)):
            connection = session.connection
            # One side is silent while the other moves a large file: the lane watches both together.
            connection.stall_timeout = None
            connection.listener = partial(self._hear, side)
            if connection.lost:
                self._hear(side, [Lost(connection.lost, ())])
        self._written()
        self._watch_later()

    @property
    def alive(self) -> bool:
        return self._pair.state is not State.LOST

    @property
    def idle(self) -> bool:
        return self._pair.idle

    @property
    def begun(self) -> list[object]:
        """`ThirdPartyPair.begun`."""
        return self._pair.begun

    def use_streams(self, parallelism: int) -> None:
        """`ThirdPartyPair.use_streams`."""
        self._pair.use_streams(parallelism)
        self._written()

    def feed(self, transfer: Transfer) -> None:
        """Put a file into the pipe; it comes back in one event. Never blocks."""
        if not self._pair.under_way:
            self._busy_since = self._loop.time()
        self._pair.send(transfer)
        self._written()

    async def events(self) -> Sequence[PairEvent]:
        """What happened, once something has. Never empty."""
        await self._ready.wait()
        self._ready.clear()
        events, self._events = self._events, []
        return events

    def release(self) -> tuple[GridFTPSession, GridFTPSession] | None:
        """End the lane: the two sessions if they are clean and may serve again, else None and they are gone."""
        if self._watch:
            self._watch.cancel()
        clean = self.idle and self.source.usable and self.destination.usable
        if not clean:
            self.abort(make_fault(Kind.CONNECTION_BROKEN, "the lane was given up"))
        for session, limit in zip((self.source, self.destination), self._limits, strict=True):
            session.connection.listener = None
            session.connection.stall_timeout = limit
        return (self.source, self.destination) if clean else None

    def abort(self, fault: Fault) -> None:
        """End both connections; what is under way comes back as lost with this fault."""
        self._pair.lose(Fault(fault.kind, fault.side, True, Scope.SESSION, fault.advice, fault.raw))
        self._collect()
        self.source.connection.abort(fault)
        self.destination.connection.abort(fault)

    # ---- inside

    def _hear(self, side: Side, events: Sequence[ControlEvent]) -> None:
        for event in events:
            self._pair.handle(side, event)
        self._written()
        last = events[-1]
        if isinstance(last, Lost):
            # One end alone is of no use: its server would wait for the other one's data.
            self.source.connection.abort(last.fault)
            self.destination.connection.abort(last.fault)

    def _written(self) -> None:
        self.source.connection.flush_soon()
        self.destination.connection.flush_soon()
        self._collect()

    def _collect(self) -> None:
        for event in self._pair.take():
            if isinstance(event, Flush):
                task = self._loop.create_task(self._flush(event))
                self._flushes.add(task)
                task.add_done_callback(self._flushes.discard)
            else:
                self._events.append(event)
        if self._events:
            self._ready.set()

    async def _flush(self, flush: Flush) -> None:
        """Connect and hang up. A refusal means that the destination no longer waits there: as good."""
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT):
                _, writer = await asyncio.open_connection(flush.host, flush.port)
            writer.close()
        except OSError:
            pass
        except TimeoutError:
            raw = f"data port {flush.host}:{flush.port} cannot be reached to free it"
            self.abort(make_fault(Kind.TIMEOUT, raw, side=Side.DESTINATION))

    def _watch_later(self) -> None:
        self._watch = self._loop.call_later(min(5.0, self._stall_timeout / 2), self._check_stall)

    def _check_stall(self) -> None:
        if not self.alive:
            return
        last = max(self.source.connection.last_activity, self.destination.connection.last_activity, self._busy_since)
        silent = self._loop.time() - last
        if self._pair.under_way and silent > self._stall_timeout:
            self.abort(make_fault(Kind.TIMEOUT, f"no word from either server for {silent:.0f} s"))
        else:
            self._watch_later()


def _data_path(source: GridFTPSession, destination: GridFTPSession, *, several_streams: bool) -> DataPath:
    """In mode S there is one connection, and so one data node on each side."""
    return DataPath(
        peer=destination.connection.peer_host,
        striped=several_streams and "SPAS" in destination.features and "SPOR" in source.features,
        striped_source=source.striped,
    )
