"""One request to one server that somebody has named: by name, and yet to addresses that were checked before.

Bounded in time and size as a whole; no redirect is followed, no proxy asked, nothing kept between requests. A plain
http:// server is asked only where all of its addresses are loopback, and nobody else hears it, or where the caller
says so (`plain`). Errors: see `oauth_errors`; who asks other servers than OAuth's has words of his own for them.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.views.decorators.debug import sensitive_variables

from .oauth_errors import (
    ServerAddressError,
    ServerAnswerError,
    ServerNotTrustedError,
    ServerTooSlowError,
    ServerUnreachableError,
)
from .web_address import Url

#: Seconds for a whole request, and at most for one of several addresses to be connected to.
REQUEST_SECONDS = 20.0
CONNECT_SECONDS = 5.0
#: Octets of an answer with its head: chains of certificates are the largest that is wanted.
MAX_ANSWER = 256 * 1024
USER_AGENT = "Waybill"


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a server."""

    status: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Site:
    """A server to ask. addresses: allowed ones of its host. context: whom to believe that he is this host."""

    url: Url
    addresses: Sequence[str]
    context: ssl.SSLContext
    timeout: float = REQUEST_SECONDS
    #: Whether http:// is good enough although others may hear it.
    plain: bool = False

    @sensitive_variables()
    def ask(self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        """One request and its answer, whatever its status but a redirect. -> OAuthError

        target: path and query. Secrets belong into `headers` and `body`: they show in no error.
        """
        until = time.monotonic() + self.timeout
        content = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        head = {
            "Host": self.url.origin.partition("://")[2],
            "User-Agent": USER_AGENT,
            "Accept": "application/json, text/plain;q=0.8, */*;q=0.1",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "Content-Length": str(len(body)),
            **content,
            **(headers or {}),
        }
        lines = [f"{method} {target or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        if any(not line.isprintable() or not line.isascii() for line in lines):
            raise ServerAddressError("This is not a web address.")
        try:
            with self._connect(until) as connection:
                connection.settimeout(_left(until))
                connection.sendall("\r\n".join(lines).encode("ascii") + body)
                answer = _read_all(connection, method, until)
        except TimeoutError:
            raise ServerTooSlowError(f"The OAuth server did not answer within {self.timeout:g} s.") from None
        except OSError:
            raise ServerUnreachableError("The connection to the OAuth server broke.") from None
        if 300 <= answer.status < 400:
            reason = "The OAuth server answers with a redirect, which is not followed."
            raise ServerAnswerError(reason, answer.status)
        return answer

    def _connect(self, until: float) -> socket.socket:
        """To the first address that takes the connection, with TLS where the address says so."""
        if (
            self.url.scheme == "http"
            and not self.plain
            and not all(_is_loopback(address) for address in self.addresses)
        ):
            raise ServerNotTrustedError("An OAuth server without TLS (http://) is not asked: secrets would be read.")
        plain = self._dial(until)
        if self.url.scheme == "http":
            return plain
        try:
            secure = self.context.wrap_socket(plain, server_hostname=self.url.host, do_handshake_on_connect=False)
        except BaseException:
            plain.close()
            raise
        try:
            secure.settimeout(_left(until))
            secure.do_handshake()
        except ssl.SSLCertVerificationError as error:
            secure.close()
            raise ServerNotTrustedError(
                f"The certificate of the OAuth server is not accepted: {error.verify_message}."
            ) from None
        except ssl.SSLError:
            secure.close()
            raise ServerNotTrustedError("No secure connection to the OAuth server could be made.") from None
        except BaseException:
            secure.close()
            raise
        return secure

    def _dial(self, until: float) -> socket.socket:
        for address in self.addresses:
            try:
                return socket.create_connection((address, self.url.port), min(CONNECT_SECONDS, _left(until)))
            except OSError:
                if time.monotonic() > until:
                    break
        raise ServerUnreachableError("The OAuth server cannot be reached.")


def _left(until: float) -> float:
    """Seconds; raises TimeoutError when there are none."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


@sensitive_variables()
def _read_all(connection: socket.socket, method: str, until: float) -> Answer:
    """Up to the end of the connection, or of what the head announces."""
    data = bytearray()
    while not _complete(data):
        connection.settimeout(_left(until))
        try:
            chunk = connection.recv(65536)
        except ssl.SSLEOFError:
            chunk = b""  # closed without the goodbye of TLS: the length tells whether something is missing
        if not chunk:
            break
        data += chunk
        if len(data) > MAX_ANSWER:
            raise ServerAnswerError("The answer of the OAuth server is far too long.")
    try:
        response = http.client.HTTPResponse(_Arrived(bytes(data)), method=method)  # type: ignore[arg-type]
        response.begin()
        body = response.read()
        return Answer(response.status, body)
    except (http.client.HTTPException, ValueError):
        raise ServerAnswerError("The answer of the OAuth server is not HTTP, or was cut off.") from None


def _complete(data: bytearray) -> bool:
    """Whether the body has the length that the head announces: then there is no need to wait for the end."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    length = re.search(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*\r\n", data[: end + 2].lower())
    return length is not None and len(data) >= end + 4 + int(length[1])


class _Arrived:
    """What HTTPResponse wants of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)
