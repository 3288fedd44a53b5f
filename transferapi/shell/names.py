"""Endpoints and paths as users write them: `EP/PATH`, `EP:PATH`, with `user#name`, a UUID or `^bookmark` for EP.

The historical commands took one form or the other, by command; each command here takes both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from endpoints import bookmarks
from endpoints.errors import BookmarkNotFoundError
from identity.models import User

from .errors import ShellError

_HOME = "/~/"
_SEPARATOR = re.compile("[:/]")


@dataclass(frozen=True, slots=True)
class Location:
    """endpoint: a reference for `endpoints.registry.resolve`. path: absolute, or below `/~/`; not yet checked."""

    endpoint: str
    path: str


def parted(text: str) -> tuple[str, str]:
    """The endpoint, and the path with the separator before it; "" where there is none."""
    found = _SEPARATOR.search(text)
    end = found.start() if found else len(text)
    return text[:end], text[end:]


def location(user: User, text: str, *, decode: bool = False, bare: bool = False) -> Location:
    """Read an endpoint with a path. Call it by `Context.call`: a bookmark is looked up.

    decode: `%XX` stands for an octet (paths of `transfer` and `acl-*`). bare: an endpoint without a path means its
    home.
    Raises ShellError, BookmarkNotFoundError.
    """
    name, rest = parted(text)
    if not (rest or bare or text.startswith("^")):
        form = f"ENDPOINT/PATH or ENDPOINT:PATH, such as {text or 'go#ep1'}/~/file"
        raise ShellError(f"Missing '/': '{text}'", advice=f"Write {form}")
    path = _path(rest)
    if not name:
        raise ShellError(f"'{text}' names no endpoint; write ENDPOINT/PATH, such as go#ep1{path}")
    if decode and "%" in path:
        path = unquote(path, errors="surrogateescape")
    return _from_bookmark(user, unquote(name[1:]), path) if name.startswith("^") else Location(name, path)


def _path(rest: str) -> str:
    """The path behind the endpoint's name; `rest` begins with the separator."""
    if rest.startswith("/"):
        return _HOME + rest[3:] if rest.startswith("/~/") else rest
    path = rest[1:]
    if path.startswith("/"):
        return path
    return f"/{path}" if path.startswith("~") else _HOME + path


def _from_bookmark(user: User, name: str, path: str) -> Location:
    row = next((one for one in bookmarks.all_of(user) if one.name == name), None)
    if row is None:
        raise BookmarkNotFoundError(name)
    below = path.removeprefix(_HOME).lstrip("/")
    return Location(str(row.endpoint_id), row.path.rstrip("/") + "/" + below)
