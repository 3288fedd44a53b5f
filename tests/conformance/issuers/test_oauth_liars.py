"""OAuth servers that lie: each lie has its own error, is met in bounded time and size, and learns nothing."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from deploy.endpoint.authority import CertificateFiles
from identity.error_categories import Refusal
from identity.gsi.trust import TrustFolder
from identity.http.https_client import MAX_ANSWER
from identity.http.web_address import parse_url
from identity.issuers import oauth
from identity.issuers.oauth_clients import OAuthClient
from identity.issuers.oauth_errors import (
    CERTIFICATE_NOT_USABLE,
    ISSUER_MISMATCH,
    SERVER_NOT_TRUSTED,
    SERVER_TOO_SLOW,
    SERVER_UNREACHABLE,
    OAuthError,
    OAuthRefusedError,
    ServerAddressError,
    ServerAnswerError,
)
from tests.gridftp.authority import Authority
from tests.refusals import raises_refusal
from tests.servers.lying_https import LyingServer, Script, answer, drip

HERE = ["127.0.0.1"]
SECRET, CODE, TOKEN = "the-client-secret", "the-code-of-the-user", "the-token-of-the-user"
CLIENT = OAuthClient("waybill", SECRET)
CALLBACK = "https://waybill.example.org/oauth/callback"
GOOD_TOKEN = json.dumps({"access_token": TOKEN, "token_type": "Bearer"}).encode()


@pytest.fixture
def trust(authority: Authority) -> TrustFolder:
    return TrustFolder(authority.certificates)


@pytest.fixture
def host(host_of: Callable[[Authority], CertificateFiles], authority: Authority) -> CertificateFiles:
    return host_of(authority)


def begin(
    server: LyingServer, trust: TrustFolder, *, url: str = "", timeout: float = 5.0, **more: Any
) -> oauth.OAuthAttempt:
    address = oauth.parse_server(url or server.url)
    return oauth.begin(
        address, more.get("addresses", HERE), CLIENT, redirect_uri=CALLBACK, trust=trust, timeout=timeout
    )


def finish(begun: oauth.OAuthAttempt, trust: TrustFolder, *, timeout: float = 5.0, place: str = "") -> object:
    return oauth.finish(
        begun.secret, HERE, CLIENT, code=CODE, state=begun.state, place=place, trust=trust,
        lifetime=timedelta(hours=1), now=datetime.now(UTC), timeout=timeout,
    )  # fmt: skip


def refusal(work: Callable[[], object], kind: Refusal | type[OAuthError]) -> OAuthError:
    """The error, which says something and holds no secret, wherever it may be printed."""
    with raises_refusal(kind) as caught:
        work()
    printed = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__context__)
    for frame, _ in traceback.walk_tb(caught.value.__traceback__):
        if frame.f_code.co_filename != __file__:
            printed += repr(frame.f_locals)
    for secret in (SECRET, CODE, TOKEN):
        assert secret not in printed
        assert secret not in caught.value.message
    assert caught.value.message.endswith((".", ")"))
    error: OAuthError = caught.value
    return error


def not_found(_: bytes) -> Iterator[bytes]:
    """Discovery finds nothing: the parts are where they are by default."""
    yield answer("404 Not Found")


def parts(**scripts: Script) -> Script:
    """Select a script by the path of the request; other paths are not found."""

    def script(request: bytes) -> Iterator[bytes]:
        path = request.split(b" ")[1].decode().partition("?")[0].strip("/")
        return scripts.get(path, not_found)(request)

    return script


def always(octets: bytes) -> Script:
    return lambda _: iter([octets])


def document(fields: object) -> Script:
    return always(answer("200 OK", json.dumps(fields).encode()))


# ---- discovery


def test_without_discovery_the_parts_are_where_oa4mp_has_them(host, trust):
    with LyingServer(not_found, host) as server:
        begun = begin(server, trust, url=f"{server.url}/oauth2/")
    assert begun.url.startswith(f"{server.url}/oauth2/authorize?response_type=code&client_id=waybill&")
    asked = [request.split(b" ")[1] for request in server.heard]
    assert asked == [b"/.well-known/oauth-authorization-server/oauth2", b"/oauth2/.well-known/openid-configuration"]


def described(server_url: str, **changes: object) -> dict[str, object]:
    good = {
        "issuer": server_url,
        "authorization_endpoint": f"{server_url}/a",
        "token_endpoint": f"{server_url}/t",
        "code_challenge_methods_supported": ["plain", "S256"],
    }
    return {key: value for key, value in {**good, **changes}.items() if value is not None}


@pytest.mark.parametrize("names_itself", [False, True])
def test_a_server_that_sends_the_user_on_to_another_one_does_not_get_that_ones_code(host, trust, names_itself):
    more = {"authorization_response_iss_parameter_supported": names_itself}
    script: dict[str, Script] = {}
    with LyingServer(lambda request: parts(**script)(request), host) as server:
        script[".well-known/oauth-authorization-server"] = document(described(server.url, **more))
        begun = begin(server, trust)
        [back] = parse_qs(begun.url.partition("?")[2])["redirect_uri"]
        asked = len(server.heard)
        honest = oauth.place_of(oauth.parse_server("https://honest.example.org"))
        refusal(lambda: finish(begun, trust, place=honest), ISSUER_MISMATCH)
        assert len(server.heard) == asked
        mine = oauth.place_of(oauth.parse_server(server.url))
    assert back == (CALLBACK if names_itself else f"{CALLBACK}/{mine}")
    assert mine != honest


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example.org"},
        {"issuer": None},
        {"issuer": ["x"]},
        {"token_endpoint": "https://evil.example.org/token"},
        {"token_endpoint": "http://127.0.0.1/token"},
        {"token_endpoint": "//evil.example.org/token"},
        {"token_endpoint": "/token"},
        {"token_endpoint": 7},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://user@127.0.0.1/x"},
        {"getcert_endpoint": "https://evil.example.org/getcert"},
        {"authorization_endpoint": "https://127.0.0.1:1/a"},
        {"code_challenge_methods_supported": ["plain"]},
    ],
    ids=str,
)
def test_a_description_that_points_elsewhere_or_weakens_is_refused(host, trust, changes):
    url = ""
    with LyingServer(lambda request: document(described(url, **changes))(request), host) as server:
        url = server.url
        refusal(lambda: begin(server, trust), ServerAnswerError)


@pytest.mark.parametrize(
    "body", [b"[]", b"7", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b""], ids=lambda b: repr(b[:5])
)
def test_a_description_that_is_no_object_is_refused(host, trust, body):
    with LyingServer(always(answer("200 OK", body)), host) as server:
        refusal(lambda: begin(server, trust), ServerAnswerError)


# ---- TLS


@pytest.fixture
def issue(authority: Authority, tmp_path: Path) -> Callable[..., CertificateFiles]:
    return lambda names, **options: authority.issue_host(names, to=tmp_path, **options)


def untrusted(identity: CertificateFiles | None, trust: TrustFolder, **more: Any) -> str:
    with LyingServer(not_found, identity) as server:
        error = refusal(lambda: begin(server, trust, **more), SERVER_NOT_TRUSTED)
        assert not server.heard, "nothing was said"
    return error.message


def test_a_certificate_for_another_host_is_refused(issue, trust):
    assert "127.0.0.1" in untrusted(issue(["oauth.example.org"]), trust)


def test_a_certificate_of_an_unknown_authority_is_refused(host, tmp_path):
    other = Authority(tmp_path / "other", name="Other", namespace="/O=Grid/OU=Other")
    untrusted(host, TrustFolder(other.certificates))


def test_an_expired_certificate_is_refused(issue, trust):
    assert "expired" in untrusted(issue(["127.0.0.1"], days=-1), trust)


def test_no_tls_is_asked_on_loopback_only(trust):
    with LyingServer(not_found, None) as server:
        begin(server, trust)
    with LyingServer(not_found, None) as server:
        refusal(lambda: begin(server, trust, addresses=["192.0.2.1"]), SERVER_NOT_TRUSTED)
        refusal(lambda: begin(server, trust, addresses=["127.0.0.1", "192.0.2.1"]), SERVER_NOT_TRUSTED)
        assert not server.heard


def test_a_server_that_speaks_no_tls_is_not_spoken_to(trust):
    with LyingServer(not_found, None) as server:
        refusal(lambda: begin(server, trust, url=server.url.replace("http:", "https:")), OAuthError)
        assert not any(SECRET.encode() in request for request in server.heard)


def test_the_name_is_never_looked_up_again(host, trust):
    """The addresses given are connected to, under the name: `localhost` in the certificate, and an address of ours."""
    with LyingServer(not_found, host) as server:
        begun = begin(server, trust, url=f"https://localhost:{server.port}")
        assert b"Host: localhost:" in server.heard[0]
        refusal(lambda: begin(server, trust, url=f"https://localhost:{server.port}", addresses=[]), SERVER_UNREACHABLE)
    assert begun.url.startswith("https://localhost:")


def test_proxies_of_the_environment_are_not_asked(host, trust, monkeypatch):
    for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with LyingServer(not_found, host) as server:
        begin(server, trust)


# ---- answers


def endless(_: bytes) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    yield from itertools.repeat(b"x" * 65536, 1000)


def endless_head(_: bytes) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    yield from itertools.repeat(b"X-More: " + b"x" * 60_000 + b"\r\n", 1000)


@pytest.mark.parametrize(
    "script",
    [
        endless,
        endless_head,
        always(b"HTTP/1.1 302 Found\r\nLocation: https://evil.example.org/\r\nContent-Length: 0\r\n\r\n"),
        always(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"),
        always(b"220 this is a GridFTP server\r\n"),
        always(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
        always(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + GOOD_TOKEN[:-1]),
        always(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n"),
        always(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n{" % (MAX_ANSWER * 10)),
        always(b"HTTP/1.1 99 No\r\n\r\n"),
        always(b""),
        always(b"\0" * 1000),
    ],
    ids=[
        "endless",
        "endless head",
        "302",
        "307",
        "ftp",
        "short",
        "negative",
        "chunks",
        "announced",
        "99",
        "nothing",
        "0",
    ],
)
def test_an_answer_that_is_none_is_refused_by_every_part(host, trust, script):
    with LyingServer(script, host) as server:
        refusal(lambda: begin(server, trust), ServerAnswerError)
    with LyingServer(parts(token=script), host) as server:
        begun = begin(server, trust)
        refusal(lambda: finish(begun, trust), ServerAnswerError)
    with LyingServer(parts(token=always(answer("200 OK", GOOD_TOKEN)), getcert=script), host) as server:
        begun = begin(server, trust)
        refusal(lambda: finish(begun, trust), OAuthError)


def test_a_redirect_takes_no_secret_along(host, trust):
    with LyingServer(not_found, host) as elsewhere:
        location = answer("307 Temporary Redirect", Location=elsewhere.url)
        with LyingServer(parts(token=always(location)), host) as server:
            begun = begin(server, trust)
            refusal(lambda: finish(begun, trust), ServerAnswerError)
        assert not elsewhere.heard


def hangs(stop: threading.Event) -> Script:
    def script(_: bytes) -> Iterator[bytes]:
        stop.wait(20)
        yield b""

    return script


@pytest.mark.parametrize("how", ["silent", "drip of the head", "drip of the body"])
def test_a_server_that_takes_its_time_is_left_after_ours(host, trust, how):
    stop = threading.Event()
    scripts = {
        "silent": hangs(stop),
        "drip of the head": lambda _: drip(b"HTTP/1.1 200 OK\r\n" * 1000, seconds=0.05),
        "drip of the body": lambda _: itertools.chain(
            [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"], drip(b"x" * 1000, seconds=0.05)
        ),
    }
    begun_at = time.monotonic()
    with LyingServer(scripts[how], host) as server:
        refusal(lambda: begin(server, trust, timeout=0.7), SERVER_TOO_SLOW)
        stop.set()
    assert time.monotonic() - begun_at < 15


def test_a_server_that_hangs_in_the_tls_handshake_is_left(trust):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        address = oauth.parse_server(url)
        refusal(
            lambda: oauth.begin(address, HERE, CLIENT, redirect_uri=CALLBACK, trust=trust, timeout=0.7),
            SERVER_TOO_SLOW,
        )


def test_nobody_there_is_unreachable(trust):
    address = oauth.parse_server("https://127.0.0.1:9")
    refusal(lambda: oauth.begin(address, HERE, CLIENT, redirect_uri=CALLBACK, trust=trust), SERVER_UNREACHABLE)


# ---- tokens


@pytest.mark.parametrize(
    "token",
    [
        {"access_token": TOKEN},
        {"access_token": TOKEN, "token_type": "mac"},
        {"access_token": TOKEN, "token_type": 7},
        {"token_type": "Bearer"},
        {"access_token": "", "token_type": "Bearer"},
        {"access_token": [TOKEN], "token_type": "Bearer"},
        {"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer"},
        {"access_token": "a b", "token_type": "Bearer"},
        {"access_token": "tök", "token_type": "Bearer"},
        {"access_token": "x" * 9000, "token_type": "Bearer"},
        [TOKEN],
        TOKEN,
    ],
    ids=lambda token: str(token)[:40],
)
def test_a_token_that_is_none_goes_nowhere(host, trust, token):
    with LyingServer(parts(token=document(token)), host) as server:
        begun = begin(server, trust)
        refusal(lambda: finish(begun, trust), ServerAnswerError)
        assert not [request for request in server.heard if request.startswith(b"POST /getcert")]


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "401 Unauthorized"])
def test_an_error_is_reported_by_its_code_and_not_in_the_servers_words(host, trust, status):
    said = json.dumps({"error": "invalid_grant", "error_description": f"{CODE} {SECRET} <script>"}).encode()
    with LyingServer(parts(token=always(answer(status, said))), host) as server:
        begun = begin(server, trust)
        error = refusal(lambda: finish(begun, trust), OAuthRefusedError)
    assert "invalid_grant" in error.message
    assert "script" not in error.message


@pytest.mark.parametrize("code", [CODE, ["invalid_grant"], None, {}])
def test_an_error_of_no_standard_is_not_repeated(host, trust, code):
    with LyingServer(parts(token=always(answer("400 No", json.dumps({"error": code}).encode()))), host) as server:
        begun = begin(server, trust)
        error = refusal(lambda: finish(begun, trust), OAuthRefusedError)
    assert CODE not in error.message


def test_secrets_travel_in_bodies_and_heads_and_never_in_addresses(host, trust):
    getcert = always(answer("403 Forbidden", b"{}"))
    with LyingServer(parts(token=always(answer("200 OK", GOOD_TOKEN)), getcert=getcert), host) as server:
        begun = begin(server, trust)
        refusal(lambda: finish(begun, trust), OAuthRefusedError)
    *_, token, certificate = server.heard
    for request in server.heard:
        line = request.split(b"\r\n")[0]
        assert not [one for one in (SECRET, CODE, TOKEN) if one.encode() in line]
    assert parse_qs(token.partition(b"\r\n\r\n")[2].decode())["code"] == [CODE]
    assert f"Authorization: Bearer {TOKEN}".encode() in certificate
    fields = parse_qs(certificate.partition(b"\r\n\r\n")[2].decode())
    assert fields["client_secret"] == [SECRET]
    assert fields["certlifetime"] == ["3600"]
    assert CODE.encode() not in certificate


# ---- certificates


def test_a_certificate_for_another_key_is_refused(host, trust, authority):
    foreign = authority.issue_user("mallory").certificate.read_bytes()
    getcert = always(answer("200 OK", foreign))
    with LyingServer(parts(token=always(answer("200 OK", GOOD_TOKEN)), getcert=getcert), host) as server:
        begun = begin(server, trust)
        error = refusal(lambda: finish(begun, trust), CERTIFICATE_NOT_USABLE)
    assert "key" in error.message


@pytest.mark.parametrize(
    "body", [b"", b"username=alice", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate_is_refused(host, trust, body):
    getcert = always(answer("200 OK", body))
    with LyingServer(parts(token=always(answer("200 OK", GOOD_TOKEN)), getcert=getcert), host) as server:
        begun = begin(server, trust)
        refusal(lambda: finish(begun, trust), CERTIFICATE_NOT_USABLE)


# ---- addresses


@pytest.mark.parametrize(
    "text",
    [
        "",
        "oauth.example.org",
        "ftp://a.example",
        "https://",
        "https://u:p@a.example",
        "https://a.example/?x=1",
        "https://a/#f",
        "https://a.example:0",
        "https://a.example:99999",
        "https://a b.example",
        "https://a.example/\r\nX: y",
        "https://é.example",
        "https://a.example/ä",
        "https://" + "a" * 2000,
        "javascript:alert(1)",
        "https://a.example?",
        "https://[::1",
    ],
)
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(ServerAddressError):
        oauth.parse_server(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("https://A.Example.ORG/OAuth2/", "https://a.example.org/OAuth2"),
        ("https://a.example:443", "https://a.example"),
        ("https://a.example:8443/x//", "https://a.example:8443/x"),
        ("https://[2001:DB8::1]/x", "https://[2001:db8::1]/x"),
        ("http://127.0.0.1:80/", "http://127.0.0.1"),
    ],
)
def test_an_address_has_one_spelling(text, normal):
    assert str(parse_url(text)) == normal
