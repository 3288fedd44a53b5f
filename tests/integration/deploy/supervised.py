"""A supervisor over dummy programs, as a process of its own: `python -m tests.integration.deploy.supervised FOLDER`.

Its programs are the shell scripts FOLDER/*.sh; a name that begins with "server" is stopped last. A program is ready
when it has said "ready". The pids are in FOLDER/pids.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deploy.stack.errors import StartError
from deploy.stack.home import write_private
from deploy.stack.supervisor import SupervisedProgram, Supervisor


def main(folder: Path) -> int:
    programs = [
        SupervisedProgram(
            script.stem,
            ["sh", str(script)],
            folder / f"{script.stem}.log",
            ready=lambda text: b"ready" in text,
            server=script.stem.startswith("server"),
        )
        for script in sorted(folder.glob("*.sh"))
    ]
    supervisor = Supervisor(programs)
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
    raise SystemExit(main(Path(sys.argv[1])))
