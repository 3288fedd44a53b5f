"""`python -m endpoints.gridftp.server --root DIR`: serve a folder until SIGTERM or SIGINT; --stdio: one session."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from .limits import ServerLimits
from .roots.parts import RootPart
from .security.control_security import ControlSecurity
from .server import GridFtpServer
from .stdio import allow_many_files, home_folder, host_of_ssh, serve_stdio


def main() -> int:
    options = _parser().parse_args()
    try:
        server = GridFtpServer(
            host=options.host or (host_of_ssh() if options.stdio else "") or "127.0.0.1",
            port=None if options.stdio else options.port,
            roots=options.root,
            security=_security(options),
            read_only=options.read_only,
            data_ports=options.data_ports,
            own_account=options.own_account,
            home=home_folder() if options.home else "/",
            limits=ServerLimits(sessions=options.sessions, sessions_per_address=options.sessions_per_address),
        )
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    allow_many_files()
    try:
        if options.stdio:
            serve_stdio(server)
        else:
            asyncio.run(_serve(server))
    except (OSError, ValueError) as error:
        folders = ", ".join(part.path for part in options.root)
        sys.stderr.write(f"cannot serve {folders} at {server.host}:{server.port}: {error}\n")
        return 1
    return 0


async def _serve(server: GridFtpServer) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows: Python raises KeyboardInterrupt
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await server.serve(lambda: print(f"listening on {server.host}:{server.port}", flush=True))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m endpoints.gridftp.server", description="A GridFTP server.")
    parser.add_argument(
        "--root",
        required=True,
        action="append",
        type=_part,
        metavar="[NAME=][ro:]DIR",
        help="the folder to serve; several, each with a name, are folders of the top; ro: it takes no changes",
    )
    parser.add_argument(
        "--stdio", action="store_true", help="serve one session on standard input and output, and listen at no port"
    )
    parser.add_argument(
        "--home", action="store_true", help="sessions begin in the account's home, which must be served"
    )
    parser.add_argument(
        "--host",
        default="",
        help="address to listen at; with --stdio, for data connections (default: 127.0.0.1; behind ssh: its address)",
    )
    parser.add_argument("--port", type=int, default=2811, help="0 for a free one (default: %(default)s)")
    gsi = parser.add_argument_group("GSI (gsiftp)", "users log in with certificates, nobody is anonymous")
    gsi.add_argument("--certificate", metavar="PEM", help="the server's certificate, with its chain")
    gsi.add_argument("--key", metavar="PEM", help="its key (default: in the file of the certificate)")
    gsi.add_argument("--trust", metavar="DIR", help="certificates of authorities, as X509_CERT_DIR")
    gsi.add_argument("--gridmap", metavar="FILE", help='lines of "/O=Grid/CN=Alice" alice: the users who are served')
    parser.add_argument("--read-only", action="store_true", help="take no changes")
    parser.add_argument(
        "--own-account",
        action="store_true",
        help="serve only the account that runs it, and root, on this machine, and without any capability (Linux)",
    )
    parser.add_argument("--data-ports", type=_ports, metavar="LO-HI", help="ports for passive data connections")
    parser.add_argument(
        "--sessions",
        type=_count,
        default=ServerLimits().sessions,
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


def _security(options: argparse.Namespace) -> ControlSecurity | None:
    """The security of control channels, from the files that the options name; None without any of them.

    Raises CertificateError, OSError, and ValueError if some of the files are not named.
    """
    files = (options.certificate, options.key or options.certificate, options.trust, options.gridmap)
    if not any(files):
        return None
    if not all(files):
        raise ValueError("a server with GSI needs --certificate, --trust and --gridmap")
    return ControlSecurity(*files)


def _part(text: str) -> RootPart:
    name, named, folder = text.partition("=")
    if not named or "/" in name:
        name, folder = "", text
    read_only = folder.startswith("ro:")
    return RootPart(folder[3:] if read_only else folder, name, writable=not read_only)


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
