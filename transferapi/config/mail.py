"""WAYBILL_MAIL as Django's mail settings. Read by `sections.py`, so that errors are reported at the start.

console:                                 to the log of the worker
file:///folder                           one file a mail
smtp://user:password@host:587            requires STARTTLS
smtp://host:25?starttls=no               for a relay on the same host: without encryption, and so without a password
smtps://user:password@host:465           TLS from the first octet
"""

from __future__ import annotations

from urllib.parse import parse_qs, unquote

from . import urls, values

#: Seconds for a connection, and for each reply of the server.
TIMEOUT = 15
PORTS = {"smtp": 587, "smtps": 465}
BACKENDS = "django.core.mail.backends."


def parse(url: str) -> dict[str, object]:
    """The settings by their names. Raises ValueError, whose text holds nothing of the URL (a password)."""
    parts = urls.split(url)
    if url == "console:":
        return {"EMAIL_BACKEND": BACKENDS + "console.EmailBackend"}
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise ValueError("expected file:///folder, with three slashes")
        return {"EMAIL_BACKEND": BACKENDS + "filebased.EmailBackend", "EMAIL_FILE_PATH": unquote(parts.path)}
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("it is none of console:, file:///folder, smtp://host and smtps://host")
    starttls = _starttls(parts.scheme, parts.query)
    if parts.scheme == "smtp" and not starttls and parts.password:
        raise ValueError("a password needs STARTTLS, or smtps://")
    return {
        "EMAIL_BACKEND": BACKENDS + "smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": _port(parts.scheme, parts.netloc),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": starttls,
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        "EMAIL_TIMEOUT": TIMEOUT,
    }


def _starttls(scheme: str, query: str) -> bool:
    words = parse_qs(query)
    word = words.pop("starttls", ["yes"])[-1]
    if words or word not in ("yes", "no"):
        raise ValueError("after the question mark only starttls=no is known")
    return scheme == "smtp" and word == "yes"


def _port(scheme: str, netloc: str) -> int:
    """The port. The error of urlsplit would show the text, which may be a part of a password."""
    host = netloc.rpartition("@")[2]
    word = host.rpartition("]")[2].partition(":")[2] if host.startswith("[") else host.partition(":")[2]
    return values.port(word) if word else PORTS[scheme]
