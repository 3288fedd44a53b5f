"""Passes connections on: `python -m bench.connect.forward 127.0.0.1:8000 10.0.0.1:9000`.

The instances of benchmarks have http addresses on loopback, and agents use http on loopback only: with one of these at
each end, a computer in another namespace reaches the service as if it were on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

PIECE = 256 * 1024


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()


async def main(listen: str, target: str) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, out = await asyncio.open_connection(*_address(target))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, out), _copy(there, writer))

    server = await asyncio.start_server(accept, *_address(listen))
    await server.serve_forever()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
