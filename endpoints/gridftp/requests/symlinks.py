"""Symlinks by SITE SYMLINKFROM and SYMLINKTO, the toolkit's commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from endpoints.gridftp.connection import ControlConnection
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind, classify, make_fault
from endpoints.gridftp.features import Features

Stat = Callable[[str], Awaitable[Entry]]


async def make_symlink(
    connection: ControlConnection, features: Features, stat: Stat, link: tuple[bytes, bytes]
) -> None:
    """`GridFTPSession.make_symlink`. link: the text, and the path. Raises FaultError."""
    target, new = link
    text = _link_text(features, target, new)
    request = connection.request
    first, second = await asyncio.gather(request("SITE", b"SYMLINKFROM " + text), request("SITE", b"SYMLINKTO " + new))
    if not second.is_error:
        return
    fault = classify(first if first.is_error else second)
    try:
        there = await stat(new.decode("utf-8", "surrogateescape"))
    except FaultError:
        raise FaultError(fault) from None
    if not await _leads_to(stat, there, text):
        raise FaultError(make_fault(Kind.PATH_EXISTS, fault.raw))


def _link_text(features: Features, target: bytes, path: bytes) -> bytes:
    """The argument of SYMLINKFROM."""
    if not target:
        raise FaultError(make_fault(Kind.INVALID_PATH_NAME, "a symlink with an empty target", retryable=False))
    if features.links_from_session_folder and not target.startswith(b"/"):
        return path.rpartition(b"/")[0] + b"/" + target
    return target


async def _leads_to(stat: Stat, link: Entry, text: bytes) -> bool:
    """Whether this is a symlink with this text, or one that leads to the same file: servers report either."""
    if link.link_target is None:
        return False
    target = text.decode("utf-8", "surrogateescape")
    if link.link_target == target:
        return True
    if not target.startswith("/") or not link.unique:
        return False
    try:
        return (await stat(target)).unique == link.unique
    except FaultError:
        return False
