"""Addresses of OAuth servers, each in one spelling. Standard library only: the configuration reads some at start."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from .oauth_errors import ServerAddressError

MAX_URL = 1000
_HOST = re.compile(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]")
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/%-]*")
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed address without user, query or fragment: `path` has no slash at its end."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{name}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    def __str__(self) -> str:
        return self.origin + self.path


def parse_url(text: str, *, keep_slash: bool = False) -> Url:
    """-> ServerAddressError"""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ServerAddressError("This is not a web address.") from None
    if len(text) > MAX_URL or not text.isascii() or not text.isprintable() or " " in text:
        raise ServerAddressError("This is not a web address.")
    if parts.scheme not in _PORTS:
        raise ServerAddressError("The address of an OAuth server begins with https://.")
    if parts.query or parts.fragment or text[-1] in "?#" or "@" in parts.netloc:
        raise ServerAddressError("The address of an OAuth server has neither a user, nor a query, nor a fragment.")
    name = re.sub(r":\d*$", "", parts.netloc)
    if not _HOST.fullmatch(name) or not _PATH.fullmatch(parts.path) or port == 0:
        raise ServerAddressError("This is not a web address.")
    path = parts.path if keep_slash else parts.path.rstrip("/")
    return Url(parts.scheme, name.strip("[]").lower().rstrip("."), port or _PORTS[parts.scheme], path)
