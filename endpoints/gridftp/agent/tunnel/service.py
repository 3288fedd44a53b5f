"""The way from an agent to its service: address, proxy, TLS, and the pinned certificate."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from endpoints.gridftp.server.security.certificates import fields
from endpoints.gridftp.server.security.der import NotDerError

from .proxy_tls import plain_end, to_proxy

#: The most octets of a proxy's answer to CONNECT.
_MAX_ANSWER = 8 << 10
#: Seconds by which the clock of a laptop may be wrong.
CLOCK_SLACK = 2 * 86400.0
#: X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which the module ssl has no name for.
_NO_CHECK_TIME = 0x200000


class ServiceError(OSError):
    """The service cannot be reached, or is not the one that it must be. The text is for the user."""


class ServiceAddress(NamedTuple):
    """Where the service is. url: https://host[:port]; http only to this machine itself.

    pins: SHA-256, in hex, of the service's certificate (DER) or of its public key (SubjectPublicKeyInfo). Where there
    is any, exactly these are accepted, and no authority. authorities: a PEM file in place of those of the system.
    relay: host:port at which this machine reaches the relay, without TLS; "": the service passes tunnels on.
    """

    url: str
    pins: tuple[str, ...] = ()
    authorities: str | None = None
    relay: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (443 if self.is_tls else 80)

    @property
    def is_tls(self) -> bool:
        return urlsplit(self.url).scheme == "https"

    @property
    def authority(self) -> str:
        """Host and port as in the Host field."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


def connect(service: ServiceAddress, timeout: float) -> socket.socket:
    """A connection to the service, through the proxy of the environment, with TLS. Raises OSError (ServiceError)."""
    found = open_tcp(service, timeout)
    context = tls_context(service)
    try:
        if context is not None:
            found = context.wrap_socket(found, server_hostname=service.host)
            check_peer(service, found)
    except BaseException:
        found.close()
        raise
    return found


def open_tcp(service: ServiceAddress, timeout: float) -> socket.socket:
    """A connection that ends at the service, before TLS. Raises OSError (ServiceError)."""
    if not service.host or (not service.is_tls and not _is_loopback(service.host)):
        raise ServiceError(f"{service.url} is no https address")
    proxy = _proxy_of(service)
    if proxy is None:
        return socket.create_connection((service.host, service.port), timeout)
    return _through(proxy, service, timeout)


def open_tunnel(service: ServiceAddress, timeout: float) -> socket.socket:
    """As `open_tcp`, for a tunnel. Raises OSError (ServiceError)."""
    if not service.relay:
        return open_tcp(service, timeout)
    host, _, port = service.relay.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout)


def relay_of(service: ServiceAddress, location: str) -> str:
    """The relay to which the service redirects an agent (RFC 9110 section 15.4.8), as `ServiceAddress.relay`; "": none.

    Only a service on this machine may, and only to this machine: such an address has no TLS.
    """
    try:
        found = urlsplit(location)
        host, port = found.hostname or "", found.port
    except ValueError:
        return ""
    if service.relay or service.is_tls or found.scheme != "http" or not port:
        return ""
    return f"{host}:{port}" if _is_loopback(service.host) and _is_loopback(host) else ""


def tls_context(service: ServiceAddress) -> ssl.SSLContext | None:
    """The context of TLS; None for a service on this machine that is reached without it."""
    if not service.is_tls:
        return None
    context = ssl.create_default_context(cafile=service.authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # `check_time` checks the time.
    context.verify_flags |= _NO_CHECK_TIME
    if service.pins:
        # `check_pin` checks more than a chain would: that it is exactly this certificate.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def check_peer(service: ServiceAddress, secured: ssl.SSLSocket | ssl.SSLObject | None) -> None:
    """Check the certificate of the service after the handshake, by the pin or by its time.

    secured: SSLSocket, SSLObject or None.

    Raises ServiceError.
    """
    if service.pins:
        check_pin(service, secured.getpeercert(binary_form=True) if secured else None)
    elif secured:
        check_time(service, secured.getpeercert() or {}, time.time())


def check_time(service: ServiceAddress, certificate: Mapping[str, Any], now: float) -> None:
    """Check the time of the certificate, with `CLOCK_SLACK` for a wrong clock of this machine. Raises ServiceError."""
    begin, end = (ssl.cert_time_to_seconds(certificate[name]) for name in ("notBefore", "notAfter"))
    if begin - CLOCK_SLACK <= now <= end + CLOCK_SLACK:
        return
    shown = time.strftime("%Y-%m-%d %H:%M", time.gmtime(now))
    raise ServiceError(
        f"the certificate of {service.host} is not valid now. This computer's clock says {shown} UTC: is it right?"
    )


def check_pin(service: ServiceAddress, certificate: bytes | None) -> None:
    """Check that a certificate (DER) is a pinned one. Raises ServiceError."""
    shown = certificate or b""
    known = {pin.lower() for pin in service.pins}
    if not shown or not known & {hashlib.sha256(shown).hexdigest(), spki_sha256(shown)}:
        raise ServiceError(f"{service.host} shows another certificate than the setup key names")


def spki_sha256(der: bytes) -> str:
    """The digest of the SubjectPublicKeyInfo of a certificate (RFC 5280, 4.1); "" where this is no certificate."""
    try:
        return hashlib.sha256(fields(der)[5].whole).hexdigest()
    except (NotDerError, IndexError):
        return ""


# ---- the proxy


def _proxy_of(service: ServiceAddress) -> str | None:
    """The proxy that the environment, or the system, names for this service."""
    if proxy_bypass(service.host) or _is_loopback(service.host):
        return None
    found = getproxies()
    return found.get("https" if service.is_tls else "http") or found.get("all")


def _through(proxy: str, service: ServiceAddress, timeout: float) -> socket.socket:
    """Open a tunnel through an HTTP proxy (RFC 9110, 9.3.6). Raises OSError."""
    parts = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServiceError("only proxies with http:// or https:// addresses can be used")
    sock: socket.socket
    if parts.scheme == "https":
        sock = to_proxy(parts.hostname, parts.port or 443, timeout)
    else:
        sock = socket.create_connection((parts.hostname, parts.port or 8080), timeout)
    try:
        host = f"[{service.host}]" if ":" in service.host else service.host
        lines = [f"CONNECT {host}:{service.port} HTTP/1.1", f"Host: {host}:{service.port}"]
        if parts.username:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        _check_answer(sock)
        return plain_end(sock) if isinstance(sock, ssl.SSLSocket) else sock
    except BaseException:
        sock.close()
        raise


def _check_answer(sock: socket.socket) -> None:
    """Read the head of the proxy's answer, and not one octet more. Raises OSError."""
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        octet = sock.recv(1)
        answer += octet
        if not octet or len(answer) > _MAX_ANSWER:
            raise ServiceError("the proxy does not answer as a proxy does")
    words = answer.split(b" ", 2)
    if len(words) < 2 or words[1] != b"200":
        status = answer.split(b"\r\n", 1)[0].decode("latin-1")[:100]
        raise ServiceError(f"the proxy refuses the connection: {status}")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
