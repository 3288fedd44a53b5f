"""The transport of a task's data: TCP as the operating systems tune it, unless history shows a better one.

Pure. History is measured on whole runs, and comes from a database: a value that is not valid is ignored. Another
transport is tried only when a user asks for it (`perf_udt`), never as an experiment.
"""

from __future__ import annotations

from collections.abc import Mapping

from transferapi.tasks.records import SliceMeasurement
from workers.engine.ports import TCP, UDT, Transport

#: How much better than TCP another transport must have been.
BETTER = 1.2
#: Number of tasks between these endpoints after which a measurement is too old.
TASKS = 20
#: Minimum octets of a run, and of its files on average, for its rate to measure mainly the transport.
MIN_OCTETS = 256 * 10**6
MIN_AVERAGE = 10 * 10**6
#: Maximum number of transports that are remembered, and the largest buffer that is accepted.
MOST = 8
MAX_BUFFER = 1 << 30

KEY = "transports"


def wanted(options: Mapping[str, object], knowledge: Mapping[str, object]) -> Transport:
    """The transport to open lanes with; where the servers refuse it, TCP is used."""
    return UDT if options.get("perf_udt") else choose(knowledge)


def choose(knowledge: Mapping[str, object]) -> Transport:
    """The best measured transport, if the measurement is recent, and clearly better than TCP."""
    rates = _fresh(knowledge)
    tcp = rates.get(TCP)
    best = max(rates, key=lambda one: rates[one], default=TCP)
    return best if tcp is not None and rates[best] >= BETTER * tcp else TCP


def learned(knowledge: Mapping[str, object], used: Transport, run: SliceMeasurement) -> dict[str, object]:
    """The knowledge about transports after this run; of the last tasks only."""
    rates = _measured(knowledge)
    if run.whole and run.seconds > 0 and run.bytes >= max(MIN_OCTETS, MIN_AVERAGE * run.files) and not run.faults:
        rates.pop(used, None)
        rates[used] = (run.bytes / run.seconds, _task(knowledge))
    kept = list(rates.items())[-MOST:]
    return {KEY: {_name(one): [round(rate), task] for one, (rate, task) in kept}} if kept else {}


def _fresh(knowledge: Mapping[str, object]) -> dict[Transport, float]:
    now = _task(knowledge)
    return {one: rate for one, (rate, task) in _measured(knowledge).items() if 0 < now - task <= TASKS}


def _measured(knowledge: Mapping[str, object]) -> dict[Transport, tuple[float, int]]:
    """Octets a second, and the number of the task that measured them."""
    rows = knowledge.get(KEY)
    found: dict[Transport, tuple[float, int]] = {}
    for name, row in rows.items() if isinstance(rows, Mapping) else ():
        transport = _parse(name)
        if transport is not None and isinstance(row, list) and len(row) == 2 and all(map(_counts, row)):
            found[transport] = (row[0], row[1])
    return found


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**15


def _task(knowledge: Mapping[str, object]) -> int:
    """The number of this task between its endpoints, from 1; `Experience` counts them."""
    tasks = knowledge.get("tasks")
    return 1 + tasks if isinstance(tasks, int) and _counts(tasks) else 1


def _name(transport: Transport) -> str:
    if transport.udt:
        return "udt"
    return "tcp" if transport.buffer is None else f"tcp:{transport.buffer}"


def _parse(name: object) -> Transport | None:
    if name == "udt":
        return UDT
    word, _, buffer = str(name).partition(":")
    if word != "tcp":
        return None
    if not buffer:
        return TCP
    return Transport(buffer=int(buffer)) if buffer.isdecimal() and 0 < int(buffer) <= MAX_BUFFER else None
