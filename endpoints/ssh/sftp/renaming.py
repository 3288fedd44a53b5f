"""Renames over SFTP. That of version 3 does not replace: a rename that does is made of several steps on servers without
posix-rename@openssh.com.

Behind each goes a look at the new name, in the same round trip. A server must process requests about one file in the
order in which they arrive (draft-ietf-secsh-filexfer-02, "Request Synchronization and Reordering").
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import asyncssh

from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.patterns import folded_path
from identity.gsi.printable import quoted

#: Sends a request, and returns its answer. Raises FaultError.
_Ask = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
#: The attributes of an entry; None if there is none.
_Seen = asyncssh.SFTPAttrs | None


async def rename(client: asyncssh.SFTPClient, ask: _Ask, source: bytes, target: bytes) -> _Seen:
    """Rename, and replace what is there, as rename(2) does. Returns what is under the new name then.

    Raises FaultError.
    """
    try:
        return await _and_look(client, ask, lambda: client.posix_rename(source, target), target)
    except FaultError as error:
        if error.fault.kind is not Kind.UNSUPPORTED:
            raise
    return await _rename_by_hand(client, ask, source, target)


async def look(client: asyncssh.SFTPClient, ask: _Ask, path: bytes) -> _Seen:
    """Look at this name; a symlink is not followed. Raises FaultError."""
    try:
        return await ask(lambda: client.lstat(path))  # type: ignore[no-any-return]
    except FaultError as error:
        if error.fault.kind is not Kind.FILE_NOT_FOUND:
            raise
    return None


def has_size(seen: _Seen, size: int | None) -> bool:
    """Whether there is an entry, of this size where both are known."""
    return seen is not None and (None in (size, seen.size) or seen.size == size)


async def _and_look(
    client: asyncssh.SFTPClient, ask: _Ask, rename: Callable[[], Awaitable[None]], target: bytes
) -> _Seen:
    """Send both requests at once. Raises the FaultError of the rename first."""
    named, seen = await asyncio.gather(ask(rename), look(client, ask, target), return_exceptions=True)
    for outcome in (named, seen):
        if isinstance(outcome, BaseException):
            raise outcome
    return seen  # type: ignore[return-value]


async def _rename_by_hand(client: asyncssh.SFTPClient, ask: _Ask, source: bytes, target: bytes) -> _Seen:
    """Rename, and remove what is there first if the rename fails. Raises FaultError.

    Most servers answer a plain failure both where the target exists and where the source is missing. So the target is
    removed only after the server has shown both. A failure after the removal leaves the content under the old name,
    and nothing under the new one; the fault says so.
    """
    try:
        return await _and_look(client, ask, lambda: client.rename(source, target), target)
    except FaultError as error:
        if error.fault.kind not in (Kind.UNKNOWN, Kind.PATH_EXISTS) or not await _replaces(client, ask, source, target):
            raise
    await ask(lambda: client.remove(target))
    try:
        return await _and_look(client, ask, lambda: client.rename(source, target), target)
    except FaultError as error:
        old, new = (quoted(_text(path)) for path in (source, target))
        why = f"{new} was removed, to be replaced by {old}, and then the rename failed. The content is in {old}."
        raise FaultError(replace(error.fault, advice=f"{why} {error.fault.advice}".rstrip())) from None


async def _replaces(client: asyncssh.SFTPClient, ask: _Ask, source: bytes, target: bytes) -> bool:
    """Whether both are there, and are not one entry by two spellings of its name. Raises FaultError for no source."""
    moved = await ask(lambda: client.lstat(source))
    try:
        there = await ask(lambda: client.lstat(target))
    except FaultError as error:
        if error.fault.kind is Kind.FILE_NOT_FOUND:
            return False
        raise
    one_name = folded_path(_text(source)) == folded_path(_text(target))
    return not (one_name and (moved.mtime, moved.size) == (there.mtime, there.size))


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
