"""Clients that send too slowly, or take nothing of their answer, do not hold up the others."""

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

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from deploy.web.connections import MAX_HEAD, SMALL_BODY
from endpoints import registry
from endpoints.models import Endpoint
from identity import tokens
from identity.models import User
from tests.integration.web.web_server import web_server
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MB = 1 << 20


@pytest.fixture(scope="module")
def start(
    postgres: Postgres, django_db_setup: None, redis_server: Redis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., int]]:
    """Starts a web server as the product does, but for the words; returns its port."""
    with ExitStack() as running:

        def run(*words: str, **environ: str) -> int:
            folder = tmp_path_factory.mktemp("web")
            return running.enter_context(web_server(postgres, redis_server, folder, *words, **environ))

        yield run


@pytest.fixture(scope="module")
def port(start: Callable[..., int]) -> int:
    """Port of a web server with default settings: two processes with eight threads each, and 30 s for a head."""
    return start()


@pytest.fixture(scope="module")
def quick(start: Callable[..., int]) -> int:
    """Port of a web server that gives clients a second, with one process for 100 connections."""
    environ = {"WAYBILL_REQUEST_SECONDS": "13", "WAYBILL_ALLOW_TARGETS": "127.0.0.1/32"}
    return start("--workers", "1", "--worker-class", "tests.integration.web.quick_web.QuickWorker", **environ)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(port: int, closing: ExitStack, beginning: bytes = b"", *, of: str = "127.0.0.1") -> socket.socket:
    """of: the address of the client."""
    made = closing.enter_context(socket.create_connection(("127.0.0.1", port), 60, (of, 0)))
    made.sendall(beginning)
    return made


def ask(
    port: int, method: str = "GET", path: str = "/", body: bytes | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    asked.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = asked.getresponse()
    found = answer.read()
    asked.close()
    return answer.status, answer.headers, found


def to_end(client: socket.socket) -> bytes:
    found = b""
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
    "body": HEAD + b"Content-Length: 1000\r\n\r\ngrant_type=",
}


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_others_are_served_while_200_clients_do_not_finish(port: int, beginning: bytes, closing: ExitStack) -> None:
    slow = [connect(port, closing, beginning) for _ in range(200)]
    for _ in range(4):
        assert ask(port)[0] == 200
        for one in slow[:24]:
            one.sendall(b"x")
        assert ask(port, "POST", "/v2/oauth2/token", b"grant_type=none", **FORM)[0] == 400
    assert ended(slow) == []


def test_others_are_served_while_1000_clients_do_not_finish(port: int, closing: ExitStack) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("this account may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    slow = [connect(port, closing, b"GET / HTTP/1.1\r\nX-Slow: ") for _ in range(1000)]
    for _ in range(4):
        assert ask(port)[0] == 200
    assert ended(slow) == []


@pytest.mark.parametrize("beginning", [one for one in BEGINNINGS.values() if one])
def test_who_does_not_finish_is_left(quick: int, beginning: bytes, closing: ExitStack) -> None:
    for one in [connect(quick, closing, beginning) for _ in range(20)]:
        to_end(one)


def test_a_drop_now_and_then_does_not_help(quick: int, alice: User, closing: ExitStack) -> None:
    small = HEAD + b"Content-Length: 60000\r\n\r\n"
    long = long_body(tokens.issue(alice), 200 * MB)
    slow = {connect(quick, closing, beginning) for beginning in [small, long] * 10}
    assert ask(quick)[0] == 200
    gone: set[socket.socket] = set()

    def drip() -> bool:
        for one in slow - gone:
            try:
                one.sendall(b"x")
            except OSError:
                gone.add(one)
        return gone == slow

    eventually(drip)


def test_where_there_is_no_room_the_slowest_goes(quick: int, closing: ExitStack) -> None:
    slow = []
    for _ in range(3):
        slow += [connect(quick, closing, b"GET / HTTP/1.1\r\nX-Slow: ") for _ in range(80)]
        assert ask(quick)[0] == 200
    assert len(ended(slow)) >= len(slow) - 100


def test_who_takes_nothing_of_long_answers_holds_no_thread(port: int, closing: ExitStack) -> None:
    """The description is asked for so often on one connection that its answers fill all that lies between."""
    asks = b"GET /v0.10/openapi HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4
    slow = []
    for _ in range(24):
        slow.append(closing.enter_context(socket.socket()))
        slow[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow[-1].connect(("127.0.0.1", port))
        slow[-1].sendall(asks)
    for _ in range(4):
        assert ask(port)[0] == 200


def test_who_takes_long_answers_late_gets_all_of_them(port: int, closing: ExitStack) -> None:
    asks = b"GET /v0.10/openapi HTTP/1.1\r\nHost: localhost\r\n\r\n" * 19
    one = connect(port, closing, asks + b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert ask(port)[0] == 200
    assert to_end(one).count(b"HTTP/1.1 200 OK") == 20


def test_who_has_sent_a_request_is_answered_however_long_the_work_takes(quick: int, alice: User) -> None:
    """A server that says nothing is given up after 3 s here; the client had 1 s to ask."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        spec = registry.ServerSpec.parse(f"ftp://127.0.0.1:{silent.getsockname()[1]}")
        registry.create(alice, {"name": "silent", "display_name": "silent"}, [spec])
        status, _, document = ask(
            quick, "GET", "/v0.10/operation/endpoint/alice%23silent/ls", None, **authorized(alice)
        )
    assert (status, b"ExternalError.DirListingFailed.Timeout" in document) == (502, True)


# ---- bodies


def long_body(token: str, length: int, more: bytes = b"") -> bytes:
    head = b"POST /v0.10/transfer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return head + authorization.encode() + b"Content-Length: %d\r\n" % length + more + b"\r\n"


@pytest.mark.parametrize("token", ["", "wrong"])
def test_the_long_body_of_a_stranger_is_not_read(port: int, token: str, closing: ExitStack) -> None:
    slow = [connect(port, closing, long_body(token, 40 * MB, b"Expect: 100-continue\r\n")) for _ in range(24)]
    for one in slow:
        answer = to_end(one)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"\r\nConnection: close\r\n" in answer


def parsed(answer: bytes) -> tuple[bytes, set[bytes], dict[str, str]]:
    """The status, the names of the headers, and the document without what differs for each request."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    document = json.loads(body)
    assert len(document.pop("request_id")) > 5
    return status.split(b" ")[1], {line.partition(b":")[0].lower() for line in headers}, document


def short_body(token: str) -> bytes:
    return long_body(token, 2, b"Connection: close\r\n") + b"{}"


def test_a_refusal_by_the_head_is_that_of_the_application(port: int, alice: User, closing: ExitStack) -> None:
    early = parsed(to_end(connect(port, closing, long_body("", 200 * MB))))
    late = parsed(to_end(connect(port, closing, short_body(""))))
    assert (early[0], early[2]) == (b"401", late[2]) == (late[0], early[2])
    wanted = {
        b"www-authenticate",
        b"x-transfer-api-error",
        b"cache-control",
        b"x-content-type-options",
        b"content-type",
    }
    assert early[1] >= wanted
    assert late[1] >= wanted
    status, _, document = parsed(to_end(connect(port, closing, long_body(tokens.issue(alice), 49 * MB))))
    assert (status, document["code"], document["resource"]) == (b"413", "ClientError.RequestTooLarge", "/transfer")


@pytest.mark.parametrize("length", [200 * MB, 49 * MB])
def test_refusals_by_the_head_need_no_thread(
    single: int, alice: User, bob: User, closing: ExitStack, length: int
) -> None:
    """All threads that this network may have are taken; requests with long bodies are refused all the same."""
    own = tokens.issue(alice)
    taken = [get("/v0.10/bookmark_list", token) for token in (own, tokens.issue(bob))]
    with locked("endpoints_bookmark") as waiting:
        busy = [connect(single, closing, one) for one in taken * 4]
        eventually(lambda: waiting() == 6)
        for token, status in [("", b"401"), (own, b"413")]:
            for one in [connect(single, closing, long_body(token, length)) for _ in range(20)]:
                assert to_end(one).split(b" ")[1] == status
        assert ended(busy) == []
    for one in busy:
        assert to_end(one).startswith(b"HTTP/1.1 200 ")


FORMS = {
    "/v2/oauth2/token": b"application/x-www-form-urlencoded",
    "/signin": b"application/x-www-form-urlencoded",
    "/signin?x": b"multipart/form-data; boundary=x",
    "/v2/api/clients": b"application/json",
}


@pytest.mark.parametrize("path", FORMS)
def test_long_forms_of_strangers_are_not_read_either(port: int, path: str, closing: ExitStack) -> None:
    token = b"c" * 32
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MB}\r\nCookie: waybill-csrf=".encode()
    said = head + token + b"\r\nContent-Type: " + FORMS[path] + b"\r\n\r\n"
    for one in [connect(port, closing, said) for _ in range(24)]:
        assert to_end(one).split(b" ")[1] in (b"400", b"403", b"413")


def test_the_answer_reaches_a_stranger_who_sends_all_the_same(port: int, closing: ExitStack) -> None:
    one = connect(port, closing, long_body("", 200 * MB))
    with contextlib.suppress(OSError):
        one.sendall(b"[" * 8 * MB)
    assert b"401 Unauthorized" in one.recv(65536)


def test_long_bodies_of_a_user_that_stop_hold_no_thread(port: int, alice: User, closing: ExitStack) -> None:
    beginning = long_body(tokens.issue(alice), 20 * MB) + b"[" * 100_000
    slow = [connect(port, closing, beginning) for _ in range(24)]
    body = b" " * 2 * MB + b"{}"
    for _ in range(4):
        assert ask(port)[0] == 200
        status, _, document = ask(port, "POST", "/v0.10/transfer", body, **authorized(alice))
        assert (status, b"submission_id" in document) == (400, True)
    assert ended(slow) == []


@pytest.mark.parametrize("length", [0, 10, SMALL_BODY, SMALL_BODY + 1, 3 * MB])
def test_the_application_has_the_body_to_its_last_octet(port: int, alice: User, length: int) -> None:
    status, _, document = ask(port, "POST", "/v0.10/transfer", b" " * length + b'"', **authorized(alice))
    assert (status, b"JSON parse error" in document) == (400, True)
    status, _, document = ask(port, "POST", "/v0.10/transfer", b" " * length + b'"x"', **authorized(alice))
    assert (status, b"expected a JSON object" in document) == (400, True)


def test_who_waits_to_be_told_to_go_on_is_told_where_the_body_is_wanted(
    port: int, alice: User, closing: ExitStack
) -> None:
    for length in (10, 3 * MB):
        one = connect(port, closing, long_body(tokens.issue(alice), length, b"Expect: 100-continue\r\n"))
        assert one.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        one.sendall(b"[" * length)
        assert b"400 Bad Request" in one.recv(65536)


def test_what_is_too_long_for_its_resource_is_refused_unread(port: int, alice: User, closing: ExitStack) -> None:
    beginning = long_body(tokens.issue(alice), 2 * MB).replace(b"/v0.10/transfer ", b"/v0.10/bookmark ")
    assert b"413 Request" in to_end(connect(port, closing, beginning))
    assert to_end(connect(port, closing, long_body(tokens.issue(alice), 1 << 40))).startswith(b"HTTP/1.1 413 ")


def test_long_bodies_together_have_a_bound(quick: int, alice: User, closing: ExitStack) -> None:
    one = connect(quick, closing, long_body(tokens.issue(alice), 20 * MB))
    with contextlib.suppress(OSError):
        one.sendall(b"[" * 4 * MB)
    assert b"503 Service Unavailable" in one.recv(65536)
    assert ask(quick, "POST", "/v0.10/transfer", b"[" * 900_000, **authorized(alice))[0] == 400


def test_of_too_many_long_bodies_the_oldest_goes(quick: int, alice: User, closing: ExitStack) -> None:
    slow = [connect(quick, closing, long_body(tokens.issue(alice), 20 * MB)) for _ in range(30)]
    assert ask(quick, "POST", "/v0.10/transfer", b"[" * 900_000, **authorized(alice))[0] == 400
    assert sum(b"503 Service Unavailable" in to_end(one) for one in slow) >= 20


def test_the_long_bodies_of_one_user_do_not_put_out_anothers(
    quick: int, alice: User, bob: User, closing: ExitStack
) -> None:
    body = b"[" * 900_000
    honest = connect(quick, closing, long_body(tokens.issue(bob), len(body)) + body[:-1])
    eventually(lambda: ask(quick)[0] == 200)
    theirs = []
    for number in range(30):
        said = long_body(tokens.issue(alice), 20 * MB, b"Expect: 100-continue\r\nCookie: x=%d\r\n" % number)
        theirs.append(connect(quick, closing, said))
        assert theirs[-1].recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert sum(b"503 Service Unavailable" in to_end(one) for one in theirs[:15]) == 15
    honest.sendall(body[-1:])
    assert b"400 Bad Request" in honest.recv(65536)


def authorized(user: User) -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens.issue(user)}", "Content_Type": "application/json"}


# ---- requests that are as they should be, and that are not


def test_a_connection_carries_many_requests_also_all_at_once(port: int, closing: ExitStack) -> None:
    post = HEAD + b"Content-Length: 15\r\n\r\ngrant_type=none"
    get = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for parts in ([post, get, post], [post + get + post], [post[:100], post[100:] + get[:30], get[30:] + post]):
        one = connect(port, closing)
        for part in parts:
            one.sendall(part)
        found = b""
        while found.count(b"HTTP/1.1 ") < 3:
            chunk = one.recv(65536)
            assert chunk
            found += chunk
        assert [found[at + 9 : at + 12] for at in range(len(found)) if found.startswith(b"HTTP/1.1 ", at)] == [
            b"400", b"200", b"400",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\ngr", 411),
        (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-Long: " + b"x" * MAX_HEAD, 431),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\nHost: localhost\n\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused_at_once(port: int, said: bytes, status: int, closing: ExitStack) -> None:
    assert to_end(connect(port, closing, said)).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "PATH_INFO", "X_FORWARDED_FOR"])
def test_headers_that_servers_in_front_might_set_change_nothing(port: int, name: str, closing: ExitStack) -> None:
    said = f"GET / HTTP/1.1\r\nHost: localhost\r\n{name}: /elsewhere\r\nConnection: close\r\n\r\n"
    assert to_end(connect(port, closing, said.encode())).startswith(b"HTTP/1.1 200 OK")


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


@pytest.fixture(scope="module")
def single(start: Callable[..., int]) -> int:
    """The port of one process with eight threads, of which a client has four at most."""
    return start("--workers", "1")


@pytest.mark.parametrize("more", [lambda _: "", "Cookie: any={}\r\n".format], ids=["token", "token and any cookies"])
def test_a_flood_of_one_credential_does_not_hold_up_another_of_its_address(
    single: int, alice: User, bob: User, closing: ExitStack, more: Callable[[int], str]
) -> None:
    theirs, own = tokens.issue(alice), tokens.issue(bob)
    with locked("endpoints_bookmark") as waiting:
        flood = [connect(single, closing, get("/v0.10/bookmark_list", theirs, more(number))) for number in range(40)]
        eventually(lambda: waiting() == 4)
        for _ in range(4):
            assert to_end(connect(single, closing, get("/v0.10/task_list", own))).startswith(b"HTTP/1.1 200 ")
        assert waiting() == 4
        assert ended(flood) == []
    for one in flood:
        assert to_end(one).startswith(b"HTTP/1.1 200 ")


def test_a_network_with_many_tokens_leaves_threads_to_the_others(
    single: int, alice: User, bob: User, closing: ExitStack
) -> None:
    theirs, own = [tokens.issue(alice) for _ in range(4)], tokens.issue(bob)
    with locked("endpoints_bookmark") as waiting:
        flood = [connect(single, closing, get("/v0.10/bookmark_list", token)) for token in theirs * 5]
        eventually(lambda: waiting() == 6)
        for _ in range(4):
            one = connect(single, closing, get("/v0.10/task_list", own), of="127.0.0.2")
            assert to_end(one).startswith(b"HTTP/1.1 200 ")
        assert (waiting(), ended(flood)) == (6, [])
    for one in flood:
        assert to_end(one).startswith(b"HTTP/1.1 200 ")


def test_where_there_is_no_room_requests_that_wait_for_a_thread_go_too(
    quick: int, alice: User, bob: User, closing: ExitStack
) -> None:
    theirs, own = tokens.issue(alice), tokens.issue(bob)
    with locked("endpoints_bookmark") as waiting:
        flood = [connect(quick, closing, get("/v0.10/bookmark_list", theirs)) for _ in range(40)]
        eventually(lambda: waiting() == 4)
        flood += [connect(quick, closing, get("/v0.10/bookmark_list", theirs)) for _ in range(160)]
        assert to_end(connect(quick, closing, get("/v0.10/task_list", own))).startswith(b"HTTP/1.1 200 ")
        assert waiting() == 4
        gone = ended(flood)
        assert len(flood) - 100 <= len(gone) <= len(flood) - 90
    for one in gone:
        assert to_end(one) == b""
    for one in flood:
        if one not in gone:
            assert to_end(one).startswith(b"HTTP/1.1 200 ")


def test_a_flood_without_a_credential_does_not_hold_up_who_has_one(single: int, bob: User, closing: ExitStack) -> None:
    own, body = (
        tokens.issue(bob),
        b"grant_type=client_credentials&client_id=%s&client_secret=none" % str(uuid.uuid4()).encode(),
    )
    with locked("oauth2_provider_application") as waiting:
        one = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        flood = [connect(single, closing, one) for _ in range(40)]
        eventually(lambda: waiting() == 4)
        for _ in range(4):
            assert to_end(connect(single, closing, get("/v0.10/task_list", own))).startswith(b"HTTP/1.1 200 ")
        assert waiting() == 4
        assert ended(flood) == []
    for asked in flood:
        assert to_end(asked).startswith(b"HTTP/1.1 401 ")


def test_a_request_waits_for_some_of_each_other_client_and_not_for_their_queues(
    single: int, alice: User, bob: User, ep1: Endpoint, closing: ExitStack
) -> None:
    """All threads that these may have wait for the table. Then the last to arrive is served before the rest of both."""
    first, second, last = tokens.issue(alice), tokens.issue(alice), tokens.issue(bob)

    def post(token: str, number: int) -> socket.socket:
        body = json.dumps({"DATA_TYPE": "bookmark", "name": f"b{number}", "endpoint_id": str(ep1.pk), "path": "/~/"})
        head = f"POST /v0.10/bookmark HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return connect(single, closing, (head + body).encode())

    registry.update(alice, str(ep1.pk), {"public": True})
    with locked("endpoints_bookmark") as waiting:
        asked = [post(token, number) for number, token in enumerate([first, second] * 40)]
        eventually(lambda: waiting() == 6)
        asked.append(post(last, 0))
        # The worker has read it, for it reads in order of arrival, and has answered what came after it.
        assert to_end(connect(single, closing, b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        assert (waiting(), ended(asked)) == (6, [])
    for one in asked:
        assert to_end(one).startswith(b"HTTP/1.1 201 ")
    with connection.cursor() as cursor:
        cursor.execute("SELECT user_id FROM endpoints_bookmark ORDER BY xmin::text::bigint")
        served = [row[0] for row in cursor.fetchall()]
    # Six requests were in threads, six more may overtake it on their way to the table.
    assert served.index(bob.pk) < 18
    assert len(served) == 81
