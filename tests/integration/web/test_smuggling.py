"""Requests whose end two servers could see at different places: nobody puts a request into the connection of another.

A front server that sees one request and a web server that sees two would answer the second one to the next client.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from tests.integration.web.web_server import web_server
from tests.servers.front_server import Nginx, haproxy

pytestmark = [pytest.mark.nginx, pytest.mark.django_db(transaction=True)]
SECRET = "f" * 40
HIDDEN = b"GET /readyz?exclude=hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POST = b"POST /signin HTTP/1.1\r\nHost: 127.0.0.1\r\n"
#: Heads by which the request ends somewhere, and the octets after them.
HEADS = {
    "two lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN),
    "a list of lengths": b"Content-Length: 0, %d\r\n\r\n" % len(HIDDEN),
    "a length with a sign": b"Content-Length: +0\r\n\r\n",
    "a negative length": b"Content-Length: -1\r\n\r\n",
    "a length in hexadecimal": b"Content-Length: 0x0\r\n\r\n",
    "a length with an underscore": b"Content-Length: 0_0\r\n\r\n",
    "a length of other digits": "Content-Length: \u0660\r\n\r\n".encode(),
    "a length beside chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks beside a length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "chunks twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "an unknown encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "an encoding after a tab": b"Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "an encoding with a space before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a length with a space before the colon": b"Content-Length : %d\r\n\r\n" % len(HIDDEN),
    "an underscore in the name": b"Content_Length: %d\r\n\r\n" % len(HIDDEN),
    "a folded header": b"X: a\r\n Content-Length: %d\r\n\r\n" % len(HIDDEN),
    "a NUL in a header": b"X: a\0b\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN),
    "lines that end by LF": b"Content-Length: 0\nX: y\n\n",
    "a CR within a header": b"X: a\rContent-Length: %d\r\n\r\n" % len(HIDDEN),
}


@pytest.fixture(scope="module")
def web(
    postgres: Postgres,
    django_db_setup: None,
    redis_server: Redis,
    tmp_path_factory: pytest.TempPathFactory,
    running: ExitStack,
) -> int:
    environ = {"WAYBILL_FRONT_SERVERS": "127.0.0.1/32", "WAYBILL_FRONT_SECRET": SECRET}
    return running.enter_context(web_server(postgres, redis_server, tmp_path_factory.mktemp("web"), **environ))


@pytest.fixture(scope="module", params=["web server", "nginx", pytest.param("haproxy", marks=pytest.mark.haproxy)])
def port(request: pytest.FixtureRequest, web: int, running: ExitStack) -> int:
    if request.param == "web server":
        return web
    if request.param == "haproxy":
        return running.enter_context(haproxy(f"127.0.0.1:{web}", FRONT_SECRET=SECRET)).port
    given = {"FRONT_MODE": "http", "FRONT_SECRET": SECRET, "REQUEST_SECONDS": "60", "WEB": f"127.0.0.1:{web}"}
    return running.enter_context(Nginx.of_the_product(free_port(), **given)).port


def answers(port: int, sent: bytes) -> list[bytes]:
    """The status lines of all answers on one connection, until the server closes it or waits for more."""
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(sent)
        client.settimeout(3)
        received = b""
        try:
            while data := client.recv(65536):
                received += data
        except (TimeoutError, ConnectionResetError):
            pass
    return [line for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.")]


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_no_request_hides_in_another(port: int, head: bytes) -> None:
    found = answers(port, POST + head + HIDDEN)
    assert len(found) <= 1, found
    assert all(line.split()[1] in (b"400", b"411", b"403", b"501") for line in found), found


def test_two_requests_that_nobody_can_mistake_are_two(port: int) -> None:
    assert [line.split()[1] for line in answers(port, HIDDEN + HIDDEN)] == [b"400", b"400"]
