"""The real name of a file that was written under another one (docs/decisions/settlement.md)."""

from __future__ import annotations

import asyncio

from endpoints.gridftp.commands import replacement
from endpoints.gridftp.connection import ControlConnection, encoded_line
from endpoints.gridftp.faults import FaultError, Kind, classify, make_fault
from endpoints.gridftp.replies import Reply

from .path_facts import entry_of
from .plain_ftp import size_of

NOT_NAMED = "the server confirms the new name of a file, and nothing is there under this name"


async def give_name(
    connection: ControlConnection, written: bytes, name: bytes, *, replaces: bool, look: str = ""
) -> Reply | None:
    """Give a file its name, over what is there. replaces: `Features.replaces`. Raises FaultError.

    look: a command about the name that follows in the same round trip; its reply is returned.
    """
    if replaces and (argument := replacement(written, name)):
        await connection.ask("SITE", argument)
        return None
    # Both lines are made first: after a RNFR alone, servers refuse the next command (RFC 959 section 4.1.3).
    lines = [(verb, encoded_line(verb, path)) for verb, path in (("RNFR", written), ("RNTO", name))]
    if look:
        lines.append((look, encoded_line(look, name)))
    asked, named, *looked = await asyncio.gather(*(connection.request_line(*line) for line in lines))
    for reply in (asked, named):
        if reply.is_error:
            raise FaultError(classify(reply))
    return looked[0] if looked else None


def shown_size(looked: Reply) -> int | None:
    """The size of a file in an answer to MLST or SIZE; None if it shows none."""
    if looked.code == 213:
        return size_of(looked)
    try:
        return None if looked.is_error else entry_of(looked).size
    except FaultError:
        return None


def not_as_named(found: int | None, size: int | None) -> FaultError:
    """The fault of a name that a server has confirmed. found, size: octets there, and of the file; None: not there."""
    if found is None:
        return FaultError(make_fault(Kind.UNSUPPORTED, NOT_NAMED))
    raw = f"the server confirms the new name of a file of {size} octets, and {found} are there under this name"
    return FaultError(make_fault(Kind.FILE_SIZE_CHANGED, raw))
