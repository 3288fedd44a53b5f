"""The honest user: sends requests and submissions at a steady slow rate, independent of earlier answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from .harness import BOUNDS, Target

#: Requests a second of each kind; seconds after which a request counts as unanswered.
RATE, TIMEOUT = 4.0, 15.0
#: Seconds between two samples of the memory of processes.
LOOK = 0.1
#: Requests under way at once: more than come within TIMEOUT.
UNDER_WAY = int(2 * RATE * TIMEOUT) + 8
FILE = "/share/godata/file1.txt"


@dataclass
class Calls:
    """seconds: from the moment when a request was due to its answer; TIMEOUT where there was no answer."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Milliseconds."""
        return statistics.median(self.seconds) * 1000

    @property
    def p95(self) -> float:
        """Milliseconds."""
        return statistics.quantiles(self.seconds, n=20, method="inclusive")[-1] * 1000


@dataclass
class Measured:
    """The times of the honest user in one phase, and the peak memory of a process of each kind, in MB."""

    looks: Calls = field(default_factory=Calls)
    submissions: Calls = field(default_factory=Calls)
    peaks: dict[str, float] = field(default_factory=dict)


class Honest:
    """The sample user of the instance."""

    def __init__(self, target: Target) -> None:
        connection = target.api.connection
        self._target = target
        self._token = connection["token"]
        self._places = [connection["endpoints"][f"go#{name}"] for name in ("ep1", "ep2")]

    def measure(self, seconds: float) -> Measured:
        """Send requests for these seconds, each on a connection of its own."""
        found = Measured()
        with watching(self._target, found), ThreadPoolExecutor(UNDER_WAY) as threads:
            begun = time.monotonic()
            for number in range(int(seconds * RATE)):
                due = begun + number / RATE
                time.sleep(max(0.0, due - time.monotonic()))
                threads.submit(self._timed, found.looks, self._look, due)
                threads.submit(self._timed, found.submissions, self._submit, due)
        return found

    def settle(self, seconds: float = 60.0) -> None:
        """Wait until the tasks have ended: the number of a user's unfinished tasks is limited."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if not self._target.api.call("GET", "/task_list?limit=1&filter=status:ACTIVE")["total"]:
                    return
            time.sleep(0.5)

    def _timed(self, calls: Calls, call: Callable[[], str], due: float) -> None:
        try:
            wrong = call()
        except (OSError, http.client.HTTPException) as error:
            wrong = f"{type(error).__name__}: {error}"
        calls.seconds.append(TIMEOUT if wrong else time.monotonic() - due)
        if wrong:
            calls.errors.append(wrong)

    def _look(self) -> str:
        return self._call("GET", "/v0.10/submission_id", None, 200)

    def _submit(self) -> str:
        id_ = str(uuid.uuid4())
        item = {"DATA_TYPE": "transfer_item", "source_path": FILE, "destination_path": f"/honest/{id_}"}
        document = {"DATA_TYPE": "transfer", "submission_id": id_, "DATA": [item]}
        document |= dict(zip(("source_endpoint", "destination_endpoint"), self._places, strict=True))
        return self._call("POST", "/v0.10/transfer", json.dumps(document), 202)

    def _call(self, method: str, path: str, body: str | None, expect: int) -> str:
        """The reason why the answer is wrong; "" where it is right."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(*self._target.address, timeout=TIMEOUT)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            return "" if answer.status == expect else f"{answer.status}: {text[:200]!r}"
        finally:
            connection.close()


@contextmanager
def watching(target: Target, found: Measured) -> Iterator[None]:
    """Record the peak memory of all processes, also of those that end meanwhile."""
    done = threading.Event()

    def look() -> None:
        while True:
            for kind in BOUNDS:
                most = max((resident(pid) for pid in target.pids(kind)), default=0.0)
                found.peaks[kind] = max(found.peaks.get(kind, 0.0), most)
            if done.wait(LOOK):
                return

    for kind in BOUNDS:
        for pid in target.pids(kind):
            _forget_peak(pid)
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def resident(pid: int, what: str = "VmHWM") -> float:
    """The peak memory (VmRSS: the memory now) of a process, in MB; 0.0 where it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith(what):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def _forget_peak(pid: int) -> None:
    """Reset the peak (man 5 proc, clear_refs)."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")
