"""The values of WAYBILL_TRACES, WAYBILL_TRACES_HEADERS and WAYBILL_TRACES_RATIO. Each parser raises ValueError."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

#: The path of OTLP/HTTP for traces (OTLP 1.x, "OTLP/HTTP Request"), where the address has none.
PATH = "/v1/traces"
#: Characters of a header's name (RFC 9110 5.6.2).
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
#: Headers that say how the message is read; a second one could change that.
_OURS = ("content-type", "content-length", "content-encoding", "transfer-encoding", "host", "connection")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def collector(text: str) -> str:
    """The address of a collector's receiver of OTLP/HTTP, with its path; "": none."""
    if not text:
        return ""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not text.isascii() or not text.isprintable():
        raise ValueError("it is not an http:// or https:// address")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must hold no user and no password: use WAYBILL_TRACES_HEADERS")
    if parts.query or parts.fragment or " " in text:
        raise ValueError("it must have no query and no fragment")
    _ = parts.port
    return f"{parts.scheme}://{parts.netloc}{parts.path if parts.path.strip('/') else PATH}"


def headers(text: str) -> Mapping[str, str]:
    """Lines "name: value". No error shows a value."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name.strip()) or not value.isascii() or not value.isprintable():
            raise ValueError("each line must be a header, name: value")
        if name.strip().lower() in _OURS:
            raise ValueError(f"the header {name.strip()} is not the operator's")
        found[name.strip()] = value.strip()
    return found


def ratio(text: str) -> float:
    """A number from 0 to 1."""
    if not re.fullmatch(r"0|1|0?\.[0-9]{1,9}|1\.0{1,9}|0\.[0-9]{1,9}", text):
        raise ValueError("a number from 0 to 1, such as 0.05")
    return float(text)


def is_clear(address: str) -> bool:
    """Whether others could read what is sent to this address."""
    parts = urlsplit(address)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK
