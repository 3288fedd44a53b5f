"""The real name of a file that was written under another one (docs/decisions/0002)."""

from __future__ import annotations

import asyncio

from endpoints.gridftp.commands import replacement
from endpoints.gridftp.connection import ControlConnection, encoded_line
from endpoints.gridftp.faults import FaultError, classify


async def give_name(connection: ControlConnection, written: bytes, name: bytes, *, replaces: bool) -> None:
    """Give a file its name, over what is there. replaces: `Features.replaces`. Raises FaultError."""
    if replaces and (argument := replacement(written, name)):
        await connection.ask("SITE", argument)
        return
    # Both lines are made first: after a RNFR alone, servers refuse the next command (RFC 959 section 4.1.3).
    lines = [(verb, encoded_line(verb, path)) for verb, path in (("RNFR", written), ("RNTO", name))]
    for reply in await asyncio.gather(*(connection.request_line(*line) for line in lines)):
        if reply.is_error:
            raise FaultError(classify(reply))
