"""The tools that are compared: each moves the files of one folder at the source into one at the destination.

ToolError          it failed, or what arrived is not what was sent
    TooSlowError   it was not done in time and has been stopped
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.grid import Grid
from tests.gridftp.toolkit import CLIENT, ToolkitServer
from tests.instance import Api, seconds_until_settled
from workers.engine.tuning.plan import ChunkSummary, Plan, make_plan

from . import ssh
from .datasets import DataSet
from .network import Host, Network

CONCURRENCIES = (1, 2, 4, 8, 16, 32)
PARALLELISMS = (1, 2, 4, 8)
#: Looking how our task does must not take much from what it measures.
LOOK_EVERY = 0.2


class ToolError(Exception):
    pass


class TooSlowError(ToolError):
    pass


@dataclass(frozen=True)
class Job:
    """The full paths of both folders; `destination` has the name of `source`, and is there, empty."""

    data: DataSet
    source: Path
    destination: Path
    limit: float


#: Does the job; how many seconds it took. Raises ToolError.
Run = Callable[[Job], float]


@dataclass(frozen=True)
class Tool:
    """`options` say in its own words how it is used."""

    name: str
    options: str
    run: Run


# ---- servers


class Pair:
    """Two toolkit servers, anonymous ones or of `grid`, and what is needed to have them anew: a client that was stopped
    leaves sessions behind."""

    def __init__(self, net: Network, root: Path, grid: Grid | None = None) -> None:
        self.net = net
        self.grid = grid
        self.source = self._server(net.source, root)
        self.destination = self._server(net.destination, root)

    def _server(self, host: Host, root: Path) -> ToolkitServer:
        security = self.grid.files if self.grid else None
        return ToolkitServer(root, address=host.address, prefix=host.prefix, security=security)

    def start(self) -> None:
        with self.net.inside("source"):
            self.source.start()
        with self.net.inside("destination"):
            self.destination.start()

    def stop(self) -> None:
        self.source.stop()
        self.destination.stop()

    def __enter__(self) -> Pair:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


# ---- clients


def run_client(
    host: Host, argv: Sequence[str | Path], limit: float, environment: Mapping[str, str] | None = None
) -> float:
    """The seconds from its start to its end. Raises ToolError."""
    with tempfile.TemporaryFile() as said:
        begun = time.monotonic()
        process = subprocess.Popen(
            [*host.prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            process_group=0,
            env=environment,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            raise TooSlowError(f"not done after {limit:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds = time.monotonic() - begun
        said.seek(0)
        if code:
            raise ToolError(said.read().decode(errors="replace")[-500:])
    return seconds


def globus_url_copy(net: Network, pair: Pair, words: Sequence[str]) -> Run:
    """From the host of the service, as ours: third party. With GSI data channels are authenticated, as by default."""
    environment = pair.grid.client_environment() if pair.grid else None

    def run(job: Job) -> float:
        urls = [f"{pair.source.url}{job.source}/", f"{pair.destination.url}{job.destination}/"]
        try:
            return run_client(net.service, [CLIENT, "-r", *words, *urls], job.limit, environment)
        except ToolError:
            pair.stop()
            pair.start()
            raise

    return run


def with_plan(concurrency: int, parallelism: int) -> list[str]:
    return ["-cc", str(concurrency), "-p", str(parallelism), "-pp"]


def paper_plan(data: DataSet) -> Plan:
    return make_plan(
        ChunkSummary(count=data.files, total=data.total, smallest=data.size), {}, stream_only=False, max_sessions=64
    )


def grid(data: DataSet, concurrencies: Sequence[int], parallelisms: Sequence[int]) -> list[tuple[int, int]]:
    """(concurrency, parallelism), the likely ones first; more lanes than files are the same as a lane for each."""
    useful = [cc for cc in concurrencies if not any(data.files <= less < cc for less in concurrencies)]
    return sorted(((cc, p) for cc in useful for p in parallelisms), key=lambda one: (abs(one[0] * one[1] - 16), one))


def ssh_tools(net: Network, folder: Path) -> list[Tool]:
    """scp, rsync and rclone over SFTP, those that are installed; they run at the source and push."""
    host = net.destination
    client = ["ssh", "-F", str(ssh.config(folder))]
    remote = f":sftp,host={host.address},user=root,key_file={folder}/key:"
    commands: dict[str, Callable[[Job], list[str | Path]]] = {
        "scp": lambda job: ["scp", "-q", *client[1:], "-r", job.source, f"{host.name}:{job.destination.parent}"],
        "rsync": lambda job: [
            "rsync",
            "-r",
            "-e",
            " ".join(client),
            f"{job.source}/",
            f"{host.name}:{job.destination}/",
        ],
        "rclone": lambda job: ["rclone", "copy", "--config", "", job.source, f"{remote}{job.destination}"],
    }
    options = {"scp": "-r", "rsync": "-r over ssh", "rclone": "copy to :sftp:"}

    def runner(command: Callable[[Job], list[str | Path]]) -> Run:
        return lambda job: run_client(net.source, command(job), job.limit)

    return [Tool(name, options[name], runner(commands[name])) for name in commands if shutil.which(name)]


# ---- ours


@dataclass(frozen=True)
class Endpoints:
    """Both as our service knows them."""

    source: str
    destination: str


def register(api: Api, pair: Pair, name: str) -> Endpoints:
    """New ones: nothing is known of the path between them, and no session is open."""

    def endpoint(end: str, server: ToolkitServer) -> str:
        if pair.grid:
            return pair.grid.endpoint(api, f"{name}-{end}", server.port, server.address)
        return api.endpoint(f"{name}-{end}", server.port, server.address)

    return Endpoints(endpoint("source", pair.source), endpoint("destination", pair.destination))


def ours(api: Api, endpoints: Endpoints, tuning: str) -> Run:
    """From before the POST to the commit of the task's end."""

    def run(job: Job) -> float:
        paths = (f"{job.source}/", f"{job.destination}/")
        begun = time.time()
        task_id = api.transfer(
            endpoints.source, paths[0], endpoints.destination, paths[1], recursive=True, tuning=tuning
        )
        try:
            task = api.wait(task_id, timeout=job.limit - (time.time() - begun), interval=LOOK_EVERY)
        except TimeoutError:
            api.call("POST", f"/task/{task_id}/cancel")
            api.wait(task_id, timeout=60)
            raise TooSlowError(f"not done after {job.limit:g} s") from None
        if task["status"] != "SUCCEEDED":
            raise ToolError(f"the task ended as {task['status']}: {task['fatal_error']}")
        return seconds_until_settled(api, task, begun)

    return run


def limited(job: Job, limit: float) -> Job:
    return replace(job, limit=min(limit, job.limit))
