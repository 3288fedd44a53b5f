"""An SFTP server to another one, through this service: ours beside rclone, on the same line.

    sudo .venv/bin/python -m bench.connect.sftp_relay [--runs 3] [--rtt 60] [--rclone PATH]

Three hosts (`bench.wan.network`), 1 Gbit/s between any two. Neither side verifies. rclone (Debian's package)
has its defaults, four transfers at a time. Prints medians, the ratio, and the peak of the worker's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
django.setup()

from bench.place import workplace  # noqa: E402
from bench.wan.network import Host, Network  # noqa: E402
from bench.wan.ssh import ssh_server  # noqa: E402
from endpoints.ssh.connection import SshAccount  # noqa: E402
from endpoints.ssh.keys import parse_ssh_key  # noqa: E402
from endpoints.ssh.sftp.login import SftpLogin  # noqa: E402
from tests.gridftp.ends import End  # noqa: E402
from tests.gridftp.sshd import fingerprint  # noqa: E402
from tests.gridftp.streamed_tasks import StreamedTask, tree  # noqa: E402

#: Name, number of files, octets of each.
DATA = (("one file of 128 MB", 1, 128_000_000), ("256 files of 100 KB", 256, 100_000))
SECONDS = 600.0


class RealClock:
    """Time as it is."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def end_of(host: Host, keys: Path) -> End:
    """The account of root on this host."""
    pem = parse_ssh_key((keys / "key").read_text()).pem
    return End(22, SftpLogin(SshAccount("root", pem, fingerprint(keys / "host-key"))), host.address)


def ours(source: End, destination: End, data: Path, there: Path) -> None:
    """One task, by the engine as a worker runs it."""
    clock = RealClock()
    task = StreamedTask(source, destination, [(f"{data}/", f"{there}/", True)], {"tuning": "auto"}, clock=clock)
    asyncio.run(task.run(seconds=SECONDS))
    assert task.store.status == "SUCCEEDED", task.faults()


def rclone(program: str, net: Network, keys: dict[str, Path], data: Path, there: Path) -> None:
    """One `rclone copy` with its defaults."""

    def remote(name: str, path: Path) -> str:
        host = net.hosts[name]
        return f":sftp,host={host.address},user=root,key_file={keys[name] / 'key'}:{path}"

    words = [program, "copy", "--ignore-checksum", "--config", "/dev/null"]
    words += [remote("source", data), remote("destination", there)]
    done = net.run_in("service", words, stderr=subprocess.DEVNULL)
    assert done.wait(timeout=SECONDS) == 0


def measure(move: Callable[[Path], None], data: Path, there: Path) -> float:
    """Seconds; every file arrives by its hash."""
    shutil.rmtree(there, ignore_errors=True)
    begun = time.monotonic()
    move(there)
    taken = time.monotonic() - begun
    assert tree(there) == tree(data)
    return taken


def compare(net: Network, keys: dict[str, Path], data: Path, program: str, runs: int) -> dict[str, float]:
    """The median of the seconds of each, run by turns."""
    ends = {name: end_of(net.hosts[name], folder) for name, folder in keys.items()}
    there = data.parent / "there"
    seconds: dict[str, list[float]] = {"ours": [], "rclone": []}

    def move(there: Path) -> None:
        with net.inside("service"):
            ours(ends["source"], ends["destination"], data, there)

    for _ in range(runs):
        net.forget()
        seconds["ours"].append(measure(move, data, there))
        net.forget()
        seconds["rclone"].append(measure(lambda there: rclone(program, net, keys, data, there), data, there))
    return {tool: statistics.median(taken) for tool, taken in seconds.items()}


def make_data(folder: Path, files: int, octets: int) -> Path:
    """A folder of files that cannot be compressed."""
    folder.mkdir()
    for number in range(files):
        (folder / f"f{number}").write_bytes(os.urandom(octets))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rtt", type=float, default=60.0)
    parser.add_argument("--rclone", default="rclone")
    options = parser.parse_args()
    with ExitStack() as stack:
        root = stack.enter_context(workplace())
        net = stack.enter_context(Network(options.rtt))
        keys = {name: root / f"ssh-{name}" for name in ("source", "destination")}
        for name, folder in keys.items():
            stack.enter_context(ssh_server(net, net.hosts[name], folder))
        for name, files, octets in DATA:
            data = make_data(root / f"data-{files}", files, octets)
            middle = compare(net, keys, data, options.rclone, options.runs)
            rates = [f"{tool} {files * octets / one / 1e6:.1f} MB/s ({one:.2f} s)" for tool, one in middle.items()]
            ratio = middle["rclone"] / middle["ours"]
            print(f"{name}, {options.rtt:g} ms: {', '.join(rates)}; ratio {ratio:.2f}", flush=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory of this process, with all of Django: {peak:.0f} MB")


if __name__ == "__main__":
    main()
