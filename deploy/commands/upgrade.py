"""`waybill upgrade` (docs/operate/upgrade.md)."""

from __future__ import annotations

import argparse
from typing import Any

from deploy.stack.embedded import use_embedded_stack
from deploy.stack.errors import StackError
from transferapi.config import Config

from .base import Commands, away, say, set_up_django

#: Seconds from which an open transaction is worth a line.
LONG = 5.0


def declare(commands: Commands) -> None:
    """Add the command to the parser."""
    upgrade = commands.add(
        "upgrade", run_upgrade, "bring the database to this version, while the previous version runs"
    )
    upgrade.add_argument(
        "--check", action="store_true", help="only show what would be done; status 1: not possible now"
    )
    upgrade.add_argument(
        "--contract", action="store_true", help="remove what only the previous version used, when none of it runs"
    )


def run_upgrade(config: Config, arguments: argparse.Namespace) -> int:
    use_embedded_stack()
    set_up_django()
    from django.db import OperationalError

    from deploy.upgrade import plan, run

    try:
        with run.alone():
            found, running = plan.make(), run.processes()
            if arguments.check:
                return _check(found, running, contract=arguments.contract)
            return _run(found, running, contract=arguments.contract)
    except OperationalError as error:
        raise away(error, "the database does not answer: is it running?") from None


def expand(*, alone: bool = False) -> None:
    """Run the expansions. Django must be set up. Raises StackError where others must be run, and cannot now.

    alone: the caller knows that no process runs, whatever the database says.
    """
    from deploy.upgrade import plan, run

    _run(plan.make(), [] if alone else run.processes(), contract=False)


def _run(found: Any, running: Any, *, contract: bool) -> int:
    from deploy.upgrade import run

    steps = run.chosen(found, running, contract=contract)
    reason = run.may_run(found, running, contract=contract)
    # Expansions that can run are run, also where others must wait.
    if reason and (contract or found.unjudged or not steps):
        raise StackError(reason)
    run.run(steps)
    for step in steps:
        say(f"{step.name}: done")
    if reason:
        raise StackError(reason)
    if not steps:
        say("Nothing to do.")
    if left := [one for one in found.of("contract") if one not in steps]:
        say(f"{len(left)} contractions are left: `waybill upgrade --contract` when no older process runs.")
    return 0


def _check(found: Any, running: Any, *, contract: bool) -> int:
    from deploy.upgrade import plan, run
    from transferapi.tasks.upkeep.service_processes import known_changes

    words = {"expand": "expansion", "contract": "contraction", None: "needs a pause"}
    for step in found.steps:
        say(f"{step.name}: {words[step.effect]}")
        for line in plan.locks(step):
            say(f"    {line}")
    if not found.steps:
        say("Nothing to do: the schema is that of this version.")
    marked = [step.name for step in found.steps if step.effect] or list(known_changes())
    for one in running:
        age = "older" if one.lacks(marked) else "this version"
        say(f"runs: {one.kind} {one.name}, version {one.version}, {age}")
    if (seconds := plan.longest_transaction()) > LONG:
        say(f"A transaction has been open for {seconds:.0f} s: a migration of its tables waits for its end.")
    reason = run.may_run(found, running, contract=contract)
    say(f"Not now: {reason}." if reason else "Possible now.")
    return 1 if reason else 0
