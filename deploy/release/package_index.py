"""Asks a package index for the files of projects, by its simple API in JSON (PEP 503, PEP 691)."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

#: Seconds for one answer, and its most octets; projects with many releases have long ones.
TIMEOUT = 20.0
MOST_OCTETS = 32 << 20
#: Requests at a time.
WIDTH = 8

_DEFAULT = re.compile(r"\(default (https?://[^\s)]+)\)")


class NotReachableError(Exception):
    """The index does not answer, or not by its API. The text says which, to users."""


class Index:
    """An index, by the address of its simple API (PEP 503). A password in the address is sent, and never shown."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotReachableError("the address of the index is not an http:// or https:// one")
        who, _, host = parts.netloc.rpartition("@")
        self.simple = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._password = f"Basic {base64.b64encode(unquote(who).encode()).decode()}" if who else None

    def files(self, name: str) -> list[dict[str, Any]]:
        """The files of a project, by the simple API in JSON (PEP 691). Raises NotReachableError."""
        page = self._document(f"{self.simple}/{quote(name)}/")
        listed = (page or {}).get("files")
        return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

    def _document(self, address: str) -> dict[str, Any] | None:
        """None where there is no such page. Raises NotReachableError."""
        accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
        request = urllib.request.Request(address, headers=accept)  # noqa: S310 - looked at above
        if self._password:
            # A redirect to another host does not get the password.
            request.add_unredirected_header("Authorization", self._password)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
                text = answer.read(MOST_OCTETS + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise NotReachableError(f"it answers {error.code}") from None
        except (OSError, ValueError) as error:
            raise NotReachableError(f"it does not answer ({type(error).__name__})") from None
        return _read(text)


def _read(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text) if len(text) <= MOST_OCTETS else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NotReachableError("it does not speak the JSON API")
    return found


def configured_index() -> str:
    """The address of the package index that pip uses here. Raises NotReachableError."""
    if given := os.environ.get("PIP_INDEX_URL"):
        return given
    words = [sys.executable, "-m", "pip", "install", "--help"]
    # The help shows the configured default; the width keeps it on one line.
    environment = {**os.environ, "COLUMNS": "2000"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60, check=False)
    found = _DEFAULT.search(done.stdout)
    if found is None:
        raise NotReachableError("pip does not say which index it uses: name one with --index")
    return found[1]
