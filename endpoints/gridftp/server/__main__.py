"""`python -m endpoints.gridftp.server --root DIR`: serve a folder until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import signal
import sys

from .limits import Limits
from .server import Server


def main() -> int:
    options = _parser().parse_args()
    try:
        server = Server(
            options.root,
            options.host,
            options.port,
            read_only=options.read_only,
            data_ports=options.data_ports,
            own_account=options.own_account,
            limits=Limits(sessions=options.sessions, sessions_per_address=options.sessions_per_address),
        )
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    _allow_many_files()
    try:
        asyncio.run(_serve(server))
    except OSError as error:
        sys.stderr.write(f"cannot serve {options.root} at {options.host}:{options.port}: {error}\n")
        return 1
    return 0


async def _serve(server: Server) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await server.serve(lambda: print(f"listening on {server.host}:{server.port}", flush=True))


def _allow_many_files() -> None:
    """Each session may hold dozens of connections; the usual soft limit of 1024 is for programs that use select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m endpoints.gridftp.server", description="A GridFTP server.")
    parser.add_argument("--root", required=True, metavar="DIR", help="the folder to serve")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=int, default=2811, help="0 for a free one (default: %(default)s)")
    parser.add_argument("--read-only", action="store_true", help="take no changes")
    parser.add_argument(
        "--own-account", action="store_true", help="serve only the account that runs it, and root, on this machine"
    )
    parser.add_argument("--data-ports", type=_ports, metavar="LO-HI", help="ports for passive data connections")
    parser.add_argument(
        "--sessions",
        type=_count,
        default=Limits().sessions,
        metavar="N",
        help="at once, of all clients (default: %(default)s)",
    )
    parser.add_argument(
        "--sessions-per-address",
        type=_count,
        metavar="N",
        help="of one client address (default: as many as there are places left, so that half are for others)",
    )
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _ports(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high)


if __name__ == "__main__":
    sys.exit(main())
