"""The client for servers that users name: where an answer ends, and what one costs that comes octet by octet."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator

import pytest

from deploy.endpoint.authority import CertificateFiles
from identity.http.https_client import MAX_ANSWER, HttpClientError, HttpResponse, Site
from identity.http.web_address import parse_url
from tests.gridftp.authority import Authority
from tests.servers.lying_https import LyingServer

#: The longest line of a head that http.client reads has 65,536 octets.
LONG_HEAD = b"HTTP/1.1 200 OK\r\n" + (b"X: " + b"x" * 60_000 + b"\r\n") * 3 + b"\r\n"
OK = b"HTTP/1.1 200 OK\r\n"


def asked(pieces: Iterator[bytes], identity: CertificateFiles | None = None) -> HttpResponse:
    """The answer of a server that sends these pieces, each in a record of TLS of its own, and ends the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with LyingServer(lambda _: pieces, identity) as server:
        return Site(parse_url(server.url), ["127.0.0.1"], context, 60.0).ask("GET", "/")


def octets(data: bytes) -> Iterator[bytes]:
    return (data[place : place + 1] for place in range(len(data)))


def test_an_answer_that_comes_octet_by_octet_costs_time_by_its_length(
    authority: Authority, host_of: Callable[[Authority], CertificateFiles]
) -> None:
    """The head was searched again after each octet: 20 s of the processor for what has 1 s now."""

    def pieces() -> Iterator[bytes]:
        yield LONG_HEAD
        yield from octets(b"x" * 60_000)

    began = time.thread_time()
    assert len(asked(pieces(), host_of(authority)).body) == 60_000
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([OK + b"Content-Length: 2\r\n\r", b"\nhi", b"more"], b"hi"),
        ([*octets(OK + b"content-length:2\r\n\r\nhi")], b"hi"),
        ([OK + b"\r\n", b"until", b" the end"], b"until the end"),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", b"0\r\n\r\n"], b"hi"),
    ],
)
def test_an_answer_ends_where_its_head_says(pieces: list[bytes], body: bytes) -> None:
    assert asked(iter(pieces)).body == body


@pytest.mark.parametrize(
    "pieces", [[b"x" * 1000] * (MAX_ANSWER // 1000 + 2), [b""], [OK + b"Content-Length: 9\r\n\r\nx"]]
)
def test_an_answer_that_is_none_is_refused(pieces: list[bytes]) -> None:
    with pytest.raises(HttpClientError):
        asked(iter(pieces))
