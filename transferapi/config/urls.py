"""Addresses that may hold a password: no error of these functions holds a part of the address."""

from __future__ import annotations

from urllib.parse import SplitResult, quote, urlsplit


def split(text: str) -> SplitResult:
    """The parts of the address. Raises ValueError."""
    try:
        return urlsplit(text)
    except ValueError:
        # Python's error shows the part before the path, with the password.
        raise ValueError("it is not an address") from None


def port(parts: SplitResult) -> int | None:
    """The port of the address; None: it has none. Raises ValueError."""
    try:
        return parts.port
    except ValueError:
        # Python's error shows it: a part of a password, where that has a slash.
        raise ValueError("its port is not a number from 1 to 65535") from None


def with_password(text: str, password: str) -> str:
    """The address with this password. Raises ValueError where it has one."""
    parts = split(text)
    account, _, place = parts.netloc.rpartition("@")
    if ":" in account:
        raise ValueError("the address has a password, too: give one of them")
    return parts._replace(netloc=f"{account}:{quote(password, safe='')}@{place}").geturl()
