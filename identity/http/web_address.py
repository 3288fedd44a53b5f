"""Web addresses (https://host[:port][/path]), each in one spelling. Standard library only: configuration uses this."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

MAX_URL = 1000
_HOST = re.compile(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]")
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/%-]*")
_PORTS = {"https": 443, "http": 80}
_NOT_AN_ADDRESS = "This is not a web address."


class WebAddressError(ValueError):
    """The text is not a web address of this form. `reason` is a sentence for users."""

    def __init__(self, reason: str = _NOT_AN_ADDRESS) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed address without user, query or fragment."""

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


def parse_url(text: str, *, keep_slash: bool = False, server: str = "a web server") -> Url:
    """Parse an address; remove the slashes at the end of the path unless `keep_slash`. Raises WebAddressError.

    server: the kind of server, with its article, for the reason of an error.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise WebAddressError from None
    if not _is_plain(text):
        raise WebAddressError
    if parts.scheme not in _PORTS:
        raise WebAddressError(f"The address of {server} begins with https://.")
    if _has_more_than_a_place(text, parts):
        raise WebAddressError(f"The address of {server} has neither a user, nor a query, nor a fragment.")
    name = re.sub(r":\d*$", "", parts.netloc)
    if not _HOST.fullmatch(name) or not _PATH.fullmatch(parts.path) or port == 0:
        raise WebAddressError
    path = parts.path if keep_slash else parts.path.rstrip("/")
    return Url(parts.scheme, name.strip("[]").lower().rstrip("."), port or _PORTS[parts.scheme], path)


def _is_plain(text: str) -> bool:
    return len(text) <= MAX_URL and text.isascii() and text.isprintable() and " " not in text


def _has_more_than_a_place(text: str, parts: SplitResult) -> bool:
    """Whether the address has a user, a query or a fragment, also an empty one."""
    return bool(parts.query or parts.fragment) or text[-1] in "?#" or "@" in parts.netloc
