"""A rename that replaces, on servers without posix-rename@openssh.com: the rename of SFTP 3 does not replace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import asyncssh

from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.patterns import folded_path
from identity.gsi.printable import quoted

_Ask = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


async def rename_by_hand(client: asyncssh.SFTPClient, ask: _Ask, source: bytes, target: bytes) -> None:
    """Rename, and remove what is there first if the rename fails. ask: sends a request. Raises FaultError.

    Most servers answer a plain failure both where the target exists and where the source is missing. So the target is
    removed only after the server has shown both. A failure after the removal leaves the content under the old name,
    and nothing under the new one; the fault says so.
    """
    try:
        await ask(lambda: client.rename(source, target))
        return
    except FaultError as error:
        if error.fault.kind not in (Kind.UNKNOWN, Kind.PATH_EXISTS) or not await _replaces(client, ask, source, target):
            raise
    await ask(lambda: client.remove(target))
    try:
        await ask(lambda: client.rename(source, target))
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
