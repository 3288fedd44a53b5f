"""Clients that send too slowly, or take nothing of their answer, do not hold up the others."""

from __future__ import annotations

import http.client
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.conf import settings

from deploy.endpoint.toolkit import free_port
from deploy.stack.child import spawn, stop
from deploy.stack.redis import Redis
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
CHECKOUT = Path(__file__).resolve().parents[2]
#: Two workers with eight threads.
THREADS = 16


@pytest.fixture
def port(database_url: str, redis_server: Redis, tmp_path: Path) -> Iterator[int]:
    """Of a web server whose clients have a second."""
    port = free_port()
    words = ["--config", "python:deploy.stack.gunicorn_conf", "--bind", f"127.0.0.1:{port}"]
    words += ["--worker-class", "tests.integration.quick_web.QuickWorker", "transferapi.wsgi"]
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_server.url(),
        "WAYBILL_SECRET_KEY": settings.SECRET_KEY,
        "WAYBILL_HOME": str(tmp_path),
    }
    log = tmp_path / "web.log"
    process = spawn([sys.executable, "-m", "gunicorn", *words], log=log, env=environ, cwd=CHECKOUT)
    try:
        eventually(lambda: log.read_text().count("Booting worker") == 2 or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield port
    finally:
        stop(process)
    assert "Traceback" not in log.read_text(), log.read_text()


def clients(port: int, beginning: bytes, closing: ExitStack, count: int = 2 * THREADS) -> list[socket.socket]:
    """So many that begin to say something."""
    made = [closing.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(count)]
    for one in made:
        one.sendall(beginning)
    return made


def status(port: int) -> int:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    asked.request("GET", "/")
    answer = asked.getresponse()
    answer.read()
    asked.close()
    return answer.status


HEAD = b"POST /v2/oauth2/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"


BEGINNINGS = {
    "first line": b"GET / HT",
    "head": HEAD + b"X-Slow: ",
    "body": HEAD + b"Content-Length: 1000\r\n\r\ngrant_type=",
    "chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\ngr",
}


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_others_are_served_when_more_clients_than_threads_do_not_finish(port: int, beginning: bytes) -> None:
    with ExitStack() as closing:
        slow = clients(port, beginning, closing)
        assert status(port) == 200
        for one in slow:
            # The end, after an error document perhaps: the server has not waited for us.
            while one.recv(65536):
                pass


def test_a_drop_now_and_then_does_not_help(port: int) -> None:
    with ExitStack() as closing:
        slow = clients(port, HEAD + b"Content-Length: 100000\r\n\r\n", closing, THREADS)
        ended = set()

        def drip() -> bool:
            for one in slow:
                try:
                    one.sendall(b"x")
                except OSError:
                    ended.add(one)
            return len(ended) == len(slow)

        eventually(drip)
        assert status(port) == 200


def test_who_takes_nothing_of_a_long_answer_is_left(port: int) -> None:
    """The description is asked for so often on one connection that its answers fill all that lies between."""
    asks = b"GET /v0.10/openapi HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40
    with ExitStack() as closing:
        clients(port, asks, closing)
        assert status(port) == 200


def test_who_is_quick_has_no_limit_to_his_requests(port: int) -> None:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(3):
        asked.request(
            "POST", "/v2/oauth2/token", b"grant_type=none", {"Content-Type": "application/x-www-form-urlencoded"}
        )
        answer = asked.getresponse()
        answer.read()
        assert answer.status == 400
    asked.close()
