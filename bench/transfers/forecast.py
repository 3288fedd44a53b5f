"""The errors of forecasts: transfers of random sizes and counts, each forecast by REST before it is submitted.

    python -m bench.transfers.forecast [--tasks 60] [--training 30] [--rtt 30] [--seed 1] [--rows]

Two toolkit servers on a wide-area network of three hosts on this machine (needs root), or with `--rtt 0` on loopback,
with a whole instance. The first tasks train the forecasts, the later ones are compared with them, in the order of
time; beside them stands the forecast of the pair's mean rate. On loopback a task ends in a tenth of a second, and most
of its forecast is noise.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean, median

from bench.place import workplace
from bench.table import machine
from bench.wan.network import NETWORK, Network
from bench.wan.tools import Pair
from tests.gridftp.toolkit import LOOPBACK, ToolkitServer, hand_over
from tests.instance import Api, instance, seconds_until_settled

FILES = (1, 400)
SIZES = (10**3, 20 * 10**6)
MOST = 400 * 10**6
#: Seconds between two polls: on few cores every poll slows down the measured task.
LOOK = 0.5


@dataclass(frozen=True, slots=True)
class Held:
    """A task, its forecast, and its time."""

    files: int
    bytes: int
    low: float
    expected: float
    high: float
    basis: str
    seconds: float
    #: While it ran: seconds since its submission, and seconds to its end by the forecast at that moment.
    looks: Sequence[tuple[float, float]]

    @property
    def error(self) -> float:
        return abs(self.expected - self.seconds) / self.seconds

    @property
    def inside(self) -> bool:
        return self.low <= self.seconds <= self.high


def log_uniform(rng: random.Random, least: float, most: float) -> float:
    return exp(rng.uniform(log(least), log(most)))


def make_files(folder: Path, rng: random.Random) -> tuple[int, int]:
    """Files of a random size, each half to twice of it, with holes for octets. Returns their number and octets."""
    folder.mkdir()
    count = round(log_uniform(rng, *FILES))
    size = min(log_uniform(rng, *SIZES), MOST / count / 2)
    sizes = [round(size * log_uniform(rng, 0.5, 2)) for _ in range(count)]
    for number, octets in enumerate(sizes):
        with (folder / f"file{number:03d}").open("wb") as file:
            file.truncate(octets)
    return count, sum(sizes)


def run(api: Api, ends: tuple[str, str], root: Path, rng: random.Random) -> Held:
    """One task, from its forecast to its end; its files are deleted."""
    source, destination = root / "source", root / "destination"
    files, octets = make_files(source, rng)
    query = f"source_endpoint={ends[0]}&destination_endpoint={ends[1]}&files={files}&bytes={octets}"
    foretold = api.call("GET", f"/forecast?{query}")
    begun = time.time()
    task_id = api.transfer(ends[0], f"{source}/", ends[1], f"{destination}/", recursive=True)
    looks = list(watch(api, task_id, begun))
    seconds = seconds_until_settled(api, api.wait(task_id), begun)
    arrived = [path.stat().st_size for path in destination.iterdir()]
    if (len(arrived), sum(arrived)) != (files, octets):
        raise RuntimeError(f"{len(arrived)} files of {sum(arrived)} octets arrived, {files} of {octets} were sent")
    shutil.rmtree(source)
    shutil.rmtree(destination)
    return Held(files, octets, **foretold["seconds"], basis=foretold["basis"], seconds=seconds, looks=looks)


def watch(api: Api, task_id: str, begun: float) -> Iterator[tuple[float, float]]:
    """The forecast in its document while it runs."""
    while (document := api.call("GET", f"/task/{task_id}"))["status"] == "ACTIVE":
        if left := document["forecast_seconds_left"]:
            yield time.time() - begun, left["expected"]
        time.sleep(LOOK)


@contextmanager
def place(rtt_ms: float) -> Iterator[tuple[Api, tuple[str, str], Path]]:
    """An instance, two endpoints that it knows, and the folder of both."""
    with ExitStack() as stack:
        root = stack.enter_context(workplace())
        hand_over(root, stop_at=root.parent)
        if rtt_ms:
            net = stack.enter_context(Network(rtt_ms))
            servers = stack.enter_context(Pair(net, root))
            stack.enter_context(net.inside("service"))
            one, two = (servers.source.port, net.source.address), (servers.destination.port, net.destination.address)
        else:
            one, two = ((stack.enter_context(ToolkitServer(root)).port, LOOPBACK) for _ in range(2))
        api = stack.enter_context(instance(WAYBILL_ALLOW_TARGETS=f"127.0.0.1/32,{NETWORK}.0/24"))
        yield api, (api.endpoint("bench1", *one), api.endpoint("bench2", *two)), root


def by_mean_rate(training: Sequence[Held], held: Sequence[Held]) -> list[float]:
    """Errors of the naive rule, which learns as it goes too."""
    errors, known = [], list(training)
    for one in held:
        rate = sum(past.bytes for past in known) / sum(past.seconds for past in known)
        errors.append(abs(one.bytes / rate - one.seconds) / one.seconds)
        known.append(one)
    return errors


def report(training: Sequence[Held], held: Sequence[Held], rtt_ms: float, *, rows: bool) -> None:
    out = sys.stdout.write
    seconds = [one.seconds for one in (*training, *held)]
    out(f"\nForecasts of {len(held)} transfers after {len(training)} others, ")
    out(f"{f'{rtt_ms:g} ms at 1 Gbit/s' if rtt_ms else 'loopback'} ({machine()})\n")
    out(f"{min(seconds):.2f} to {max(seconds):.2f} s each, {median(seconds):.2f} s in the middle\n\n")
    if rows:
        out("| files |        MB | took s | foretold s |    low |   high | error |\n|---|---|---|---|---|---|---|\n")
        for one in held:
            out(f"| {one.files:5d} | {one.bytes / 1e6:9.3f} | {one.seconds:6.2f} | {one.expected:10.2f} ")
            out(f"| {one.low:6.2f} | {one.high:6.2f} | {one.error:5.0%} |\n")
        out("\n")
    naive = by_mean_rate(training, held)
    errors = [one.error for one in held]
    out("|                           | mean absolute error | median | within the range |\n|---|---|---|---|\n")
    out(f"| forecast                  | {fmean(errors):19.1%} | {median(errors):6.1%} ")
    out(f"| {fmean(one.inside for one in held):16.0%} |\n")
    out(f"| the mean rate of the pair | {fmean(naive):19.1%} | {median(naive):6.1%} |                  |\n\n")
    looks = [(since + left, one.seconds) for one in held for since, left in one.looks]
    if looks:
        off = fmean(abs(foretold - took) / took for foretold, took in looks)
        out(f"While they ran, their ends were foretold {len(looks)} times, {off:.1%} of the whole off in the mean.\n")
    out(f"The last one was foretold {held[-1].basis}.\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--training", type=int, default=30)
    parser.add_argument("--rtt", type=float, default=30.0, help="milliseconds, at 1 Gbit/s; 0: loopback")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", action="store_true", help="print every transfer that was held out")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with place(arguments.rtt) as (api, ends, root):
        done = [run(api, ends, root, rng) for _ in range(arguments.tasks)]
    report(done[: arguments.training], done[arguments.training :], arguments.rtt, rows=arguments.rows)


if __name__ == "__main__":
    main()
