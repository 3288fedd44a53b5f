"""`make audit`: reports known vulnerabilities of the versions in the lock files, from the package index.

    python -m deploy.release.audit [--index URL] [--strict] LOCK...

An index with the JSON API of PyPI names the advisories of each release (the Open Source Vulnerabilities database).
Nothing is installed. The index is PIP_INDEX_URL, else that of pip's configuration. Exit status: 0 no known advisory, 1
at least one, 2 with --strict where something could not be checked.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

#: Seconds for one answer, and its most octets; projects with many releases have long ones.
TIMEOUT = 20.0
MOST_OCTETS = 32 << 20
#: Requests at a time.
WIDTH = 8
#: The most characters of an index's text that are shown.
SHOWN = 160

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)", re.MULTILINE)
_DEFAULT = re.compile(r"\(default (https?://[^\s)]+)\)")


class NotReachableError(Exception):
    """The index does not answer, or not by its API. The text says which, to users."""


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Advisory:
    """advisories: None where the index has nothing about this version."""

    pin: Pin
    advisories: Sequence[str] | None
    newest: str


def pins(locks: Iterable[Path]) -> list[Pin]:
    """All pinned versions, each once. Raises OSError."""
    return sorted({Pin(*found) for lock in locks for found in _PIN.findall(lock.read_text())})


class Index:
    """An index, by the address of its simple API (PEP 503). A password in the address is sent, and never shown."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotReachableError("the address of the index is not an http:// or https:// one")
        who, _, host = parts.netloc.rpartition("@")
        folder = parts.path.rstrip("/").removesuffix("/simple")
        self.address = urlunsplit((parts.scheme, host, f"{folder}/pypi", "", ""))
        self.simple = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._password = f"Basic {base64.b64encode(unquote(who).encode()).decode()}" if who else None

    def look(self, pin: Pin) -> Advisory:
        """Raises NotReachableError."""
        newest = self._document(self.address, quote(pin.name), "json")
        version = str(_part(newest, "info").get("version", ""))
        # The page of the project describes its newest release; not every mirror has pages of the others.
        if version == pin.version:
            return Advisory(pin, _advisories(newest), version)
        page = self._document(self.address, quote(pin.name), quote(pin.version), "json")
        return Advisory(pin, None if page is None else _advisories(page), version)

    def files(self, name: str) -> list[dict[str, Any]]:
        """The files of a project, by the simple API in JSON (PEP 691). Raises NotReachableError."""
        page = self._document(self.simple, quote(name), "", accept="application/vnd.pypi.simple.v1+json")
        listed = (page or {}).get("files")
        return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

    def _document(self, *words: str, accept: str = "application/json") -> dict[str, Any] | None:
        """None where there is no such page. Raises NotReachableError."""
        address = "/".join(words)
        request = urllib.request.Request(address, headers={"Accept": accept})  # noqa: S310 - looked at above
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


def _part(document: dict[str, Any] | None, name: str) -> dict[str, Any]:
    part = (document or {}).get(name)
    return part if isinstance(part, dict) else {}


def _advisories(document: dict[str, Any] | None) -> list[str] | None:
    """A line for each advisory that has not been withdrawn; None where the index reports none."""
    listed = (document or {}).get("vulnerabilities")
    if not isinstance(listed, list):
        return None
    return [_line(one) for one in listed if isinstance(one, dict) and not one.get("withdrawn")]


def _line(advisory: dict[str, Any]) -> str:
    """The text of an index without control characters of terminals."""
    aliases, fixed = (
        [str(word) for word in found] if isinstance(found := advisory.get(name), list) else []
        for name in ("aliases", "fixed_in")
    )
    names = ", ".join([str(advisory.get("id", "?")), *aliases])
    text = f"{names}: {advisory.get('summary') or advisory.get('details') or ''}"
    cure = f"; fixed in {', '.join(fixed)}" if fixed else ""
    return "".join(letter if letter.isprintable() else " " for letter in text[:SHOWN] + cure[:SHOWN])


def configured_index() -> str:
    """Raises NotReachableError."""
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


def check(index: Index, wanted: Sequence[Pin]) -> list[Advisory]:
    """Check all. Raises NotReachableError for the first that cannot be checked, without waiting for the others."""
    with ThreadPoolExecutor(WIDTH) as pool:
        try:
            return list(pool.map(index.look, wanted))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def report(found: Sequence[Advisory], strict: bool) -> int:
    """Show it; returns the exit status."""
    for one in found:
        for line in one.advisories or ():
            print(f"{one.pin.name} {one.pin.version}: {line}")
    unknown = [one for one in found if one.advisories is None]
    for one in unknown:
        print(
            f"not checked: {one.pin.name} {one.pin.version} (the newest that the index knows is {one.newest[:SHOWN]!r})"
        )
    bad = sum(bool(one.advisories) for one in found)
    print(f"{len(found)} packages: {bad} with advisories, {len(unknown)} that the index says nothing about.")
    return 1 if bad else 2 if strict and unknown else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.release.audit", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("locks", nargs="+", type=Path, metavar="LOCK")
    parser.add_argument("--index", metavar="URL", help="the simple API of an index (default: pip's)")
    parser.add_argument("--strict", action="store_true", help="status 2 where something could not be checked")
    options = parser.parse_args(argv)
    say = partial(print, file=sys.stderr)
    try:
        wanted = pins(options.locks)
        return report(check(Index(options.index or configured_index()), wanted), options.strict)
    except NotReachableError as error:
        say(f"Nothing was checked: the package index's advisories are not reachable: {error}.")
    except OSError as error:
        say(f"Nothing was checked: {error.strerror}: {error.filename}.")
        return 2
    return 2 if options.strict else 0


if __name__ == "__main__":
    raise SystemExit(main())
