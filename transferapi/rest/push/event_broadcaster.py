"""Streams of events: one thread reads from the database, for all clients that listen to this process.

The reader thread holds one connection that LISTENs. A notification says only that there is something new. The thread
reads it from the tables (`transferapi.tasks.notify.feed`), in one query for all streams, so that nothing is lost where
the connection breaks. A stream that begins, resumes, or is too slow reads pages from the tables on its own, as far as
its buffer has room, until it has caught up with the others. The thread begins with the first stream.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import selectors
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from identity.error_categories import Category, LimitExceededError
from transferapi.outages.log_filter import is_told
from transferapi.rest.transfer.task_documents import EVENT, task
from transferapi.tasks import events
from transferapi.tasks.models import Task
from transferapi.tasks.notify import feed
from transferapi.tasks.notify.feed import PAGE, Cursor, FeedLine, FeedScope, Snapshot
from transferapi.tasks.states import Phase

from .stream_messages import message, position
from .stream_transport import StreamTransport, ThreadTransport

log = logging.getLogger(__name__)

#: The most streams of one user, and of a process. Where each holds a thread of the web server: the parts of its threads
#: that the streams of a user, and all streams, may hold; the rest is for requests.
MOST_OF_A_USER, MOST = 16, 2000
THREADS_OF_A_USER, THREADS_OF_ALL = 4, 2
#: Octets that wait for a client before its stream catches up from the tables later.
ROOM = 64 * 1024
#: The most tasks whose last message a stream remembers.
MOST_SHOWN = 1000
#: Seconds between two queries for the progress of tasks; for events of a lost notification; of permissions to listen.
PROGRESS_SECONDS, SAFETY_SECONDS, CHECK_SECONDS = 1.0, 5.0, 15.0
#: Between any two queries: many notifications cause one query.
PAUSE_SECONDS = 0.02
#: Between two queries while a stream has not caught up.
LAG_SECONDS = 0.2
#: Seconds after which a lost database is tried again; twice as long each time, up to the longest.
FIRST_RETRY, LONGEST_RETRY = 0.1, 5.0


class TooManyStreamsError(LimitExceededError):
    """`limit`: of this user, or of the process."""

    category = Category.TOO_MANY_REQUESTS
    template = "There are {self.limit} streams already, which is the most: close one"


@dataclass(eq=False, slots=True)
class ClientStream:
    """One stream of a client. may_listen: called again and again, in the reader's thread."""

    scope: FeedScope
    transport: StreamTransport
    may_listen: Callable[[], bool]
    #: The position of the client while the stream is not `live`; None: the client wants only new events.
    at: Cursor | None = None
    begun: bool = False
    #: Whether the client has all that the broadcaster has read.
    live: bool = False
    last: int = 0
    checked_at: float = field(default_factory=time.monotonic)
    #: For each task the state and the numbers that were sent last, and the time.
    sent: dict[uuid.UUID, tuple[object, object, float]] = field(default_factory=dict)

    @property
    def has_room(self) -> bool:
        return self.transport.pending < ROOM

    def hears(self, task_id: uuid.UUID, owner_id: uuid.UUID) -> bool:
        return self.scope.owner_id == owner_id and self.scope.task_id in (None, task_id)


class Reading(NamedTuple):
    """The result of a query for a stream that catches up."""

    stream: ClientStream
    parts: Sequence[tuple[list[FeedLine], Cursor, Cursor]]
    missed: bool


class FeedResult(NamedTuple):
    now: Snapshot
    news: list[FeedLine]
    readings: list[Reading]
    tasks: list[Task]


class EventBroadcaster:
    """All streams of this process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._streams: set[ClientStream] = set()
        self._awake_read, self._awake_write = os.pipe()
        os.set_blocking(self._awake_read, False)
        os.set_blocking(self._awake_write, False)
        self._begin = threading.Event()
        self._stopping = False
        self._seen: Snapshot | None = None
        self._thread = threading.Thread(target=self._run, name="streams-in", daemon=True)
        self._thread.start()

    def open(
        self, scope: FeedScope, at: Cursor | None, may_listen: Callable[[], bool], transport: StreamTransport
    ) -> ClientStream:
        """Raises TooManyStreamsError."""
        stream = ClientStream(scope, transport, may_listen, at)
        with self._lock:
            self.check_room(scope.owner_id, in_thread=isinstance(transport, ThreadTransport))
            self._streams.add(stream)
        self._begin.set()
        self.wake()
        return stream

    def check_room(self, owner_id: uuid.UUID, *, in_thread: bool) -> None:
        """Raises TooManyStreamsError."""
        of_a_user, of_all = MOST_OF_A_USER, MOST
        if in_thread:
            of_a_user = min(of_a_user, settings.WEB_THREADS // THREADS_OF_A_USER)
            of_all = settings.WEB_THREADS // THREADS_OF_ALL
        streams = self._current()
        if sum(stream.scope.owner_id == owner_id for stream in streams) >= of_a_user:
            raise TooManyStreamsError(of_a_user)
        if len(streams) >= of_all:
            raise TooManyStreamsError(of_all)

    def _current(self) -> list[ClientStream]:
        with self._lock:
            self._streams = {stream for stream in self._streams if not stream.transport.closed}
            return list(self._streams)

    def wake(self) -> None:
        with contextlib.suppress(OSError):  # The pipe is full, or the broadcaster has stopped.
            os.write(self._awake_write, b"x")

    def stop(self) -> None:
        """Close all streams, and end the thread."""
        self._stopping = True
        self._begin.set()
        self.wake()
        self._thread.join(30)
        os.close(self._awake_read)
        os.close(self._awake_write)

    # ---- the reader's thread

    def _run(self) -> None:
        retry = FIRST_RETRY
        while not self._stopping:
            try:
                if self._current():
                    self._listen()
                    retry = FIRST_RETRY
                self._begin.clear()
                if not self._current() and not self._stopping:
                    self._begin.wait()
            except (DatabaseError, InterfaceError, OSError) as error:
                if not is_told(error):
                    log.warning("streams wait for the database: %s", type(error).__name__)
                connection.close()
                time.sleep(retry * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
                retry = min(LONGEST_RETRY, retry * 2)
            except Exception:
                log.exception("all streams are closed after an error")
                connection.close()
                self._hang_up()
        connection.close()
        self._hang_up()

    def _hang_up(self) -> None:
        for stream in self._current():
            stream.transport.finish()
        with self._lock:
            self._streams.clear()

    def _listen(self) -> None:
        """Serve streams as long as there are any and the connection holds."""
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout TO '20s'")
            cursor.execute(f"LISTEN {events.CHANNEL}")
        feed.forget_foreign()
        raw = connection.connection
        raw.may_be_shared = False
        with selectors.DefaultSelector() as selector:
            selector.register(raw.fileno(), selectors.EVENT_READ, "database")
            selector.register(self._awake_read, selectors.EVENT_READ, "wake")
            changed: set[uuid.UUID] = set()
            whole, progress_at, safety_at = True, 0.0, 0.0
            while (streams := self._current()) and not self._stopping:
                now = time.monotonic()
                progress, whole = now >= progress_at, whole or now >= safety_at
                self._turn(streams, changed, whole=whole, progress=progress)
                progress_at = time.monotonic() + PROGRESS_SECONDS if progress else progress_at
                safety_at = time.monotonic() + SAFETY_SECONDS if whole else safety_at
                whole, changed = False, set()
                self._check(streams)
                time.sleep(PAUSE_SECONDS)
                changed = self._wait(selector, raw, min(progress_at, safety_at))
        connection.close()
        self._seen = None

    def _wait(self, selector: selectors.BaseSelector, raw: object, until: float) -> set[uuid.UUID]:
        """Wait until there is something to read. Returns the notified tasks of users that listen."""
        changed: set[uuid.UUID] = set()
        while True:
            changed |= self._heard(raw)
            timeout = until - time.monotonic()
            if changed or timeout <= 0:
                return changed
            if lagging := _lagging(self._current()):
                # A new stream is read for at once; a slow one when its client has taken something.
                if any(stream.has_room for stream in lagging):
                    return changed
                timeout = min(timeout, LAG_SECONDS)
            if any(key.data == "wake" for key, _ in selector.select(timeout)):
                os.read(self._awake_read, 4096)
                if self._stopping or not self._current():
                    return changed

    def _heard(self, raw: object) -> set[uuid.UUID]:
        with connection.wrap_database_errors:
            raw.poll()  # type: ignore[attr-defined]  # psycopg2's connection; raises when it broke
        received, raw.notifies[:] = list(raw.notifies), []  # type: ignore[attr-defined]
        owners = _owners(self._current())
        found = [json.loads(one.payload) for one in received if one.channel == events.CHANNEL]
        return {uuid.UUID(one["task"]) for one in found if uuid.UUID(one["owner"]) in owners}

    def _turn(self, streams: list[ClientStream], changed: set[uuid.UUID], *, whole: bool, progress: bool) -> None:
        """Query once, and send the result to the streams. The position moves on only after that."""
        before = self._seen
        found = self._look(streams, changed, whole=whole, progress=progress)
        if before is not None:
            if before.xmax > found.now.xmax:
                _forget_place(streams, before)
            _bring_news(streams, found, before)
        for reading in found.readings:
            _catch_up(reading, found.now)
        self._seen = found.now
        self._show_tasks(streams, found.tasks)

    def _show_tasks(self, streams: Sequence[ClientStream], tasks: Sequence[Task]) -> None:
        """Send the tasks, and end the streams of single tasks that are done."""
        for row in tasks:
            for stream in streams:
                if stream.live and stream.hears(row.pk, row.owner_id):
                    _show(stream, row)
                    if row.phase == Phase.DONE and stream.scope.task_id is not None:
                        self._end(stream)

    def _look(self, streams: list[ClientStream], changed: set[uuid.UUID], *, whole: bool, progress: bool) -> FeedResult:
        lagging, of_users = _lagging(streams), [stream for stream in streams if stream.scope.task_id is None]
        ids = _single_tasks(streams if whole or progress else lagging)
        running = _owners(of_users) if progress else set()
        unfinished = _owners(of_users) if whole else _owners(lagging) & _owners(of_users)
        with feed.look() as now:
            news = feed.news(self._seen, now, _owners(streams)) if self._seen else []
            readings = [_read(stream, now) for stream in lagging if stream.has_room]
            with_news = {line.event.task_id for line in news}
            tasks = feed.tasks(ids=ids | changed | with_news, running=running, unfinished=unfinished)
        return FeedResult(now, news, readings, tasks)

    def _check(self, streams: Sequence[ClientStream]) -> None:
        """Close the streams of clients that may not listen any more."""
        now = time.monotonic()
        for stream in streams:
            if now - stream.checked_at >= CHECK_SECONDS:
                stream.checked_at = now
                if not stream.may_listen():
                    self._end(stream)

    def _end(self, stream: ClientStream) -> None:
        stream.transport.finish()
        with self._lock:
            self._streams.discard(stream)


def _lagging(streams: Sequence[ClientStream]) -> list[ClientStream]:
    return [stream for stream in streams if not stream.live]


def _single_tasks(streams: Sequence[ClientStream]) -> set[uuid.UUID]:
    return {stream.scope.task_id for stream in streams if stream.scope.task_id is not None}


def _owners(streams: Sequence[ClientStream]) -> set[uuid.UUID]:
    return {stream.scope.owner_id for stream in streams}


def _bring_news(streams: Sequence[ClientStream], found: FeedResult, before: Snapshot) -> None:
    """Send new events to the live streams. Where there are too many, or a client is slow, it catches up by pages."""
    overflow = len(found.news) == PAGE
    for stream in streams:
        if stream.live and (overflow or not stream.has_room):
            stream.live, stream.at = False, Cursor(stream.last, before)
        elif stream.live:
            mine = [line for line in found.news if stream.hears(line.event.task_id, line.owner_id)]
            _bring(stream, mine, before, found.now, Cursor(mine[-1].event.pk if mine else 0, found.now))


def _forget_place(streams: Sequence[ClientStream], before: Snapshot) -> None:
    """The database is another one now, for example after a restore: all streams begin anew there."""
    for stream in streams:
        if stream.live:
            stream.live, stream.begun, stream.at = False, False, Cursor(stream.last, before)


def _read(stream: ClientStream, now: Snapshot) -> Reading:
    """Send a page to a stream that catches up, and read another one where the page was cut at an earlier moment."""
    at, missed = (stream.at, False) if stream.begun and stream.at else feed.start(stream.scope, stream.at, now)
    parts = []
    for _ in range(2):
        lines, then = feed.replay(stream.scope, at, now)
        parts.append((lines, at, then))
        at = then
        if len(lines) == PAGE or at.seen == now:
            break
    return Reading(stream, parts, missed)


def _catch_up(reading: Reading, now: Snapshot) -> None:
    stream = reading.stream
    if not stream.begun:
        stream.begun = True
        _, before, _ = reading.parts[0]
        stream.transport.write(position(before))
    if reading.missed:
        stream.transport.write(message("missed", {"DATA_TYPE": "missed", "kept": feed.MOST_REPLAYED}))
    for lines, at, then in reading.parts:
        _bring(stream, lines, at.seen, at.within or now, then)
        stream.at = then
    stream.live = stream.at is not None and stream.at.within is None and stream.at.seen == now


def _bring(stream: ClientStream, lines: Sequence[FeedLine], seen: Snapshot, within: Snapshot, then: Cursor) -> None:
    """Each event with the position of a client that has it; the last one with `then`."""
    parts = []
    for line in lines:
        row = line.event
        at = then if line is lines[-1] else Cursor(row.pk, seen, within)
        parts.append(message(row.code, {**EVENT.document(row), "task_id": str(row.task_id)}, at))
        stream.last = row.pk
    if parts:
        stream.transport.write(b"".join(parts))


def _show(stream: ClientStream, row: Task) -> None:
    """Send the task's document where its state has changed, or its numbers after a second."""
    state = (row.status, row.phase, row.nice_status, row.label, row.deadline)
    numbers = (
        row.files, row.directories, row.symlinks, row.files_transferred, row.files_skipped, row.files_failed,
        row.bytes_transferred, row.bytes_checksummed, row.faults, row.items_scanned,
    )  # fmt: skip
    was_state, was_numbers, at = stream.sent.get(row.pk, (None, None, 0.0))
    now = time.monotonic()
    if state != was_state or (numbers != was_numbers and now - at >= PROGRESS_SECONDS * 0.9):
        stream.transport.write(message("task", task(row)))
        stream.sent[row.pk] = (state, numbers, now)
    for old in list(stream.sent)[:-MOST_SHOWN]:
        del stream.sent[old]


_broadcaster: EventBroadcaster | None = None
_broadcaster_lock = threading.Lock()


def current() -> EventBroadcaster:
    """The broadcaster of this process, created at the first call (never before a fork)."""
    global _broadcaster
    with _broadcaster_lock:
        if _broadcaster is None:
            _broadcaster = EventBroadcaster()
        return _broadcaster


def stop() -> None:
    """Close all streams; the next stream begins anew."""
    global _broadcaster
    with _broadcaster_lock:
        if _broadcaster is not None:
            _broadcaster.stop()
            _broadcaster = None
