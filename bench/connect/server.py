"""Our GridFTP server: what protected data channels cost, and its memory with many streams. Loopback, files in memory.

python -m bench.connect.server [--rounds 5] [--size 512]

Two servers of ours, as programs of their own, and one file from one to the other in MODE E: in clear (sendfile and
splice), authenticated (DCAU A), and encrypted (PROT P). The bar: encrypted at least 0.6 of clear with one stream.
Memory is the peak of each server's resident set after a file over 64 streams; the bar is 60 MB.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.table import print_table
from endpoints.gridftp.third_party.dcsc_keys import DcscKey, make_throw_away
from identity.gsi.proxies import new_key
from tests.gridftp.ftp_dialogue import Dialogue, ThirdParty

WAYS = {"in clear": ("N", "C"), "authenticated (DCAU A)": ("A", "C"), "encrypted (PROT P)": ("A", "P")}
SIDES = ("sender", "receiver")
STREAMS = 64
_LISTENING = re.compile(r"listening on .*:(\d+)")


class Server:
    """One server over a folder, as a program of its own."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        command = [sys.executable, "-m", "endpoints.gridftp.server", "--root", str(folder), "--port", "0"]
        self.process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(self.process.terminate)
        assert self.process.stdout
        found = _LISTENING.match(self.process.stdout.readline())
        assert found
        self.port = int(found[1])

    @property
    def peak(self) -> float:
        """The peak of the resident set, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6

    @property
    def processor_seconds(self) -> float:
        """Of all its threads, since its start."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=512, help="MiB")
    options = parser.parse_args()
    key = make_throw_away(new_key(), name="bench", now=datetime.now(UTC), made_at=0)
    with tempfile.TemporaryDirectory(prefix="waybill-bench-", dir="/dev/shm") as name:
        folders = [Path(name) / side for side in ("source", "destination")]
        for folder in folders:
            folder.mkdir()
        with (folders[0] / "f").open("wb") as file:
            for _ in range(options.size):
                file.write(os.urandom(2**20))
        speeds: dict[str, list[float]] = {way: [] for way in WAYS}
        costs: dict[str, list[float]] = {f"{way}, {side}": [] for way in WAYS for side in SIDES}
        for _ in range(options.rounds):
            for way in WAYS:
                found = move(folders, key, way, 1)
                speeds[way].append(options.size / 1024 / found.seconds)
                for side, seconds in zip(SIDES, found.processor, strict=True):
                    costs[f"{way}, {side}"].append(seconds / options.size * 1024)
        print_table("One file between two servers of ours, one stream", "GiB/s", speeds, "in clear", higher=True)
        print_table("Processor time with one stream", "s/GiB", costs, "in clear, receiver")
        peaks: dict[str, list[float]] = {f"{way}, {side}": [] for way in WAYS for side in SIDES}
        for way in WAYS:
            for side, peak in zip(SIDES, move(folders, key, way, STREAMS).peaks, strict=True):
                peaks[f"{way}, {side}"].append(peak)
        print_table(f"Peak of memory with {STREAMS} streams (the bar: 60)", "MB", peaks, "in clear, sender")


class Moved(NamedTuple):
    """One file that was moved; processor: seconds. Those and the peaks are of the sender and the receiver."""

    seconds: float
    processor: list[float]
    peaks: list[float]


def move(folders: list[Path], key: DcscKey, way: str, streams: int) -> Moved:
    """Move the file between two new servers."""
    with ExitStack() as stack:
        servers = [Server(stack, folder) for folder in folders]
        ends = [stack.enter_context(Dialogue(server.port)) for server in servers]
        dcau, prot = WAYS[way]
        for end in ends:
            end.sock.settimeout(600)
            end.demand(b"DCSC " + key.argument, f"DCAU {dcau}", f"PROT {prot}")
        lane = ThirdParty(ends[0], ends[1], streams)
        before = [server.processor_seconds for server in servers]
        began = time.monotonic()
        [(sent, received)] = lane.move([("/f", "/f")])
        seconds = time.monotonic() - began
        assert (sent.code, received.code) == (226, 226), (sent.text, received.text)
        used = [server.processor_seconds - at for server, at in zip(servers, before, strict=True)]
        return Moved(seconds, used, [server.peak for server in servers])


if __name__ == "__main__":
    main()
