"""TLS at our nginx: its protocols, HTTP/2, http beside it, and a certificate that is renewed while it runs."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from django.test import Client

from deploy.doctor import keys
from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.models import Endpoint
from identity import tokens
from identity.models import User
from tests import hostile_certificates as grid
from tests.integration.web.web_server import web_server
from tests.servers.front_server import Nginx
from tests.unit.deploy.test_doctor import only, said
from tests.waiting import eventually
from transferapi.config import load
from transferapi.rest.metrics import exposition
from transferapi.rest.metrics.certificates import FrontCertificateWatch, NoCertificateError, certificate_of

pytestmark = [pytest.mark.nginx, pytest.mark.django_db(transaction=True)]
SITE = "data.example.org"
AUTHORITY = grid.authority()
#: Of RFC 5246, and refused by Mozilla's intermediate profile: without forward secrecy, or without authentication.
REFUSED = (
    "AES128-GCM-SHA256",
    "AES256-SHA",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-RSA-AES256-SHA",
    "ECDHE-RSA-ARIA128-GCM-SHA256",
)
WANTED = ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305")


def renew(folder: Path, days: float = 90) -> x509.Certificate:
    """A new key and certificate, as a client of ACME would put them there."""
    now = datetime.now(UTC)
    host = grid.host(AUTHORITY, x509.DNSName(SITE), begins=now - timedelta(hours=1), ends=now + timedelta(days=days))
    folder.mkdir(exist_ok=True)
    (folder / "key.pem").write_bytes(grid.key_pem(host.key))
    (folder / "certificate.pem").write_bytes(grid.certificate_pem(host.certificate))
    return host.certificate


@pytest.fixture(scope="module")
def web(
    postgres: Postgres, django_db_setup: None, redis_server: Redis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    environ = {"WAYBILL_FRONT_SERVERS": "127.0.0.1/32", "WAYBILL_PUBLIC_URL": f"https://{SITE}"}
    with web_server(postgres, redis_server, tmp_path_factory.mktemp("web"), **environ) as port:
        yield port


@pytest.fixture(scope="module")
def front(web: int) -> Iterator[Nginx]:
    given = {"FRONT_MODE": "tls", "FRONT_SECRET": "", "REQUEST_SECONDS": "60", "WEB": f"127.0.0.1:{web}"}
    nginx = Nginx.of_the_product(free_port(), **given)
    renew(nginx.folder / "tls")
    challenge = nginx.folder / "acme/.well-known/acme-challenge"
    challenge.mkdir(parents=True)
    (challenge / "nonce").write_text("nonce.thumbprint")
    with nginx:
        yield nginx


def curl(front: Nginx, path: str, *words: str) -> Any:
    """By HTTP/2. Returns the document, with the version of the protocol and the status beside it."""
    url = f"https://{SITE}:{front.port}{path}"
    resolve = f"{SITE}:{front.port}:127.0.0.1"
    form = "\n%{http_version} %{http_code}"
    done = subprocess.run(
        ["curl", "-sk", "--http2", "--resolve", resolve, "-w", form, *words, url],
        capture_output=True, check=True, timeout=60, text=True,
    )  # fmt: skip
    text, _newline, facts = done.stdout.rpartition("\n")
    with suppress(ValueError):
        return (*facts.split(), json.loads(text))
    return (*facts.split(), text)


def shown(front: Nginx) -> x509.Certificate:
    return certificate_of(f"127.0.0.1:{front.port}", SITE)


def handshake(front: Nginx, ciphers: str = "ALL:@SECLEVEL=0", most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> str:
    """The cipher that is agreed on. Raises ssl.SSLError, ConnectionError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers(ciphers)
    context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, most
    with closing(socket.create_connection(("127.0.0.1", front.port), 20)) as line, context.wrap_socket(line) as made:
        return str((made.cipher() or ("",))[0])


# ---- protocols


@pytest.mark.parametrize("cipher", WANTED)
def test_a_cipher_of_the_intermediate_profile_is_accepted(front: Nginx, cipher: str) -> None:
    assert handshake(front, f"{cipher}:@SECLEVEL=0") == cipher


@pytest.mark.parametrize("cipher", REFUSED)
def test_any_other_cipher_is_refused(front: Nginx, cipher: str) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(front, f"{cipher}:@SECLEVEL=0")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_protocols_before_tls_1_2_are_refused(front: Nginx) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(front, most=ssl.TLSVersion.TLSv1_1)
    assert handshake(front, most=ssl.TLSVersion.TLSv1_3).startswith("TLS_")


def test_requests_by_http_2_are_those_of_http_1(front: Nginx, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    """One without a length, which HTTP/2 does not need, is refused as by HTTP/1.1."""
    token = ("-H", f"Authorization: Bearer {tokens.issue(alice)}")
    version, status, found = curl(front, "/v0.10/submission_id", *token)
    assert (version, status) == ("2", "200")
    document = {
        "DATA_TYPE": "transfer",
        "submission_id": found["value"],
        "source_endpoint": str(ep1.pk),
        "destination_endpoint": str(ep2.pk),
        "DATA": [
            {"DATA_TYPE": "transfer_item", "source_path": f"/a/{number}", "destination_path": f"/b/{number}"}
            for number in range(2000)
        ],
    }
    (front.folder / "body").write_text(json.dumps(document))
    body = ("-H", "Content-Type: application/json", "--data-binary", f"@{front.folder}/body")
    assert curl(front, "/v0.10/transfer", *token, *body, "-H", "Content-Length:")[:2] == ("2", "411")
    version, status, answer = curl(front, "/v0.10/transfer", *token, *body)
    assert (version, status) == ("2", "202"), answer
    assert curl(front, "/v0.10/task_list", *token)[2]["total"] == 1


def test_a_stranger_claims_nothing_by_headers_of_http_2(front: Nginx, alice: User) -> None:
    claims = ("X-Forwarded-For: 127.0.0.1", "x-ssl-client-verify: SUCCESS", "X-Waybill-Front-Secret: g")
    for name in ("X_Forwarded_For: 127.0.0.1", *claims):
        assert curl(front, "/v2/api/certificate_subjects", "-H", name)[:2] == ("2", "401")


# ---- http beside it


def plain(front: Nginx, method: str, path: str, **headers: str) -> tuple[int, str, str]:
    line = http.client.HTTPConnection("127.0.0.1", front.redirect_port, timeout=20)
    with closing(line):
        line.request(method, path, headers={"Host": "evil.example.com", **headers})
        answer = line.getresponse()
        return answer.status, answer.getheader("Location", ""), answer.read().decode()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_browser_is_sent_to_the_address_of_the_service(front: Nginx, method: str) -> None:
    assert plain(front, method, "/console?a=b%20c")[:2] == (301, f"https://{SITE}/console?a=b%20c")


@pytest.mark.parametrize(
    ("method", "headers"),
    [("GET", {"Authorization": "Bearer wb_x"}), ("POST", {"Content-Length": "0"}), ("DELETE", {})],
)
def test_a_program_that_sends_its_token_in_clear_gets_an_error(
    front: Nginx, method: str, headers: dict[str, str]
) -> None:
    status, location, text = plain(front, method, "/v0.10/transfer", **headers)
    assert (status, location) == (403, "")
    assert json.loads(text)["message"].startswith(f"Use https://{SITE}: ")


def test_a_challenge_of_acme_is_answered_and_no_other_file(front: Nginx) -> None:
    assert plain(front, "GET", "/.well-known/acme-challenge/nonce")[::2] == (200, "nonce.thumbprint")
    for path in ("other", "../../../nginx.conf", "%2e%2e/%2e%2e/%2e%2e/tls/key.pem"):
        status, _location, text = plain(front, "GET", f"/.well-known/acme-challenge/{path}")
        assert status in (301, 400, 404), path
        assert "PRIVATE" not in text
        assert "worker_processes" not in text


def test_without_tls_there_is_no_second_server(web: int) -> None:
    given = {"FRONT_MODE": "http", "FRONT_SECRET": "", "REQUEST_SECONDS": "60", "WEB": f"127.0.0.1:{web}"}
    with Nginx.of_the_product(free_port(), **given) as nginx, closing(socket.socket()) as line:
        assert line.connect_ex(("127.0.0.1", nginx.redirect_port))


# ---- renewal


def test_a_renewed_certificate_is_shown_after_a_reload_and_an_open_connection_stays(front: Nginx) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = socket.create_connection(("127.0.0.1", front.port), 20)
    with closing(connection), context.wrap_socket(connection) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        renewed = renew(front.folder / "tls")
        assert shown(front).serial_number != renewed.serial_number
        front.reload()
        eventually(lambda: shown(front).serial_number == renewed.serial_number)
        line.sendall(b"X-Rest: x\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_reload_with_a_broken_certificate_changes_nothing(front: Nginx) -> None:
    before = shown(front)
    (front.folder / "tls/certificate.pem").write_text("no certificate")
    with pytest.raises(subprocess.CalledProcessError):
        front.reload()
    assert shown(front).serial_number == before.serial_number
    renew(front.folder / "tls")
    front.reload()


# ---- what is known of it


@pytest.fixture
def at_front(front: Nginx, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Nginx:
    monkeypatch.setattr(exposition, "_front", FrontCertificateWatch())
    settings.FRONT_TLS, settings.PUBLIC_URL = f"127.0.0.1:{front.port}", f"https://{SITE}"
    return front


def metric(client: Client, name: str) -> float | None:
    text = client.get("/metrics", HTTP_HOST="10.1.2.3").content.decode()
    found = [line.split()[1] for line in text.splitlines() if line.startswith(f"waybill_{name} ")]
    return float(found[0]) if found else None


def test_the_metric_is_that_of_the_certificate_which_clients_see(
    at_front: Nginx, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = renew(at_front.folder / "tls", days=9)
    at_front.reload()
    eventually(lambda: shown(at_front).serial_number == renewed.serial_number)
    left = metric(client, "front_certificate_expires_seconds")
    assert left is not None
    assert 9 * 86400 - 120 < left <= 9 * 86400
    assert metric(client, "front_tls_answers") == 1
    renew(at_front.folder / "tls", days=90)
    at_front.reload()
    # It is asked once in five minutes.
    assert (metric(client, "front_certificate_expires_seconds") or 0) <= 9 * 86400
    monkeypatch.setattr("transferapi.rest.metrics.certificates.INTERVAL", 0)
    eventually(lambda: (metric(client, "front_certificate_expires_seconds") or 0) > 80 * 86400)


def test_a_front_server_that_is_away_is_a_metric_and_its_certificate_stays_known(
    at_front: Nginx, web: int, client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transferapi.rest.metrics.certificates.INTERVAL", 0)
    given = {"FRONT_MODE": "tls", "FRONT_SECRET": "", "REQUEST_SECONDS": "60", "WEB": f"127.0.0.1:{web}"}
    second = Nginx.of_the_product(free_port(), **given)
    renew(second.folder / "tls")
    settings.FRONT_TLS = f"127.0.0.1:{second.port}"
    with second:
        assert metric(client, "front_tls_answers") == 1
    eventually(lambda: metric(client, "front_tls_answers") == 0)
    assert (metric(client, "front_certificate_expires_seconds") or 0) > 80 * 86400
    # One that has never answered has no certificate to know.
    monkeypatch.setattr(exposition, "_front", FrontCertificateWatch())
    settings.FRONT_TLS = f"127.0.0.1:{free_port()}"
    assert (metric(client, "front_tls_answers"), metric(client, "front_certificate_expires_seconds")) == (0, None)


def test_no_scrape_waits_for_a_front_server_that_hangs(
    at_front: Nginx, client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transferapi.rest.metrics.certificates.FIRST_LOOK", 0.05)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        settings.FRONT_TLS = f"127.0.0.1:{silent.getsockname()[1]}"
        assert metric(client, "database_answers") == 1
        assert metric(client, "front_tls_answers") is None
        with pytest.raises(NoCertificateError, match="TimeoutError"):
            certificate_of(settings.FRONT_TLS, SITE, 0.1)


def test_without_https_at_the_front_server_nothing_is_asked(client: Client, settings: Any) -> None:
    settings.FRONT_TLS = ""
    assert metric(client, "front_tls_answers") is None
    assert metric(client, "front_certificate_expires_seconds") is None


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"WAYBILL_PUBLIC_URL": "https://data.example.org"}, "data.example.org:443"),
        ({"WAYBILL_PUBLIC_URL": "https://[2001:db8::1]:8443"}, "[2001:db8::1]:8443"),
        (
            {"WAYBILL_PUBLIC_URL": "https://data.example.org", "WAYBILL_FRONT_ADDRESS": "10.213.77.2:8000"},
            "10.213.77.2:8000",
        ),
        ({"WAYBILL_PUBLIC_URL": "http://127.0.0.1:8000", "WAYBILL_FRONT_ADDRESS": "10.213.77.2:8000"}, ""),
    ],
)
def test_the_address_of_the_front_server(given: dict[str, str], address: str) -> None:
    assert load(given).front_tls == address


def test_doctor_names_a_certificate_of_the_front_server_that_ends_or_does_not_fit(front: Nginx) -> None:
    environ = {"WAYBILL_PUBLIC_URL": f"https://{SITE}", "WAYBILL_FRONT_ADDRESS": f"127.0.0.1:{front.port}"}

    def reloaded(days: float) -> None:
        renewed = renew(front.folder / "tls", days)
        front.reload()
        eventually(lambda: shown(front).serial_number == renewed.serial_number)

    reloaded(90)
    assert said(keys._front(load(environ))) == []
    only(keys._front(load({**environ, "WAYBILL_PUBLIC_URL": "https://other.example.org"})), "error", "does not fit")
    reloaded(9)
    only(keys._front(load(environ)), "warning", "The certificate of the front server expires on")
    only(keys._front(load({**environ, "WAYBILL_FRONT_ADDRESS": f"127.0.0.1:{free_port()}"})), "warning", "is not known")
