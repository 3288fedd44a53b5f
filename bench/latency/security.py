"""The cost of security for a small task: from POST to a settled file of 1 byte, on warm sessions, with and without GSI.

python -m bench.latency.security [--rounds 50]

The same two folders, by anonymous servers and by servers with GSI: protected control channels and authenticated data
channels (DCAU), then encrypted ones as well (PROT P). globus-url-copy beside them, from start to end, with its login.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from bench.grid import Grid
from bench.table import print_table
from tests.gridftp.toolkit import CLIENT, ToolkitServer, hand_over
from tests.instance import Api, instance, seconds_until_settled

ANONYMOUS = "Waybill, anonymous"
WARM = 10
#: globus-url-copy logs in anew each time, which is slow: a round in so many is enough for its median.
THEIRS_EVERY = 4
Contender = Callable[[int], float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waybill-bench-")))
        root.chmod(0o755)
        data = root / "data"
        data.mkdir()
        (data / "byte").write_bytes(b"x")
        hand_over(data, stop_at=root.parent)
        runs = measure(contenders(stack, root, data), rounds)
    print_table("One file of 1 byte between two toolkit servers, loopback", "s", runs, ANONYMOUS)
    sys.stdout.write("\nThe bar: with DCAU at least 0.83 of the anonymous one (at most 20 % more).\n")


def contenders(stack: ExitStack, root: Path, data: Path) -> dict[str, Contender]:
    grid = Grid(root)
    plain = [stack.enter_context(ToolkitServer(data)) for _ in range(2)]
    secured, private = (
        [stack.enter_context(ToolkitServer(data, security=grid.files)) for _ in range(2)] for _ in range(2)
    )
    api = stack.enter_context(instance(WAYBILL_CERTIFICATES=str(grid.authority.certificates)))
    open_ids = [api.endpoint(f"open{number}", server.port) for number, server in enumerate(plain)]
    gsi_ids = [grid.endpoint(api, f"gsi{number}", server.port) for number, server in enumerate(secured)]
    # Separate endpoints: a session that encrypts would have to change its protection, and back again.
    private_ids = [grid.endpoint(api, f"private{number}", server.port) for number, server in enumerate(private)]
    environment = grid.client_environment()
    return {
        ANONYMOUS: ours(api, open_ids, data, "anonymous"),
        "Waybill, GSI, DCAU": ours(api, gsi_ids, data, "gsi"),
        "Waybill, GSI, DCAU, encrypted": ours(api, private_ids, data, "private", encrypt_data=True),
        "globus-url-copy, anonymous": theirs(plain, data, "guc"),
        "globus-url-copy, GSI, DCAU": theirs(secured, data, "guc-gsi", environment),
        "globus-url-copy, GSI, DCAU, encrypted": theirs(private, data, "guc-private", environment, "-dcpriv"),
    }


def ours(api: Api, ids: list[str], data: Path, name: str, **options: object) -> Contender:
    def run(index: int) -> float:
        begun = time.time()
        task = api.transfer(ids[0], f"{data}/byte", ids[1], f"{data}/{name}{index}", **options)
        return seconds_until_settled(api, api.wait(task, interval=0.25), begun)

    return run


def theirs(
    servers: list[ToolkitServer], data: Path, name: str, environment: Mapping[str, str] | None = None, *words: str
) -> Contender:
    def run(index: int) -> float:
        begun = time.time()
        urls = [f"{servers[0].url}{data}/byte", f"{servers[1].url}{data}/{name}{index}"]
        subprocess.run([CLIENT, *words, *urls], check=True, timeout=30, env=environment or os.environ)
        return time.time() - begun

    return run


def measure(contenders: Mapping[str, Contender], rounds: int) -> dict[str, list[float]]:
    """In turn, so that all have the same machine; the first rounds warm both worker processes up."""
    runs: dict[str, list[float]] = {name: [] for name in contenders}
    for index in range(rounds + WARM):
        for name, run in contenders.items():
            if name.startswith(CLIENT) and index % THEIRS_EVERY:
                continue
            seconds = run(index)
            if index >= WARM:
                runs[name].append(seconds)
    return runs


if __name__ == "__main__":
    main()
