"""A late answer is no outage: how long waits last on a busy machine, and what is tried until a probe has failed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
import redis

from deploy.stack.postgres import Postgres
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.outages import bounded, outage
from transferapi.outages.outage import Outage
from transferapi.outages.redis_link import CachePool, OneTry, Pool


@pytest.mark.parametrize(("load", "factor"), [(0.0, 1.0), (8.0, 1.0), (16.0, 2.0), (500.0, 5.0)])
def test_waits_are_longer_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch, load: float, factor: float) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert bounded.load_factor() == factor


def test_a_long_wait_gets_no_more_than_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "load_factor", lambda: 5.0)
    found: list[float | None] = []
    monkeypatch.setattr(Future, "result", lambda _, seconds=None: found.append(seconds))
    for seconds in (0.5, 10.0):
        bounded.within(seconds, lambda: None)
    assert found == [2.5, 14.0]


def test_a_wait_does_not_need_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> tuple[float, float, float]:
        raise OSError

    monkeypatch.setattr(os, "getloadavg", unknown)
    assert bounded.within(30, lambda: 7) == 7


class Server:
    """Answers each probe when the test says so."""

    def __init__(self) -> None:
        self.probed, self.may_answer = threading.Semaphore(0), threading.Event()
        self.works = False

    def probe(self) -> None:
        self.probed.release()
        assert self.may_answer.wait(30)
        if not self.works:
            raise redis.ConnectionError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(outage, "_watching", True)
    made = Server()
    yield made
    made.works = True
    made.may_answer.set()


def test_the_cache_tries_until_a_probe_has_failed(server: Server) -> None:
    of_server = Outage("Redis", server.probe, "a test")
    hasty, patient = OneTry(of_server), OneTry(of_server, until_confirmed=True)

    def ask(retry: OneTry) -> int:
        return retry.call_with_retry(lambda: 7, lambda _: None)

    assert (ask(hasty), ask(patient)) == (7, 7)
    of_server.met(redis.TimeoutError())
    assert server.probed.acquire(timeout=30)
    assert ask(patient) == 7
    with pytest.raises(redis.ConnectionError):
        ask(hasty)
    server.may_answer.set()
    eventually(lambda: of_server.is_confirmed)
    with pytest.raises(redis.ConnectionError):
        ask(patient)
    server.works = True
    eventually(lambda: not of_server.is_on)
    assert (ask(hasty), ask(patient)) == (7, 7)


def test_the_cache_waits_longer_than_the_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "_watching", True)
    found = {}
    for kind in (Pool, CachePool):
        pool = kind.from_url("redis://127.0.0.1:1/0")
        found[kind] = pool.connection_kwargs["socket_timeout"]
    assert found == {Pool: 0.2, CachePool: 2.0}


#: Prints how often the thread has looked at the connections: without a statement, and during one of a second.
_LOOKS = """
import sys, time, psycopg2
from transferapi.outages import database
looks, look = [], database._look_once
database._look_once = lambda: looks.append(1) or look()
database.watch(database.OF_REQUESTS)
connection = psycopg2.connect(
    sys.argv[1], connection_factory=database.WatchedConnection, cursor_factory=database.WatchedCursor
)
time.sleep(1)
idle = len(looks)
for _ in range(2):
    connection.cursor().execute("SELECT pg_sleep(1)")
print(idle, len(looks) - idle)
"""


def test_connections_are_looked_at_while_there_are_statements_only(postgres: Postgres) -> None:
    words = [sys.executable, "-c", _LOOKS, postgres.url("postgres")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, cwd=CHECKOUT)
    idle, busy = map(int, done.stdout.split())
    assert idle == 0
    assert busy >= 2
