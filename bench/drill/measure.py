"""The cost of a fault: a prober of the API, a sampler of the database, and the figures that are made of both.

All times are of this process's monotonic clock, so that a fault of the clock falsifies none.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from urllib.parse import urlsplit

import psycopg2

#: Seconds between two samples.
PERIOD = 0.1
#: Samples of a second.
LASTING = 10
#: A request that takes longer counts as not served.
SERVED_SECONDS = 5.0
#: Of these POSTs one is a new submission; the others repeat it, and must get the same task.
SUBMIT_EVERY = 10
#: Requests of one kind that may be waiting for their answers.
AT_ONCE = 64


@dataclass(frozen=True)
class Request:
    """begun, ended: by time.monotonic(). status: of the answer; 0: there was none."""

    begun: float
    ended: float
    status: int

    @property
    def served(self) -> bool:
        return 200 <= self.status < 300 and self.ended - self.begun <= SERVED_SECONDS


def longest_away(requests: Sequence[Request], until: float) -> float:
    """Seconds: the longest time from a request that was not served to the next one that was begun and served.

    until: the end of the measurement, for a service that never answers again.
    """
    longest, since = 0.0, None
    for request in sorted(requests, key=lambda one: one.begun):
        if request.served:
            if since is not None:
                longest = max(longest, request.begun - since)
            since = None
        elif since is None:
            since = request.begun
    return max(longest, until - since) if since is not None else longest


def scattered_failures(requests: Sequence[Request]) -> tuple[int, int]:
    """The requests that were not served, and all, outside of the longest time in which none was.

    A service that is away for a time has one such time, and its length is another figure. One that refuses every second
    request is never away for long.
    """
    ordered = sorted(requests, key=lambda one: one.begun)
    longest, since = (0, 0), 0
    for number, request in enumerate([*ordered, None]):
        if request is None or request.served:
            longest, since = max(longest, (since, number), key=lambda one: one[1] - one[0]), number + 1
    outside = [*ordered[: longest[0]], *ordered[longest[1] :]]
    return sum(not one.served for one in outside), len(outside)


@dataclass(frozen=True)
class Sample:
    """settled: files of the load's tasks. active: those of its tasks that are not done. holders: worker and epoch of
    each task that somebody holds. epochs: of the tasks that are watched, whether somebody holds them or not."""

    at: float
    settled: int
    active: int
    holders: dict[str, tuple[str, int]]
    epochs: dict[str, int] = field(default_factory=dict)


#: Seconds between two samples that say that the database was away between them; they are 0.1 s apart otherwise.
GAP = 2.0


def longest_stall(samples: Sequence[Sample]) -> float:
    """Seconds: the longest time in which no file was settled although there was work; from sample to sample.

    A gap without samples counts as a whole: files that were settled before the first sample after it may be its last.
    """
    longest, since = 0.0, None
    for before, now in pairwise(samples):
        if before.active and now.at - before.at > GAP:
            longest = max(longest, now.at - (before.at if since is None else since))
        if now.settled > before.settled or not now.active:
            since = None
        elif since is None:
            since = before.at
        if since is not None:
            longest = max(longest, now.at - since)
    return longest


def takeover(samples: Sequence[Sample], lost: dict[str, tuple[str, int]], begun: float) -> float | None:
    """Seconds from `begun` until the last task of `lost` had a new lease; None if nobody had to take one over.

    By the epoch: a worker that was started again has the name of the killed one, and a short task may have a lease
    between two samples only. A task that ended without another lease does not count.
    """
    times = []
    for task, (_, epoch) in lost.items():
        for sample in samples:
            now = max(sample.epochs.get(task, 0), sample.holders.get(task, ("", 0))[1])
            if sample.at > begun and now > epoch:
                times.append(sample.at - begun)
                break
    return max(times, default=None)


class Prober:
    """A GET and a POST of the API at a steady rate, from `start` to `stop`, whatever becomes of the others."""

    def __init__(self, url: str, token: str, documents: Sequence[dict[str, object]], rate: float) -> None:
        """documents: submissions with their ids, in the order of sending. rate: requests of each kind a second."""
        self._period = 1 / rate
        self._host = urlsplit(url).netloc
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._documents = documents
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(2 * AT_ONCE, thread_name_prefix="probe")
        self._thread = threading.Thread(target=self._run, name="prober", daemon=True)
        self.gets: list[Request] = []
        self.posts: list[Request] = []
        #: The tasks that the service named for each submission id; more than one would be wrong.
        self.tasks: dict[str, set[str]] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        next_at, count = time.monotonic(), 0
        while not self._stop.wait(max(0.0, next_at - time.monotonic())):
            document = self._documents[min(count // SUBMIT_EVERY, len(self._documents) - 1)]
            self._pool.submit(self._get)
            self._pool.submit(self._post, document)
            next_at, count = next_at + self._period, count + 1

    def _get(self) -> None:
        request, _ = self._ask("GET", "/v0.10/task_list?limit=1", None)
        with self._lock:
            self.gets.append(request)

    def _post(self, document: dict[str, object]) -> None:
        request, answer = self._ask("POST", "/v0.10/transfer", document)
        with self._lock:
            self.posts.append(request)
            if 200 <= request.status < 300:
                self.tasks.setdefault(str(document["submission_id"]), set()).add(str(answer["task_id"]))

    def _ask(self, method: str, path: str, document: object) -> tuple[Request, dict[str, object]]:
        begun, status, answer = time.monotonic(), 0, {}
        connection = http.client.HTTPConnection(self._host, timeout=SERVED_SECONDS)
        with suppress(OSError, http.client.HTTPException, ValueError):
            connection.request(method, path, None if document is None else json.dumps(document), self._headers)
            response = connection.getresponse()
            answer, status = json.loads(response.read()), response.status
        connection.close()
        return Request(begun, time.monotonic(), status), answer


SAMPLE = """
SELECT coalesce(sum(files_transferred), 0), count(*) FILTER (WHERE phase <> 'done') FROM tasks_task WHERE label = %s
"""
HOLDERS = "SELECT task_id, worker, epoch FROM tasks_lease WHERE worker <> '' OR task_id = ANY(%s::uuid[])"


@dataclass
class Sampler:
    """Reads the settled files and the holders ten times a second; while the database is away there are no samples."""

    connect: Callable[[], psycopg2.extensions.connection]
    label: str
    samples: list[Sample] = field(default_factory=list)
    #: Tasks whose epochs are sampled, too.
    watched: frozenset[str] = frozenset()
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def holders(self) -> dict[str, tuple[str, int]]:
        """Return the holders of tasks in the last sample."""
        return self.samples[-1].holders

    def wait_for_another(self) -> None:
        """Return after two more samples: the second of them began after this call. Raises TimeoutError after 10 s."""
        wanted, until = len(self.samples) + 2, time.monotonic() + 10
        while len(self.samples) < wanted:
            if time.monotonic() > until:
                raise TimeoutError("the database was not read for 10 s")
            time.sleep(PERIOD / 4)

    def lasting(self) -> dict[str, tuple[str, int]]:
        """Return the holders that have not changed in the samples of the last second."""
        recent = self.samples[-LASTING:]
        return {task: one for task, one in self.holders().items() if all(s.holders.get(task) == one for s in recent)}

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            with suppress(psycopg2.Error), cursor_of(self.connect) as cursor:
                while not self._stop.wait(PERIOD):
                    self.samples.append(self._read(cursor))

    def _read(self, cursor: psycopg2.extensions.cursor) -> Sample:
        cursor.execute(SAMPLE, [self.label])
        row = cursor.fetchone()
        assert row is not None
        watched = self.watched
        cursor.execute(HOLDERS, [[*watched]])
        found = {str(task): (str(worker), int(epoch)) for task, worker, epoch in cursor.fetchall()}
        holders = {task: one for task, one in found.items() if one[0]}
        epochs = {task: found[task][1] for task in watched if task in found}
        return Sample(time.monotonic(), int(row[0]), int(row[1]), holders, epochs)


@contextmanager
def cursor_of(connect: Callable[[], psycopg2.extensions.connection]) -> Iterator[psycopg2.extensions.cursor]:
    """A cursor of a connection without transactions, closed at the end of the block. Raises psycopg2.Error."""
    connection = connect()
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def submission_ids(count: int) -> list[str]:
    return [str(uuid.uuid4()) for _ in range(count)]
