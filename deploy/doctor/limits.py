"""The limits that the system gives to our processes (ulimit)."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from transferapi.config import Config
from transferapi.relay.main import FILES as RELAY_FILES

from .findings import Finding, error, good, warning

#: Open files that the ssh shell, a worker or a web server may need: a few for each session, and some for the program.
FILES = 4096
#: Threads and processes of the account: web threads, two for each ssh session, workers.
PROCESSES = 4096


def check(config: Config) -> Iterator[Finding]:
    yield files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield processes(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    if resource.getrlimit(resource.RLIMIT_CORE)[0]:
        yield warning(
            "A program that crashes writes its memory, with secrets, to a file.",
            "ulimit -c 0, or LimitCORE=0 in the unit.",
        )


def files(soft: int, hard: int) -> Finding:
    """The relay raises its own limit up to the hard one."""
    do = f"Set LimitNOFILE={RELAY_FILES} in the units, or ulimits.nofile in compose."
    if soft < 1024:
        return error(f"A process may open {soft} files only.", do)
    if soft < FILES or hard < RELAY_FILES:
        return warning(f"A process may open {soft} files, and {hard} if it asks: many sessions need more.", do)
    return good(f"a process may open {soft} files")


def processes(soft: int) -> Finding:
    if soft == resource.RLIM_INFINITY or soft >= PROCESSES:
        return good("enough threads may run")
    do = f"Set LimitNPROC and TasksMax to {PROCESSES} or more in the units, or pids_limit in compose."
    return warning(f"This account may run {soft} threads at a time.", do)
