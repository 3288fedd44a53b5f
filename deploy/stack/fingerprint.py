"""Whether the database of a home has all migrations of this code, without a query (which takes a second)."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

from transferapi.config import CHECKOUT


def migrations_fingerprint() -> str:
    """A digest of all migrations: ours, and those of the installed versions of Django and the toolkit."""
    versions = f"{version('django')} {version('django-oauth-toolkit')}"
    digest = hashlib.blake2b(versions.encode(), digest_size=16)
    for file in sorted(_migrations()):
        digest.update(str(file.relative_to(CHECKOUT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _migrations() -> list[Path]:
    return [*CHECKOUT.glob("*/migrations/[0-9]*.py"), *CHECKOUT.glob("*/*/migrations/[0-9]*.py")]
