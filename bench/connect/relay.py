"""Many agents on one relay: memory, processor time, and how long all of them take to come back after a kill -9.

    python -m bench.connect.relay [--agents 500] [--idle 30]

The agents are the product's own tunnels, on one loop of this process; they sign with a fast library, because five
hundred laptops have five hundred processors. They come through the product's web server, as with `make up`. The last
rows are of one agent, the whole program, in a process of its own. Beside each number stands its bar.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench.api import service
from bench.api.service import HOST, web
from bench.table import machine
from deploy.stack.child import spawn, stop
from endpoints.gridftp.agent.home import AgentHome, AgentSettings
from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey
from endpoints.gridftp.agent.tunnel.service import ServiceAddress
from endpoints.gridftp.agent.tunnel.tunnel import Tunnel
from endpoints.gridftp.server import RootPart

#: Seconds until the agents have connected for the first time, and again.
TIMEOUT = 120.0


@dataclass
class Identity:
    """`AgentIdentity` with a fast signature."""

    key: ec.EllipticCurvePrivateKey
    chain: str

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data, ec.ECDSA(hashes.SHA256()))


class Crowd:
    """Agents on one loop. connected_at: when each has last connected, by time.monotonic()."""

    def __init__(self, port: int, identities: Sequence[Identity]) -> None:
        self.connected_at: dict[int, float] = {}
        self._service = ServiceAddress(f"http://{HOST}:{port}")
        self._identities = identities

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tunnels = [self._tunnel(number, identity) for number, identity in enumerate(self._identities)]
        self._tasks = [loop.create_task(tunnel.keep()) for tunnel in self._tunnels]

    def _tunnel(self, number: int, identity: Identity) -> Tunnel:
        def status(text: str) -> None:
            if text == "connected":
                self.connected_at[number] = time.monotonic()
            else:
                self.connected_at.pop(number, None)

        return Tunnel(self._service, identity, lambda sock: sock.close(), status)

    async def complete(self) -> float:
        """Wait until all are connected; the time of the last one."""
        until = time.monotonic() + TIMEOUT
        while len(self.connected_at) < len(self._identities):
            if time.monotonic() > until:
                raise RuntimeError(f"only {len(self.connected_at)} agents are connected")
            await asyncio.sleep(0.05)
        return max(self.connected_at.values())

    async def stop(self) -> None:
        for tunnel in self._tunnels:
            tunnel.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def identities(count: int) -> list[Identity]:
    """Personal endpoints of one user whose agents are set up."""
    from endpoints import registry
    from endpoints.connect import certificates
    from endpoints.models import Agent
    from identity.clock import moment
    from identity.models import User

    owner, found = User.objects.create(username="owner"), []
    for number in range(count):
        endpoint = registry.create(owner, {"name": f"laptop{number}", "is_globus_connect": True}, [])
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        agent, _ = Agent.objects.get_or_create(endpoint=endpoint)
        agent.public_key = pem.decode()
        chain = certificates.issue(agent, moment())
        agent.save()
        found.append(Identity(key, chain))
    return found


def memory(pid: int) -> float:
    """Its resident memory in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6


def processor(pid: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def relay(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A relay process that accepts connections; stopped at the end, if it still runs."""
    before = log.stat().st_size if log.exists() else 0
    process = spawn([sys.executable, "-m", "deploy.cli", "relay"], log=log, env=dict(os.environ))
    until = time.monotonic() + TIMEOUT
    while b"relay: listening on" not in (log.read_bytes()[before:] if log.exists() else b""):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("the relay did not start:\n" + log.read_text()[-2000:])
        time.sleep(0.02)
    try:
        yield process
    finally:
        stop(process)


async def measure_crowd(port: int, found: Sequence[Identity], log: Path, idle: float) -> None:
    crowd = Crowd(port, found)
    with relay(log) as first:
        empty = memory(first.pid)
        await crowd.start()
        await crowd.complete()
        await asyncio.sleep(5)
        full, begun = memory(first.pid), processor(first.pid)
        await asyncio.sleep(idle)
        row("relay without agents, resident", f"{empty:.0f} MB", "")
        row(f"relay with {len(found)} agents, resident", f"{full:.0f} MB", "< 200 MB")
        row("  of it for each agent", f"{(full - empty) * 1000 / len(found):.0f} kB", "")
        row("  processor, all idle", f"{(processor(first.pid) - begun) / idle * 100:.1f} %", "")
        killed = time.monotonic()
        first.send_signal(signal.SIGKILL)
        first.wait()
    async with contextlib.AsyncExitStack() as running:
        # In a thread: the agents notice the loss and try again meanwhile.
        second = relay(log)
        await asyncio.to_thread(second.__enter__)
        running.callback(second.__exit__, None, None, None)
        ready = time.monotonic()
        last = await crowd.complete()
        seconds = Counter(int((one - ready) * 4) for one in crowd.connected_at.values())
        row("relay started again after the kill", f"{ready - killed:.1f} s", "")
        row("all agents are back, after that", f"{last - ready:.1f} s", "< 15 s")
        row("  most sign-ins in a quarter of a second", f"{max(seconds.values())}", "")
        await crowd.stop()


def measure_agent(port: int, identity: Identity, log: Path, idle: float) -> None:
    """The whole agent as a person runs it: the one-file program with its server, its tunnel and its log."""
    with relay(log), tempfile.TemporaryDirectory() as folder:
        home = set_up(Path(folder), port, identity)
        words = [sys.executable, "-I", str(home.program), "--config", folder, "--run"]
        process = spawn(words, log=log.with_name("agent.log"), env=dict(os.environ))
        try:
            until = time.monotonic() + TIMEOUT
            while home.state().get("status") != "connected":
                if time.monotonic() > until:
                    raise RuntimeError(log.with_name("agent.log").read_text())
                time.sleep(0.1)
            time.sleep(3)
            begun = processor(process.pid)
            time.sleep(idle)
            row("one agent, the whole program, resident", f"{memory(process.pid):.0f} MB", "< 40 MB")
            row("  processor, idle", f"{(processor(process.pid) - begun) / idle * 100:.2f} %", "none")
        finally:
            stop(process)


def set_up(folder: Path, port: int, identity: Identity) -> AgentHome:
    """The folder of an agent after `--setup`, with the program beside its settings."""
    from endpoints.connect.program import program

    home = AgentHome(folder)
    home.make()
    home.program.write_bytes(program().octets)
    home.keep(AgentIdentity(AgentKey(identity.key.private_numbers().private_value), identity.chain))
    (folder / "served").mkdir()
    parts = [RootPart(str(folder / "served"))]
    home.write_settings(
        AgentSettings(ServiceAddress(f"http://{HOST}:{port}"), "id", "owner#laptop", parts, time.time())
    )
    return home


def row(name: str, value: str, wanted: str) -> None:
    sys.stdout.write(f"| {name:<44} | {value:>12} | {wanted:>9} |\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--agents", type=int, default=500)
    parser.add_argument("--idle", type=float, default=30.0, help="seconds for which idle processes are watched")
    options = parser.parse_args()
    # The machine may be busy.
    service.READY_SECONDS = TIMEOUT
    with web() as running:
        from django.conf import settings

        settings.PUBLIC_URL = f"http://{HOST}:{running.port}"
        found = identities(options.agents)
        log = Path(os.environ["WAYBILL_HOME"]) / "logs" / "relay.log"
        sys.stdout.write(f"\nAgents and the relay ({machine()})\n\n")
        row("", "", "bar")
        asyncio.run(measure_crowd(running.port, found, log, options.idle))
        measure_agent(running.port, found[0], log, options.idle)


if __name__ == "__main__":
    main()
