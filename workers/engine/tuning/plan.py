"""Plans: the numbers of lanes, of streams and of files under way, and their reason. Pure.

The rules are those of the paper "Software as a service for data scientists" (Communications of the ACM 55(2), 2012),
see docs/decisions/tuning-and-forecasts.md. Sizes are octets; a MB is 10**6 octets.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from identity.gsi.sentences import Sentence

MB = 10**6
#: "a chunk with more than 100 files and an average under 50 MB"
SMALL_BELOW = 50 * MB
MANY_ABOVE = 100
#: "if all files are larger than 250 MB"
LARGE_ABOVE = 250 * MB
#: Lanes for small files to a destination in mode S, where only more lanes help.
STREAM_CONCURRENCY = 8
#: Maximum that a user may ask for: more only harms the servers.
MAX_PARALLELISM = 64
MAX_PIPELINING = 200
#: The options of a user, and the number of the plan that each fixes; the maxima of these.
NUMBERS = {"perf_cc": "concurrency", "perf_p": "parallelism", "perf_pp": "pipelining"}
MAXIMA = {"perf_p": MAX_PARALLELISM, "perf_pp": MAX_PIPELINING}


class SizeClass(enum.IntEnum):
    """Files of one class make a chunk; the classes are transferred in this order, as the paper sorts by size."""

    SMALL = 0
    MEDIUM = 1
    LARGE = 2


def size_class(size: int) -> SizeClass:
    """The class of a file of this many octets."""
    if size < SMALL_BELOW:
        return SizeClass.SMALL
    return SizeClass.LARGE if size > LARGE_ABOVE else SizeClass.MEDIUM


@dataclass(slots=True)
class ChunkSummary:
    """The facts of a chunk that the rules use."""

    count: int = 0
    total: int = 0
    smallest: int = 0

    def add(self, size: int) -> None:
        """Add a file of this size."""
        self.smallest = min(self.smallest, size) if self.count else size
        self.count += 1
        self.total += size

    @property
    def many_small(self) -> bool:
        return self.count > MANY_ABOVE and self.total < SMALL_BELOW * self.count

    @property
    def all_large(self) -> bool:
        return self.count > 0 and self.smallest > LARGE_ABOVE


@dataclass(frozen=True, slots=True)
class Plan:
    """concurrency: lanes. parallelism: data streams of a lane. pipelining: files under way in a lane.

    relayed: files to an agent go by a port of the relay, where its source can connect.
    """

    concurrency: int
    parallelism: int
    pipelining: int
    reason: str
    relayed: bool = False


def make_plan(chunk: ChunkSummary, options: Mapping[str, object], *, stream_only: bool, max_sessions: int) -> Plan:
    """The plan for a chunk.

    options: perf_cc, perf_p and perf_pp replace the rules. stream_only: the destination supports mode S only, or a
    worker moves the files.
    max_sessions: sessions to each endpoint that the task may hold; one is kept for the scan, a lane takes one of each.
    """
    plan = asked(paper_rule(chunk, stream_only=stream_only), options, stream_only=stream_only)
    lanes = max(1, max_sessions - 1)
    if plan.concurrency > lanes:
        reason = Sentence(
            "%(reason)s; concurrency %(now)s instead of %(before)s: %(sessions)s sessions allowed",
            reason=plan.reason, now=lanes, before=plan.concurrency, sessions=max_sessions,
        )  # fmt: skip
        plan = replace(plan, concurrency=lanes, reason=reason)
    return plan


def paper_rule(chunk: ChunkSummary, *, stream_only: bool) -> Plan:
    """The plan of the paper, whatever the user and the endpoints want."""
    plan = _rule(chunk)
    if not stream_only:
        return plan
    # Mode S has one stream, and a data connection for each file: only concurrency can be used.
    concurrency = STREAM_CONCURRENCY if chunk.many_small else plan.concurrency
    return Plan(concurrency, 1, 1, Sentence("%(reason)s; one stream a file (mode S, or SFTP)", reason=plan.reason))


def _rule(chunk: ChunkSummary) -> Plan:
    if chunk.many_small:
        return Plan(2, 2, 20, Sentence("more than 100 files, under 50 MB on average"))
    if chunk.all_large:
        return Plan(2, 8, 5, Sentence("all files larger than 250 MB"))
    return Plan(2, 4, 10, Sentence("neither more than 100 small files nor all larger than 250 MB"))


def asked(plan: Plan, options: Mapping[str, object], *, stream_only: bool) -> Plan:
    """The plan with the numbers that the user asked for."""
    wishes = {name: value for name in NUMBERS if (value := wish(options, name, stream_only=stream_only))}
    if not wishes:
        return plan
    numbers = {NUMBERS[name]: value for name, value in wishes.items()}
    return with_numbers(
        plan, numbers, Sentence("%(reason)s; %(names)s as asked", reason=plan.reason, names=", ".join(wishes))
    )


def wish(options: Mapping[str, object], name: str, *, stream_only: bool) -> int | None:
    """The user's number, if it counts: in mode S there is one stream, and one file at a time."""
    value = options.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1 or (stream_only and name != "perf_cc"):
        return None
    return min(value, MAXIMA.get(name, value))


def with_numbers(plan: Plan, numbers: Mapping[str, int], reason: str) -> Plan:
    """The plan with these numbers, by name."""
    changes: dict[str, Any] = dict(numbers)
    return replace(plan, reason=reason, **changes)


def lane_share(plan: Plan, files: int) -> int:
    """How many files one lane may have under way, when so many are under way or waiting.

    A few large files are spread over all lanes, instead of being queued in the first.
    """
    lanes = min(plan.concurrency, files) or 1
    return min(plan.pipelining, -(-files // lanes))
