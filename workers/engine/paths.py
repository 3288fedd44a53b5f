"""Paths as the servers have them: absolute, slashes between the names. Pure, by the names alone."""

from __future__ import annotations

#: Characters. No file system has longer names; stores of objects have up to so many.
MAX_NAME = 1024


def trimmed(path: str) -> str:
    """The path of a folder without the slashes at its end; "" for the root."""
    return path.rstrip("/")


def parent(path: str) -> str:
    """The folder that this path lies in; "" for the root."""
    return trimmed(trimmed(path).rpartition("/")[0])


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    inner, outer = ([part for part in one.split("/") if part not in ("", ".")] for one in (path, folder))
    return inner[: len(outer)] == outer


def is_a_name(name: str) -> bool:
    """Whether this can be the name of an entry of a folder: anything else would lead out of it, or is too long."""
    return "/" not in name and name not in ("", ".", "..") and len(name) <= MAX_NAME
