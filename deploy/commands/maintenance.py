"""`waybill maintenance` (docs/operate/maintenance.md)."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta

from transferapi.config import Config

from .base import Commands, open_database, say, utc_time

_SPAN = re.compile(r"(\d{1,4})([mh])")


def declare(commands: Commands) -> None:
    """Add the commands to the parser."""
    modes = commands.group("maintenance", "refuse changes for a time")
    on = modes.add("on", run_on, "refuse changes with a message, or change the message; reading goes on")
    on.add_argument("message", help="for all users")
    on.add_argument("--until", type=_time, metavar="TIME", help="the expected end: 2027-01-31T18:00Z, 90m or 2h")
    on.add_argument("--hold", action="store_true", help="stop tasks, too, until `off`; without it they go on")
    modes.add("off", run_off, "accept changes again, and let tasks go on")
    modes.add("status", run_status, "show whether it is on")


def run_on(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from transferapi.tasks import maintenance

    maintenance.turn_on(arguments.message, arguments.until, hold=arguments.hold)
    tasks = "Tasks stop within seconds, and go on after `off`." if arguments.hold else "Tasks go on."
    say(f"Every process refuses changes within seconds. {tasks}")


def run_off(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from transferapi.tasks import maintenance

    say("Every process accepts changes within seconds." if maintenance.turn_off() else "It was not on.")


def run_status(config: Config, arguments: argparse.Namespace) -> int:
    """Status 0 where it is off, 3 where it is on."""
    open_database()
    from transferapi.tasks import maintenance

    notice = maintenance.read()
    if notice is None:
        say("off")
        return 0
    say(f"on since {notice.since:%Y-%m-%d %H:%M:%SZ}: {notice.sentence}")
    say("Tasks are held." if notice.hold else "Tasks go on.")
    return 3


def _time(text: str) -> datetime:
    if found := _SPAN.fullmatch(text):
        number = int(found[1])
        return datetime.now(UTC) + (timedelta(minutes=number) if found[2] == "m" else timedelta(hours=number))
    try:
        return utc_time(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no time: 2027-01-31T18:00Z, 90m or 2h") from None
