"""One cell of the table: a data set over a line. It runs tools, checks what arrived, and keeps the results."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from . import report
from .datasets import empty, hashes, octets_below
from .network import Network
from .report import Result
from .tools import Job, Tool, ToolError, TooSlowError, limited


@dataclass(frozen=True)
class Line:
    rtt_ms: float
    loss: float


@dataclass(frozen=True)
class Run:
    """How one run went. `octets`: what counts as moved. `idle`: the share of the machine's processors, 0 to 1."""

    outcome: str
    seconds: float
    octets: int
    idle: float


def idle_and_total() -> tuple[int, int]:
    """Ticks of all processors since the start of the machine: user nice system idle iowait ... in proc(5)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def timed(tool: Tool, job: Job) -> Run:
    before = idle_and_total()
    try:
        outcome, seconds, octets = "done", tool.run(job), job.data.size * job.data.files
    except TooSlowError:
        outcome, seconds, octets = "slow", job.limit, octets_below(job.destination)
    except ToolError as error:
        outcome, seconds, octets = f"failed: {error}", job.limit, 0
    idle, total = (now - then for now, then in zip(idle_and_total(), before, strict=True))
    return Run(outcome, seconds, octets, idle / max(1, total))


class Cell:
    """`sent`: the hashes of what must arrive. `json`: where all results are appended.

    `security`: what the servers have; runs with and without it are different rows.
    """

    def __init__(
        self, net: Network, line: Line, job: Job, sent: dict[str, str], json: Path | None, security: str = ""
    ) -> None:
        self.net = net
        self.line = line
        self.job = job
        self.sent = sent
        self.json = json
        self.security = security
        self.results: list[Result] = []

    def run(self, tool: Tool, number: int = 1, *, search: bool = False, limit: float | None = None) -> Result:
        """Once, from an empty destination and with lines that nobody has used; checked by count and hash."""
        empty(self.job.destination)
        self.net.shape(rtt_ms=self.line.rtt_ms, loss=self.line.loss)
        run = timed(tool, self.job if limit is None else limited(self.job, limit))
        result = self._result(tool, number, search, run)
        _say(result)
        if self.json:
            report.append(self.json, result)
        self.results.append(result)
        return result

    def rounds(self, tool: Tool, count: int) -> None:
        """One is enough where a run is not done in time."""
        for number in range(1, count + 1):
            if self.run(tool, number).outcome == "slow":
                break

    def _result(self, tool: Tool, number: int, search: bool, run: Run) -> Result:
        counts = self.net.counts()
        data = self.job.data
        arrived = run.outcome != "done" or hashes(self.job.destination) == self.sent
        return Result(
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            set=f"{data.name} {self.security}".strip(),
            files=data.files,
            total=data.total,
            rtt_ms=self.line.rtt_ms,
            loss=self.line.loss,
            tool=tool.name,
            options=tool.options,
            round=number,
            search=search,
            outcome=run.outcome if arrived else "wrong: what arrived is not what was sent",
            seconds=round(run.seconds, 4),
            mb_per_s=round(run.octets / run.seconds / 1e6, 3),
            dropped=counts.dropped,
            lost=counts.lost,
            idle=round(run.idle, 3),
            late=round(counts.late_share, 4),
        )


def _say(result: Result) -> None:
    kind = "search" if result.search else f"round {result.round}" if result.round else "first"
    how = f"{result.idle * 100:3.0f} % idle, {result.late * 100:4.1f} % late  {result.outcome}"
    sys.stdout.write(
        f"{result.set} {result.rtt_ms:g} ms {result.loss * 100:g} % {result.tool:<13} {result.options:<18} {kind:<8}"
        f"{result.seconds:8.3f} s {result.mb_per_s:7.1f} MB/s, {how}\n"
    )
    sys.stdout.flush()
