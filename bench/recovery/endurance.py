"""A 20,000-file tree and a 5 GB file between servers of both kinds, with workers killed three times on the way.

    python -m bench.recovery.endurance [--files 20000] [--gigabytes 5] [--kills 3] [--pairs toolkit-toolkit,own-own,...]

Everything is compared by hash at the end. The table shows the times of each pair, and how often workers were killed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.place import workplace
from bench.table import machine
from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from tests.gridftp.toolkit import ToolkitServer, hand_over
from tests.instance import Api, instance, seconds_until_settled

PAIRS = ("toolkit-toolkit", "own-own", "toolkit-own", "own-toolkit")
BLOCK = 2**20


def make_tree(folder: Path, files: int, gigabytes: float) -> None:
    """Files of 0 to 20 kB in a tree three deep, and one large file of random blocks."""
    for index in range(files):
        path = folder / f"{index % 20:02d}" / f"{index % 7}" / f"{index:06d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(index * 7919 % 20_000))
    with (folder / "large").open("wb") as file:
        for _ in range(int(gigabytes * 1e9 / BLOCK)):
            file.write(os.urandom(64) * (BLOCK // 64))


def digest(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                found[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha1").hexdigest()
    return found


def compare(sent: dict[str, str], arrived: dict[str, str], pair: str) -> None:
    """Check that every file is there with its own content, and nothing else."""
    missing, extra = sorted(sent.keys() - arrived.keys()), sorted(arrived.keys() - sent.keys())
    wrong = sorted(name for name in sent.keys() & arrived.keys() if sent[name] != arrived[name])
    if missing or extra or wrong:
        lists = f"{len(wrong)} wrong {wrong[:5]}, {len(missing)} missing {missing[:5]}, {len(extra)} extra {extra[:5]}"
        raise RuntimeError(f"{pair}: {lists}")


@contextmanager
def server(kind: str, root: Path) -> Iterator[int]:
    """A server of this kind over the folder; its port."""
    if kind == "toolkit":
        with ToolkitServer(root) as toolkit:
            yield toolkit.port
        return
    port = free_port()
    words = [sys.executable, "-m", "endpoints.gridftp.server", "--root", str(root), "--port", str(port)]
    process = spawn(words, log=subprocess.DEVNULL)
    try:
        time.sleep(1.0)
        yield port
    finally:
        stop(process)


def kill_workers(api: Api) -> int:
    killed = 0
    for name, pid in api.connection["pids"].items():
        if name.startswith("worker"):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def one_pair(api: Api, root: Path, pair: str, kills: int) -> tuple[float, int, int]:
    """Seconds, workers killed, and faults of moving the whole tree between servers of these kinds."""
    kinds = pair.split("-")
    destination = root / f"to-{pair}"
    destination.mkdir()
    hand_over(destination, stop_at=root.parent)
    with ExitStack() as stack:
        folders = (root / "tree", destination)
        ports = [stack.enter_context(server(kind, folder)) for kind, folder in zip(kinds, folders, strict=True)]
        ids = [api.endpoint(f"{pair}-{side}", port) for side, port in enumerate(ports)]
        paths = [f"{folder}/" if kind == "toolkit" else "/" for kind, folder in zip(kinds, folders, strict=True)]
        begun = time.time()
        task_id = api.transfer(ids[0], paths[0], ids[1], paths[1])
        killed = 0
        for number in range(kills):
            wait_for_share(api, task_id, (number + 0.5) / (kills + 1))
            killed += kill_workers(api)
            time.sleep(1.5)
        task = api.wait(task_id, timeout=900, interval=0.2)
        seconds = seconds_until_settled(api, task, begun)
    compare(digest(root / "tree"), digest(destination), pair)
    shutil.rmtree(destination)
    return seconds, killed, int(task["faults"])


def wait_for_share(api: Api, task_id: str, share: float) -> None:
    """Wait until this share of the known files or of the large file has moved."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        task = api.call("GET", f"/task/{task_id}")
        if task["status"] != "ACTIVE" or (task["files"] and task["files_transferred"] >= share * task["files"]):
            return
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--pairs", default=",".join(PAIRS))
    arguments = parser.parse_args()
    with workplace() as root, instance() as api:
        (root / "tree").mkdir()
        make_tree(root / "tree", arguments.files, arguments.gigabytes)
        hand_over(root / "tree", stop_at=root.parent)
        out = sys.stdout.write
        out(f"\n{arguments.files} files and one of {arguments.gigabytes:g} GB ({machine()})\n\n")
        out("| source - destination | seconds | workers killed | faults | by hash |\n|---|---|---|---|---|\n")
        for pair in arguments.pairs.split(","):
            seconds, killed, faults = one_pair(api, root, pair, arguments.kills)
            out(f"| {pair} | {seconds:.1f} | {killed} | {faults} | all the same |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
