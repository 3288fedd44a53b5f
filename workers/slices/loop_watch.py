"""Finds what holds the event loop of the sessions for more than a second, and puts its server off.

The loop is asked for a sign of life by a thread. While none comes, the thread looks at the stack of the loop's thread,
where each session, control channel and ssh connection knows its server. Time counts that the loop's thread has used:
a machine without a free processor, or a worker that is stopped, holds the loop as well, and no server is to blame.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Protocol, runtime_checkable

from endpoints.gridftp.wire.put_off import SERVERS, PutOffServers

log = logging.getLogger(__name__)

#: Seconds between two signs of life, for which one may take, and between two looks at a loop that gives none.
PAUSE, LIMIT, LOOK = 1.0, 1.0, 0.05
#: Seconds between two signs of life of a loop without work, where only sessions that nobody uses could hold it.
REST = 5.0


@runtime_checkable
class OfServer(Protocol):
    """A session, a control channel or a connection of ssh: it belongs to one server."""

    @property
    def server_address(self) -> tuple[str, int] | None:
        """Host and port as they were connected to; None where there is none."""

    def abort(self) -> None: ...


class LoopWatch:
    """Watches one loop until `stop`.

    used: the seconds of the processor that the loop's thread has used so far; None if nobody knows.
    has_work: whether anybody waits for the loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread: threading.Thread,
        servers: PutOffServers = SERVERS,
        used: Callable[[], float | None] | None = None,
        has_work: Callable[[], bool] = lambda: True,
    ) -> None:
        self._loop, self._thread, self._servers = loop, thread, servers
        self._used = used or (lambda: _used_by(thread))
        self._has_work = has_work
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="loop watch", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        rested = 0.0
        while not self._stopped.wait(PAUSE):
            rested += PAUSE
            if self._has_work() or rested >= REST:
                rested = 0.0
                self.look()

    def look(self) -> None:
        """Ask for one sign of life, and wait for it."""
        alive, begun, used = threading.Event(), time.monotonic(), self._used()
        try:
            self._loop.call_soon_threadsafe(alive.set)
        except RuntimeError:  # the loop is closed
            self.stop()
            return
        if alive.wait(LIMIT):
            return
        places: Counter[str] = Counter()
        found: Counter[OfServer] = Counter()
        while not alive.wait(LOOK) and not self._stopped.is_set():
            stack = list(_stack(self._thread))
            places.update(map(_place, stack[:1]))
            found.update(_of_servers(stack)[:1])
        seconds, now_used = time.monotonic() - begun, self._used()
        busy = seconds if used is None or now_used is None else now_used - used
        self._tell(seconds, busy, places, found)

    def _tell(self, seconds: float, busy: float, places: Counter[str], found: Counter[OfServer]) -> None:
        where = places.most_common(1)[0][0] if places else "an unknown place"
        holder, times = found.most_common(1)[0] if found else (None, 0)
        server = holder.server_address if holder and 2 * times > places.total() else None
        name = f"{server[0]} port {server[1]}" if server else "no server"
        log.warning("the event loop stood still for %.1f s (%.1f s busy) at %s, for %s", seconds, busy, where, name)
        if holder is None or server is None or busy < LIMIT:
            return
        self._servers.note(*server, f"what it sent held a worker up for {seconds:.1f} s")
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(holder.abort)


def _used_by(thread: threading.Thread) -> float | None:
    """By Linux's /proc; None elsewhere. pthread_getcpuclockid(3) is undefined for a thread that has ended."""
    try:
        words = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()
        return int(words[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _stack(thread: threading.Thread) -> Iterator[FrameType]:
    """The frames of a thread, the innermost first."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _place(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', 'a module')}.{getattr(frame.f_code, 'co_qualname', frame.f_code.co_name)}"


def _of_servers(stack: list[FrameType]) -> list[OfServer]:
    owners = (frame.f_locals.get("self") for frame in stack if "self" in frame.f_code.co_varnames)
    return [owner for owner in owners if isinstance(owner, OfServer) and owner.server_address]
