"""How exactly transfers keep to their limits, how fairly they share one, and how soon the background gives way.

    python -m bench.transfers.limits [--seconds 10] [--rates 2,8,32]

Between two servers of the toolkit, and between two of ours, on loopback; a worker carries none of the octets. The rate
is measured at the destination's disk, over the last `--seconds` of the transfer. Jain's index of n rates is
(sum x)^2 / (n sum x^2): 1 where all are equal, 1/n where one has all (Jain, Chiu and Hawe, DEC-TR-301, 1984).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.place import workplace
from bench.table import machine
from endpoints.gridftp.server import GridFtpServer
from tests.gridftp.toolkit import ToolkitServer, hand_over
from tests.instance import Api, database, instance

MB = 1_000_000
TASKS = (2, 4, 8)
#: Octets a second that tasks share, and seconds from the last submission until their rates are measured.
SHARED, SETTLING = 8 * MB, 6.0
#: Seconds until a task must have begun, and the rate of a task in the background that has room.
BEGIN_SECONDS, FAST = 60.0, 16 * MB
#: A file that no transfer of this benchmark can complete: it has no octets on the disk.
HUGE = 200 * 2**30


class Pair:
    """Two endpoints with one file at the source."""

    def __init__(self, api: Api, kind: str, ports: Sequence[int], root: Path) -> None:
        self.api, self.root = api, root
        self.source, self.destination = (api.endpoint(f"{kind}{number}", port) for number, port in enumerate(ports))
        self._copies = 0

    def begin(self, user: Api | None = None, **options: object) -> Running:
        """A task of this user, of the sample user if None, which has begun to write its file."""
        self._copies += 1
        user, folder = user or self.api, self.root / "to" / str(self._copies)
        folder.mkdir()
        hand_over(folder, stop_at=self.root.parent)
        paths = f"{self.root}/from/file", f"{folder}/file"
        task_id = user.transfer(self.source, paths[0], self.destination, paths[1], recursive=False, **options)
        running = Running(user, task_id, folder)
        end = time.monotonic() + BEGIN_SECONDS
        while not running.octets():
            if time.monotonic() > end:
                raise RuntimeError(f"nothing arrives: {user.call('GET', f'/task/{task_id}')}")
            time.sleep(0.05)
        return running


class Running(NamedTuple):
    """A task under way, and the folder in which it writes its file, under a name of its own."""

    api: Api
    task_id: str
    folder: Path

    def octets(self) -> int:
        """The octets of the file on the disk."""
        return sum(path.stat().st_blocks * 512 for path in self.folder.iterdir())

    def end(self) -> None:
        self.api.call("POST", f"/task/{self.task_id}/cancel")
        self.api.wait(self.task_id)
        shutil.rmtree(self.folder)


def user_of(api: Api, name: str) -> Api:
    """A new user of the instance."""
    made = Api(api.home)
    for words in (("user", "add", name), ("token", name)):
        environment = {"WAYBILL_HOME": str(api.home), "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-m", "deploy.cli", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    made._headers = {**api._headers, "Authorization": f"Bearer {done.stdout.split()[-1]}"}
    return made


def rates(tasks: Sequence[Running], seconds: float) -> list[float]:
    """Octets a second that came to each file meanwhile."""
    before, begun = [one.octets() for one in tasks], time.monotonic()
    time.sleep(seconds)
    lasted = time.monotonic() - begun
    return [(one.octets() - there) / lasted for one, there in zip(tasks, before, strict=True)]


def jain(found: Sequence[float]) -> float:
    squares = sum(rate**2 for rate in found)
    return sum(found) ** 2 / (len(found) * squares) if squares else 0.0


def exactness(pair: Pair, wanted: int, seconds: float) -> list[float]:
    """Measured rates of one task, a second each."""
    task = pair.begin(bandwidth_limit=wanted)
    time.sleep(3.0)
    found = [rates([task], 1.0)[0] for _ in range(round(seconds))]
    task.end()
    return found


def fairness(pair: Pair, users: Sequence[Api], seconds: float) -> list[float]:
    """The rates of a task of each user, of different ages, at one endpoint, whose limit they share."""
    tasks = [pair.begin(user) for user in users]
    time.sleep(SETTLING)
    found = rates(tasks, seconds)
    for task in tasks:
        task.end()
    return found


def giving_way(pair: Pair) -> tuple[float, float]:
    """Seconds from the beginning of a normal task until the background has its floor, and from its end until more."""
    background = pair.begin(priority="background", bandwidth_limit=FAST)
    time.sleep(3.0)
    normal = pair.begin(bandwidth_limit=MB)
    gave = _seconds_until(background, lambda rate: rate < FAST / 8)
    time.sleep(3.0)
    normal.end()
    took = _seconds_until(background, lambda rate: rate > FAST / 2)
    background.end()
    return gave, took


def _seconds_until(task: Running, holds: Callable[[float], bool]) -> float:
    """Seconds until the rate of the half second that begins then is as wanted."""
    begun = time.monotonic()
    while time.monotonic() - begun < 30:
        at = time.monotonic() - begun
        if holds(rates([task], 0.5)[0]):
            return at
    return float("inf")


@contextmanager
def pairs() -> Iterator[list[tuple[str, Pair]]]:
    with workplace() as root:
        for name in ("from", "to"):
            (root / name).mkdir()
        with (root / "from" / "file").open("wb") as file:
            file.truncate(HUGE)
        hand_over(root, stop_at=root.parent)
        with (
            ToolkitServer(root) as one,
            ToolkitServer(root) as two,
            GridFtpServer(Path("/")) as three,
            GridFtpServer(Path("/")) as four,
            instance() as api,
        ):
            found = [
                ("toolkit", Pair(api, "toolkit", (one.port, two.port), root)),
                ("ours", Pair(api, "ours", (three.port, four.port), root)),
            ]
            with database(api) as cursor:
                # Room for eight tasks, whatever share the first ones have taken.
                cursor.execute("UPDATE endpoints_endpoint SET max_sessions = 200")
            yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rates", default="2,8,32", help="MB a second")
    arguments = parser.parse_args()
    print(machine())
    with pairs() as found:
        print("\nserver    wanted MB/s   median   mean   mean/wanted")
        for name, pair in found:
            for wanted in (int(float(text) * MB) for text in arguments.rates.split(",")):
                runs = exactness(pair, wanted, arguments.seconds)
                mean = statistics.mean(runs)
                median = statistics.median(runs) / MB
                print(f"{name:8} {wanted / MB:12.1f} {median:8.2f} {mean / MB:6.2f} {mean / wanted:13.3f}", flush=True)
        users = [user_of(found[0][1].api, f"user{number}") for number in range(max(TASKS))]
        print(f"\nserver    tasks   Jain's index   sum/limit ({SHARED / MB:.0f} MB/s of the source endpoint)")
        for name, pair in found:
            pair.api.call("PUT", f"/endpoint/{pair.source}", {"bandwidth_limits": [{"limit": SHARED}]})
            for tasks in TASKS:
                shares = fairness(pair, users[:tasks], arguments.seconds)
                print(f"{name:8} {tasks:6} {jain(shares):14.4f} {sum(shares) / SHARED:11.3f}", flush=True)
            pair.api.call("PUT", f"/endpoint/{pair.source}", {"bandwidth_limits": []})
        print("\nserver    background gives way after   and takes it back after (s)")
        for name, pair in found:
            gave, took = giving_way(pair)
            print(f"{name:8} {gave:26.1f} {took:25.1f}", flush=True)


if __name__ == "__main__":
    main()
