"""Long answers to clients that take them late, slowly or not at all, and answers that break off; also over TLS."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from deploy.web.client_tls import client_context
from tests.gridftp.authority import Authority
from tests.integration.web.long_web import MB, PARTS, WHOLE
from tests.integration.web.web_server import web_server
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
ONE_PROCESS = ("--workers", "1")
IMPATIENT = (*ONE_PROCESS, "--worker-class", "tests.integration.web.quick_web.HastyWorker")


@dataclass
class Web:
    """`context` where it ends TLS."""

    port: int
    context: ssl.SSLContext | None
    clients: ExitStack = field(default_factory=ExitStack)

    def ask(self, path: str, more: str = "") -> socket.socket:
        """Send a request as a client with a small receive buffer that has read nothing yet."""
        plain = self.clients.enter_context(socket.socket())
        plain.settimeout(60)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(("127.0.0.1", self.port))
        asks = self.clients.enter_context(self.context.wrap_socket(plain)) if self.context else plain
        asks.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
        return asks

    def read(self, path: str) -> bytes:
        return answer_to(self.ask(path, "Connection: close\r\n")).read()

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(self.read("/counts"))
        return found


def answer_to(asked: socket.socket) -> http.client.HTTPResponse:
    answer = http.client.HTTPResponse(asked)
    answer.begin()
    return answer


def starting(
    postgres: Postgres,
    redis: Redis,
    factory: pytest.TempPathFactory,
    words: tuple[str, ...],
    host: CertificateFiles | None,
) -> Iterator[Web]:
    context, environ = None, {}
    if host:
        context = client_context(host.certificate)
        environ = {"WAYBILL_TLS_CERTIFICATE": str(host.certificate), "WAYBILL_TLS_KEY": str(host.key)}
    folder, application = factory.mktemp("web"), "tests.integration.web.long_web"
    with web_server(postgres, redis, folder, *words, application=application, **environ) as port:
        web = Web(port, context)
        with web.clients:
            yield web


@pytest.fixture(scope="module", params=["http", "https"])
def web(
    request: pytest.FixtureRequest,
    postgres: Postgres,
    django_db_setup: None,
    redis_server: Redis,
    authority: Authority,
    host_of: Callable[[Authority], CertificateFiles],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Web]:
    host = host_of(authority) if request.param == "https" else None
    yield from starting(postgres, redis_server, tmp_path_factory, ONE_PROCESS, host)


@pytest.fixture(scope="module")
def impatient(
    postgres: Postgres, django_db_setup: None, redis_server: Redis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Web]:
    """Its clients have a second."""
    yield from starting(postgres, redis_server, tmp_path_factory, IMPATIENT, None)


def test_who_takes_an_answer_late_gets_all_of_it(web: Web) -> None:
    asked = web.ask("/whole")
    assert web.counts()
    assert len(answer_to(asked).read()) == WHOLE


def test_a_long_answer_is_made_while_its_client_takes_it(web: Web) -> None:
    before = web.counts()["made"]
    asked = web.ask("/parts")
    eventually(lambda: web.counts()["made"] - before > 4)
    for _ in range(20):
        now = web.counts()
        # The kernel's buffers hold a few more parts than the client has read.
        assert (now["open"], now["made"] - before < PARTS // 2) == (1, True)
    answer, taken = answer_to(asked), 0
    while part := answer.read(MB):
        taken += len(part)
    assert taken == PARTS * MB
    eventually(lambda: web.counts()["open"] == 0)


def test_an_answer_that_breaks_off_is_not_followed_by_another(web: Web) -> None:
    asked, found = web.ask("/breaks"), b""
    while part := asked.recv(65536):
        found += part
    # The chunk that would end it is missing.
    assert (found.count(b"HTTP/1.1"), found.endswith(b"\r\n\r\n5\r\nfirst\r\n")) == (1, True)


def test_who_takes_nothing_of_a_long_answer_is_left_by_its_thread(impatient: Web) -> None:
    slow = [impatient.ask("/parts") for _ in range(6)]
    eventually(lambda: impatient.counts()["made"] >= len(slow))
    eventually(lambda: impatient.counts()["open"] == 0)
    for one in slow:
        with pytest.raises((http.client.HTTPException, OSError)):
            answer_to(one).read()


def test_threads_are_left_however_many_take_nothing(web: Web) -> None:
    slow = [web.ask("/parts") for _ in range(12)]
    for _ in range(10):
        assert web.counts()
    for one in slow:
        one.close()
    eventually(lambda: web.counts()["open"] == 0)
