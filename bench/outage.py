"""How long requests take while Redis or PostgreSQL hangs, beside undisturbed ones.

    python -m bench.outage [--rounds 5]

Starts an instance as `make up` does, and stops all processes of the server (SIGSTOP), again and again. "first" is the
request that meets the begin of an outage, "later" are those after it; there are two web processes, so one of the later
ones meets it, too. A GET asks Redis for the rate limit. A submission is a GET, and a POST that rings a worker.
The bars: 0.3 s without Redis; 2 s until the 503 without PostgreSQL.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
import urllib.error
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from bench.table import print_table
from tests.instance import Api, instance
from tests.waiting import children_of

#: Requests after the first one of an outage; seconds until the end of an outage has been noticed.
LATER, LIMIT = 8, 60.0


def timed(call: Callable[[], object], status: int) -> float:
    """Seconds. Raises RuntimeError where the answer has another status."""
    begun, found = time.monotonic(), 200
    try:
        call()
    except urllib.error.HTTPError as error:
        error.close()
        found = error.code
    if found != status:
        raise RuntimeError(f"{found} in place of {status}")
    return time.monotonic() - begun


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    pids = (pid, *children_of(pid))
    for one in pids:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in pids:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


def wait_until_noticed(api: Api) -> None:
    """All web processes answer again, and ask Redis again."""
    until = time.monotonic() + LIMIT
    good = 0
    while good < 20 and time.monotonic() < until:
        with suppress(urllib.error.HTTPError):
            api.call("GET", "/submission_id")
            good += 1
        time.sleep(0.1)


def run(api: Api, server: str, calls: dict[str, Callable[[], object]], status: int, rounds: int) -> None:
    times: dict[str, list[float]] = defaultdict(list)
    for name, call in calls.items():
        for _ in range(rounds):
            times[f"{name}, undisturbed"] += [timed(call, 200) for _ in range(LATER)]
            with stopped(api.connection["pids"][server]):
                times[f"{name}, {server} hangs, first"].append(timed(call, status))
                times[f"{name}, {server} hangs, later"] += [timed(call, status) for _ in range(LATER)]
            wait_until_noticed(api)
    print_table(f"Requests while {server} hangs", "s", times, f"{next(iter(calls))}, undisturbed")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.outage", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="outages of each kind (default: %(default)s)")
    rounds = parser.parse_args(words).rounds
    with instance() as api:
        ends = [api.endpoint(name, 9) for name in ("nowhere1", "nowhere2")]
        get = {"GET": lambda: api.call("GET", "/task_list?limit=1")}
        post = {"submission": lambda: api.transfer(ends[0], "/a", ends[1], "/b")}
        run(api, "redis", get | post, 200, rounds)
        run(api, "postgres", get, 503, rounds)


if __name__ == "__main__":
    main()
