"""Values of client ids, secrets and tokens. Their prefixes let secret scanners recognise a leaked one."""

from __future__ import annotations

import uuid
from typing import Any

from identity.hidden import digest_of, new_text

ACCESS_TOKEN = "wba_"  # noqa: S105 - the beginning of all of them
REFRESH_TOKEN = "wbr_"  # noqa: S105
SECRET = "wbs_"  # noqa: S105


class ClientId:
    """The generator that the toolkit calls: a UUID, because clients of Globus expect one."""

    def hash(self) -> str:
        return str(uuid.uuid4())


def client_secret() -> str:
    return new_text(SECRET)


def access_token(request: Any = None, refresh_token: bool = False) -> str:
    return new_text(ACCESS_TOKEN)


def refresh_token(request: Any = None, refresh_token: bool = False) -> str:
    return new_text(REFRESH_TOKEN)


def checksum(token: str) -> str:
    """The digest in hexadecimal, as the toolkit stores it."""
    return digest_of(token).hex()
