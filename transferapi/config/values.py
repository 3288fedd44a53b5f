"""Parsers of the values of environment variables; `sections.py` names that of each variable. Each raises ValueError."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Whole:
    """A parser of whole numbers from `least` to `most`. zero: 0 is read, too, and means something of its own.

    unit: for docs/operate/configuration.md, which shows the bounds.
    """

    least: int
    most: int
    unit: str = ""
    zero: bool = False

    def __call__(self, text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(self.most))
        if not is_number or not (self.least <= int(text) <= self.most or (self.zero and int(text) == 0)):
            raise ValueError(f"a whole number{f' of {self.unit}' if self.unit else ''} {self.bounds}")
        return int(text)

    @property
    def bounds(self) -> str:
        return f"from {self.least} to {self.most}{', or 0' if self.zero else ''}"


port = Whole(1, 65535)
octets_a_second = Whole(1000, 10**12 - 1, "octets a second", zero=True)
#: At least what the trigger of the table demands (identity, migration 0036); 0: no end.
audit_days = Whole(30, 36_500, "days", zero=True)
#: More than the 30 days for which the history of a task is kept; 0: no end.
task_days = Whole(31, 36_500, "days", zero=True)


def address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError("an IP address of this machine, such as 127.0.0.1 or ::") from None


def host_and_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def name_and_port(text: str) -> str:
    found = urlsplit(f"//{text}")
    if not found.hostname or not found.port or found.netloc != text or "@" in text:
        raise ValueError("a name or an address with a port, such as web.example.org:8000")
    return text


def pins(text: str) -> tuple[str, ...]:
    """Digests of TLS keys, or the word "none"."""
    found = tuple(word.lower() for word in words(text))
    if found != ("none",) and not all(re.fullmatch("[0-9a-f]{64}", pin) for pin in found):
        raise ValueError("64 hexadecimal digits each, or none")
    return found


def default_home() -> str:
    """In the checkout; for an installed wheel in the home of the account, and not among the libraries."""
    folder = CHECKOUT if (CHECKOUT / "pyproject.toml").exists() else Path(os.path.expanduser("~"))
    return str(folder / ".waybill")


def absolute_path(text: str) -> Path:
    if not text.isprintable():
        raise ValueError("the name of the folder has control characters")
    return Path(text).expanduser().absolute()


def path_or_none(text: str) -> Path | None:
    return absolute_path(text) if text else None


def file_or_none(text: str) -> Path | None:
    path = path_or_none(text)
    if path is not None and not os.access(path, os.R_OK):
        raise ValueError(f"the file {path} cannot be read")
    return path


def password(text: str) -> None:
    if not text.isprintable():
        raise ValueError("it has more than one line, or control characters")


def long_secret(text: str) -> None:
    if len(text) < 32:
        raise ValueError("too short to be a secret: at least 32 characters")


def header_value(text: str) -> None:
    long_secret(text)
    if not text.isascii() or not text.isalnum():
        raise ValueError("a header carries it: letters and digits only (openssl rand -hex 32)")


def domain(text: str) -> str:
    """A name of DNS in lower case; "": none."""
    label = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
    if text and (len(text) > 253 or not re.fullmatch(rf"{label}(?:\.{label})*", text.lower(), re.ASCII)):
        raise ValueError("a domain, such as example.org")
    return text.lower()


def words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(word) for word in words(text))


def flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


def web_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is not an http:// or https:// address")
    return text.rstrip("/")


def log_level(text: str) -> str:
    if text not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ValueError("DEBUG, INFO, WARNING or ERROR")
    return text
