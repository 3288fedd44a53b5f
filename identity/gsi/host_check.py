"""The check that a certificate belongs to a host (RFC 2818, RFC 6125), like the toolkit's mode STRICT_RFC2818."""

from __future__ import annotations

import ipaddress

from cryptography import x509
from cryptography.x509.oid import NameOID

from .distinguished_names import slash_name, spellings
from .errors import HostMismatchError
from .name_spelling import modern
from .printable import quoted
from .x509 import UNREADABLE, extension


def check_host(certificate: x509.Certificate, host: str, subject: str = "") -> None:
    """Raises HostMismatchError unless the certificate belongs to `host` (a name or an address).

    With `subject`, a name in slash form, the certificate must have exactly this subject, and `host` does not count. An
    owner sets it for a server whose certificate does not contain its host name.
    """
    try:
        _check(certificate, host, subject)
    except UNREADABLE:
        raise HostMismatchError(f"The server's certificate cannot be compared with {quoted(host)}.") from None


def _check(certificate: x509.Certificate, host: str, subject: str) -> None:
    name = slash_name(certificate.subject)
    if subject:
        if modern(subject) not in map(modern, spellings(certificate.subject)):
            raise HostMismatchError(f'The server has the certificate of "{name}", not of "{subject}".')
        return
    host = host.strip("[]").removesuffix(".").lower()
    address = _address(host)
    if address is not None:
        found = address in _alternatives(certificate)[1]
    else:
        wanted = host.encode("idna").decode() if not host.isascii() else host
        found = any(_fits(pattern, wanted) for pattern in _patterns(certificate))
    if not found:
        raise HostMismatchError(f'The server has the certificate of "{name}", which is not that of {host}.')


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _alternatives(certificate: x509.Certificate) -> tuple[list[str], list[object]]:
    names = extension(certificate, x509.SubjectAlternativeName)
    if names is None:
        return [], []
    return names.get_values_for_type(x509.DNSName), list(names.get_values_for_type(x509.IPAddress))


def _patterns(certificate: x509.Certificate) -> list[str]:
    """Its DNS names; where it has neither those nor addresses, its last CN, "host/name" or "name"."""
    names, addresses = _alternatives(certificate)
    if names or addresses:
        return names
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    service, slash, name = str(common[-1].value).partition("/") if common else ("", "", "")
    return [name if slash else service]


def _fits(pattern: str, host: str) -> bool:
    """An asterisk is exactly one whole leftmost label, not directly below the top level (RFC 6125 section 6.4.3)."""
    pattern = pattern.removesuffix(".").lower()
    if not pattern.startswith("*."):
        return bool(host) and pattern == host
    label, dot, domain = host.partition(".")
    return bool(label and dot) and "." in domain and pattern[2:] == domain
