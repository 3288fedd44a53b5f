"""Faults in the middle of real transfers: how long work and the API stand still, and that nothing is lost or wrong.

    python -m bench.drill [--host compose|embedded] [--faults NAME,...] [--write FILE] [--base FOLDER] [--remove] ...

`compose` runs docker-compose.yml as it is, in a Docker Engine of its own, from nothing (root only; about 6 GB below
--base, which is kept for the next run unless there is --remove). `embedded` runs what `make up` runs. Ends with status
1 if a file or a task is not right, a fault could not be tried, or a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.drill.compose import compose_host
from bench.drill.embedded import embedded_host
from bench.drill.engine import tell
from bench.drill.faults import FAULTS, Fault, Scale
from bench.drill.host import Host
from bench.drill.load import Tree
from bench.drill.report import missed, table
from bench.drill.run import Outcome, run_fault, run_look

SCALE = {
    "files": "small files of the tree that is transferred again and again",
    "megabytes": "of one large file beside them",
    "rate": "GETs, and POSTs, a second",
    "away": "seconds for which servers are stopped or hang",
    "tasks": "that wait at once, for the fault `many`",
    "gigabytes": "of each long file, for the fault `scale`",
}


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="python -m bench.drill", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--host", choices=("compose", "embedded"), default="compose")
    words.add_argument("--faults", default="", help=f"of {', '.join(fault.name for fault in FAULTS)}; default: all")
    for name, meaning in SCALE.items():
        default = getattr(Scale, name)
        words.add_argument(f"--{name}", type=type(default), default=default, help=f"{meaning} (default: %(default)s)")
    words.add_argument("--base", type=Path, default=Path(tempfile.gettempdir()) / "waybill-drill")
    words.add_argument(
        "--from", dest="old", default="", help="the commit from which is upgraded; by default an older one"
    )
    words.add_argument("--write", type=Path, help="a file for the table, in Markdown")
    words.add_argument("--remove", action="store_true", help="delete --base at the end")
    return words


def chosen(names: str) -> list[Fault]:
    """In the order of the table; all when there is no name. Raises ValueError."""
    wanted = {name for name in names.split(",") if name}
    if unknown := wanted - {fault.name for fault in FAULTS}:
        raise ValueError(f"no such fault: {', '.join(sorted(unknown))}")
    return [fault for fault in FAULTS if not wanted or fault.name in wanted]


@contextmanager
def host_of(arguments: argparse.Namespace, faults: Sequence[Fault]) -> Iterator[Host]:
    if arguments.host == "embedded":
        with embedded_host() as host:
            yield host
        return
    upgrades = any(fault.name == "upgrade" for fault in faults)
    with compose_host(arguments.base, arguments.old, upgrades=upgrades, remove=arguments.remove) as host:
        yield host


def tried(host: Host, fault: Fault, tree: Tree, sent: dict[str, str], scale: Scale) -> Outcome:
    """A fault that could not be tried is a problem in the table, and the next one is tried all the same."""
    try:
        return run_look(host, fault) if fault.look else run_fault(host, fault, tree, sent, scale)
    except Exception as error:  # a run of hours goes on
        traceback.print_exc()
        outcome = Outcome(fault, fault.words.format(scale=scale), problems=[f"not tried to the end: {error!r}"])
        try:
            host.mend()
        except Exception as second:
            outcome.problems.append(f"not mended: {second!r}")
        return outcome


def main(words: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    try:
        faults = chosen(arguments.faults)
    except ValueError as error:
        parser().error(str(error))
    if arguments.host == "compose" and os.geteuid():
        parser().error("--host compose makes namespaces and mounts: it works for root only")
    outcomes = []
    scale = Scale(**{name: getattr(arguments, name) for name in SCALE})
    load = f"{scale.files} files and {scale.megabytes} MB"
    title = f"The drill, {arguments.host}, two transfers at a time of {load}"
    with host_of(arguments, faults) as host:
        tree = Tree("tree", scale.files, scale.megabytes)
        sent = tree.make(host.folders[0])
        for fault in faults:
            if fault.needs is None or fault.needs in host.can:
                tell(fault.words.format(scale=scale))
                outcomes.append(tried(host, fault, tree, sent, scale))
                tell(table(title, outcomes[-1:]).splitlines()[4])
                if arguments.write:
                    arguments.write.write_text(table(title, outcomes))
    sys.stdout.write(table(title, outcomes))
    return 1 if any(one.problems or missed(one) for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
