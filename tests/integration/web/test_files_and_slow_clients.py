"""Files through a real web server: a client that reads nothing of one loses it, and holds no slot."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints import registry
from endpoints.gridftp.server import GridFtpServer
from endpoints.registry import ServerSpec
from identity import tokens
from identity.models import User
from tests.integration.web.web_server import web_server
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
SIZE = 300 << 20
IMPATIENT = ("--workers", "1", "--worker-class", "tests.integration.web.quick_web.HastyWorker")
FILE = "/v0.10/operation/endpoint/big/file?path=/file"


@pytest.fixture
def place(alice: User, tmp_path: Path) -> Iterator[GridFtpServer]:
    """alice#big, with a file that is larger than all buffers between it and a client."""
    served = tmp_path / "served"
    served.mkdir()
    with (served / "file").open("wb") as file:
        file.truncate(SIZE)
    with GridFtpServer(served) as server:
        registry.create(alice, {"name": "big", "display_name": "big"}, [ServerSpec("127.0.0.1", server.port, "ftp")])
        yield server


@pytest.fixture
def port(redis_server: Redis, postgres: Postgres, tmp_path: Path) -> Iterator[int]:
    with web_server(postgres, redis_server, tmp_path, *IMPATIENT, WAYBILL_ALLOW_TARGETS="127.0.0.1/32") as found:
        yield found


def status(port: int, token: str, **headers: str) -> tuple[int, str | None]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", FILE, headers={"Authorization": f"Bearer {token}", **headers})
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Retry-After")
    connection.close()
    return found


def idle_client(port: int, token: str) -> socket.socket:
    """A client that asks for the whole file, and reads nothing of it."""
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sendall(f"GET {FILE} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return client


def test_a_client_that_reads_nothing_loses_its_file_and_its_slot(place: GridFtpServer, port: int, alice: User) -> None:
    token = tokens.issue(alice)
    first = {"Range": "bytes=0-0"}
    assert status(port, token, **first) == (206, None)
    with ExitStack() as clients:

        def is_full() -> bool:
            """Another client that reads nothing comes: on a slow machine, the first may be gone before the second."""
            clients.enter_context(idle_client(port, token))
            return status(port, token, **first)[0] == 429

        eventually(is_full)
        eventually(lambda: status(port, token, **first)[0] == 206)
        eventually(lambda: place.sessions == 0)


def test_whoever_reads_gets_all_of_a_file(place: GridFtpServer, port: int, alice: User) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    span = f"bytes=7-{(40 << 20) + 6}"
    connection.request("GET", FILE, headers={"Authorization": f"Bearer {tokens.issue(alice)}", "Range": span})
    answer = connection.getresponse()
    assert answer.status == 206
    assert answer.read() == bytes(40 << 20)
    connection.close()
