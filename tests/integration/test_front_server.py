"""A real nginx in front: with our configuration, and with the two lines that everybody writes."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import socket
import ssl
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher

from deploy.endpoint.authority import Authority, Identity
from deploy.endpoint.toolkit import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.models import Endpoint
from identity import certificate_subjects, tokens
from identity.models import User
from identity.password_sign_in import MOST_OF_A_PAIR
from tests.front_server import Nginx
from tests.integration.pages import PASSWORD
from tests.integration.web_server import web_server
from tests.waiting import eventually
from transferapi.tasks.models import Task

pytestmark = [pytest.mark.nginx, pytest.mark.django_db(transaction=True)]
SECRET = "f" * 40
MB = 1 << 20
PLAIN = """
pid nginx.pid; error_log stderr;
events {}
http {
    access_log off;
    server {
        listen 127.0.0.1:PORT;
        location / { proxy_pass http://127.0.0.1:WEB; proxy_set_header X-Forwarded-For $remote_addr; }
    }
}
"""


@pytest.fixture(scope="module")
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def web(
    postgres: Postgres,
    django_db_setup: None,
    redis_server: Redis,
    tmp_path_factory: pytest.TempPathFactory,
    running: ExitStack,
) -> int:
    """The port of a web server that believes servers at 127.0.0.1, and about certificates who has the secret."""
    environ = {"WAYBILL_FRONT_SERVERS": "127.0.0.1/32", "WAYBILL_FRONT_SECRET": SECRET}
    return running.enter_context(web_server(postgres, redis_server, tmp_path_factory.mktemp("web"), **environ))


@pytest.fixture(scope="module")
def ours(web: int, running: ExitStack) -> int:
    """The port of an nginx with our configuration, without TLS."""
    given = {"FRONT_MODE": "http", "FRONT_SECRET": SECRET, "REQUEST_SECONDS": "60", "WEB": f"127.0.0.1:{web}"}
    return running.enter_context(Nginx.of_the_product(free_port(), **given)).port


@pytest.fixture(scope="module")
def site(grid_home: Path, identity_of: Callable[..., Identity]) -> Authority:
    """An authority with a revocation list, where charlie's certificate is."""
    made = Authority(grid_home / "site", name="Site Authority", namespace="/O=Site")
    made.revoke([identity_of("charlie", made)])
    return made


@pytest.fixture(scope="module")
def with_tls(web: int, running: ExitStack, site: Authority, host_of: Callable[[Authority], Identity]) -> int:
    """The port of one that ends TLS and asks for certificates."""
    given = {"FRONT_MODE": "tls-with-certificates", "FRONT_SECRET": SECRET, "REQUEST_SECONDS": "60"}
    nginx = Nginx.of_the_product(free_port(), **given, WEB=f"127.0.0.1:{web}")
    files = {
        "certificate.pem": host_of(site).certificate,
        "key.pem": host_of(site).key,
        "authorities.pem": next(site.certificates.glob("*.0")),
        "revoked.pem": next(site.certificates.glob("*.r0")),
    }
    (nginx.folder / "tls").mkdir()
    for name, path in files.items():
        (nginx.folder / "tls" / name).write_bytes(path.read_bytes())
    return running.enter_context(nginx).port


@pytest.fixture(scope="module")
def plain(web: int, running: ExitStack) -> int:
    """The port of an nginx without any configuration of certificates."""
    port = free_port()
    text = PLAIN.replace("PORT", str(port)).replace("WEB", str(web))
    nginx = Nginx(port, {"nginx.conf": text})
    (nginx.folder / "nginx.conf").write_text(text.replace("nginx.pid", f"{nginx.folder}/nginx.pid"))
    return running.enter_context(nginx).port


@pytest.fixture
def alices(site: Authority, identity_of: Callable[..., Identity], alice: User) -> Identity:
    """alice's certificate, which she has registered."""
    found = identity_of("alice", site)
    certificate_subjects.add(alice, found.subject, proven=[found.subject])
    return found


def ask(
    port: int,
    path: str,
    headers: list[tuple[str, str]],
    body: bytes | None = None,
    context: ssl.SSLContext | None = None,
) -> tuple[int, Any]:
    """Headers may come twice."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    if context:
        asked = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    asked.putrequest("POST" if body is not None else "GET", path)
    for name, value in headers:
        asked.putheader(name, value)
    if body is not None:
        asked.putheader("Content-Length", str(len(body)))
    asked.endheaders(body)
    answer = asked.getresponse()
    text = answer.read()
    asked.close()
    return answer.status, json.loads(text) if text.startswith(b"{") else text


def subjects(port: int, headers: list[tuple[str, str]], context: ssl.SSLContext | None = None) -> tuple[int, Any]:
    status, found = ask(port, "/v2/api/certificate_subjects", headers, context=context)
    return status, [row["subject"] for row in found["DATA"]] if status == 200 else None


def tls(site: Authority, shown: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(capath=str(site.certificates))
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return context


def claims(subject: str) -> list[list[tuple[str, str]]]:
    """Headers that a stranger may send to pass as the owner of this subject."""
    verify, name = "X-SSL-Client-Verify", "X-SSL-Client-S-DN"
    own = [(verify, "SUCCESS"), (name, subject)]
    lower = [(key.lower(), value) for key, value in own]
    with_underscores = [(key.replace("-", "_"), value) for key, value in own]
    guess = ("X-Waybill-Front-Secret", "g" * 40)
    return [own, own + own, lower, with_underscores, own + with_underscores, [*own, guess], [guess, *own, guess]]


# ---- who is believed


def test_a_plain_proxy_that_passes_a_strangers_words_on_makes_nobody_alice(
    plain: int, web: int, alices: Identity, alice: User
) -> None:
    for said in claims(alices.subject):
        assert subjects(plain, said) == (401, None)
        assert subjects(web, said) == (401, None)
    assert subjects(plain, [("Authorization", f"Bearer {tokens.issue(alice)}")]) == (200, [alices.subject])


def test_our_front_server_says_who_showed_a_certificate(with_tls: int, alices: Identity, site: Authority) -> None:
    assert subjects(with_tls, [], tls(site, alices)) == (200, [alices.subject])
    assert subjects(with_tls, [], tls(site)) == (401, None)


def test_a_strangers_words_do_not_pass_our_front_server(
    ours: int, with_tls: int, alices: Identity, site: Authority, identity_of: Callable[..., Identity]
) -> None:
    for said in claims(alices.subject):
        assert subjects(ours, said) == (401, None)
        for shown in (None, identity_of("bob", site)):
            assert subjects(with_tls, said, tls(site, shown)) == (401, None)


def test_a_certificate_of_another_authority_or_a_revoked_one_is_refused(
    with_tls: int, site: Authority, other_authority: Authority, identity_of: Callable[..., Identity]
) -> None:
    for shown in (identity_of("alice", other_authority), identity_of("charlie", site)):
        assert ask(with_tls, "/v2/api/certificate_subjects", [], context=tls(site, shown))[0] == 400


def sign_in(port: int, address: str, password: str, forwarded: str) -> int:
    """Sign in on the page, from this address of the loopback interface."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(address, 0))
    asked.request("GET", "/signin", headers={"X-Forwarded-For": forwarded})
    answer = asked.getresponse()
    cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
    found = re.search(rb'name="csrfmiddlewaretoken" value="(\w+)"', answer.read())
    assert found
    fields = {"username": "alice", "password": password, "csrfmiddlewaretoken": found[1].decode()}
    headers = {"Cookie": cookie, "X-Forwarded-For": forwarded, "Content-Type": "application/x-www-form-urlencoded"}
    asked.request("POST", "/signin", urlencode(fields), headers)
    status = asked.getresponse().status
    asked.close()
    return status


def test_who_guesses_passwords_is_counted_by_the_true_address_and_locks_nobody_out(
    ours: int, alice: User, passwords: None
) -> None:
    # As the server hashes it, which is another process.
    alice.password = PBKDF2PasswordHasher().encode(PASSWORD, "salt" * 4, 1000)
    alice.save()
    guesses = [sign_in(ours, "127.0.0.2", "guess", f"192.0.2.{number}") for number in range(MOST_OF_A_PAIR + 1)]
    assert guesses == [400] * MOST_OF_A_PAIR + [429]
    assert sign_in(ours, "127.0.0.2", PASSWORD, "127.0.0.3") == 429
    assert sign_in(ours, "127.0.0.3", PASSWORD, "127.0.0.2") == 302


# ---- what passes, and what does not


def test_a_submission_of_20000_items_passes(ours: int, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    header = [("Authorization", f"Bearer {tokens.issue(alice)}"), ("Content-Type", "application/json")]
    name = "/" + "long/" * 20
    items = [{"source_path": f"{name}{number}", "destination_path": f"{name}{number}"} for number in range(20_000)]
    document = {"submission_id": str(uuid.uuid4()), "source_endpoint": str(ep1.pk), "DATA": items}
    body = json.dumps({**document, "destination_endpoint": str(ep2.pk)}).encode()
    assert len(body) > 4 * MB
    status, answer = ask(ours, "/v0.10/transfer", header, body)
    assert (status, answer["code"]) == (202, "Accepted")
    assert Task.objects.get(pk=answer["task_id"]).owner == alice


def test_a_strangers_long_body_is_answered_and_not_kept(ours: int) -> None:
    for path, wanted in (("/v0.10/transfer", b" 401 "), ("/v0.10/bookmark", b" 413 ")):
        with socket.create_connection(("127.0.0.1", ours), 60) as one:
            one.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {200 * MB}\r\n\r\n".encode())
            assert wanted in one.recv(65536).split(b"\r\n")[0]


def test_events_pass_as_they_happen(ours: int, alice: User) -> None:
    with socket.create_connection(("127.0.0.1", ours), 60) as one:
        lines = ["GET /v0.10/event_stream HTTP/1.1", "Host: localhost", f"Authorization: Bearer {tokens.issue(alice)}"]
        one.sendall("\r\n".join([*lines, "", ""]).encode())
        found = b""
        while b"id: " not in found:
            chunk = one.recv(65536)
            assert chunk, found
            found += chunk
        assert found.startswith(b"HTTP/1.1 200 OK")


def test_slow_clients_stop_at_the_front_server(ours: int) -> None:
    with ExitStack() as closing:
        slow = []
        for beginning in (b"GET / HT", b"POST /v2/oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx"):
            for _ in range(80):
                slow.append(closing.enter_context(socket.create_connection(("127.0.0.1", ours), 60)))
                slow[-1].sendall(beginning)
        assert ask(ours, "/", [])[0] == 200


def test_one_address_has_so_many_connections(ours: int) -> None:
    """200 wait for their bodies, and whichever of the others the processes of nginx count last are refused."""
    with ExitStack() as closing:

        def waiting() -> socket.socket:
            one = closing.enter_context(socket.create_connection(("127.0.0.1", ours), 60, ("127.0.0.2", 0)))
            one.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
            return one

        def answered() -> list[socket.socket]:
            return select.select(held, [], [], 0)[0]

        held = [waiting() for _ in range(210)]
        eventually(lambda: len(answered()) == 10)
        assert all(b" 429 " in one.recv(65536).split(b"\r\n")[0] for one in answered())
        assert ask(ours, "/", [])[0] == 200


def test_addresses_of_one_ipv6_network_are_one_client() -> None:
    """All of a /64 is one client's (RFC 6177). In a network namespace, where such addresses can be made."""
    namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("this machine makes no network namespaces")
    command = [*namespace, sys.executable, "-m", "tests.integration.ipv6_clients"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    # The upstream of this nginx does not exist: 502 is a request that passed.
    assert json.loads(done.stdout) == {"neighbour": 20, "other": 502}
