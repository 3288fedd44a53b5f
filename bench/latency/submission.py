"""From POST to a settled file of 1 byte, on warm sessions.

python -m bench.latency.submission [--rounds 50]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from bench.table import print_table
from tests.gridftp.toolkit import CLIENT, ToolkitServer, hand_over
from tests.instance import instance, seconds_until_settled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "byte").write_bytes(b"x")
        hand_over(root, stop_at=root.parent)
        with ToolkitServer(root) as one, ToolkitServer(root) as two, instance() as api:
            ids = api.endpoint("bench1", one.port), api.endpoint("bench2", two.port)
            runs: dict[str, list[float]] = {"globus-url-copy, from start to end": [], "Waybill, POST to settled": []}
            for index in range(rounds + 10):
                begun = time.time()
                task_id = api.transfer(ids[0], f"{root}/byte", ids[1], f"{root}/copy{index}")
                ours = seconds_until_settled(api, api.wait(task_id, interval=0.25), begun)
                begun = time.time()
                command = [CLIENT, f"{one.url}{root}/byte", f"{two.url}{root}/other{index}"]
                subprocess.run(command, check=True, timeout=30)
                if index >= 10:  # the first ones warm both worker processes up
                    runs["Waybill, POST to settled"].append(ours)
                    runs["globus-url-copy, from start to end"].append(time.time() - begun)
    print_table("One file of 1 byte, two toolkit servers, loopback", "s", runs, "globus-url-copy, from start to end")


if __name__ == "__main__":
    main()
