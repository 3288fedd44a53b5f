"""A real HAProxy in front with TLS, by our configuration: client certificates, http, and floods of one address."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from identity import certificate_subjects, tokens
from identity.gsi.proxies import make_proxy
from identity.gsi.x509 import X509Credential
from identity.models import User
from tests.gridftp.authority import Authority
from tests.integration.web.web_server import web_server
from tests.servers.front_server import Haproxy, haproxy

pytestmark = [pytest.mark.haproxy, pytest.mark.django_db(transaction=True)]
SECRET = "f" * 40
SUBJECTS = "/v2/api/certificate_subjects"


@pytest.fixture(scope="module")
def site(grid_home: Path, identity_of: Callable[..., CertificateFiles]) -> Authority:
    """An authority with a revocation list, where charlie's certificate is."""
    made = Authority(grid_home / "haproxy-site", name="Site Authority", namespace="/O=Site")
    made.revoke([identity_of("charlie", made)])
    return made


@pytest.fixture(scope="module")
def front(
    postgres: Postgres,
    django_db_setup: None,
    redis_server: Redis,
    tmp_path_factory: pytest.TempPathFactory,
    running: ExitStack,
    site: Authority,
    host_of: Callable[[Authority], CertificateFiles],
) -> Haproxy:
    """With TLS and client certificates, before a web server that believes it about them."""
    folder, host = tmp_path_factory.mktemp("web"), host_of(site)
    environ = {"WAYBILL_FRONT_SERVERS": "127.0.0.1/32", "WAYBILL_FRONT_SECRET": SECRET}
    web = running.enter_context(web_server(postgres, redis_server, folder, "--workers", "1", **environ))
    (folder / "tls.pem").write_bytes(host.certificate.read_bytes() + host.key.read_bytes())
    authorities, revoked = (next(site.certificates.glob(kind)) for kind in ("*.0", "*.r0"))
    options = f"ssl crt {folder}/tls.pem alpn h2,http/1.1 verify optional ca-file {authorities} crl-file {revoked}"
    return running.enter_context(haproxy(f"127.0.0.1:{web}", options, FRONT_SECRET=SECRET))


@pytest.fixture
def alices(site: Authority, identity_of: Callable[..., CertificateFiles], alice: User) -> CertificateFiles:
    """alice's certificate, which she has registered."""
    found = identity_of("alice", site)
    certificate_subjects.add(alice, found.subject, proven=[found.subject])
    return found


def subjects(
    front: Haproxy, site: Authority, shown: tuple[Path, Path | None] | None = None, **headers: str
) -> tuple[int, Any]:
    """Status and registered subjects, for a client that shows this chain and key."""
    context = ssl.create_default_context(capath=str(site.certificates))
    if shown is not None:
        context.load_cert_chain(*shown)
    with closing(http.client.HTTPSConnection("localhost", front.port, timeout=60, context=context)) as asked:
        asked.request("GET", SUBJECTS, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = asked.getresponse()
        document = json.loads(answer.read())
        return answer.status, [row["subject"] for row in document["DATA"]] if answer.status == 200 else None


def test_a_certificate_signs_in_the_user_who_has_registered_its_subject(
    front: Haproxy, site: Authority, alices: CertificateFiles, identity_of: Callable[..., CertificateFiles]
) -> None:
    assert subjects(front, site, (alices.certificate, alices.key)) == (200, [alices.subject])
    bobs = identity_of("bob", site)
    assert subjects(front, site, (bobs.certificate, bobs.key)) == (401, None)


def test_without_a_certificate_there_are_the_other_ways(front: Haproxy, site: Authority, alice: User) -> None:
    assert subjects(front, site) == (401, None)
    assert subjects(front, site, Authorization=f"Bearer {tokens.issue(alice)}") == (200, [])


def test_a_revoked_certificate_one_of_another_authority_and_a_proxy_are_refused(
    front: Haproxy,
    site: Authority,
    alices: CertificateFiles,
    other_authority: Authority,
    identity_of: Callable[..., CertificateFiles],
    tmp_path: Path,
) -> None:
    hers = X509Credential.parse(alices.certificate.read_bytes() + alices.key.read_bytes())
    proxy = make_proxy(hers, lifetime=timedelta(hours=1), now=datetime.now(UTC))
    (tmp_path / "proxy.pem").write_bytes(proxy.to_pem())
    others = [identity_of("charlie", site), identity_of("alice", other_authority)]
    for shown in [(tmp_path / "proxy.pem", None), *((one.certificate, one.key) for one in others)]:
        with pytest.raises((ssl.SSLError, ConnectionResetError, http.client.RemoteDisconnected)):
            subjects(front, site, shown)


def test_headers_of_a_client_do_not_pass(
    front: Haproxy, site: Authority, alices: CertificateFiles, identity_of: Callable[..., CertificateFiles]
) -> None:
    bobs = identity_of("bob", site)
    own = {"X_SSL_Client_Verify": "SUCCESS", "X_SSL_Client_S_DN": alices.subject}
    for claims in (own, {name.lower(): value for name, value in own.items()}, own | {"X_Waybill_Front_Secret": SECRET}):
        for shown in (None, (bobs.certificate, bobs.key)):
            assert subjects(front, site, shown, **claims) == (401, None)


def test_http_sends_browsers_to_https_and_refuses_programs(front: Haproxy) -> None:
    def plain(method: str, **headers: str) -> tuple[int, str | None]:
        with closing(http.client.HTTPConnection("127.0.0.1", front.redirect_port, timeout=60)) as asked:
            asked.request(method, "/activity?a=b", headers=headers)
            answer = asked.getresponse()
            return answer.status, answer.headers["Location"]

    assert plain("GET") == (301, "https://data.example.org/activity?a=b")
    assert plain("GET", Authorization="Bearer x") == (403, None)
    assert plain("POST") == (403, None)


def test_a_flood_of_one_address_is_refused_and_others_are_served(front: Haproxy, site: Authority) -> None:
    context = ssl.create_default_context(capath=str(site.certificates))
    with ExitStack() as held:

        def connect() -> ssl.SSLSocket:
            plain = socket.create_connection(("127.0.0.1", front.port), 60, ("127.0.0.2", 0))
            return held.enter_context(context.wrap_socket(plain, server_hostname="localhost"))

        for _ in range(200):
            connect()
        last = connect()
        last.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = last.recv(65536)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"ClientError.TooManyRequests" in answer
        assert subjects(front, site) == (401, None)
