"""Clients that send too slowly, take nothing, or ask too much do not hold up the others: behind nginx and HAProxy.

Each client has an address of its own, since the servers in front limit addresses.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import select
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from django.db import connection, transaction

from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.concurrency_limits import BODIES
from identity import tokens
from identity.models import User
from tests.integration.web.web_server import web_server
from tests.servers.front_server import Nginx, haproxy
from tests.waiting import eventually

pytestmark = [pytest.mark.nginx, pytest.mark.django_db(transaction=True)]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MB = 1 << 20
HAPROXY = pytest.param("haproxy", marks=pytest.mark.haproxy)


@pytest.fixture(scope="module")
def web(
    postgres: Postgres,
    django_db_setup: None,
    redis_server: Redis,
    tmp_path_factory: pytest.TempPathFactory,
    running: ExitStack,
) -> int:
    """Port of a web server of one process with eight threads, which believes servers at 127.0.0.1."""
    folder, environ = tmp_path_factory.mktemp("web"), {"WAYBILL_FRONT_SERVERS": "127.0.0.1/32"}
    return running.enter_context(web_server(postgres, redis_server, folder, "--workers", "1", **environ))


@pytest.fixture(scope="module")
def nginx(web: int, running: ExitStack) -> int:
    given = {"FRONT_MODE": "http", "FRONT_SECRET": "", "REQUEST_SECONDS": "60", "WEB": f"127.0.0.1:{web}"}
    return running.enter_context(Nginx.of_the_product(free_port(), **given)).port


@pytest.fixture(scope="module", params=["nginx", HAPROXY])
def front(request: pytest.FixtureRequest, web: int, running: ExitStack) -> int:
    """Port of each of our front servers."""
    if request.param == "nginx":
        return int(request.getfixturevalue("nginx"))
    return running.enter_context(haproxy(f"127.0.0.1:{web}")).port


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(port: int, closing: ExitStack, beginning: bytes = b"", *, of: str = "127.0.0.2") -> socket.socket:
    """of: the address of the client."""
    made = closing.enter_context(socket.create_connection(("127.0.0.1", port), 60, (of, 0)))
    made.sendall(beginning)
    return made


def address(number: int) -> str:
    """One of many clients; each front server allows an address 200 connections."""
    return f"127.0.1.{number // 100 + 1}"


def ask(
    port: int, method: str = "GET", path: str = "/", body: bytes | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """As a client with an address that no other has."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=("127.0.0.9", 0))
    asked.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = asked.getresponse()
    found = answer.read()
    asked.close()
    return answer.status, answer.headers, found


def authorized(user: User) -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens.issue(user)}", "Content_Type": "application/json"}


def to_end(client: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(65536):
            found += chunk
    return found


def ended(clients: list[socket.socket]) -> list[socket.socket]:
    """Clients whose connection the server has closed, or to which it has sent something."""
    poll = select.poll()
    by_number = {one.fileno(): one for one in clients}
    for number in by_number:
        poll.register(number, select.POLLIN | select.POLLHUP)
    return [by_number[number] for number, _ in poll.poll(0)]


HEAD = b"POST /v2/oauth2/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
BEGINNINGS = {
    "nothing": b"",
    "first line": b"GET / HT",
    "head": HEAD + b"X-Slow: ",
    "body": HEAD + b"Content-Length: 60000\r\n\r\ngrant_type=",
}


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_others_are_served_while_200_clients_do_not_finish(front: int, beginning: bytes, closing: ExitStack) -> None:
    slow = [connect(front, closing, beginning, of=address(number)) for number in range(200)]
    for _ in range(4):
        assert ask(front)[0] == 200
        for one in slow[:24]:
            # A server may end who sends what is no request.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                one.sendall(b"x")
        assert ask(front, "POST", "/v2/oauth2/token", b"grant_type=none", **FORM)[0] == 400
    assert ended(slow[24:]) == []


def test_others_are_served_while_1000_clients_do_not_finish(front: int, closing: ExitStack) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("this account may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    slow = [connect(front, closing, b"GET / HTTP/1.1\r\nX-Slow: ", of=address(number)) for number in range(1000)]
    for _ in range(4):
        assert ask(front)[0] == 200
    assert ended(slow) == []


def test_who_takes_nothing_of_long_answers_holds_no_thread(front: int, closing: ExitStack) -> None:
    asks = b"GET /v0.10/openapi HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(24):
        one = closing.enter_context(socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.bind(("127.0.0.3", 0))
        one.connect(("127.0.0.1", front))
        one.sendall(asks)
    for _ in range(4):
        assert ask(front)[0] == 200


# ---- bodies


def long_body(token: str, length: int, more: bytes = b"") -> bytes:
    head = b"POST /v0.10/transfer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return head + authorization.encode() + b"Content-Length: %d\r\n" % length + more + b"\r\n"


@pytest.mark.parametrize("token", ["", "wrong"])
def test_the_long_body_of_a_stranger_is_refused_by_its_head(front: int, token: str, closing: ExitStack) -> None:
    head = long_body(token, 40 * MB, b"Expect: 100-continue\r\n")
    slow = [connect(front, closing, head, of=address(number * 10)) for number in range(24)]
    for one in slow:
        # The server may send 100 Continue before it refuses the request.
        answer = b""
        while b"HTTP/1.1 401 " not in answer:
            chunk = one.recv(65536)
            assert chunk, answer
            answer += chunk
    assert ask(front)[0] == 200


def parsed(answer: bytes) -> tuple[bytes, set[bytes], dict[str, str]]:
    """The status, the names of the headers, and the document without what differs for each request."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    document = json.loads(body)
    assert len(document.pop("request_id")) > 5
    return status.split(b" ")[1], {line.partition(b":")[0].lower() for line in headers}, document


def test_a_refusal_by_the_head_is_that_of_the_application(front: int, alice: User, closing: ExitStack) -> None:
    early = parsed(connect(front, closing, long_body("", 40 * MB)).recv(65536))
    short = long_body("", 2, b"Connection: close\r\n") + b"{}"
    late = parsed(to_end(connect(front, closing, short)))
    assert (early[0], early[2]) == (b"401", late[2]) == (late[0], early[2])
    wanted = {b"www-authenticate", b"x-transfer-api-error", b"cache-control", b"content-type"}
    assert early[1] >= wanted
    assert late[1] >= wanted
    status, _, document = parsed(connect(front, closing, long_body(tokens.issue(alice), 49 * MB)).recv(65536))
    assert (status, document["code"], document["resource"]) == (b"413", "ClientError.RequestTooLarge", "/transfer")


def test_long_bodies_of_a_user_that_stop_hold_no_thread(nginx: int, alice: User, closing: ExitStack) -> None:
    beginning = long_body(tokens.issue(alice), 20 * MB) + b"[" * 100_000
    slow = [connect(nginx, closing, beginning) for _ in range(18)]
    body = b" " * 2 * MB + b"{}"
    for _ in range(4):
        assert ask(nginx)[0] == 200
        status, _, document = ask(nginx, "POST", "/v0.10/transfer", body, **authorized(alice))
        assert (status, b"submission_id" in document) == (400, True)
    assert ended(slow) == []


def test_nginx_keeps_20_long_bodies_of_an_address_at_a_time(nginx: int, alice: User, closing: ExitStack) -> None:
    beginning = long_body(tokens.issue(alice), 20 * MB) + b"[" * 100_000
    many = [connect(nginx, closing, beginning) for _ in range(25)]
    eventually(lambda: len(ended(many)) == 5)
    assert all(b" 429 " in one.recv(65536).split(b"\r\n")[0] for one in ended(many))


@pytest.mark.haproxy
def test_of_bodies_that_arrive_slowly_a_user_may_send_a_few_at_a_time(
    web: int, alice: User, bob: User, closing: ExitStack
) -> None:
    """HAProxy keeps no long body: a thread reads it while it arrives."""
    port = closing.enter_context(haproxy(f"127.0.0.1:{web}")).port
    beginning = long_body(tokens.issue(alice), 20 * MB) + b"[" * 100_000
    slow = [connect(port, closing, beginning) for _ in range(24)]
    eventually(lambda: len(ended(slow)) == len(slow) - BODIES.per_user)
    assert all(b" 429 " in one.recv(65536).split(b"\r\n")[0] for one in ended(slow))
    status, _, document = ask(port, "POST", "/v0.10/transfer", b" " * 2 * MB + b"{}", **authorized(bob))
    assert (status, b"submission_id" in document) == (400, True)


@pytest.mark.parametrize("length", [0, 10, 64 << 10, 200_000, 3 * MB])
def test_the_application_has_the_body_to_its_last_octet(front: int, alice: User, length: int) -> None:
    status, _, document = ask(front, "POST", "/v0.10/transfer", b" " * length + b'"', **authorized(alice))
    assert (status, b"JSON parse error" in document) == (400, True)
    status, _, document = ask(front, "POST", "/v0.10/transfer", b" " * length + b'"x"', **authorized(alice))
    assert (status, b"expected a JSON object" in document) == (400, True)


def test_a_client_that_waits_for_100_continue_gets_it_where_the_body_is_read(
    front: int, alice: User, closing: ExitStack
) -> None:
    for length in (10, 3 * MB):
        one = connect(front, closing, long_body(tokens.issue(alice), length, b"Expect: 100-continue\r\n"))
        assert one.recv(65536).startswith(b"HTTP/1.1 100 Continue\r\n")
        one.sendall(b"[" * length)
        assert b"400 Bad Request" in one.recv(65536)


# ---- requests that are no requests


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\nHost: localhost\n\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused_by_the_web_server_too(
    web: int, said: bytes, status: int, closing: ExitStack
) -> None:
    assert connect(web, closing, said).recv(65536).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "PATH_INFO", "X_FORWARDED_FOR"])
def test_headers_that_servers_in_front_might_set_change_nothing(web: int, name: str, closing: ExitStack) -> None:
    said = f"GET / HTTP/1.1\r\nHost: localhost\r\n{name}: /elsewhere\r\nConnection: close\r\n\r\n"
    assert to_end(connect(web, closing, said.encode())).startswith(b"HTTP/1.1 200 OK")


# ---- floods of requests that are as they should be


@contextlib.contextmanager
def locked(table: str) -> Iterator[Callable[[], int]]:
    """Lock a table: who reads it waits, with all that then wait for them. Gives how many database sessions wait."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")

        def waiting() -> int:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            return int(cursor.fetchone()[0])

        yield waiting


def get(path: str, token: str, more: str = "") -> bytes:
    authorization = f"Authorization: Bearer {token}\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}{more}Connection: close\r\n\r\n".encode()


@pytest.mark.parametrize("more", [lambda _: "", "Cookie: any={}\r\n".format], ids=["token", "token and any cookies"])
def test_a_flood_of_one_credential_does_not_hold_up_another_of_its_address(
    front: int, alice: User, bob: User, closing: ExitStack, more: Callable[[int], str]
) -> None:
    theirs, own = tokens.issue(alice), tokens.issue(bob)
    with locked("endpoints_bookmark") as waiting:
        flood = [connect(front, closing, get("/v0.10/bookmark_list", theirs, more(number))) for number in range(40)]
        eventually(lambda: (waiting(), len(ended(flood))) == (6, 34))
        for _ in range(4):
            assert to_end(connect(front, closing, get("/v0.10/task_list", own))).startswith(b"HTTP/1.1 200 ")
        refused = ended(flood)
        assert (waiting(), len(refused)) == (6, 34)
    answers = [(one in refused, to_end(one)) for one in flood]
    assert all(answer.split(b" ")[1] == (b"429" if early else b"200") for early, answer in answers)
    assert all(b"\r\nretry-after: 1\r\n" in answer.lower() for early, answer in answers if early)


def test_a_network_with_many_tokens_leaves_a_thread_to_the_others(
    front: int, alice: User, bob: User, closing: ExitStack
) -> None:
    theirs, own = [tokens.issue(alice) for _ in range(4)], tokens.issue(bob)
    with locked("endpoints_bookmark") as waiting:
        flood = [connect(front, closing, get("/v0.10/bookmark_list", token)) for token in theirs * 5]
        eventually(lambda: (waiting(), len(ended(flood))) == (7, 13))
        for _ in range(4):
            one = connect(front, closing, get("/v0.10/task_list", own), of="127.0.0.5")
            assert to_end(one).startswith(b"HTTP/1.1 200 ")
        assert waiting() == 7


def test_a_flood_without_a_credential_does_not_hold_up_who_has_one(front: int, bob: User, closing: ExitStack) -> None:
    own = tokens.issue(bob)
    body = b"grant_type=client_credentials&client_id=%s&client_secret=none" % str(uuid.uuid4()).encode()
    with locked("oauth2_provider_application") as waiting:
        one = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        flood = [connect(front, closing, one) for _ in range(40)]
        eventually(lambda: (waiting(), len(ended(flood))) == (6, 34))
        for _ in range(4):
            assert to_end(connect(front, closing, get("/v0.10/task_list", own))).startswith(b"HTTP/1.1 200 ")
        assert waiting() == 6
