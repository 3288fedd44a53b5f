"""Streams of events by the web server as it runs: they cost no thread, over TLS too, and nobody else waits for them."""

from __future__ import annotations

import errno
import http.client
import json
import os
import selectors
import signal
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, connections, transaction

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.models import Endpoint
from identity import tokens
from identity.clock import moment
from identity.models import User
from tests.gridftp.authority import Authority
from tests.integration.cast import make_user, submit
from tests.integration.tasks.test_mails import succeed
from tests.waiting import children_of, eventually
from transferapi.config import CHECKOUT
from transferapi.rest.push import event_broadcaster
from transferapi.tasks import events
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import Task

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Web:
    """gunicorn with the settings of the stack; `context` where it ends TLS."""

    port: int
    pid: int
    context: ssl.SSLContext | None
    readers: list[Reader] = field(default_factory=list)

    def listen(self, token: str, path: str = "/event_stream", version: str = "HTTP/1.1") -> Reader:
        self.readers.append(Reader(self, token, path, version))
        return self.readers[-1]

    def connection(self) -> http.client.HTTPConnection:
        if self.context:
            return http.client.HTTPSConnection("localhost", self.port, timeout=30, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def get(self, token: str, path: str) -> tuple[int, Any, http.client.HTTPMessage]:
        asked = self.connection()
        asked.request("GET", f"/v0.10{path}", headers={"Authorization": f"Bearer {token}"})
        answer = asked.getresponse()
        body = answer.read()
        asked.close()
        return answer.status, json.loads(body) if body else None, answer.headers

    def close_readers(self) -> None:
        while self.readers:
            self.readers.pop().close()

    def threads(self) -> int:
        """Number of threads of its workers."""
        return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in children_of(self.pid))


class Reader:
    """One stream, read when asked."""

    def __init__(self, web: Web, token: str, path: str, version: str) -> None:
        plain = socket.create_connection(("127.0.0.1", web.port), 30)
        self.socket = web.context.wrap_socket(plain, server_hostname="localhost") if web.context else plain
        lines = [f"GET /v0.10{path} {version}", "Host: localhost", f"Authorization: Bearer {token}", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self.raw = b""

    def until(self, words: bytes) -> None:
        while words not in self.raw:
            chunk = self.socket.recv(65536)
            assert chunk, self.raw
            self.raw += chunk

    def to_end(self) -> None:
        while chunk := self.socket.recv(65536):
            self.raw += chunk

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    def close(self) -> None:
        self.socket.close()


@pytest.fixture(scope="module")
def start(
    postgres: Postgres,
    django_db_setup: None,
    redis_server: Redis,
    tmp_path_factory: pytest.TempPathFactory,
    authority: Authority,
    host_of: Callable[[Authority], CertificateFiles],
) -> Callable[..., AbstractContextManager[Web]]:
    """Starts a web server as the product does: `start("http")`, with TLS `start("https")`; words: for gunicorn."""

    def run(scheme: str, *words: str) -> AbstractContextManager[Web]:
        host = host_of(authority) if scheme == "https" else None
        database_url = postgres.url(str(connections["default"].settings_dict["NAME"]))
        return _web_server(tmp_path_factory.mktemp("web"), database_url, redis_server, authority, host, words)

    return run


@pytest.fixture(scope="module")
def servers(start: Callable[..., AbstractContextManager[Web]]) -> Iterator[Callable[[str], Web]]:
    """The servers that the tests of this module share."""
    with ExitStack() as running:
        yield cache(lambda scheme: running.enter_context(start(scheme)))


@pytest.fixture
def web(request: pytest.FixtureRequest, servers: Callable[[str], Web]) -> Iterator[Web]:
    shared = servers(getattr(request, "param", "http"))
    yield shared
    shared.close_readers()


@contextmanager
def _web_server(
    tmp_path: Path,
    database_url: str,
    redis: Redis,
    authority: Authority,
    host: CertificateFiles | None,
    more: Sequence[str],
) -> Iterator[Web]:
    port = free_port()
    words = ["--config", "python:deploy.web.gunicorn_conf", "--bind", f"127.0.0.1:{port}", *more]
    context = ssl.create_default_context(capath=str(authority.certificates)) if host else None
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": database_url,
        "REDIS_URL": redis.url(),
        "WAYBILL_SECRET_KEY": settings.SECRET_KEY,
        "WAYBILL_RATE_LIMIT": "0",
        "WAYBILL_HOME": str(tmp_path),
        "WAYBILL_PORT": str(port),
        "WAYBILL_CERTIFICATES": str(authority.certificates),
    }
    if host:
        environ |= {"WAYBILL_TLS_CERTIFICATE": str(host.certificate), "WAYBILL_TLS_KEY": str(host.key)}
    log = tmp_path / "web.log"
    process = spawn([sys.executable, "-m", "gunicorn", *words, "transferapi.wsgi"], log=log, env=environ, cwd=CHECKOUT)
    try:
        eventually(lambda: "Booting worker" in log.read_text() or process.poll() is not None, seconds=90)
        assert process.poll() is None, log.read_text()
        running = Web(port, process.pid, context)
        yield running
        running.close_readers()
    finally:
        stop(process)
    assert "Traceback" not in log.read_text(), log.read_text()


def tell(task: Task, code: str) -> None:
    with transaction.atomic():
        events.append(task.pk, [NewEvent(code, "")], moment())


@pytest.mark.parametrize("web", ["http", "https"], indirect=True)
def test_a_stream_is_told_what_happens_and_ends_as_it_should(
    web: Web, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task, token = submit(alice, ep1, ep2), tokens.issue(alice)
    readers = [web.listen(token, f"/task/{task.pk}/event_stream", version) for version in ("HTTP/1.1", "HTTP/1.0")]
    for reader in readers:
        reader.until(b"event: task\n")
    tell(task, "ONE")
    for reader in readers:
        reader.until(b"event: ONE\n")
    succeed(task)
    for reader in readers:
        reader.to_end()
    chunked, plain = readers
    assert b"\r\nConnection: close\r\n" in chunked.raw
    assert b"\r\nTransfer-Encoding: chunked\r\n" in chunked.raw
    assert chunked.raw.endswith(b"\r\n0\r\n\r\n")
    assert b"chunked" not in plain.raw
    assert plain.raw.endswith(b"\n\n")
    assert b"event: SUCCEEDED\n" in plain.raw
    # Python's own client takes the chunks for what they are.
    asked = web.connection()
    asked.request(
        "GET",
        f"/v0.10/task/{task.pk}/event_stream",
        headers={"Authorization": f"Bearer {token}", "Last-Event-ID": "0"},
    )
    whole = asked.getresponse().read()
    asked.close()
    assert [line for line in whole.split(b"\n") if line.startswith(b"event: ")] == [
        b"event: SUBMITTED", b"event: ONE", b"event: SUCCEEDED", b"event: task",
    ]  # fmt: skip


@pytest.mark.parametrize("web", ["http", "https"], indirect=True)
def test_a_hundred_streams_cost_no_thread_and_requests_are_served_beside_them(
    web: Web, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task, token = submit(alice, ep1, ep2), tokens.issue(alice)
    users = [make_user(f"user{number}") for number in range(14)]
    theirs = [tokens.issue(user) for user in users]
    assert web.get(token, f"/task/{task.pk}")[0] == 200
    readers = [web.listen(one) for one in theirs for _ in range(7)]
    readers += [web.listen(token), web.listen(token, f"/task/{task.pk}/event_stream")]
    assert len(readers) == 100
    for reader in readers:
        reader.until(b"id: ")
        assert reader.status == 200
    # Eight for requests, one that accepts, the broadcaster's two, and two that watch PostgreSQL and the version of the
    # schema, in each of two processes.
    assert web.threads() <= 2 * (8 + 1 + 2 + 2 + 1)
    for number in range(20):
        tell(task, f"E{number}")
        assert web.get(token, f"/task/{task.pk}")[0] == 200
    for reader in readers[-2:]:
        reader.until(b"event: E19\n")
    assert b"event: E" not in b"".join(reader.raw for reader in readers[:-2])
    _kill_listeners()
    tell(task, "AFTER")
    assert web.get(token, f"/task/{task.pk}")[0] == 200
    for reader in readers[-2:]:
        reader.until(b"event: AFTER\n")
    for reader in readers:
        reader.close()


def _kill_listeners() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND query <> ''"
        )
        assert cursor.rowcount >= 2


def test_with_all_streams_taken_requests_are_served_and_a_place_is_free_again_when_one_goes(
    web: Web, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task, token = submit(alice, ep1, ep2), tokens.issue(alice)
    taken: list[Reader] = []
    refused = 0
    # Repeat until both processes have eight streams: the kernel chooses the process that accepts.
    while len(taken) < 2 * event_broadcaster.MOST_OF_A_USER:
        reader = web.listen(token)
        reader.until(b"\r\n\r\n")
        if reader.status == 200:
            taken.append(reader)
        else:
            assert reader.status == 429
            assert b"\r\nRetry-After: " in reader.raw
            refused += 1
            assert refused < 500
            reader.close()
    for _ in range(10):
        assert web.get(token, "/event_stream")[0] == 429
        assert web.get(token, f"/task/{task.pk}")[0] == 200
    for reader in taken:
        reader.close()
    eventually(lambda: _opens(web, token))


def _opens(web: Web, token: str) -> bool:
    reader = web.listen(token)
    reader.until(b"\r\n\r\n")
    reader.close()
    return reader.status == 200


@pytest.fixture
def single(start: Callable[..., AbstractContextManager[Web]]) -> Iterator[Web]:
    """A web server with one process."""
    with start("http", "--workers", "1") as running:
        yield running


def test_a_stream_whose_client_is_gone_before_it_begins_gives_its_place_back(single: Web, alice: User) -> None:
    """The server has read each request, and waits for the database while its client goes away."""
    web, token = single, tokens.issue(alice)
    for _ in range(event_broadcaster.MOST_OF_A_USER + 1):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE identity_apitoken IN ACCESS EXCLUSIVE MODE")
            gone = web.listen(token)
            eventually(lambda: _waits_for_a_lock(cursor))
            # Without a goodbye: whatever is written to it then fails at once.
            gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.close()
    eventually(lambda: _opens(web, token))


def _waits_for_a_lock(cursor: Any) -> bool:
    cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'identity_apitoken'::regclass")
    return bool(cursor.fetchone()[0])


def test_a_server_that_is_asked_to_stop_finishes_its_requests_and_its_streams(
    start: Callable[..., AbstractContextManager[Web]], alice: User
) -> None:
    """The request waits for a lock in the database. A connection without one is closed when the stop has begun."""
    token = tokens.issue(alice)
    with start("http", "--workers", "1", "--graceful-timeout", "60") as web:
        stream, idle = web.listen(token), web.connection()
        stream.until(b"id: ")
        idle.request("GET", "/healthz/none")
        idle.getresponse().read()
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE identity_apitoken IN ACCESS EXCLUSIVE MODE")
            under_way = web.listen(token, "/submission_id")
            eventually(lambda: _waits_for_a_lock(cursor))
            os.kill(web.pid, signal.SIGTERM)
            assert idle.sock is not None
            assert idle.sock.recv(1) == b""
        under_way.to_end()
        assert under_way.status == 200
        stream.to_end()
        assert stream.raw.endswith(b"\r\n0\r\n\r\n")
        idle.close()


def test_a_worker_that_stops_answers_what_has_come_and_refuses_what_comes_later(
    start: Callable[..., AbstractContextManager[Web]], alice: User
) -> None:
    """While a request is under way nobody else takes connections: one that waited would be reset at the end."""
    token = tokens.issue(alice)
    with start("http", "--workers", "1", "--graceful-timeout", "60") as web:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE identity_apitoken IN ACCESS EXCLUSIVE MODE")
            under_way = web.listen(token, "/submission_id")
            eventually(lambda: _waits_for_a_lock(cursor))
            [worker] = children_of(web.pid)
            # It finds both at once: five connections, and the order to stop.
            os.kill(worker, signal.SIGSTOP)
            waiting = [web.listen(token, "/submission_id") for _ in range(5)]
            os.kill(web.pid, signal.SIGTERM)
            os.kill(worker, signal.SIGTERM)
            os.kill(worker, signal.SIGCONT)
            eventually(lambda: _refuses(web.port))
        for reader in (under_way, *waiting):
            reader.to_end()
        assert [reader.status for reader in (under_way, *waiting)] == [200] * 6


def _refuses(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def test_a_reader_that_takes_nothing_holds_up_nobody(web: Web, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task, token = submit(alice, ep1, ep2), tokens.issue(alice)
    slow, quick = web.listen(token), web.listen(token)
    slow.until(b"id: ")
    quick.until(b"id: ")
    text = "x" * 15_000
    for number in range(400):
        with transaction.atomic():
            events.append(task.pk, [NewEvent(f"E{number}", "", text)], moment())
        if number % 20 == 19:
            quick.until(f"event: E{number}\n".encode())
    # Six megabytes later the slow one begins to read, and finds all of it.
    begun = time.monotonic()
    slow.until(b"event: E399\n")
    assert time.monotonic() - begun < 60
    assert all(slow.raw.count(f"event: E{number}\n".encode()) == 1 for number in range(400))


def test_who_says_too_much_is_hung_up_on(web: Web, alice: User) -> None:
    reader = web.listen(tokens.issue(alice))
    reader.until(b"id: ")
    with selectors.DefaultSelector() as selector:
        selector.register(reader.socket, selectors.EVENT_READ)
        until = time.monotonic() + 30
        gone = False
        while not gone:
            assert time.monotonic() < until
            try:
                reader.socket.sendall(b"x" * 8192)
                gone = bool(selector.select(0.01)) and reader.socket.recv(65536) == b""
            except OSError:
                gone = True


def test_the_web_server_ends_at_once_with_streams_open(single: Web, alice: User) -> None:
    reader = single.listen(tokens.issue(alice))
    reader.until(b"id: ")
    os.kill(single.pid, 15)
    begun = time.monotonic()
    reader.to_end()
    assert time.monotonic() - begun < 20
