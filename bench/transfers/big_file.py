"""One 2 GB file, loopback, tmpfs: a pair of our servers against a pair of the toolkit's, driven by the same clients.

    python -m bench.transfers.big_file [--megabytes 2048] [--rounds 5] [--parallelism 4]

Each round runs every contender once, in alternating order, and compares what arrived with its original. The
memory is the peak of all rounds: of our two server processes, and of the largest processes of the toolkit's servers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import filecmp
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.place import workplace
from bench.table import print_table
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import FileProgress, FileSettled, Transfer
from tests.gridftp.toolkit import CLIENT, ToolkitServer, hand_over

MEGABYTE = 1_000_000
#: Seconds between two looks at the memory of processes that come and go with their sessions.
_LOOK_EVERY = 0.05
_TIMEOUT = 300


@dataclass
class Pair:
    """Two servers; paths as their clients say them."""

    source_port: int
    destination_port: int
    source_path: str
    destination_path: str
    #: The processes whose sessions are to be watched.
    pids: list[int]
    peaks: dict[int, int] = field(default_factory=dict)

    def look(self) -> None:
        """Take the peak memory, in kB, of the servers and of the processes they have forked."""
        for pid in (process for parent in self.pids for process in (parent, *_children(parent))):
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
                self.peaks[pid] = max(peak, self.peaks.get(pid, 0))


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


# ---- servers


@contextlib.contextmanager
def our_server(root: Path) -> Iterator[tuple[int, int]]:
    """Its port and pid."""
    command = [sys.executable, "-m", "endpoints.gridftp.server", "--root", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2]), process.pid
        finally:
            process.terminate()


@contextlib.contextmanager
def both_pairs(source: Path, destination: Path) -> Iterator[dict[str, Pair]]:
    with (
        our_server(source.parent) as (one, one_pid),
        our_server(destination.parent) as (two, two_pid),
        ToolkitServer(source.parent) as three,
        ToolkitServer(destination.parent) as four,
    ):
        assert three.process is not None
        assert four.process is not None
        yield {
            "our servers": Pair(one, two, f"/{source.name}", f"/{destination.name}", [one_pid, two_pid]),
            "toolkit servers": Pair(
                three.port, four.port, str(source), str(destination), [three.process.pid, four.process.pid]
            ),
        }


# ---- clients


def by_globus_url_copy(pair: Pair, parallelism: int, _: int) -> float:
    begun = time.perf_counter()
    process = subprocess.Popen(
        [
            CLIENT, "-p", str(parallelism),
            f"ftp://127.0.0.1:{pair.source_port}{pair.source_path}",
            f"ftp://127.0.0.1:{pair.destination_port}{pair.destination_path}",
        ],
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    while process.poll() is None:
        pair.look()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_EVERY)
    seconds = time.perf_counter() - begun
    if process.returncode:
        raise RuntimeError(f"{CLIENT} failed: {process.returncode}")
    return seconds


def by_our_lane(pair: Pair, parallelism: int, size: int) -> float:
    return asyncio.run(asyncio.wait_for(_by_our_lane(pair, parallelism, size), _TIMEOUT))


async def _by_our_lane(pair: Pair, parallelism: int, size: int) -> float:
    begun = time.perf_counter()
    source = await GridFTPSession.open("127.0.0.1", pair.source_port)
    destination = await GridFTPSession.open("127.0.0.1", pair.destination_port)
    lane = ThirdPartyLane(source, destination, parallelism=parallelism, accept_address=lambda _: True)
    lane.feed(Transfer(0, pair.source_path.encode(), pair.destination_path.encode(), size))
    done = False
    while not done:
        for event in await lane.events():
            if isinstance(event, FileSettled):
                done = True
            elif not isinstance(event, FileProgress):
                raise RuntimeError(f"the transfer failed: {event}")
    seconds = time.perf_counter() - begun
    pair.look()
    lane.release()
    await source.close()
    await destination.close()
    return seconds


CLIENTS: dict[str, Callable[[Pair, int, int], float]] = {CLIENT: by_globus_url_copy, "our client": by_our_lane}


# ---- the run


def make_file(path: Path, size: int) -> None:
    """Octets that nobody can compress or take for a hole."""
    with open(path, "wb") as file:
        while size:
            piece = os.urandom(min(size, 64 * MEGABYTE))
            file.write(piece)
            size -= len(piece)


def run(source: Path, destination: Path, rounds: int, parallelism: int) -> None:
    size = source.stat().st_size
    speeds: dict[str, list[float]] = {
        f"{pair}, {client}": [] for client in CLIENTS for pair in ("our servers", "toolkit servers")
    }
    with both_pairs(source, destination) as pairs:
        for number in range(rounds + 1):
            for client, drive in CLIENTS.items():
                for name, pair in sorted(pairs.items(), reverse=bool(number % 2)):
                    destination.unlink(missing_ok=True)
                    seconds = drive(pair, parallelism, size)
                    if not filecmp.cmp(source, destination, shallow=False):
                        raise RuntimeError(f"{name}, {client}: what arrived is not what was sent")
                    if number:  # the first round only warms the machine's memory
                        speeds[f"{name}, {client}"].append(size / seconds / 1e9)
    title = f"One file of {size / 1e9:.1f} GB, {parallelism} streams, tmpfs, loopback"
    print_table(title, "GB/s", speeds, f"toolkit servers, {CLIENT}", higher=True)
    for name, pair in pairs.items():
        peaks = sorted((peak // 1024 for peak in pair.peaks.values()), reverse=True)[:2]
        sys.stdout.write(f"{name}: at most {' and '.join(map(str, peaks))} MB in the two largest processes\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=2147, help="of 10^6 octets (default: 2 GiB)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parallelism", type=int, default=4)
    options = parser.parse_args()
    with workplace() as root:
        for name in ("a", "b"):
            (root / name).mkdir()
        make_file(root / "a" / "file", options.megabytes * MEGABYTE)
        hand_over(root, stop_at=root.parent)
        run(root / "a" / "file", root / "b" / "file", options.rounds, options.parallelism)


if __name__ == "__main__":
    main()
