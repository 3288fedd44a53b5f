"""A link that signs one user in, once: `make up` prints it on the machine where the service runs.

The secret is in the link only. A file that only the service can read has its digest, the user and the end; whoever
removes the file first has used the link.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from pathlib import Path

#: Seconds for which a link is valid, and octets of its file.
LIFETIME = 900
_MOST_OCTETS = 4096


def new_link(username: str) -> tuple[str, str]:
    """The code of a new link, and the text of its file."""
    code = secrets.token_urlsafe(24)
    return code, json.dumps({"digest": _digest(code), "username": username, "expires": time.time() + LIFETIME})


def use(file: Path, code: str) -> str | None:
    """The name of the user, for whom the link is used up now; None if it is wrong, used, or too old."""
    try:
        with file.open() as opened:
            known = json.loads(opened.read(_MOST_OCTETS))
        if not hmac.compare_digest(str(known["digest"]), _digest(code)):
            return None
        file.unlink()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(known["username"]) if time.time() < float(known["expires"]) else None


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
