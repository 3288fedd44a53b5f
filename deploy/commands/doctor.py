"""`waybill doctor`: looks at everything that the service needs, and says what to do.

The checks run side by side, each for a limited time.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Collection, Mapping
from functools import partial

from django.db import connections

from deploy.doctor.findings import Check, Finding, error
from deploy.doctor.probes import PROBES
from transferapi.config import Config, ConfigError, load

from .base import Commands, say, set_up_django
from .check import running_here

_MARKS = ("ok", "warning", "ERROR")
NAMES = tuple(probe.name for probe in PROBES)


def declare(commands: Commands) -> None:
    """Add the command to the parser."""
    said = commands.add(
        "doctor", run_doctor,
        "look at settings, keys, clocks, names, ports, mail, authorities, disks and versions, and say what to do; "
        "status 0: all is well, 1: warnings, 2: errors",
    )  # fmt: skip
    said.add_argument("checks", nargs="*", type=_name, metavar="CHECK", help=f"only these: {', '.join(NAMES)}")
    said.add_argument("--mail", default="", metavar="TO", help="also send a mail to this address")
    said.add_argument("--json", action="store_true", help="one JSON document in place of lines")


def run_doctor(config: Config, arguments: argparse.Namespace) -> int:
    """Works without a database, and says so. Returns the worst severity."""
    config = running_here(config)
    set_up_django()

    checks = _checks(arguments.checks or NAMES, arguments.mail)
    return report(run_all(checks, config), as_json=arguments.json)


def _checks(names: Collection[str], mail_to: str) -> dict[str, Check]:
    checks = {probe.name: probe.load() for probe in PROBES if probe.name in names}
    if "mail" in checks:
        from deploy.doctor import mail

        checks["mail"] = partial(mail.check, to=mail_to)
    return checks


def wrong_settings(arguments: argparse.Namespace) -> int:
    """Report the settings that cannot be read: nothing else can be looked at then. Status 0: all can."""
    from deploy.doctor.findings import error

    try:
        load()
    except ConfigError as failure:
        problems = [error(one, "Correct it; docs/operate/configuration.md lists all.") for one in failure.problems]
        return report({"settings": problems}, as_json=arguments.json)
    return 0


def report(found: Mapping[str, list[Finding]], *, as_json: bool) -> int:
    """Print the findings. Returns the worst severity."""
    worst = int(max((one.severity for all_of_one in found.values() for one in all_of_one), default=0))
    if as_json:
        say(json.dumps({"status": _MARKS[worst].lower(), "checks": _documents(found)}, indent=1))
        return worst
    for name, all_of_one in found.items():
        for one in all_of_one:
            say(f"{_MARKS[one.severity]:8} {name:12} {one.text}")
            if one.do:
                say(f"{'':22}-> {one.do}")
    counts = [sum(one.severity == which for each in found.values() for one in each) for which in (2, 1)]
    say(f"{counts[0]} errors, {counts[1]} warnings")
    return worst


def _name(text: str) -> str:
    if text not in NAMES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(NAMES)}")
    return text


def _documents(found: Mapping[str, list[Finding]]) -> dict[str, list[dict[str, str]]]:
    return {
        name: [{"severity": one.severity.name, "text": one.text, "do": one.do} for one in each]
        for name, each in found.items()
    }


#: Seconds for all checks together; they run at the same time. A connection to PostgreSQL may take 10 s.
SECONDS = 30.0


def run_all(checks: Mapping[str, Check], config: Config, seconds: float = SECONDS) -> dict[str, list[Finding]]:
    """The findings of each check, those that it had made before the time was over included."""
    found: dict[str, list[Finding]] = {name: [] for name in checks}
    threads = {
        name: threading.Thread(target=_run, args=(check, config, found[name]), name=f"doctor {name}", daemon=True)
        for name, check in checks.items()
    }
    until = time.monotonic() + seconds
    for thread in threads.values():
        thread.start()
    for name, thread in threads.items():
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            late = error(f"The check did not end within {seconds:g} s.", "See whether what it looks at hangs.")
            found[name] = [*found[name], late]
    return found


def _run(check: Check, config: Config, found: list[Finding]) -> None:
    try:
        for one in check(config):
            found.append(one)
    except Exception as failure:
        # Its text may contain private data.
        found.append(error(f"The check itself failed: {type(failure).__name__}", "Please report this."))
    finally:
        connections.close_all()
