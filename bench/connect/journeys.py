"""Journeys of laptops behind NATs, 60 ms away: to a server, from a server, to each other, and one that falls asleep.

sudo .venv/bin/python -m bench.connect.journeys
sudo .venv/bin/python -m bench.connect.journeys --only sleep --seconds 60    # asleep for a minute, and elsewhere then
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.place import workplace
from bench.wan.datasets import DataSet, hashes, octets_below
from bench.wan.network import GIGABIT, NETWORK, Network
from bench.wan.tools import Pair, register
from tests.gridftp.toolkit import hand_over
from tests.instance import Api, instance

from .laptops import ConnectedLaptop, connected, way_to_service
from .nat_network import laptop

RTT = 60.0
LARGE = DataSet("large", 1, 256 * 10**6)
MIXED = DataSet("mixed", 40, 20 * 10**6)
#: Seconds for a journey.
LIMIT = 400.0


@dataclass(frozen=True)
class End:
    """An endpoint, and a folder of it as tasks name it and as this machine does."""

    endpoint: str
    path: str
    folder: Path


class Journeys:
    def __init__(self, api: Api, root: Path) -> None:
        self.api = api
        self.root = root
        self.failed = 0

    def server(self, endpoint: str, name: str) -> End:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        hand_over(folder, stop_at=self.root.parent)
        return End(endpoint, f"{folder}/", folder)

    def on(self, computer: ConnectedLaptop, name: str) -> End:
        (computer.folder / name).mkdir(exist_ok=True)
        return End(computer.endpoint, f"/{name}/", computer.folder / name)

    def go(
        self, words: str, source: End, destination: End, meanwhile: threading.Thread | None = None
    ) -> dict[str, Any]:
        """Transfer, compare hashes, and print how it went. Returns the task; `failed` counts what went wrong."""
        sent = hashes(source.folder)
        begun = time.monotonic()
        task_id = self.api.transfer(
            source.endpoint, source.path, destination.endpoint, destination.path, recursive=True
        )
        if meanwhile:
            meanwhile.start()
        task = self.api.wait(task_id, timeout=LIMIT, interval=0.2)
        if meanwhile:
            meanwhile.join()
        good = task["status"] == "SUCCEEDED" and hashes(destination.folder) == sent
        self.failed += not good
        self._say(words, task, time.monotonic() - begun, good)
        return task

    def events(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events of a task, the oldest first."""
        return list(reversed(self.api.call("GET", f"/task/{task['task_id']}/event_list?limit=100")["DATA"]))

    def _say(self, words: str, task: dict[str, Any], seconds: float, good: bool) -> None:
        codes = [event["code"] for event in self.events(task)]
        how = "arrived" if good else f"WRONG ({task['status']} {task['fatal_error']})"
        sys.stdout.write(f"{words}: {how} in {seconds:.1f} s, {task['data_way']}, faults {task['faults']}: {codes}\n")
        sys.stdout.flush()


def asleep(computer: ConnectedLaptop, arrived: Path, seconds: float, size: int = LARGE.size) -> threading.Thread:
    """Stops the agent in the middle of the file, and lets it go on at another address of its network.

    size: octets of the file that arrives in the folder `arrived`.
    """

    def sleep() -> None:
        end = time.monotonic() + LIMIT
        while octets_below(arrived) < size // 4 and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(computer.agent.pid, signal.SIGSTOP)
        time.sleep(seconds)
        computer.laptop.move()
        os.kill(computer.agent.pid, signal.SIGCONT)

    return threading.Thread(target=sleep)


@dataclass(frozen=True)
class Surroundings:
    """A service, one of the toolkit's servers, and two laptops, each behind a NAT of its own."""

    net: Network
    journeys: Journeys
    server: str
    first: ConnectedLaptop
    second: ConnectedLaptop


@contextmanager
def two_laptops(
    rtt: float, *, rate: float = GIGABIT, before: Callable[[Path], object] = lambda home: None
) -> Iterator[Surroundings]:
    """This thread is on the host of the service during the block. before: as for `instance`. Raises NetworkError."""
    with ExitStack() as stack:
        root = stack.enter_context(workplace())
        for name in ("first", "second", "home"):
            (root / name).mkdir()
        net = stack.enter_context(Network())
        net.shape(rtt_ms=rtt, rate=rate)
        pair = stack.enter_context(Pair(net, root))
        computers = [stack.enter_context(laptop(host)) for host in (net.destination, net.source)]
        stack.enter_context(net.inside("service"))
        allowed = f"127.0.0.1/32,{NETWORK}.0/24"
        api = stack.enter_context(instance(before=before, WAYBILL_ALLOW_TARGETS=allowed))
        stack.enter_context(way_to_service(net, api))
        first, second = (
            stack.enter_context(connected(net, api, computer, name, root / name, root / "home"))
            for computer, name in zip(computers, ("first", "second"), strict=True)
        )
        yield Surroundings(net, Journeys(api, root), register(api, pair, "toolkit").source, first, second)


def run(only: str, seconds: float) -> int:
    """only: a word of the journeys to make, "" for all. seconds: of a sleep. Returns the number that went wrong."""
    with two_laptops(RTT) as there:
        if only != "sleep":
            move_both_ways(there.journeys, there.server, there.first, there.second)
        if only != "move":
            sleep_both_ways(there.journeys, there.server, there.first, there.second, seconds)
        return there.journeys.failed


def move_both_ways(journeys: Journeys, server: str, first: ConnectedLaptop, second: ConnectedLaptop) -> None:
    MIXED.make(first.folder / "mixed")
    journeys.go("laptop to server", journeys.on(first, "mixed"), journeys.server(server, "mixed"))
    journeys.go("server to laptop", journeys.server(server, "mixed"), journeys.on(first, "back"))
    journeys.go("laptop to laptop behind two NATs", journeys.on(first, "mixed"), journeys.on(second, "mixed"))


def sleep_both_ways(
    journeys: Journeys, server: str, first: ConnectedLaptop, second: ConnectedLaptop, seconds: float
) -> None:
    LARGE.make(first.folder / "large")
    there, here = journeys.server(server, "large"), journeys.on(second, "large")
    words = f"a laptop that sleeps for {seconds:g} s while it"
    journeys.go(f"{words} sends", journeys.on(first, "large"), there, asleep(first, there.folder, seconds))
    journeys.go(f"{words} receives", there, here, asleep(second, here.folder, seconds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["", "move", "sleep"], default="")
    parser.add_argument("--seconds", type=float, default=20.0, help="for which a laptop sleeps")
    options = parser.parse_args()
    return run(options.only, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
