"""A lane: two logged-in sessions and a `ThirdPartyPair`, driven by asyncio. No data passes through this service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import STALL_TIMEOUT
from endpoints.gridftp.control import ControlEvent, Lost
from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.wire.fenced_socket import connect

from .data_path import DataAddress, DataPath, RelayPorts
from .growth import GrowthWatch, SizeOf
from .listening_source import ListeningSourcePair
from .pair import ThirdPartyPair
from .pair_states import PairState
from .slots import FileEvent, Flush, Transfer

_STUCK = make_fault(Kind.CONNECTION_BROKEN, "the receiver waits for a connection that nobody makes")
_NO_ENTRANCE = make_fault(Kind.CONNECTION_BROKEN, "the relay has no other port for the source")
#: Seconds for the connection that frees a listener from accept() (`Flush`), and for each next answer where that fails.
FLUSH_TIMEOUT = 5.0


class ThirdPartyLane:
    """Moves files from the source session's server to the destination session's.

    stream_mode: MODE S. listener: the side that listens for data connections; SOURCE in MODE S only.
    accept_address: `data_path.refusal`, of the listener's endpoint.
    token: of the relay by which two servers move data that cannot reach each other (`SITE WAYBILL DATA`).
    entrances: ports of the relay to which the source connects; they are closed with the lane.
    flushes: whether this service may connect to the listener's data port (`Flush`); else the lane is given up.
    stall_timeout: seconds without a sign of life from either side, while files are under way, until the lane is lost.
    size_of: in MODE S, the sign of life of a file on its way (`growth`).
    The sessions belong to the lane until `release` returns them.
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
        listener: Side = Side.DESTINATION,
        token: str = "",
        flushes: bool = True,
        entrances: RelayPorts | None = None,
        size_of: SizeOf | None = None,
    ) -> None:
        self.source = source
        self.destination = destination
        self._stall_timeout = stall_timeout
        self._loop = asyncio.get_running_loop()
        self._events: list[FileEvent] = []
        self._ready = asyncio.Event()
        #: `renaming` when it was looked at last.
        self._renaming = 0
        self._flushes: set[asyncio.Task[None]] = set()
        self._watch: asyncio.TimerHandle | None = None
        self._busy_since = self._loop.time()
        path = _data_path(source, destination, listener, several_streams=not stream_mode, token=token)
        self._flush_allowed = flushes
        self._entrances = entrances
        self._listener = path.listener
        channels = (source.connection.channel, destination.connection.channel)
        #: In MODE S only a server of ours reports that data flow.
        self._growth = GrowthWatch(stall_timeout, size_of) if stream_mode and not path.ours else None
        self._asking: asyncio.Task[None] | None = None
        self._pair = (
            ListeningSourcePair(*channels, accept_address=accept_address, path=path)
            if listener is Side.SOURCE
            else ThirdPartyPair(
                *channels,
                parallelism=parallelism,
                stream_mode=stream_mode,
                accept_address=accept_address,
                path=path,
                entrances=entrances,
            )
        )
        #: The sessions' own stall timeouts, restored by `release`.
        self._limits = (source.connection.stall_timeout, destination.connection.stall_timeout)
        for side, session in ((Side.SOURCE, source), (Side.DESTINATION, destination)):
            connection = session.connection
            # One side may be silent while the other moves a large file: the lane watches both together.
            connection.stall_timeout = None
            connection.listener = partial(self._hear, side)
            if connection.lost:
                self._hear(side, [Lost(connection.lost, ())])
        self._written()
        self._watch_later()

    @property
    def alive(self) -> bool:
        return self._pair.state is not PairState.LOST

    @property
    def idle(self) -> bool:
        return self._pair.idle

    @property
    def opened(self) -> bool:
        """Whether the source has opened a data connection, and nothing has ended it since."""
        return self._pair.state is PairState.OPEN

    @property
    def renaming(self) -> int:
        """`ThirdPartyPair.renaming`."""
        return self._pair.renaming

    @property
    def begun(self) -> list[object]:
        """`ThirdPartyPair.begun`."""
        return self._pair.begun

    def use_streams(self, parallelism: int) -> None:
        """`ThirdPartyPair.use_streams`."""
        self._pair.use_streams(parallelism)
        self._written()

    def feed(self, transfer: Transfer) -> None:
        """Send a file through the lane; it comes back in one event. Never blocks."""
        if not self._pair.under_way:
            self._busy_since = self._loop.time()
        self._pair.send(transfer)
        self._written()

    def report(self, event: FileEvent) -> None:
        """Add an event of the caller's own, about a file that cannot be fed."""
        self._events.append(event)
        self._ready.set()

    async def events(self) -> Sequence[FileEvent]:
        """Wait for events; returns none where a file begins to wait for its name: another may be fed in its place."""
        await self._ready.wait()
        self._ready.clear()
        events, self._events = self._events, []
        return events

    def release(self) -> tuple[GridFTPSession, GridFTPSession] | None:
        """End the lane: return the two sessions if they can be used again; else close them and return None."""
        if self._watch:
            self._watch.cancel()
        for task in (*self._flushes, *filter(None, [self._asking])):
            task.cancel()
        if self._entrances is not None:
            self._entrances.end()
        clean = self.idle and self.source.usable and self.destination.usable
        if not clean:
            self.abort(make_fault(Kind.CONNECTION_BROKEN, "the lane was given up"))
        elif isinstance(self._pair, ListeningSourcePair):
            self._pair.end()
            self._written()
        for session, limit in zip((self.source, self.destination), self._limits, strict=True):
            session.connection.listener = None
            session.connection.stall_timeout = limit
        return (self.source, self.destination) if clean else None

    def abort(self, fault: Fault) -> None:
        """Close both connections; the files under way come back with this fault."""
        if self._entrances is not None:
            self._entrances.end()
        self._pair.lose(Fault(fault.kind, fault.side, True, FaultScope.SESSION, fault.advice, fault.raw))
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
            # The other side would only wait for data connections or data.
            self.source.connection.abort(last.fault)
            self.destination.connection.abort(last.fault)

    def _written(self) -> None:
        self.source.connection.flush_soon()
        self.destination.connection.flush_soon()
        self._collect()

    def _collect(self) -> None:
        if self._entrances is not None and self._entrances.exhausted:
            self._loop.call_soon(self.abort, _NO_ENTRANCE)
        for event in self._pair.take():
            if isinstance(event, Flush) and self._entrances is not None:
                self._entrances.close((event.host, event.port))
            elif isinstance(event, Flush) and not self._flush_allowed:
                self._loop.call_soon(self.abort, _STUCK)
            elif isinstance(event, Flush):
                task = self._loop.create_task(self._flush(event))
                self._flushes.add(task)
                task.add_done_callback(self._flushes.discard)
            else:
                self._events.append(event)
        more_renaming, self._renaming = self._pair.renaming > self._renaming, self._pair.renaming
        if self._events or more_renaming:
            self._ready.set()

    async def _flush(self, flush: Flush) -> None:
        """Connect to the listener's data port, and close. Gives the lane up where that cannot free the listener."""
        channel = (self.source if self._listener is Side.SOURCE else self.destination).connection.channel
        # Only final replies count: 150 and markers arrive from a listener that waits in accept(), too.
        answered, until = channel.answered, self._loop.time() + FLUSH_TIMEOUT
        try:
            async with asyncio.timeout_at(until):
                (await connect(flush.host, flush.port)).close()
            return
        except OSError:  # also TimeoutError
            # A port where nobody listens any more refuses, too. Then the listener answers; behind a firewall it cannot.
            await asyncio.sleep(until - self._loop.time())
        while self._pair.waits_at((flush.host, flush.port)):
            if answered == channel.answered:
                raw = f"data port {flush.host}:{flush.port} cannot be reached to free it"
                self.abort(make_fault(Kind.TIMEOUT, raw, side=self._listener))
                return
            answered = channel.answered
            await asyncio.sleep(FLUSH_TIMEOUT)

    def _watch_later(self) -> None:
        self._watch = self._loop.call_later(min(5.0, self._stall_timeout / 2), self._check_stall)

    def _check_stall(self) -> None:
        if not self.alive:
            return
        last = max(self.source.connection.last_activity, self.destination.connection.last_activity, self._busy_since)
        now = self._loop.time()
        limit = self._stall_timeout
        if self._growth is not None and (transfer := self._pair.in_stream):
            last = max(last, self._growth.grown_at)
            limit = self._growth.limit(transfer)
            if self._growth.due(transfer, now, now - last) and (self._asking is None or self._asking.done()):
                self._asking = self._loop.create_task(self._growth.ask(now))
        silent = now - last
        if self._pair.under_way and silent > limit:
            self.abort(make_fault(Kind.TIMEOUT, f"no data and no reply from either server for {silent:.0f} s"))
        else:
            self._watch_later()


def _data_path(
    source: GridFTPSession, destination: GridFTPSession, listener: Side, *, several_streams: bool, token: str
) -> DataPath:
    """The data path of two sessions. In mode S there is one connection, and so one data node on each side."""
    ours, replaces = not destination.listens, destination.features.replaces
    if listener is Side.SOURCE:
        return DataPath(peer=source.connection.peer_host, listener=listener, ours=ours, replaces=replaces)
    if ours:
        return DataPath(ours=True, replaces=replaces, token=token)
    return DataPath(
        peer=destination.connection.peer_host,
        replaces=replaces,
        striped=several_streams and "SPAS" in destination.features and "SPOR" in source.features,
        striped_source=source.features.striped,
    )
