"""An HTTP client for servers that users name: it connects only to addresses that were checked before.

A request is bounded in time and in size as a whole. The client follows no redirect, uses no proxy and keeps no
connection. It sends plain http:// requests only where every address is loopback, so that nobody else can read them, or
where the caller allows it (`plain`).

HttpClientError(reason)          `reason` is a sentence for users; it holds no text of the server and no secret
|- InvalidRequestError           the target or a header has characters that HTTP cannot carry
|- ConnectionFailedError         no connection could be made, or it broke
|- ResponseTimeoutError          the response was not complete in time
|- InsecureConnectionError       TLS could not be established, or the certificate is not accepted
|  |- NoTlsError                 the address is http://, and others could read the request
|- InvalidResponseError(status)  the response is not HTTP, is too long, or is a redirect (only then with a status)
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import math
import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from django.views.decorators.debug import sensitive_variables

from identity.networks import is_loopback

from .web_address import Url

#: Seconds for a whole request, and at most for one of several addresses to be connected to.
REQUEST_SECONDS = 20.0
CONNECT_SECONDS = 5.0
#: Octets of a response with its head. Certificate chains are the longest bodies that callers expect.
MAX_ANSWER = 256 * 1024
USER_AGENT = "Waybill"
#: The end of a head.
_END = b"\r\n\r\n"


class HttpClientError(Exception):
    """The root of this tree."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidRequestError(HttpClientError):
    pass


class ConnectionFailedError(HttpClientError):
    pass


class ResponseTimeoutError(HttpClientError):
    pass


class InsecureConnectionError(HttpClientError):
    pass


class NoTlsError(InsecureConnectionError):
    pass


class InvalidResponseError(HttpClientError):
    """status: of HTTP, where the response is a redirect; else None."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An HTTP response."""

    status: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Site:
    """A server to send requests to. addresses: of its host, already checked. context: the authorities to trust."""

    url: Url
    addresses: Sequence[str]
    context: ssl.SSLContext
    timeout: float = REQUEST_SECONDS
    #: Whether http:// is allowed although others may read the request.
    plain: bool = False
    #: The kind of server, for the reasons of errors.
    kind: str = "server"
    #: Octets of a response with its head.
    max_answer: int = MAX_ANSWER

    @sensitive_variables()
    def ask(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """Send one request and read its response, whatever its status unless it is a redirect. Raises HttpClientError.

        target: path and query. Put secrets only into `headers` and `body`: no error shows those.
        """
        until = time.monotonic() + self.timeout
        request = self._request(method, target, headers or {}, body)
        try:
            with self._connect(until) as connection:
                connection.settimeout(_left(until))
                connection.sendall(request)
                response = self._parse(self._read_all(connection, until), method)
        except TimeoutError:
            raise ResponseTimeoutError(f"The {self.kind} did not answer within {self.timeout:g} s.") from None
        except OSError:
            raise ConnectionFailedError(f"The connection to the {self.kind} broke.") from None
        if 300 <= response.status < 400:
            reason = f"The {self.kind} answers with a redirect, which is not followed."
            raise InvalidResponseError(reason, response.status)
        return response

    @sensitive_variables()
    def _request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """The octets of the request. Raises InvalidRequestError."""
        content = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        head = {
            "Host": self.url.origin.partition("://")[2],
            "User-Agent": USER_AGENT,
            "Accept": "application/json, text/plain;q=0.8, */*;q=0.1",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "Content-Length": str(len(body)),
            **content,
            **headers,
        }
        lines = [f"{method} {target or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        if any(not line.isprintable() or not line.isascii() for line in lines):
            raise InvalidRequestError("This is not a web address.")
        return "\r\n".join(lines).encode("ascii") + body

    def _connect(self, until: float) -> socket.socket:
        """Connect to the first address that accepts, with TLS where the URL is https://."""
        if self.url.scheme == "http" and not self.plain and not all(map(is_loopback, self.addresses)):
            raise NoTlsError(f"The {self.kind} has no TLS (http://): others could read the request.")
        plain = self._dial(until)
        if self.url.scheme == "http":
            return plain
        with contextlib.ExitStack() as closed_on_failure:
            closed_on_failure.enter_context(plain)
            secure = self.context.wrap_socket(plain, server_hostname=self.url.host, do_handshake_on_connect=False)
            closed_on_failure.enter_context(secure)
            secure.settimeout(_left(until))
            self._handshake(secure)
            closed_on_failure.pop_all()
        return secure

    def _handshake(self, secure: ssl.SSLSocket) -> None:
        try:
            secure.do_handshake()
        except ssl.SSLCertVerificationError as error:
            reason = f"The certificate of the {self.kind} is not accepted: {error.verify_message}."
            raise InsecureConnectionError(reason) from None
        except ssl.SSLError:
            raise InsecureConnectionError(f"No secure connection to the {self.kind} could be made.") from None

    def _dial(self, until: float) -> socket.socket:
        for address in self.addresses:
            try:
                return socket.create_connection((address, self.url.port), min(CONNECT_SECONDS, _left(until)))
            except OSError:
                if time.monotonic() > until:
                    break
        raise ConnectionFailedError(f"The {self.kind} cannot be reached.")

    @sensitive_variables()
    def _read_all(self, connection: socket.socket, until: float) -> bytes:
        """Read until the connection ends, or until the length that the head announces."""
        data, length, headless = bytearray(), math.inf, True
        while len(data) < length:
            connection.settimeout(_left(until))
            try:
                chunk = connection.recv(65536)
            except ssl.SSLEOFError:
                # Closed without the close_notify of TLS: `Content-Length` shows whether something is missing.
                chunk = b""
            if not chunk:
                break
            searched = max(0, len(data) - len(_END) + 1)
            data += chunk
            # The head is read once: octets that come one by one cost no more than all at once.
            if headless and (end := data.find(_END, searched)) >= 0:
                length, headless = _length(data[: end + len(_END)]), False
            if len(data) > self.max_answer:
                raise InvalidResponseError(f"The answer of the {self.kind} is far too long.")
        return bytes(data)

    @sensitive_variables()
    def _parse(self, data: bytes, method: str) -> HttpResponse:
        try:
            response = http.client.HTTPResponse(_SocketOfOctets(data), method=method)  # type: ignore[arg-type]
            response.begin()
            return HttpResponse(response.status, response.read())
        except (http.client.HTTPException, ValueError):
            raise InvalidResponseError(f"The answer of the {self.kind} is not HTTP, or was cut off.") from None


def _left(until: float) -> float:
    """Seconds until then. Raises TimeoutError where none are left."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _length(head: bytearray) -> float:
    """The octets of the answer with its head; infinite where the head does not announce them."""
    found = re.search(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*\r\n", head.lower())
    return len(head) + int(found[1]) if found else math.inf


class _SocketOfOctets:
    """The part of a socket that http.client.HTTPResponse uses."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


#: Seconds after which the authorities are read anew: reading those of the system takes 16 ms of processor.
FRESH_SECONDS = 60


def client_context(folder: Path | None = None) -> ssl.SSLContext:
    """TLS 1.2 or later, with the authorities of the system, and those in `folder` (as X509_CERT_DIR) if it exists.

    Callers share it and must not change it. An authority that was removed counts for FRESH_SECONDS more at most.
    """
    extra = str(folder) if folder is not None and folder.is_dir() else None
    return _made(extra, ssl.get_default_verify_paths(), int(time.monotonic() // FRESH_SECONDS))


@functools.lru_cache(maxsize=4)
def _made(folder: str | None, _paths: ssl.DefaultVerifyPaths, _period: int) -> ssl.SSLContext:
    """_paths: of the system; _period: number of the present FRESH_SECONDS. Another one makes another context."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if folder:
        context.load_verify_locations(capath=folder)
    return context
