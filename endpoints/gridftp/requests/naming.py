"""The real name of a file that was written under another one (docs/decisions/settlement.md)."""

from __future__ import annotations

import asyncio

from endpoints.gridftp.commands import replacement
from endpoints.gridftp.connection import ControlConnection, encoded_line
from endpoints.gridftp.faults import FaultError, classify
from endpoints.gridftp.replies import Reply


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
