"""An agent behind a NAT, 60 ms away at 1 Gbit/s, against two of the toolkit's servers over the same line.

sudo .venv/bin/python -m bench.connect.nat                    # both data sets, each way
sudo .venv/bin/python -m bench.connect.nat --sets DS1 --rounds 1
sudo .venv/bin/python -m bench.connect.nat --sets DS6 --sessions 130    # as many lanes as a task may have: 64
sudo .venv/bin/python -m bench.connect.nat --sets DS6 --relay-rate 0    # small files by ports of the relay
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.place import workplace
from bench.wan.datasets import COUNTS, DataSet, empty, hashes
from bench.wan.network import NETWORK, Network
from bench.wan.tools import Pair, register
from tests.gridftp.toolkit import hand_over
from tests.instance import Api, database, instance, seconds_until_settled

from .laptops import connected, way_to_service
from .nat_network import laptop

#: The least ratio to the rate between two of the toolkit's servers, by data set.
WANTED = {"DS1": 0.9, "DS6": 0.8}
TOTAL = 256 * 10**6
LIMIT = 300.0


@dataclass(frozen=True)
class End:
    """An endpoint and a folder of it, as tasks name it and as this machine does."""

    endpoint: str
    path: str
    folder: Path


@dataclass
class Bench:
    net: Network
    api: Api
    rtt: float
    rounds: int

    def seconds(self, ways: Sequence[tuple[End, End]], sent: dict[str, str]) -> list[float]:
        """For each way the median of warm runs, each from an empty folder and checked by hash, without the first one.

        The ways take turns: other work on the machine meets all of them.
        """
        found: list[list[float]] = [[] for _ in ways]
        for _ in range(self.rounds + 1):
            for (source, destination), runs in zip(ways, found, strict=True):
                empty(destination.folder)
                self.net.shape(rtt_ms=self.rtt)
                runs.append(self._once(source, destination))
                if hashes(destination.folder) != sent:
                    raise RuntimeError("what arrived is not what was sent")
        return [statistics.median(runs[1:]) for runs in found]

    def _once(self, source: End, destination: End) -> float:
        begun = time.time()
        task = self.api.transfer(source.endpoint, source.path, destination.endpoint, destination.path, recursive=True)
        return seconds_until_settled(self.api, self.api.wait(task, timeout=LIMIT, interval=0.2), begun)


def measure(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        root = stack.enter_context(workplace())
        for name in ("source", "destination", "laptop", "home"):
            (root / name).mkdir()
        net = stack.enter_context(Network())
        net.shape(rtt_ms=options.rtt)
        pair = stack.enter_context(Pair(net, root))
        computer = stack.enter_context(laptop(net.destination))
        stack.enter_context(net.inside("service"))
        more = ports_of_relay(net, options.relay_rate) if options.relay_rate is not None else {}
        api = stack.enter_context(instance(more, WAYBILL_ALLOW_TARGETS=f"127.0.0.1/32,{NETWORK}.0/24"))
        stack.enter_context(way_to_service(net, api))
        agent = stack.enter_context(connected(net, api, computer, "laptop", root / "laptop", root / "home"))
        servers = register(api, pair, "toolkit")
        allow(api, options.sessions)
        bench = Bench(net, api, options.rtt, options.rounds)
        for name in options.sets:
            data = DataSet(name, COUNTS[name], TOTAL)
            sent = data.make(root / "source" / name)

            def at(place: str, endpoint: str, name: str = name) -> End:
                folder = root / place / name
                folder.mkdir(exist_ok=True)
                hand_over(folder, stop_at=root.parent)
                return End(endpoint, f"/{name}/" if place == "laptop" else f"{folder}/", folder)

            source, destination = at("source", servers.source), at("destination", servers.destination)
            here = at("laptop", agent.endpoint)
            back = at("source", servers.source, f"{name}-up")
            theirs, to_laptop, from_laptop = bench.seconds([(source, destination), (source, here), (here, back)], sent)
            say(name, "server to laptop", to_laptop, theirs)
            say(name, "laptop to server", from_laptop, theirs)
            for end in (source, destination, here, back):
                empty(end.folder)


def ports_of_relay(net: Network, rate: int) -> dict[str, str]:
    """The variables of an operator who has opened ports for small files to agents."""
    return {"WAYBILL_RELAY_DATA": f"{net.service.address}:50000-50999", "WAYBILL_RELAY_RATE": str(rate)}


def allow(api: Api, sessions: int) -> None:
    """Set the sessions of all endpoints, which no request of the API does."""
    with database(api) as cursor:
        cursor.execute("UPDATE endpoints_endpoint SET max_sessions = %s", [sessions])


def say(name: str, words: str, seconds: float, theirs: float) -> None:
    wanted = WANTED.get(name, 0)
    line = (
        f"{name} {words}: {seconds:.2f} s, two toolkit servers {theirs:.2f} s: {theirs / seconds:.2f} (wanted {wanted})"
    )
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(WANTED))
    parser.add_argument("--rtt", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--relay-rate", type=int, help="octets a second by ports of the relay; 0: no limit; else none")
    parser.add_argument("--sessions", type=int, default=32, help="sessions that each endpoint allows (32 is preset)")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
