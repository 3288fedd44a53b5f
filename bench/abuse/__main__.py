"""Attacks on a whole instance, each beside an honest user who asks and submits at a steady slow rate.

    python -m bench.abuse [--front nginx|haproxy|none] [--only WORD ...] [--seconds N] [--list]

All requests pass the server in front, with the configuration of deploy/front.

Of each attack: the honest user's GET /submission_id and POST /transfer before it, during it and after it, and the most
memory of a web process and of a worker. Passed where the honest p95 stays under 250 ms without an error, and each
process under its bound. Exit status 1 where an attack did not pass.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import bench.abuse
from bench.table import machine
from deploy.stack.free_ports import free_port
from tests.instance import instance
from tests.servers.front_server import Nginx, haproxy

from .harness import ATTACKS, BOUNDS, Attack, Control, Target
from .honest import Calls, Honest, Measured, resident

#: Milliseconds: the limit for the honest user's p95.
BAR = 250.0
#: Seconds for which the honest user is alone, before and after.
ALONE = 10.0
#: The sample endpoints and the attackers' own servers listen there.
LOOPBACK = "127.0.0.1/32"


@dataclass(frozen=True)
class Outcome:
    attack: Attack
    before: Measured
    during: Measured
    after: Measured
    #: The peak memory in MB of each kind of process, after the attack.
    left: dict[str, float]
    notes: list[str]
    ended_well: bool

    @property
    def passed(self) -> bool:
        calls = (self.during.looks, self.during.submissions, self.after.looks, self.after.submissions)
        quick = all(one.p95 < BAR and not one.errors for one in calls)
        return quick and self.ended_well and all(self.during.peaks[kind] < most for kind, most in BOUNDS.items())


def main() -> int:
    options = _options()
    for module in pkgutil.iter_modules(bench.abuse.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"bench.abuse.{module.name}")
    wanted = [one for one in ATTACKS if not options.only or any(word in one.name for word in options.only)]
    if options.list:
        say("".join(f"{one.name}\n" for one in ATTACKS))
        return 0
    more = {} if options.front == "none" else {"WAYBILL_FRONT_SERVERS": LOOPBACK}
    with (
        instance(more, WAYBILL_ALLOW_TARGETS=LOOPBACK, WAYBILL_LOG_LEVEL="WARNING") as api,
        _front(options.front, urlsplit(api.url).netloc) as port,
    ):
        target = Target(api, port)
        Honest(target).measure(2.0)
        say(f"{machine()}; bars: p95 {BAR:g} ms, {BOUNDS} MB\n{HEAD}")
        outcomes = []
        for one in wanted:
            outcomes.append(_suffer(target, one, options.seconds or one.seconds))
            say(_rows(outcomes[-1]))
    return 0 if all(one.passed for one in outcomes) else 1


@contextmanager
def _front(kind: str, web: str) -> Iterator[int]:
    """The port of the server in front; 0: none. web: address and port."""
    if kind == "haproxy":
        with haproxy(web) as ports:
            yield ports.port
    elif kind == "nginx":
        given = {"FRONT_MODE": "http", "FRONT_SECRET": "", "REQUEST_SECONDS": "60", "WEB": web}
        with Nginx.of_the_product(free_port(), **given) as nginx:
            yield nginx.port
    else:
        yield 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--front", choices=("nginx", "haproxy", "none"), default="nginx", help="(default: nginx)")
    parser.add_argument("--only", nargs="*", metavar="WORD", help="attacks with one of these words in their names")
    parser.add_argument("--seconds", type=float, help="how long each goes on (default: as it says itself)")
    parser.add_argument("--list", action="store_true", help="print their names")
    return parser.parse_args()


def _suffer(target: Target, attack: Attack, seconds: float) -> Outcome:
    honest = Honest(target)
    before = honest.measure(ALONE)
    honest.settle()
    control = Control()
    process = attack.start(target, control)
    try:
        control.wait_for_begin(process)
        during = honest.measure(seconds)
    finally:
        ended_well = attack.stop(process, control)
    honest.settle()
    after = honest.measure(ALONE)
    left = {kind: max((resident(pid, "VmRSS") for pid in target.pids(kind)), default=0.0) for kind in BOUNDS}
    honest.settle()
    return Outcome(attack, before, during, after, left, control.notes(), ended_well)


HEAD = """
| attack | when | GET p50 ms | p95 | POST p50 ms | p95 | errors | web MB | worker MB | |
|---|---|---|---|---|---|---|---|---|---|
"""


def _rows(outcome: Outcome) -> str:
    spans = [
        (outcome.attack.name, "before", outcome.before, ""),
        ("", "during", outcome.during, "**pass**" if outcome.passed else "**MISS**"),
        ("", "after", outcome.after, ""),
    ]
    rows = [_row(*span) for span in spans]
    ratios = [_ratio(outcome.during, outcome.before, name) for name in ("looks", "submissions")]
    left = " | ".join(f"{one:.0f}" for one in outcome.left.values())
    rows.append(f"| | ratio, memory left | {ratios[0]} | | {ratios[1]} | | | {left} | |\n")
    words = [*outcome.notes, *(() if outcome.ended_well else ("the attack itself failed",)), *_errors(outcome)]
    return "".join([*rows, *(f"  {attack_note}\n" for attack_note in words)])


def _row(name: str, when: str, found: Measured, verdict: str) -> str:
    errors = len(found.looks.errors) + len(found.submissions.errors)
    times = " | ".join(f"{one.median:.1f} | {one.p95:.1f}" for one in (found.looks, found.submissions))
    memory = " | ".join(f"{found.peaks[kind]:.0f}" for kind in BOUNDS)
    return f"| {name} | {when} | {times} | {errors} | {memory} | {verdict} |\n"


def _ratio(during: Measured, before: Measured, name: str) -> str:
    one, other = (getattr(found, name) for found in (during, before))
    assert isinstance(one, Calls)
    assert isinstance(other, Calls)
    return f"{one.median / other.median:.2f} | {one.p95 / other.p95:.2f}"


def _errors(outcome: Outcome) -> list[str]:
    spans = (outcome.during, outcome.after)
    every = Counter(text for span in spans for calls in (span.looks, span.submissions) for text in calls.errors)
    return [f"{number} x {text}" for text, number in every.most_common(5)]


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
