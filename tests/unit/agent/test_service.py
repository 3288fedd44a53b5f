"""The way of an agent to its service where the laptop's clock is wrong, and the setup key as text."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from endpoints.gridftp.agent import service_requests
from endpoints.gridftp.agent.service_requests import RequestFailedError
from endpoints.gridftp.agent.setup_key import SetupKey, SetupKeyFormatError
from endpoints.gridftp.agent.tunnel.service import ServiceAddress
from tests.servers.pins import pins_of

#: The answers of the service, by path.
NEWEST = {"version": "9", "sha256": "0" * 64, "time": 1}


class _Handler(BaseHTTPRequestHandler):
    answer = json.dumps(NEWEST).encode()
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def certificate(folder: Path, begin: timedelta, end: timedelta) -> Path:
    """A self-signed certificate for localhost with its key, valid from and until so long from now."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now + begin)
        .not_valid_after(now + end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    path = folder / "service.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(made.public_bytes(Encoding.PEM) + secret)
    return path


@contextmanager
def serving(path: Path, handler: type[BaseHTTPRequestHandler] = _Handler) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"https://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


DAY, YEAR = timedelta(days=1), timedelta(days=365)


@pytest.mark.parametrize(("begin", "end"), [(DAY, YEAR), (-YEAR, -DAY), (-DAY, DAY)])
def test_a_clock_that_is_wrong_by_a_day_does_no_harm(tmp_path: Path, begin: timedelta, end: timedelta) -> None:
    path = certificate(tmp_path, begin, end)
    with serving(path) as url:
        assert service_requests.newest(ServiceAddress(url, authorities=str(path))) == NEWEST


@pytest.mark.parametrize(("begin", "end"), [(3 * DAY, YEAR), (-YEAR, -3 * DAY)])
def test_a_clock_that_is_wrong_by_more_is_named(tmp_path: Path, begin: timedelta, end: timedelta) -> None:
    path = certificate(tmp_path, begin, end)
    with serving(path) as url:
        with pytest.raises(RequestFailedError, match=r"This computer's clock says .*: is it right"):
            service_requests.newest(ServiceAddress(url, authorities=str(path)))
        # A pin names exactly this key, at any time.
        assert service_requests.newest(ServiceAddress(url, pins_of(path))) == NEWEST


def test_other_certificates_are_refused(tmp_path: Path) -> None:
    path = certificate(tmp_path, -DAY, YEAR)
    with serving(path) as url:
        with pytest.raises(RequestFailedError, match="is not trusted by this computer"):
            service_requests.newest(ServiceAddress(url))
        with pytest.raises(RequestFailedError, match="another certificate than the setup key names"):
            service_requests.newest(ServiceAddress(url, ("0" * 64,)))
        other_name = url.replace("localhost", "127.0.0.1")
        with pytest.raises(RequestFailedError, match="not trusted"):
            service_requests.newest(ServiceAddress(other_name, authorities=str(path)))


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[1]", b"{}", b"[" * 100_000, b'"' + b"x" * 300_000 + b'"'])
def test_a_server_that_is_not_waybill_is_named(tmp_path: Path, answer: bytes) -> None:
    path = certificate(tmp_path, -DAY, YEAR)
    handler = type("Other", (_Handler,), {"answer": answer})
    with serving(path, handler) as url, pytest.raises(RequestFailedError):
        service_requests.newest(ServiceAddress(url, authorities=str(path)))


def test_the_words_of_a_refusal_are_shown(tmp_path: Path) -> None:
    path = certificate(tmp_path, -DAY, YEAR)
    body = json.dumps({"code": "Busy", "message": "Come back later."}).encode()
    handler = type("Busy", (_Handler,), {"answer": body, "status": 503})
    with serving(path, handler) as url, pytest.raises(RequestFailedError, match="Come back later") as refused:
        service_requests.newest(ServiceAddress(url, authorities=str(path)))
    assert refused.value.code == "Busy"


# ---- setup keys


def key_text(**values: object) -> str:
    held = {"u": "https://waybill.example.org", "s": "secret", "e": "id", **values}
    return "wb1." + base64.urlsafe_b64encode(json.dumps(held).encode()).decode().rstrip("=")


def test_a_setup_key_is_read_also_where_a_mail_has_broken_its_line() -> None:
    text = key_text(p=["ab" * 32])
    read = SetupKey.parse(f"  {text[:20]}\n {text[20:]}\n")
    assert (read.service, read.secret) == (ServiceAddress("https://waybill.example.org", ("ab" * 32,)), "secret")
    assert "secret" not in repr(read)


@pytest.mark.parametrize(
    "text",
    [
        *("", "wb1.", "wb1.!!!", "wb2.abc", "wb1." + "A" * 9999, key_text()[:-9], key_text(u=1), key_text(p="x")),
        *("wb1." + base64.urlsafe_b64encode(value).decode() for value in (b"[]", b"null", b"\xff", b"[" * 2900)),
    ],
)
def test_what_is_no_setup_key_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(SetupKeyFormatError, match="setup key"):
        SetupKey.parse(text)
