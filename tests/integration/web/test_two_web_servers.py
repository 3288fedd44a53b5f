"""Two web servers behind our nginx: what one refuses the other answers, and one that stops loses no request."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from identity import tokens
from identity.models import User
from tests.integration.web.web_server import web_server
from tests.servers.front_server import Nginx

pytestmark = [pytest.mark.nginx, pytest.mark.django_db(transaction=True)]
GIVEN = {"FRONT_MODE": "http", "FRONT_SECRET": "f" * 40, "REQUEST_SECONDS": "60"}
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
POSTS = ("/v0.10/transfer", "/v0.10/bookmark")


@pytest.fixture
def start(
    postgres: Postgres, django_db_setup: None, redis_server: Redis, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], AbstractContextManager[int]]:
    """Starts a web server, whose port the context manager gives; its end waits for every request."""

    def run() -> AbstractContextManager[int]:
        words = ["--graceful-timeout", "120"]
        return web_server(postgres, redis_server, tmp_path_factory.mktemp("web"), *words)

    return run


def ask(port: int, method: str, path: str, token: str = "") -> tuple[int, dict[str, object]]:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        asked.request(method, path, b"{}" if method == "POST" else None, headers)
        answer = asked.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        asked.close()


@contextmanager
def listener(answer: bytes, port: int = 0) -> Iterator[tuple[int, list[bytes]]]:
    """A server that reads the beginning of each request, and sends this; gives its port and what it has read."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", port)) as server:

        def serve() -> None:
            while True:
                try:
                    one = server.accept()[0]
                except OSError:
                    return
                with one:
                    seen.append(one.recv(65536))
                    one.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], seen
        finally:
            # The thread waits in `accept`, which `close` alone does not end.
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def front(running: ExitStack, one: int, other: int) -> int:
    nginx = Nginx.of_the_product(free_port(), **GIVEN, WEB=f"127.0.0.1:{one}", WEB_SECOND=f"127.0.0.1:{other}")
    return running.enter_context(nginx).port


def test_the_other_web_server_answers_what_one_refuses() -> None:
    with ExitStack() as running:
        port, seen = running.enter_context(listener(ANSWER))
        ours = front(running, free_port(), port)
        wanted = [("GET", "/v0.10/task_list"), *(("POST", path) for path in POSTS)] * 4
        assert [ask(ours, method, path)[0] for method, path in wanted] == [200] * len(wanted)
        assert len(seen) == len(wanted)


def test_web_servers_that_have_both_failed_are_tried_with_each_request() -> None:
    """Both were killed: the first one that listens again is used at once, and not after a second."""
    with ExitStack() as running:
        ports = free_port(), free_port()
        ours = front(running, *ports)
        for port in ports:
            assert [ask(ours, "GET", "/v0.10/task_list")[0] for _ in range(3)] == [502] * 3
            with listener(ANSWER, port):
                assert [ask(ours, method, path)[0] for method, path in (("POST", POSTS[0]), ("GET", "/"))] == [200, 200]


def test_a_post_that_was_sent_is_not_sent_again_and_a_get_is() -> None:
    """A submission could become two tasks, and a program would not learn of the first one."""
    with ExitStack() as running:
        broken, first = running.enter_context(listener(b""))
        whole, second = running.enter_context(listener(ANSWER))
        for path in POSTS:
            ours = front(running, broken, whole)
            answers = [ask(ours, "POST", path) for _ in range(2)]
            assert sorted(status for status, _ in answers) == [200, 502], answers
            [lost] = [document for status, document in answers if status == 502]
            assert lost["code"] == "ServiceUnavailable"
        assert (len(first), len(second)) == (2, 2)
        ours = front(running, broken, whole)
        assert [ask(ours, "GET", "/v0.10/task_list")[0] for _ in range(2)] == [200, 200]
        assert (len(first), len(second)) == (3, 4)


def test_one_of_two_web_servers_stops_and_no_request_fails(
    start: Callable[[], AbstractContextManager[int]], alice: User
) -> None:
    token = tokens.issue(alice)
    stopped = threading.Event()
    with ExitStack() as running:
        stops = running.enter_context(ExitStack())
        ours = front(running, stops.enter_context(start()), running.enter_context(start()))

        def client(method: str, path: str) -> list[int]:
            """Statuses of requests before, during and after the stop."""
            found: list[int] = []
            left = 20
            while left:
                found.append(ask(ours, method, path, token)[0])
                left -= stopped.is_set()
            return found

        with ThreadPoolExecutor(4) as clients:
            asked = [clients.submit(client, "GET", "/v0.10/submission_id") for _ in range(2)]
            # An empty document is refused by the application, so it was served.
            asked += [clients.submit(client, "POST", path) for path in POSTS]
            try:
                ask(ours, "GET", "/v0.10/submission_id", token)
                stops.close()
            finally:
                stopped.set()
            statuses = {status for one in asked for status in one.result(120)}
        assert statuses == {200, 400}
