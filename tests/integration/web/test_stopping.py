"""A web server that is asked to stop: what it has begun to answer it answers, and later connections are refused."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from deploy.stack.roles import WEB
from identity import tokens
from identity.models import User
from tests.gridftp.authority import Authority
from tests.integration.rest.push.stream_servers import Web, running_server
from tests.waiting import children_of, eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def start(
    postgres: Postgres, redis_server: Redis, tmp_path: Path, authority: Authority
) -> Callable[..., AbstractContextManager[Web]]:
    """Starts a web server; words: for gunicorn."""

    def run(*words: str) -> AbstractContextManager[Web]:
        database_url = postgres.url(str(connections["default"].settings_dict["NAME"]))
        return running_server(WEB, tmp_path, database_url, redis_server, authority, more=words)

    return run


def _waits_for_a_lock(cursor: Any) -> bool:
    cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'identity_apitoken'::regclass")
    return bool(cursor.fetchone()[0])


def test_a_server_that_is_asked_to_stop_finishes_its_requests_and_its_streams(
    start: Callable[..., AbstractContextManager[Web]], alice: User
) -> None:
    """The request waits for a lock in the database. A connection without one is closed when the stop has begun."""
    token = tokens.issue(alice)
    with start("--workers", "1", "--graceful-timeout", "60") as web:
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
    with start("--workers", "1", "--graceful-timeout", "60") as web:
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
