"""The cost of a GSI login: that of Waybill, and that of globus-url-copy, to the same server in turn.

python -m bench.latency.gsi_login [--rounds 30]

Both go through a small proxy, which takes the time from the connection to the server's answer to PASS: the second of
its protected replies, whoever asks. So the start of globus-url-copy's process is not counted against it, nor what it
says before and after. It always delegates a proxy; ours is measured without (what Waybill does unless the operator
names the host) and with. Credential: an RFC 3820 proxy of RSA 2048. "until usable" is our side's own clock, and counts
all that a session learns at login (FEAT, PWD, ...).
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from bench.table import print_table
from deploy.endpoint.toolkit import clean_environment
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.login import GsiLogin
from identity.gsi.proxies import make_proxy
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import X509Credential
from tests.gridftp.authority import Authority, write_gridmap
from tests.gridftp.toolkit import CLIENT, GsiFiles, ToolkitServer, hand_over, session_account

THEIRS = "globus-url-copy"
OURS = "Waybill"
DELEGATING = "Waybill, delegating"
USABLE = "Waybill, until usable"
#: Answers to USER and to PASS.
REPLIES = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        authority = Authority(root / "authority")
        credential = proxy_of(authority)
        environment = client_environment(root, authority, credential)
        login = GsiLogin(credential, TrustFolder(authority.certificates), "localhost")
        with server(root, authority) as gsi:
            print_table(
                "A GSI login, two protected replies after the connection",
                "ms",
                measure(gsi.port, f"{root}/data/", login, environment, rounds),
                THEIRS,
            )


def measure(
    port: int, folder: str, login: GsiLogin, environment: Mapping[str, str], rounds: int
) -> dict[str, list[float]]:
    times, tell = multiprocessing.Pipe(duplex=False)
    listener = socket.create_server(("127.0.0.1", 0))
    watcher = multiprocessing.Process(target=watch, args=(listener, port, tell), daemon=True)
    watcher.start()
    door = listener.getsockname()[1]
    runs: dict[str, list[float]] = {THEIRS: [], OURS: [], DELEGATING: [], USABLE: []}
    try:
        for index in range(rounds + 3):
            subprocess.run(
                [CLIENT, "-list", f"gsiftp://localhost:{door}{folder}"],
                env=environment, check=True, timeout=30, capture_output=True,
            )  # fmt: skip
            seen = {THEIRS: times.recv()}
            seen[USABLE] = asyncio.run(log_in(door, replace(login)))  # its TLS context is made anew, too
            seen[OURS] = times.recv()
            asyncio.run(log_in(door, replace(login, delegate=True)))
            seen[DELEGATING] = times.recv()
            if index >= 3:  # the first ones read the programs from the disk
                for name, seconds in seen.items():
                    runs[name].append(seconds * 1000)
    finally:
        watcher.terminate()
        watcher.join()
        listener.close()
    return runs


async def log_in(port: int, login: GsiLogin) -> float:
    """Seconds from nothing to a session that serves."""
    begun = time.perf_counter()
    session = await GridFTPSession.open("127.0.0.1", port, login=login)
    seconds = time.perf_counter() - begun
    await session.close()
    return seconds


def watch(listener: socket.socket, port: int, tell: Connection) -> None:
    """Forward one connection after the other; record how long each login took."""
    while True:
        client, _ = listener.accept()
        begun = time.perf_counter()
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tell.send(_pass_on(client, server) - begun)


def _pass_on(client: socket.socket, server: socket.socket) -> float:
    """Forward until either end closes. Returns when the login was answered."""
    heard, answered = b"", 0.0
    while True:
        for sock in select.select([client, server], [], [])[0]:
            data = sock.recv(65536)
            if not data:
                return answered
            if sock is server:
                client.sendall(data)
                heard += data if not answered else b""
                if not answered and heard.count(b"\n632 ") >= REPLIES and heard.endswith(b"\n"):
                    answered = time.perf_counter()
            else:
                server.sendall(data)


def proxy_of(authority: Authority) -> X509Credential:
    alice = authority.issue_user("alice")
    credential = X509Credential.parse(alice.certificate.read_bytes() + alice.key.read_bytes())
    return make_proxy(credential, lifetime=timedelta(hours=12), now=datetime.now(UTC))


def client_environment(root: Path, authority: Authority, credential: X509Credential) -> dict[str, str]:
    """The same credential for the toolkit's client, which wants it in a file that only its owner reads."""
    path = root / "proxy.pem"
    path.touch(0o600)
    path.write_bytes(credential.to_pem())
    return clean_environment() | {"X509_CERT_DIR": str(authority.certificates), "X509_USER_PROXY": str(path)}


def server(root: Path, authority: Authority) -> ToolkitServer:
    data = root / "data"
    data.mkdir()
    (data / "byte").write_bytes(b"x")
    hand_over(data, stop_at=root)
    gridmap = write_gridmap(root / "gridmap", {authority.user_subject("alice"): session_account()})
    host = authority.issue_host(["localhost", "127.0.0.1"])
    return ToolkitServer(data, security=GsiFiles(authority.certificates, host, gridmap))


if __name__ == "__main__":
    main()
