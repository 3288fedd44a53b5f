"""The address gate (truth 9): whether the service may connect to an address that a user or a server names.

Globally reachable addresses pass (`special_addresses`); others only if the operator has opened them, with their ports
(`openings`). A name is resolved once, and the caller connects to the returned addresses, never to the name again: a
hostile name server could answer differently the second time.

    TargetRefusedError(host, reason)
        LookupFailedError(host, reason)   the name has no address, or the look-up took too long
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from identity.error_categories import CategorizedError, Category

from .openings import MAX_PORT, AllowedTarget, opened
from .special_addresses import Address, forbidden_kind

#: As `socket.getaddrinfo`; raises OSError or UnicodeError for a name without an address.
Resolver = Callable[..., list[tuple[Any, Any, Any, Any, tuple[Any, ...]]]]

LOOKUP_SECONDS = 5.0
#: A look-up that hangs keeps its thread until the resolver gives up; at most so many at one time.
MAX_LOOKUPS = 32
#: Further addresses of one name are not tried.
MAX_ADDRESSES = 16

_lookups = threading.BoundedSemaphore(MAX_LOOKUPS)
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
#: Text that a resolver would read as a number: "127.1", "0177.0.0.1", "0x7f.1", "2130706433" (WHATWG URL, 3.5).
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


@dataclass(eq=False)
class TargetRefusedError(CategorizedError):
    """The service does not connect to this address. `reason` is a sentence for the user."""

    category = Category.EXTERNAL
    code = "ExternalError.ConnectFailed"
    template = "{self.host}: {self.reason}"

    host: str
    reason: str

    def __str__(self) -> str:
        return self.message


class LookupFailedError(TargetRefusedError):
    """The name has no address, or it was not resolved in time."""

    code = "ExternalError.LookupFailed"


def valid_host(host: str) -> bool:
    """Whether this is a host name (RFC 1123, 2.1), or an address in canonical spelling; nothing is looked up."""
    if _literal(host) is not None:
        return True
    labels = host.removesuffix(".").split(".")
    return (
        0 < len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels) and not _NUMERIC.fullmatch(labels[-1])
    )


def check_address(ip: str, port: int, allow: Sequence[AllowedTarget] = ()) -> str:
    """The address in canonical spelling, if the service may connect to this port of it. Raises TargetRefusedError.

    For addresses that a server names (replies to PASV, SPAS) as well as for those of a look-up.
    """
    address = _literal(ip)
    if address is None:
        raise TargetRefusedError(ip, "This is not an IP address.")
    kind = forbidden_kind(address)
    if kind and not opened(address, port, allow):
        reason = f"This is a {kind} address; the operator of this service has not allowed port {port} of it."
        raise TargetRefusedError(ip, reason)
    return str(address)


def resolve_target(
    host: str,
    port: int,
    *,
    allow: Sequence[AllowedTarget] = (),
    timeout: float = LOOKUP_SECONDS,
    resolver: Resolver = socket.getaddrinfo,
) -> list[str]:
    """The addresses of `host` to which the service may connect, best first, in at most `timeout` seconds.

    One forbidden address makes the call fail: a name with addresses inside and outside of a private network is an
    attack or a mistake. Raises TargetRefusedError. Blocks: call it in a thread.
    """
    if not 1 <= port <= MAX_PORT:
        raise TargetRefusedError(host, "A port is a number from 1 to 65535.")
    return [check_address(address, port, allow) for address in _addresses(host, port, timeout, resolver)]


def addresses_of(
    host: str, *, timeout: float = LOOKUP_SECONDS, resolver: Resolver = socket.getaddrinfo
) -> frozenset[str]:
    """The addresses of `host`, in at most `timeout` seconds, for comparison only: they have not passed the gate.

    Raises TargetRefusedError when it is not a host name or has no address. Blocks: call it in a thread.
    """
    found = (_literal(address) for address in _addresses(host, MAX_PORT, timeout, resolver))
    return frozenset(str(address) for address in found if address is not None)


def _addresses(host: str, port: int, timeout: float, resolver: Resolver) -> list[str]:
    if not valid_host(host):
        raise TargetRefusedError(host, "This is not a host name.")
    return [host] if _literal(host) is not None else _look_up(host, port, timeout, resolver)


def _literal(text: str) -> Address | None:
    """Only canonical spellings: no octal, no shortened forms, no scope ("fe80::1%eth0")."""
    try:
        return ipaddress.ip_address(text) if "%" not in text else None
    except ValueError:
        return None


def _look_up(host: str, port: int, timeout: float, resolver: Resolver) -> list[str]:
    """Run getaddrinfo, which has no time limit, in its own thread; a thread pool would wait for it at exit."""
    if not _lookups.acquire(timeout=timeout):
        raise LookupFailedError(host, "Too many names are being looked up; try again later.")
    answer: list[str] = []
    asked = (resolver, host, port, answer)
    thread = threading.Thread(target=_ask, args=asked, name="look-up", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise LookupFailedError(host, f"The look-up of this name took more than {timeout:g} s.")
    if not answer:
        raise LookupFailedError(host, "This name has no address.")
    return answer


def _ask(resolver: Resolver, host: str, port: int, answer: list[str]) -> None:
    try:
        found = resolver(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        answer.extend(list(dict.fromkeys(str(entry[4][0]) for entry in found))[:MAX_ADDRESSES])
    except (OSError, UnicodeError):
        pass  # no address: the answer stays empty
    finally:
        _lookups.release()
