"""Our own web server ends TLS: who shows a certificate is who has registered its subject, also by a proxy."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from deploy.web.client_tls import client_context
from identity import certificate_subjects, tokens
from identity.gsi.proxies import make_proxy
from identity.gsi.x509 import X509Credential
from identity.models import User
from identity.vault.keys import new_key
from tests.gridftp.authority import Authority
from tests.waiting import eventually
from transferapi.config import CHECKOUT

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Server:
    port: int
    certificate: Path
    log: Path

    def context(self, chain: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
        context = client_context(self.certificate)
        assert context is not None
        if chain is not None:
            context.load_cert_chain(chain, key)
        return context

    def get(
        self, chain: Path | None = None, key: Path | None = None, *, path: str = "/v0.10/task_list", **headers: str
    ) -> tuple[int, Any]:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.context(chain, key))
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def answers(self) -> bool:
        try:
            return self.get()[0] == 401
        except OSError:
            return False


@pytest.fixture(scope="module")
def server(
    postgres: Postgres,
    django_db_setup: None,
    redis_server: Redis,
    authority: Authority,
    host_of: Callable[[Authority], CertificateFiles],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """gunicorn with the settings of the product, over the test database."""
    host, port, log = host_of(authority), free_port(), tmp_path_factory.mktemp("tls") / "web.log"
    environment = {
        **os.environ,
        "DATABASE_URL": postgres.url(str(connections["default"].settings_dict["NAME"])),
        "REDIS_URL": redis_server.url(),
        "WAYBILL_SECRET_KEY": "s" * 40,
        "WAYBILL_VAULT_KEY": new_key(),
        "WAYBILL_CERTIFICATES": str(authority.certificates),
        "WAYBILL_TLS_CERTIFICATE": str(host.certificate),
        "WAYBILL_TLS_KEY": str(host.key),
        "WAYBILL_PORT": str(port),
    }
    words = [sys.executable, "-m", "gunicorn", "--config", "python:deploy.web.gunicorn_conf", "--workers", "1"]
    process = spawn([*words, "--bind", f"127.0.0.1:{port}", "transferapi.wsgi"], log=log, env=environment, cwd=CHECKOUT)
    found = Server(port, host.certificate, log)
    try:
        eventually(lambda: process.poll() is not None or found.answers())
        assert process.poll() is None, log.read_text()
        yield found
    finally:
        stop(process)


@pytest.fixture
def alices(identity_of: Callable[..., CertificateFiles], alice: User) -> CertificateFiles:
    """alice's certificate, which she has registered."""
    found = identity_of("alice")
    certificate_subjects.add(alice, found.subject, proven=[found.subject])
    return found


def test_a_certificate_signs_in_who_has_registered_it(server: Server, alices: CertificateFiles, alice: User) -> None:
    status, found = server.get(alices.certificate, alices.key, path="/v2/api/certificate_subjects")
    assert (status, [row["subject"] for row in found["DATA"]]) == (200, [alices.subject])


def test_curl_does_it_too(server: Server, alices: CertificateFiles) -> None:
    words = ["curl", "-sS", "--cacert", str(server.certificate), "--cert", str(alices.certificate)]
    words += ["--key", str(alices.key), f"https://localhost:{server.port}/v0.10/task_list"]
    told = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    if "unable to get issuer" in told.stderr or "self-signed" in told.stderr:
        pytest.skip("this curl wants the authority")
    assert json.loads(told.stdout)["DATA_TYPE"] == "task_list", told.stderr


def test_a_proxy_is_who_it_was_made_by(server: Server, alices: CertificateFiles, tmp_path: Path) -> None:
    hers = X509Credential.parse(alices.certificate.read_bytes() + alices.key.read_bytes())
    first = write_proxy(tmp_path / "first.pem", hers)
    write_proxy(tmp_path / "second.pem", first)
    for name in ("first.pem", "second.pem"):
        status, found = server.get(tmp_path / name, path="/v2/api/certificate_subjects")
        assert (status, [row["subject"] for row in found["DATA"]]) == (200, [alices.subject])


def test_a_limited_proxy_lets_nobody_in(server: Server, alices: CertificateFiles, tmp_path: Path) -> None:
    """Each file server that a user's transfers delegate to has one, and would be the user here."""
    hers = X509Credential.parse(alices.certificate.read_bytes() + alices.key.read_bytes())
    first = write_proxy(tmp_path / "first.pem", hers, limited=True)
    write_proxy(tmp_path / "second.pem", first)
    for name in ("first.pem", "second.pem"):
        status, document = server.get(tmp_path / name)
        assert (status, document["code"]) == (401, "ClientError.AuthenticationFailed")
        assert "limited proxy" in document["message"]


def test_without_a_certificate_there_are_the_other_ways(server: Server, alice: User) -> None:
    assert server.get()[0] == 401
    assert server.get(Authorization=f"Bearer {tokens.issue(alice)}")[0] == 200


def test_an_unknown_subject_is_reported_and_makes_no_account(
    server: Server, identity_of: Callable[..., CertificateFiles], alice: User
) -> None:
    bobs = identity_of("bob")
    status, document = server.get(bobs.certificate, bobs.key)
    assert (status, document["code"]) == (401, "ClientError.AuthenticationFailed")
    assert bobs.subject in document["message"]
    assert list(User.objects.values_list("username", flat=True)) == ["alice"]


def test_a_certificate_of_an_authority_that_is_not_trusted_does_not_get_in(
    server: Server, other_authority: Authority, identity_of: Callable[..., CertificateFiles]
) -> None:
    stranger = identity_of("alice", other_authority)
    with pytest.raises(OSError):
        server.get(stranger.certificate, stranger.key)


def test_headers_of_a_client_prove_nothing(server: Server, alices: CertificateFiles) -> None:
    status, _ = server.get(X_SSL_Client_Verify="SUCCESS", X_SSL_Client_S_DN=alices.subject)
    assert status == 401


def test_who_speaks_no_tls_holds_nobody_up(server: Server, alices: CertificateFiles) -> None:
    held = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(4)]
    for one in held:
        one.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert server.get(alices.certificate, alices.key)[0] == 200
    for one in held:
        one.close()


def test_long_bodies_and_answers_pass_through_tls_whole(server: Server, alice: User) -> None:
    asked = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=server.context())
    headers = {"Authorization": f"Bearer {tokens.issue(alice)}", "Content-Type": "application/json"}
    for length in (10, 3_000_000):
        asked.request("POST", "/v0.10/transfer", b" " * length + b'"x"', headers)
        answer = asked.getresponse()
        assert (answer.status, b"expected a JSON object" in answer.read()) == (400, True)
    asked.request("GET", "/v0.10/openapi")
    assert json.loads(asked.getresponse().read())["openapi"]
    asked.close()


def write_proxy(to: Path, issuer: X509Credential, *, limited: bool = False) -> X509Credential:
    """An RFC 3820 proxy, as grid-proxy-init would write it."""
    proxy = make_proxy(issuer, lifetime=timedelta(hours=1), limited=limited, now=datetime.now(UTC))
    to.write_bytes(proxy.to_pem())
    return proxy
