"""Ours against globus-url-copy, scp, rsync and rclone over a wide-area network of three hosts on this machine.

sudo .venv/bin/python -m bench.wan                                    # the whole table: hours
sudo .venv/bin/python -m bench.wan --sets DS6 --rtt 60 --loss 0       # one cell
sudo .venv/bin/python -m bench.wan --gsi --sets DS6 --rtt 60 --loss 0 # the same with GSI and DCAU, theirs too
.venv/bin/python -m bench.wan --report results.json --plot wan.svg    # the table of earlier runs
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.grid import Grid
from bench.place import workplace
from tests.gridftp.toolkit import CLIENT, hand_over, installed
from tests.instance import Api, instance

from . import report, ssh, tools
from .cell import Cell, Line
from .datasets import COUNTS, DataSet, empty
from .network import NETWORK, Network, NetworkError
from .report import Result
from .tools import Job, Pair, Tool

RTTS = (0.6, 15.0, 30.0, 60.0, 200.0)
#: Where the table has a line with loss as well.
LOSS, LOSS_RTT = 0.0001, 60.0
ALLOWED = f"127.0.0.1/32,{NETWORK}.0/24"
#: The best of so many of the expert's options are run as often as the others: one lucky run is not the best.
FINALISTS = 2
#: A run of the search is stopped when it takes so many times as long as the best one yet.
HOPELESS = 1.25


class Bench:
    """All that is the same in each cell: hosts, servers, our service."""

    def __init__(self, options: argparse.Namespace, net: Network, root: Path, api: Api, guc: Pair) -> None:
        self.options = options
        self.net = net
        self.root = root
        self.api = api
        self.guc = guc
        self.ssh_tools: list[Tool] = []
        self.registered = 0

    def data_sets(self) -> Iterator[DataSet]:
        for name in self.options.sets:
            yield DataSet(name, COUNTS[name], self.options.total)

    def run(self) -> list[Result]:
        results = []
        for data in self.data_sets():
            source = self.root / "source" / data.name
            destination = self.root / "destination" / data.name
            sent = data.make(source)
            destination.mkdir()
            hand_over(self.root, stop_at=self.root.parent)
            job = Job(data, source, destination, self.options.limit)
            for line in self.options.lines:
                cell = Cell(self.net, line, job, sent, self.options.json, "GSI" if self.options.gsi else "")
                self.fill(cell)
                results += cell.results
            empty(source)
            empty(destination)
        return results

    def fill(self, cell: Cell) -> None:
        """Tools that nobody waits for first, then those that are compared, near each other in time."""
        wanted = self.options.tools
        for tool in [self._guc("guc", []), *self.ssh_tools]:
            if tool.name in wanted:
                cell.rounds(tool, self.options.slow_rounds)
        finalists = self._search(cell) if "guc-best" in wanted else []
        for tool in (*self._fixed(cell.job.data), *finalists):
            if tool.name in wanted:
                cell.rounds(tool, self.options.rounds)
        for tuning in ("paper", "adaptive"):
            if f"ours-{tuning}" in wanted:
                self._ours(cell, tuning)

    def _ours(self, cell: Cell, tuning: str) -> None:
        """Between servers and endpoints of its own: its first run finds no open session and no history."""
        self.registered += 1
        with Pair(self.net, self.root, self.guc.grid) as pair:
            endpoints = tools.register(self.api, pair, f"wan{self.registered}")
            tool = Tool(f"ours-{tuning}", f"tuning {tuning}", tools.ours(self.api, endpoints, tuning))
            cell.run(tool, 0)
            cell.rounds(tool, self.options.rounds)

    def _fixed(self, data: DataSet) -> list[Tool]:
        plan = tools.paper_plan(data)
        return [
            self._guc("guc-paper", tools.with_plan(plan.concurrency, plan.parallelism)),
            self._guc("guc-cc32", tools.with_plan(32, 4)),
        ]

    def _guc(self, name: str, words: Sequence[str]) -> Tool:
        return Tool(name, " ".join(words) or "no options", tools.globus_url_copy(self.net, self.guc, words))

    def _search(self, cell: Cell) -> list[Tool]:
        """The expert's best options by one run of each; hopeless ones are stopped early."""
        best = self.options.limit
        found: list[tuple[float, Tool]] = []
        for plan in tools.grid(cell.job.data, self.options.cc, self.options.p):
            tool = self._guc("guc-best", tools.with_plan(*plan))
            result = cell.run(tool, search=True, limit=best * HOPELESS)
            if result.outcome == "done":
                best = min(best, result.seconds)
                found.append((result.seconds, tool))
        return [tool for _, tool in sorted(found, key=lambda one: one[0])[:FINALISTS]]


# ---- the command


def run(options: argparse.Namespace) -> list[Result]:
    with ExitStack() as stack:
        root = stack.enter_context(workplace())
        for name in ("source", "destination"):
            (root / name).mkdir()
        hand_over(root, stop_at=root.parent)
        net = stack.enter_context(Network())
        grid = _grid(stack, net) if options.gsi else None
        guc = stack.enter_context(Pair(net, root, grid))
        stack.enter_context(net.inside("service"))
        trusted = {"WAYBILL_CERTIFICATES": str(grid.authority.certificates)} if grid else {}
        api = stack.enter_context(instance({"WAYBILL_ALLOW_TARGETS": ALLOWED, **trusted}))
        bench = Bench(options, net, root, api, guc)
        if ssh.server_program():
            secrets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waybill-bench-"))) / "ssh"
            stack.enter_context(ssh.ssh_server(net, net.destination, secrets))
            bench.ssh_tools = tools.ssh_tools(net, secrets)
        _note_missing(options.tools, [tool.name for tool in bench.ssh_tools])
        return bench.run()


def _grid(stack: ExitStack, net: Network) -> Grid:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waybill-bench-")))
    folder.chmod(0o711)
    return Grid(folder, [net.source.address, net.destination.address])


def _note_missing(wanted: Sequence[str], found: Sequence[str]) -> None:
    missing = [name for name in ("scp", "rsync", "rclone") if name in wanted and name not in found]
    if missing:
        sys.stdout.write(f"Left out, not installed (they need sshd, too): {', '.join(missing)}\n")


def _octets(text: str) -> int:
    factors = {"K": 10**3, "M": 10**6, "G": 10**9}
    return int(float(text.rstrip("KMG")) * factors.get(text[-1:], 1))


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _numbers(text: str) -> list[float]:
    return [float(word) for word in _words(text)]


def _whole(text: str) -> list[int]:
    return [int(word) for word in _words(text)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--sets", type=_words, default=list(COUNTS), help=f"of {','.join(COUNTS)}")
    add("--total", type=_octets, default=256 * 10**6, help="octets of a data set, as 256M or 1G")
    add("--rtt", type=_numbers, default=list(RTTS), help="round trips in ms")
    add(
        "--loss",
        type=_numbers,
        help=f"of each packet, for each round trip (default: 0, and {LOSS:g} at {LOSS_RTT:g} ms)",
    )
    add("--tools", type=_words, default=list(report.NAMES), help=f"of {','.join(report.NAMES)}")
    add("--rounds", type=int, default=3, help="of ours, and of globus-url-copy with options")
    add("--slow-rounds", type=int, default=1, help="of scp, rsync, rclone, and of globus-url-copy without options")
    add("--cc", type=_whole, default=list(tools.CONCURRENCIES), help="what the expert tries for -cc")
    add("--p", type=_whole, default=list(tools.PARALLELISMS), help="and for -p")
    add("--limit", type=float, default=60, help="seconds of a run; a slower one is stopped, and so noted")
    add("--gsi", action="store_true", help="servers with GSI and authenticated data channels, for ours and for theirs")
    add("--json", type=Path, help="file to append all results to, one a line")
    add("--plot", type=Path, help="SVG file to write")
    add("--report", type=Path, help="run nothing: the table (and plot) of this file of results")
    options = parser.parse_args()
    _check(parser, options)
    options.lines = _lines(options)
    return options


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    for given, known in ((options.sets, COUNTS), (options.tools, report.NAMES)):
        if unknown := sorted(set(given) - set(known)):
            parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    if options.report is None and not installed():
        parser.error(f"{CLIENT} and its server are not installed: sudo deploy/endpoint/install-toolkit.sh")


def _lines(options: argparse.Namespace) -> list[Line]:
    lines = [Line(rtt, loss) for loss in options.loss or [0.0] for rtt in options.rtt]
    if options.loss is None and LOSS_RTT in options.rtt:
        lines.append(Line(LOSS_RTT, LOSS))
    return lines


def _grid_note(options: argparse.Namespace) -> str:
    words = [",".join(map(str, numbers)) for numbers in (options.cc, options.p)]
    whole = (options.cc, options.p) == (list(tools.CONCURRENCIES), list(tools.PARALLELISMS))
    return (
        f"Expert's best: {'all' if whole else 'ONLY SOME'} of -cc {words[0]} x -p {words[1]} with -pp, once each; the "
        f"{FINALISTS} fastest then as often as the others, the better median counts. Ours: medians of warm runs.\n"
    )


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left behind
    try:
        results = report.read(options.report) if options.report else run(options)
    except NetworkError as error:
        sys.exit(str(error))
    sys.stdout.write("\n" + report.table(results) + "\n")
    if options.report is None:
        sys.stdout.write(_grid_note(options))
    if options.plot:
        options.plot.write_text(report.plot(results))


if __name__ == "__main__":
    main()
