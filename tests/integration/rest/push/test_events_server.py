"""Streams of events by the events server as it runs: they cost no thread, over TLS too, and delay nobody."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from typing import Any

import pytest
from django.db import connection, connections, transaction

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from deploy.stack.roles import EVENTS
from endpoints.models import Endpoint
from identity import tokens
from identity.clock import moment
from identity.models import User
from tests.gridftp.authority import Authority
from tests.integration.cast import make_user, submit
from tests.integration.rest.push.stream_servers import Web, running_server
from tests.integration.tasks.test_mails import succeed
from tests.waiting import eventually
from transferapi.rest.push import event_broadcaster
from transferapi.tasks import events
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import Task

pytestmark = pytest.mark.django_db(transaction=True)

#: Views (`transferapi.asgi.THREADS`), the loop, the broadcaster's reader, Django's own thread for signals, and two that
#: watch PostgreSQL and the version of the schema.
MOST_THREADS = 4 + 1 + 1 + 1 + 2


@pytest.fixture(scope="module")
def start(
    postgres: Postgres,
    django_db_setup: None,
    redis_server: Redis,
    tmp_path_factory: pytest.TempPathFactory,
    authority: Authority,
    host_of: Callable[[Authority], CertificateFiles],
) -> Callable[..., AbstractContextManager[Web]]:
    """Starts an events server as the product does: `start("http")`, with TLS `start("https")`; words: for gunicorn."""

    def run(scheme: str, *words: str) -> AbstractContextManager[Web]:
        host = host_of(authority) if scheme == "https" else None
        database_url = postgres.url(str(connections["default"].settings_dict["NAME"]))
        folder = tmp_path_factory.mktemp("events")
        return running_server(EVENTS, folder, database_url, redis_server, authority, host, words)

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


def tell(task: Task, code: str) -> None:
    with transaction.atomic():
        events.append(task.pk, [NewEvent(code, "")], moment())


@pytest.mark.parametrize("web", ["http", "https"], indirect=True)
def test_a_stream_gets_what_happens_and_ends_as_it_should(web: Web, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
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
    assert b"\r\nconnection: close\r\n" in chunked.raw.lower()
    assert b"\r\ntransfer-encoding: chunked\r\n" in chunked.raw.lower()
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
def test_a_hundred_streams_cost_no_thread_and_outlive_the_connection_of_the_database(
    web: Web, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task, token = submit(alice, ep1, ep2), tokens.issue(alice)
    users = [make_user(f"user{number}") for number in range(14)]
    theirs = [tokens.issue(user) for user in users]
    readers = [web.listen(one) for one in theirs for _ in range(7)]
    readers += [web.listen(token), web.listen(token, f"/task/{task.pk}/event_stream")]
    assert len(readers) == 100
    for reader in readers:
        reader.until(b"id: ")
        assert reader.status == 200
    assert web.threads() <= MOST_THREADS
    for number in range(20):
        tell(task, f"E{number}")
    for reader in readers[-2:]:
        reader.until(b"event: E19\n")
    assert b"event: E" not in b"".join(reader.raw for reader in readers[:-2])
    _kill_listeners()
    tell(task, "AFTER")
    for reader in readers[-2:]:
        reader.until(b"event: AFTER\n")
    for reader in readers:
        reader.close()


def test_nothing_but_streams_and_what_watches_is_served(web: Web, alice: User) -> None:
    token = tokens.issue(alice)
    for path in ("/task_list", "/submission_id", "/event_stream/more"):
        assert web.get(token, path)[0] == 404
    posted = web.connection()
    posted.request("POST", "/v0.10/event_stream", body=b"x" * 100_000, headers={"Authorization": f"Bearer {token}"})
    assert posted.getresponse().status == 404
    posted.close()
    upgraded = web.connection()
    fields = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgraded.request("GET", "/v0.10/event_stream", headers={**fields, "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert upgraded.getresponse().status == 403
    upgraded.close()
    watched = web.connection()
    for path in ("/healthz", "/readyz?exclude=sweep", "/metrics"):
        watched.request("GET", path)
        answer = watched.getresponse()
        assert (answer.status, answer.read() != b"") == (200, True)
    watched.close()
    assert web.get("no token", "/event_stream")[0] == 401


def _kill_listeners() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND query <> ''"
        )
        assert cursor.rowcount >= 1


def test_with_all_streams_of_a_user_taken_a_place_is_free_again_when_one_goes(web: Web, alice: User) -> None:
    token = tokens.issue(alice)
    taken = [web.listen(token) for _ in range(event_broadcaster.MOST_OF_A_USER)]
    for reader in taken:
        reader.until(b"id: ")
    for _ in range(10):
        status, _, headers = web.get(token, "/event_stream")
        assert (status, "Retry-After" in headers) == (429, True)
    assert _opens(web, tokens.issue(make_user("bob"))), "the places of others are theirs"
    taken[0].close()
    eventually(lambda: _opens(web, token))


def _opens(web: Web, token: str) -> bool:
    reader = web.listen(token)
    reader.until(b"\r\n\r\n")
    reader.close()
    return reader.status == 200


def test_a_stream_whose_client_is_gone_before_it_begins_gives_its_place_back(web: Web, alice: User) -> None:
    """The server has read each request, and waits for the database while its client goes away."""
    token = tokens.issue(alice)
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


def test_what_a_client_sends_after_its_request_is_not_kept(web: Web, alice: User) -> None:
    """The server takes no more of it, or closes the connection; other streams go on."""
    token = tokens.issue(alice)
    talks, listens = web.listen(token), web.listen(token)
    talks.until(b"id: ")
    listens.until(b"id: ")
    talks.socket.setblocking(False)
    sent, until = 0, time.monotonic() + 20
    with selectors.DefaultSelector() as selector:
        selector.register(talks.socket, selectors.EVENT_WRITE)
        try:
            while sent < 64 << 20 and time.monotonic() < until and selector.select(2):
                sent += talks.socket.send(b"x" * 65536)
        except OSError:
            pass
    assert sent < 64 << 20
    assert _opens(web, token)


def test_streams_end_as_answers_do_when_the_server_stops(
    start: Callable[..., AbstractContextManager[Web]], alice: User
) -> None:
    with start("http") as web:
        readers = [web.listen(tokens.issue(alice)) for _ in range(3)]
        for reader in readers:
            reader.until(b"id: ")
        begun = time.monotonic()
        os.kill(web.pid, signal.SIGTERM)
        for reader in readers:
            reader.to_end()
        assert time.monotonic() - begun < 20
    assert all(reader.raw.endswith(b"\r\n0\r\n\r\n") for reader in readers)
