"""The ways of an agent to the relay: from our web server, by nginx with and without TLS, by a proxy of the laptop."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.connect import dial
from endpoints.gridftp.agent.keys import AgentIdentity
from endpoints.gridftp.agent.tunnel import service as ways
from endpoints.gridftp.agent.tunnel.service import ServiceAddress, ServiceError
from endpoints.models import Endpoint
from identity.models import User
from tests.gridftp.authority import Authority
from tests.integration.web.web_server import web_server
from tests.servers.front_server import Nginx, installed
from tests.servers.pins import pins_of
from tests.servers.relay_server import HOST, RelayServer, RunningAgent, agent, make_identity, relay_server
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]


@pytest.fixture
def relay(transactional_db: None, redis_server: Redis, settings: Any) -> Iterator[RelayServer]:
    with relay_server(settings) as running:
        yield running


@pytest.fixture
def laptop(alice: User) -> tuple[Endpoint, AgentIdentity]:
    return make_identity(alice, "laptop")


def echo(control: socket.socket) -> None:
    def run() -> None:
        with control:
            while data := control.recv(65536):
                control.sendall(data)

    threading.Thread(target=run, name="echo", daemon=True).start()


def carries(endpoint: Endpoint) -> bool:
    """Whether a megabyte comes back through a control channel."""
    sent = os.urandom(1 << 20)
    with asyncio.run(dial.open_control(endpoint.pk)).sock as sock:
        sock.settimeout(20)
        sender = threading.Thread(target=send_all, args=(sock, sent))
        sender.start()
        received = b"".join(iter(lambda: sock.recv(65536), b""))
        sender.join()
    return received == sent


def carries_data(relay: RelayServer, connected: RunningAgent, endpoint: Endpoint, user: User) -> bool:
    """Whether megabytes pass three data channels in both directions at once, two of them in tunnels for data."""
    with ExitStack() as stack:
        ends = []
        for _ in range(3):
            token = dial.new_data_token([endpoint.pk], user_id=user.pk)
            far = stack.enter_context(connected.tunnel.open_data(token))
            near = stack.enter_context(asyncio.run(dial.join_data(token)))
            near.setblocking(True)
            ends.append((far, near))
        assert relay.look(lambda found: [len(one.data_tunnels) for one in found.tunnels.values()]) == [2]
        moves = [OneMove(*pair) for far, near in ends for pair in ((far, near), (near, far))]
        return all(move.has_arrived() for move in moves)


class OneMove:
    """Three megabytes on their way between two sockets."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._sent, self._received = os.urandom(3 << 20), b""
        target.settimeout(30)
        self._threads = [
            threading.Thread(target=send_all, args=(source, self._sent)),
            threading.Thread(target=self._read, args=(target,)),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, target: socket.socket) -> None:
        self._received = b"".join(iter(lambda: target.recv(65536), b""))

    def has_arrived(self) -> bool:
        for thread in self._threads:
            thread.join()
        return self._received == self._sent


def send_all(sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


@contextmanager
def through_nginx(relay: RelayServer, web: int, host: CertificateFiles | None = None) -> Iterator[int]:
    """The port of an nginx with our configuration. host: with TLS."""
    assert installed(), "tests/install-nginx.sh"
    given = {"FRONT_MODE": "tls" if host else "http", "FRONT_SECRET": "", "REQUEST_SECONDS": "60"}
    nginx = Nginx.of_the_product(free_port(), **given, WEB=f"{HOST}:{web}", RELAY=str(relay.relay.address))
    if host:
        (nginx.folder / "tls").mkdir()
        (nginx.folder / "tls" / "certificate.pem").write_bytes(host.certificate.read_bytes())
        (nginx.folder / "tls" / "key.pem").write_bytes(host.key.read_bytes())
    with nginx:
        yield nginx.port


def test_our_web_server_redirects_an_agent_of_its_machine_to_the_relay_and_nginx_passes_it_on(
    relay: RelayServer,
    laptop: tuple[Endpoint, AgentIdentity],
    postgres: Postgres,
    redis_server: Redis,
    tmp_path: Path,
    alice: User,
) -> None:
    endpoint, identity = laptop
    with ExitStack() as running:
        port = running.enter_context(
            web_server(postgres, redis_server, tmp_path, WAYBILL_RELAY=str(relay.relay.address))
        )
        for address in (port, running.enter_context(through_nginx(relay, port))):
            with agent(ServiceAddress(f"http://{HOST}:{address}"), identity, echo) as connected:
                assert carries(endpoint)
                assert carries_data(relay, connected, endpoint, alice)
                assert relay.look(lambda found: [tunnel.address for tunnel in found.tunnels.values()]) == [HOST]


def test_nginx_ends_tls_and_the_agent_pins_its_key(
    relay: RelayServer,
    laptop: tuple[Endpoint, AgentIdentity],
    authority: Authority,
    host_of: Callable[[Authority], CertificateFiles],
    alice: User,
) -> None:
    endpoint, identity = laptop
    host = host_of(authority)
    with through_nginx(relay, 1, host) as port:
        url = f"https://{HOST}:{port}"
        with agent(ServiceAddress(url, pins_of(host.certificate)), identity, echo) as connected:
            assert carries(endpoint)
            assert carries_data(relay, connected, endpoint, alice)
        with agent(ServiceAddress(url, ("0" * 64,)), identity, connected=False) as deceived:
            eventually(lambda: "another certificate" in deceived.status)
        with agent(ServiceAddress(url), identity, connected=False) as strict:
            eventually(lambda: "CERTIFICATE_VERIFY_FAILED" in strict.status)


def test_without_a_relay_on_this_machine_the_web_server_says_when_to_come_back(
    transactional_db: None, postgres: Postgres, redis_server: Redis, tmp_path: Path, alice: User
) -> None:
    _, identity = make_identity(alice, "laptop")
    with (
        web_server(postgres, redis_server, tmp_path, WAYBILL_RELAY="relay.example.org:8003") as port,
        agent(ServiceAddress(f"http://{HOST}:{port}"), identity, connected=False) as running,
    ):
        eventually(lambda: "503" in running.status)


@pytest.mark.parametrize(
    ("service", "location", "relay"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8003/connect/tunnel", "127.0.0.1:8003"),
        ("http://localhost:8000", "http://[::1]:8003/connect/tunnel", "::1:8003"),
        ("http://127.0.0.1:8000", "http://192.0.2.1:8003/connect/tunnel", ""),
        ("http://127.0.0.1:8000", "http://relay.example.org:8003/connect/tunnel", ""),
        ("http://127.0.0.1:8000", "https://127.0.0.1:8003/connect/tunnel", ""),
        ("http://127.0.0.1:8000", "http://127.0.0.1/connect/tunnel", ""),
        ("http://127.0.0.1:8000", "http://127.0.0.1:99999/", ""),
        ("http://127.0.0.1:8000", "/connect/tunnel", ""),
        ("http://127.0.0.1:8000", "", ""),
        ("http://192.0.2.1:8000", "http://127.0.0.1:8003/connect/tunnel", ""),
        ("https://127.0.0.1:8000", "http://127.0.0.1:8003/connect/tunnel", ""),
        ("https://waybill.example.org", "http://127.0.0.1:8003/connect/tunnel", ""),
    ],
)
def test_an_agent_follows_only_from_its_own_machine_to_its_own_machine(service: str, location: str, relay: str) -> None:
    address = ServiceAddress(service)
    assert ways.relay_of(address, location) == relay
    assert ways.relay_of(address._replace(relay="127.0.0.1:1"), location) == ""


# ---- a proxy


@contextmanager
def http_proxy(answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> Iterator[tuple[int, list[bytes]]]:
    """Answers CONNECT; gives its port and the heads that it has received."""
    heads: list[bytes] = []
    with socket.create_server((HOST, 0)) as listener:

        def run() -> None:
            sock, _ = listener.accept()
            with sock:
                heads.append(sock.recv(65536))
                sock.sendall(answer + b"rest")

        thread = threading.Thread(target=run)
        thread.start()
        yield listener.getsockname()[1], heads
        thread.join(60)


def test_an_agent_goes_through_the_proxy_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_proxy() as (port, heads):
        monkeypatch.setenv("https_proxy", f"http://me:s%40cret@{HOST}:{port}")
        monkeypatch.delenv("no_proxy", raising=False)
        with ways.open_tcp(ServiceAddress("https://waybill.example.org"), 5) as sock:
            # Not one octet of the service is lost.
            assert sock.recv(100) == b"rest"
    assert heads[0].startswith(b"CONNECT waybill.example.org:443 HTTP/1.1\r\nHost: waybill.example.org:443\r\n")
    assert b"Proxy-Authorization: Basic bWU6c0BjcmV0\r\n" in heads[0]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", b"220 ftp\r\n", b""])
def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    with http_proxy(answer or b"x" * 20000) as (port, _):
        monkeypatch.setenv("https_proxy", f"{HOST}:{port}")
        with pytest.raises(ServiceError, match="the proxy"):
            ways.open_tcp(ServiceAddress("https://waybill.example.org"), 5)


@contextmanager
def secure_proxy(host: CertificateFiles) -> Iterator[int]:
    """A proxy behind TLS, which joins its client with a service that speaks TLS too and sends back what it gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(host.certificate, host.key)
    service = socket.create_server((HOST, 0))

    def serve() -> None:
        with suppress(OSError), context.wrap_socket(service.accept()[0], server_side=True) as inner:
            while data := inner.recv(65536):
                inner.sendall(data)

    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"CONNECT waybill.example.org:443 ")
        inner, to_inner = await asyncio.open_connection(HOST, service.getsockname()[1])
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
            target.close()

        with suppress(OSError):
            await asyncio.gather(copy(reader, to_inner), copy(inner, writer))

    loop = asyncio.new_event_loop()
    threads = [threading.Thread(target=serve), threading.Thread(target=loop.run_forever)]
    for thread in threads:
        thread.start()
    begun = asyncio.run_coroutine_threadsafe(asyncio.start_server(joined, HOST, 0, ssl=context), loop)
    proxy = begun.result(60)
    try:
        yield proxy.sockets[0].getsockname()[1]
    finally:
        service.close()
        loop.call_soon_threadsafe(proxy.close)
        threads[0].join(60)
        loop.call_soon_threadsafe(loop.stop)
        threads[1].join(60)
        loop.close()


def test_a_proxy_is_reached_by_tls_and_the_tls_of_the_service_runs_inside(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, host_of: Callable[[Authority], CertificateFiles]
) -> None:
    host = host_of(authority)
    address = ServiceAddress("https://waybill.example.org", pins_of(host.certificate))
    sent = os.urandom(3 << 20)
    monkeypatch.delenv("no_proxy", raising=False)
    with secure_proxy(host) as port:
        monkeypatch.setenv("https_proxy", f"https://{HOST}:{port}")
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            ways.connect(address, 10)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_certificate))
        with ways.connect(address, 10) as sock:
            received = b""
            while len(received) < len(sent):
                sock.sendall(sent[len(received) : len(received) + 150_000])
                wanted = min(len(received) + 150_000, len(sent))
                while len(received) < wanted:
                    received += sock.recv(65536)
    assert received == sent
    eventually(lambda: not any(thread.name == "proxy-tls" for thread in threading.enumerate()))


def test_a_proxy_of_another_sort_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("https_proxy", f"socks5://{HOST}:1080")
    with pytest.raises(ServiceError, match="http:// or https://"):
        ways.open_tcp(ServiceAddress("https://waybill.example.org"), 5)


def test_without_tls_only_this_machine_is_a_service() -> None:
    with pytest.raises(ServiceError, match="no https address"):
        ways.open_tcp(ServiceAddress("http://192.0.2.1:8000"), 5)
