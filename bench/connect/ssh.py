"""`ssh://` with nothing installed against rsync and scp, over the line of `bench.wan`.

sudo .venv/bin/python -m bench.connect.ssh                       # DS6 against rsync, 256 MB against scp, 60 ms
sudo .venv/bin/python -m bench.connect.ssh --rounds 3 --files 2560

The two hosts are namespaces with an sshd and python3 each: no toolkit, no server of ours. A tool begins with an empty
destination; each arrival is compared by SHA-256. rsync and scp push from the source; ours is asked by REST, and its
first run, which sends the program and finds no open session, is a row of its own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.place import workplace
from bench.wan import ssh, tools
from bench.wan.__main__ import ALLOWED
from bench.wan.datasets import COUNTS, DataSet, empty, hashes
from bench.wan.network import Host, Network
from bench.wan.tools import Endpoints, Job, Run
from tests.instance import Api, instance

MB = 10**6
#: Seconds after which a run is given up.
LIMIT = 900.0


def main() -> int:
    options = _options()
    with ExitStack() as stack:
        root = stack.enter_context(workplace())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waybill-bench-")))
        net = stack.enter_context(Network())
        keys = {}
        for host in (net.source, net.destination):
            keys[host.name] = folder / host.name
            stack.enter_context(ssh.ssh_server(net, host, keys[host.name]))
        stack.enter_context(net.inside("service"))
        api = stack.enter_context(instance(WAYBILL_ALLOW_TARGETS=ALLOWED))
        ours = Endpoints(*(account_endpoint(api, host, keys[host.name]) for host in (net.source, net.destination)))
        theirs = {tool.name: tool.run for tool in tools.ssh_tools(net, keys["destination"])}
        net.shape(rtt_ms=options.rtt)
        for data, rival in (
            (DataSet("DS6", options.files, options.total * MB), "rsync"),
            (DataSet("DS1", COUNTS["DS1"], options.total * MB), "scp"),
        ):
            job = Job(data, root / "source" / data.name, root / "destination" / data.name, LIMIT)
            _compare(job, tools.ours(api, ours, "adaptive"), rival, theirs[rival], options.rounds)
    return 0


def _compare(job: Job, ours: Run, rival: str, theirs: Run, rounds: int) -> None:
    """Print the median of each, and the ratio; first the run that finds nothing on the hosts."""
    job.source.parent.mkdir(exist_ok=True)
    job.destination.mkdir(parents=True)
    sent = job.data.make(job.source)
    first = _timed(job, ours, sent)
    mine, other = [], []
    for _ in range(rounds):
        other.append(_timed(job, theirs, sent))
        mine.append(_timed(job, ours, sent))
    seconds, beside = statistics.median(mine), statistics.median(other)
    total = job.data.total / MB
    _say(f"{job.data.name}: {job.data.files} files, {total:.0f} MB")
    _say(f"  ssh://, first run   {first:8.2f} s {total / first:8.1f} MB/s")
    _say(f"  ssh://              {seconds:8.2f} s {total / seconds:8.1f} MB/s")
    _say(f"  {rival:<19} {beside:8.2f} s {total / beside:8.1f} MB/s   ratio {beside / seconds:.2f}")


def _timed(job: Job, run: Run, sent: dict[str, str]) -> float:
    empty(job.destination)
    seconds = run(job)
    if hashes(job.destination) != sent:
        raise SystemExit(f"{job.destination} is not what was sent")
    return seconds


def account_endpoint(api: Api, host: Host, folder: Path) -> str:
    """Register the account on this host, and activate it with its key."""
    made = api.endpoint(f"bare-{host.name}", 22, host.address, scheme="ssh")
    values = {"username": "root", "private_key": (folder / "key").read_text()}
    requirements = api.call("GET", f"/endpoint/{made}/activation_requirements")
    for one in requirements["DATA"]:
        if one["type"] == "ssh_key" and one["name"] in values:
            one["value"] = values[one["name"]]
    requirements["DATA"] = [one for one in requirements["DATA"] if one["type"] == "ssh_key"]
    api.call("POST", f"/endpoint/{made}/activate", requirements)
    return made


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.connect.ssh", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rtt", type=float, default=60.0, metavar="MS")
    parser.add_argument("--files", type=int, default=COUNTS["DS6"], help="of DS6")
    parser.add_argument("--total", type=int, default=256, metavar="MB")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
