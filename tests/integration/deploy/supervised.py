"""A supervisor as a process of its own: `python -m tests.integration.deploy.supervised FOLDER [--worker]`.

Its programs are the shell scripts FOLDER/*.sh; a name that begins with "server" is stopped last. A program is ready
when it has said "ready". With --worker the program is a worker of the service, as `make up` has it. The pids are in
FOLDER/pids.json.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

from deploy.stack import forked
from deploy.stack.errors import StartError
from deploy.stack.home import write_private
from deploy.stack.supervisor import SupervisedProgram, Supervisor


def scripts(folder: Path) -> list[SupervisedProgram]:
    return [
        SupervisedProgram(
            script.stem,
            ["sh", str(script)],
            folder / f"{script.stem}.log",
            ready=lambda text: b"ready" in text,
            server=script.stem.startswith("server"),
        )
        for script in sorted(folder.glob("*.sh"))
    ]


def worker(folder: Path) -> list[SupervisedProgram]:
    """One worker with one thread, forked from this process, which has loaded it."""
    forked.load({})
    ready = forked.WORKER_READY.encode()
    work = partial(forked.worker, "worker1", 1)
    return [SupervisedProgram("worker1", (), folder / "worker1.log", work, ready=lambda text: ready in text)]


def main(folder: Path, *options: str) -> int:
    supervisor = Supervisor(worker(folder) if "--worker" in options else scripts(folder))
    try:
        if supervisor.start(timeout=30):
            while not supervisor.stopping:
                write_private(folder / "pids.json", json.dumps(supervisor.pids()))
                supervisor.watch()
    except StartError as error:
        sys.stderr.write(str(error))
        return 1
    finally:
        supervisor.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), *sys.argv[2:]))
