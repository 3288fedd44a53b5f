"""The operator's rule of who may make an account (WAYBILL_SIGN_UP): closed, open, invitation, or domain:NAME,NAME."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_NAME = re.compile(r"(?=.{4,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?\Z")


class SignUp(StrEnum):
    CLOSED = "closed"  # the operator makes accounts
    OPEN = "open"  # everybody who proves a mail address
    INVITATION = "invitation"  # who has an invitation, and proves a mail address
    DOMAIN = "domain"  # who proves an address of one of these mail domains, or has an invitation


@dataclass(frozen=True, slots=True)
class SignUpPolicy:
    """domains: in lower case; only for DOMAIN. A domain does not cover the domains below it."""

    kind: SignUp = SignUp.CLOSED
    domains: tuple[str, ...] = ()


def parse(text: str) -> SignUpPolicy:
    """Raises ValueError."""
    word, colon, names = text.partition(":")
    try:
        kind = SignUp(word)
    except ValueError:
        raise ValueError("closed, open, invitation, or domain:example.org,example.net") from None
    domains = tuple(name.strip().lower() for name in names.split(",") if name.strip())
    if (kind is SignUp.DOMAIN) != bool(colon and domains):
        raise ValueError("domain: it needs mail domains, as in domain:example.org,example.net; the others have none")
    if wrong := next((name for name in domains if not _NAME.match(name)), None):
        raise ValueError(f"{wrong[:64]!r} is no mail domain")
    return SignUpPolicy(kind, domains)
