"""Paths as the servers write them: absolute, with slashes between the names. Pure: only names are compared."""

from __future__ import annotations

#: In characters. No file system has longer names; object stores have names of up to this length.
MAX_NAME = 1024


def trimmed(path: str) -> str:
    """The path of a folder without trailing slashes; "" for the root."""
    return path.rstrip("/")


def parent(path: str) -> str:
    """The parent folder of this path; "" for the root."""
    return trimmed(trimmed(path).rpartition("/")[0])


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies inside it."""
    inner, outer = ([part for part in one.split("/") if part not in ("", ".")] for one in (path, folder))
    return inner[: len(outer)] == outer


def is_a_name(name: str) -> bool:
    """Whether this can be the name of an entry of a folder: not a path that leads out of it, and not too long."""
    return "/" not in name and "\0" not in name and name not in ("", ".", "..") and len(name) <= MAX_NAME
