"""Figures of the whole service, from the database: for `/metrics`.

Each question reads an index, or at most MOST rows, and has EACH seconds, of SECONDS in all. One that fails is
left out, and the others are still asked.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from django.apps import apps
from django.db import DatabaseError, InterfaceError, transaction

from endpoints.gridftp.agent.tunnel.multiplexer import Ended
from endpoints.gridftp.agent.tunnel.sign_in import Refused
from endpoints.gridftp.faults import Kind
from identity.database_rows import execute, query_rows
from transferapi.tasks.endpoint_failures import KNOWN

from . import database_connections, last_backup, process_use
from .worker_reports import GONE_SECONDS

#: Seconds for all questions together, and for one.
SECONDS, EACH = 2.0, 0.7
#: Rows that one question reads: larger numbers are shown as this one.
MOST = 100_000
#: Seconds after which the agents of a relay that does not beat count as gone (`endpoints.connect.presence.LEASE`).
RELAY_SECONDS = 4

#: The values of one metric, by the values of its labels.
Values = dict[tuple[str, ...], float]
#: Metrics by name, without the prefix of the service.
Figures = dict[str, Values]

#: Gauges that a worker reports of itself (`WorkerProcess.gauges`); they are added up over the workers.
OF_WORKERS = ("sessions_warm", "sessions_in_use", "slices_running", "streams_running")
#: Gauges that relays and shells report of themselves (`ServiceProcess.gauges`).
OF_SERVICES = ("relay_tunnels", "relay_pairs", "shell_sessions", "shell_strangers")
#: Tallies, with the number of their labels.
TALLIES: Mapping[str, int] = MappingProxyType(
    {
        "files": 2,
        "bytes": 2,
        "faults": 1,
        "agent_sign_ins": 1,
        "relay_refused": 1,
        "shell_sign_ins": 1,
        "shell_commands": 2,
        "retries": 0,
        "relay_connections": 0,
        "relay_bytes": 0,
        "shell_refused": 0,
        "takeovers": 0,
        "slices": 0,
        "spans_exported": 0,
        "spans_dropped": 0,
        "mails_given_up": 0,
        "mail_failures": 1,
        "processor_milliseconds": 1,
    }
)
#: Values of labels that are shown with 0 from the start: an `increase` over a series that begins with 1 is 0.
FROM_THE_START: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "faults": tuple(kind.value for kind in Kind),
        "agent_sign_ins": (
            "accepted", Refused.BUSY, Refused.CLONED, Refused.EXPIRED, Refused.FOREIGN, Refused.REVOKED,
            Refused.UNKNOWN,
        ),
        "relay_refused": (
            Ended.AWAY, Ended.BUSY, Ended.CLOSED, Ended.EXPIRED, Ended.FAILED, Ended.FORBIDDEN, Ended.IDLE,
        ),
        "shell_sign_ins": ("accepted", "crowded", "refused"),
        "mail_failures": ("connection", "other", "recipient", "refused", "sign_in", "tls"),
    }
)  # fmt: skip
#: Folders of which each process reports the free space of its host: the least of all is shown.
OF_FOLDERS = tuple(process_use.FOLDERS)


def read() -> tuple[Figures, dict[str, bool]]:
    """The figures, and which questions were answered. Raises nothing of the database."""
    figures: Figures = {}
    answered: dict[str, bool] = {}
    until = time.monotonic() + SECONDS
    for name, question in QUESTIONS.items():
        left = until - time.monotonic()
        answered[name] = left > 0.01 and _ask(question, min(left, EACH), figures)
    return figures, answered


def _ask(question: Callable[[], Figures], seconds: float, figures: Figures) -> bool:
    try:
        with transaction.atomic():
            execute("SELECT set_config('statement_timeout', %s, true)", [f"{max(10, int(1000 * seconds))}"])
            figures |= question()
    except (DatabaseError, InterfaceError):
        return False
    return True


def _tasks() -> Figures:
    rows = query_rows(
        """SELECT type, phase, count(*), extract(epoch FROM clock_timestamp() - min(next_run_at)) FROM (
            SELECT type, phase, next_run_at FROM tasks_task WHERE NOT phase = 'done' LIMIT %s) task GROUP BY 1, 2""",
        [MOST],
    )
    late = [float(age) for _, phase, _, age in rows if phase == "queued"]
    return {
        "tasks": {(type_.lower(), phase): float(number) for type_, phase, number, _ in rows},
        # A task that waits for its next attempt is due later, and so is not late.
        "oldest_queued_seconds": {(): max([0.0, *late])},
    }


def _ended() -> Figures:
    rows = query_rows(
        """SELECT type, status, count(*) FROM (SELECT type, status FROM tasks_task WHERE phase = 'done'
            AND NOT history_deleted AND completion_time > now() - interval '1 hour' LIMIT %s) task GROUP BY 1, 2""",
        [MOST],
    )
    return {"tasks_ended_last_hour": {(type_.lower(), status.lower()): float(number) for type_, status, number in rows}}


def _leases() -> Figures:
    [(held, expired)] = query_rows(
        """SELECT count(*) FILTER (WHERE expires_at > clock_timestamp()),
            count(*) FILTER (WHERE expires_at <= clock_timestamp())
            FROM (SELECT expires_at FROM tasks_lease WHERE NOT worker = '' LIMIT %s) lease""",
        [MOST],
    )
    return {"leases_held": {(): float(held)}, "leases_expired": {(): float(expired)}}


def _tallies() -> Figures:
    figures: Figures = {name: {} if labels else {(): 0.0} for name, labels in TALLIES.items()}
    for name, words in FROM_THE_START.items():
        figures[name] |= {(word,): 0.0 for word in words}
    for key, value in query_rows("SELECT key, value FROM tasks_tally ORDER BY key LIMIT 5000"):
        name, *labels = key.split(" ")
        # Another version may count something else.
        if TALLIES.get(name) == len(labels):
            figures[name][tuple(labels)] = float(value)
    # Seconds are what the field counts; a tally has whole numbers.
    milliseconds = figures.pop("processor_milliseconds")
    return {**figures, "processor_seconds": {labels: value / 1000 for labels, value in milliseconds.items()}}


def _rounds() -> Figures:
    # Those of a job that no worker has any more are deleted by the workers (`rounds.forget_abandoned`).
    rows = query_rows(
        "SELECT name, extract(epoch FROM clock_timestamp() - next_at) FROM tasks_round WHERE isfinite(next_at)"
    )
    return {"round_overdue_seconds": {(name,): max(0.0, float(late)) for name, late in rows}}


def _workers() -> Figures:
    rows = query_rows(
        """SELECT gauges FROM tasks_workerprocess
            WHERE seen_at > clock_timestamp() - make_interval(secs => %s) LIMIT 10000""",
        [GONE_SECONDS],
    )
    return {"workers": {(): float(len(rows))}, **_sums((gauges for (gauges,) in rows), OF_WORKERS)}


def _services() -> Figures:
    rows = query_rows(
        """SELECT kind, gauges FROM tasks_serviceprocess
            WHERE kind IN ('relay', 'shell') AND seen_at > clock_timestamp() - make_interval(secs => %s) LIMIT 10000""",
        [GONE_SECONDS],
    )
    running = Counter(kind for kind, _ in rows)
    return {
        "relays": {(): float(running["relay"])},
        "shells": {(): float(running["shell"])},
        **_sums((gauges for _, gauges in rows), OF_SERVICES),
    }


def _processes() -> Figures:
    """Memory and connections by role, and the least free space of all hosts."""
    rows = query_rows(
        """SELECT kind, gauges FROM tasks_serviceprocess
            WHERE seen_at > clock_timestamp() - make_interval(secs => %s) LIMIT 10000""",
        [GONE_SECONDS],
    )
    number, memory, connections = (Counter[tuple[str, ...]]() for _ in range(3))
    free: Values = {}
    for kind, gauges in rows:
        found = _numbers(gauges, ("memory", "connections", *(f"free_{name}" for name in OF_FOLDERS)))
        number[(kind,)] += 1
        memory[(kind,)] += found.get("memory", 0)
        connections[(kind,)] += found.get("connections", 0)
        for name in OF_FOLDERS:
            if (octets := found.get(f"free_{name}")) is not None:
                free[(name,)] = min(free.get((name,), float(octets)), float(octets))
    return {
        "processes": _floats(number),
        "memory_bytes": _floats(memory),
        "database_connections": _floats(connections),
        "disk_free_bytes": free,
    }


def _floats(counts: Counter[tuple[str, ...]]) -> Values:
    return {labels: float(value) for labels, value in counts.items()}


def _failing() -> Figures:
    rows = query_rows(
        "SELECT count(*) FROM tasks_endpointfailure WHERE seen_at > clock_timestamp() - make_interval(secs => %s)",
        [KNOWN.total_seconds()],
    )
    return {"endpoints_failing": {(): float(rows[0][0])}}


def _sums(reports: Iterable[Any], names: Collection[str]) -> Figures:
    """The gauges of all processes, added up."""
    total: Counter[str] = Counter()
    for gauges in reports:
        total.update(_numbers(gauges, names))
    return {name: {(): float(total[name])} for name in names}


def _numbers(gauges: Any, names: Collection[str]) -> dict[str, int]:
    """The report of a process; nothing where it is of a version that reports none."""
    found = json.loads(gauges) if isinstance(gauges, str) else gauges
    return {name: found[name] for name in names if type(found.get(name)) is int} if isinstance(found, dict) else {}


def _backlog(name: str, table: str, column: str) -> Callable[[], Figures]:
    sql = f"""SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(made)), 0) FROM (
        SELECT {column} AS made FROM {table} WHERE next_try_at IS NOT NULL ORDER BY next_try_at LIMIT %s) waiting"""  # noqa: S608 - words of this module

    def ask() -> Figures:
        [(number, age)] = query_rows(sql, [MOST])
        return {f"{name}_waiting": {(): float(number)}, f"{name}_oldest_seconds": {(): max(0.0, float(age))}}

    return ask


def _credentials() -> Figures:
    [(day, week)] = query_rows(
        """SELECT count(*) FILTER (WHERE expires_at < now() + interval '1 day'), count(*) FROM (
            SELECT expires_at FROM identity_credential
            WHERE expires_at BETWEEN now() AND now() + interval '7 days' LIMIT %s) credential""",
        [MOST],
    )
    return {"credentials_expiring": {("1d",): float(day), ("7d",): float(week)}}


def _agents() -> Figures:
    [(number,)] = query_rows(
        """SELECT count(*) FROM endpoints_agent agent JOIN endpoints_relayprocess relay ON relay.address = agent.relay
            WHERE NOT agent.relay = '' AND relay.heartbeat_at > clock_timestamp() - make_interval(secs => %s)""",
        [RELAY_SECONDS],
    )
    return {"agents_connected": {(): float(number)}}


def _sign_ins() -> Figures:
    [(signed_in, refused)] = query_rows(
        """SELECT count(*) FILTER (WHERE what = 'signed_in'), count(*) FILTER (WHERE what = 'sign_in_refused') FROM (
            SELECT what FROM identity_auditevent WHERE at > now() - interval '1 hour' ORDER BY at DESC LIMIT %s) act""",
        [MOST],
    )
    return {"sign_ins_last_hour": {("accepted",): float(signed_in), ("refused",): float(refused)}}


def _connections() -> Figures:
    use, needed = database_connections.read()
    return {
        "database_connections_allowed": {(): float(use.allowed)},
        "database_connections_used": {(): float(use.used)},
        "database_connections_needed": {(): float(needed)},
    }


def _sizes() -> Figures:
    """Octets of the database and of each table of this service, with its indexes; rows that VACUUM has yet to clear."""
    tables = [model._meta.db_table for model in apps.get_models(include_auto_created=True)]
    rows = query_rows(
        """SELECT s.relname, pg_total_relation_size(s.relid), s.n_dead_tup FROM pg_stat_user_tables s
            WHERE s.schemaname = current_schema() AND s.relname = ANY(%s)""",
        [tables],
    )
    [(octets,)] = query_rows("SELECT pg_database_size(current_database())")
    return {
        "database_bytes": {(): float(octets)},
        "table_bytes": {(name,): float(size) for name, size, _ in rows},
        "table_dead_rows": {(name,): float(dead) for name, _, dead in rows},
    }


def _backup() -> Figures:
    return {"backup_age_seconds": {(): last_backup.age()}}


QUESTIONS: Mapping[str, Callable[[], Figures]] = MappingProxyType({
    "tasks": _tasks,
    "leases": _leases,
    "rounds": _rounds,
    "workers": _workers,
    "services": _services,
    "tallies": _tallies,
    "mails": _backlog("mails", "tasks_mail", "created_at"),
    "webhooks": _backlog("webhooks", "tasks_delivery", "made_at"),
    "credentials": _credentials,
    "agents": _agents,
    "ended": _ended,
    "sign_ins": _sign_ins,
    "backup": _backup,
    "connections": _connections,
    "processes": _processes,
    "endpoints": _failing,
    "sizes": _sizes,
})  # fmt: skip
