"""Addresses that may hold a password: no error of these functions holds a part of the address."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, quote, urlsplit

#: The scheme, the account, and the rest from the hosts on.
_AUTHORITY = re.compile(r"([a-z+]+://)(?:([^/?#]*)@)?([^/?#@]*(?:[/?#].*)?)", re.DOTALL)


def split(text: str) -> SplitResult:
    """The parts of the address. Raises ValueError."""
    try:
        return urlsplit(text)
    except ValueError:
        # Python's error shows the part before the path, with the password.
        raise ValueError("it is not an address") from None


def with_password(text: str, password: str) -> str:
    """The address with this password, also one with several hosts. Raises ValueError where it has one."""
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise ValueError("it is not an address")
    scheme, account, rest = found.groups(default="")
    if ":" in account:
        raise ValueError("the address has a password, too: give one of them")
    return f"{scheme}{account}:{quote(password, safe='')}@{rest}"
