"""All metrics of `/metrics`: the exposition, docs/operate/metrics.md and the tests read this table.

Labels have words of the code as values (states, schemes, kinds of faults, routes); never text of a user or a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "waybill_"


class Type(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """key: the name in the code. The name of a counter gets `_total`, as Prometheus wants it."""

    key: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.key}{'_total' if self.type is Type.COUNTER else ''}"


_G, _C = Type.GAUGE, Type.COUNTER
#: Read from the database, by `transferapi.tasks.upkeep.figures`.
OF_DATABASE = (
    Family("tasks", _G, "Tasks that have not ended, at most 100,000 in all.", ("type", "phase")),
    Family("oldest_queued_seconds", _G, "How long the task that has waited longest for its turn has been due."),
    Family("tasks_ended_last_hour", _G, "Tasks that ended in the last hour.", ("type", "status")),
    Family("leases_held", _G, "Tasks that a worker holds."),
    Family("leases_expired", _G, "Tasks whose worker was lost, and that no other one has taken yet."),
    Family("takeovers", _C, "Tasks that were taken from a lost worker."),
    Family("slices", _C, "Turns of tasks that workers have begun."),
    Family("files", _C, "Files that have arrived or were deleted.", ("source", "destination")),
    Family("bytes", _C, "Octets that have arrived.", ("source", "destination")),
    Family("faults", _C, "Faults of files, scans and endpoints.", ("kind",)),
    Family("retries", _C, "Faults after which the work is tried again."),
    Family("spans_exported", _C, "Spans of traces that the collector has taken, of all processes."),
    Family("spans_dropped", _C, "Spans that were dropped: the collector was away, too slow, or refused them."),
    Family("relays", _G, "Relays that have reported in the last 20 s."),
    Family("relay_tunnels", _G, "Tunnels of agents that all relays hold, as they say themselves."),
    Family("relay_pairs", _G, "Data connections that relays pass on now."),
    Family("relay_connections", _C, "Data connections that relays have joined."),
    Family("relay_bytes", _C, "Octets that relays have passed on, in both directions."),
    Family("relay_refused", _C, "Data connections that relays have refused.", ("reason",)),
    Family("agent_sign_ins", _C, "Sign-ins of agents: accepted, or the code of the refusal.", ("result",)),
    Family("shells", _G, "ssh servers that have reported in the last 20 s."),
    Family("shell_sessions", _G, "ssh connections that have signed in."),
    Family("shell_strangers", _G, "ssh connections that have not signed in yet."),
    Family("shell_refused", _C, "ssh connections that were closed unread: a limit of their network was reached."),
    Family("shell_sign_ins", _C, "Sign-ins by ssh: accepted, crowded (a limit), or attempts refused.", ("result",)),
    Family("shell_commands", _C, "Commands that were run, by ssh or https.", ("command", "result")),
    Family("round_overdue_seconds", _G, "How late a periodic job of the workers is.", ("round",)),
    Family("workers", _G, "Workers that have reported in the last 20 s."),
    Family("sessions_warm", _G, "Idle sessions of all workers with servers."),
    Family("sessions_in_use", _G, "Sessions of all workers that are in use or being opened."),
    Family("slices_running", _G, "Tasks that workers work on now, as they say themselves."),
    Family("streams_running", _G, "Files that workers themselves stream now."),
    Family("mails_waiting", _G, "Mails that are to be sent."),
    Family("mails_oldest_seconds", _G, "Age of the oldest of them."),
    Family("mails_given_up", _C, "Mails that were given up after three days."),
    Family("mail_failures", _C, "Mails that the mail server did not take when they were tried.", ("reason",)),
    Family("webhooks_waiting", _G, "Messages to webhooks that are to be sent."),
    Family("webhooks_oldest_seconds", _G, "Age of the oldest of them."),
    Family("credentials_expiring", _G, "Credentials of users that expire within this time.", ("within",)),
    Family("agents_connected", _G, "Agents with a tunnel to a relay that runs."),
    Family("sign_ins_last_hour", _G, "Sign-ins of the last hour, at most 100,000 in all.", ("result",)),
    Family("database_connections_allowed", _G, "Connections that PostgreSQL allows: the tightest of its limits."),
    Family("database_connections_used", _G, "Connections that count against this limit."),
    Family("database_connections_needed", _G, "Connections that all running processes may have at one time."),
    Family("database_bytes", _G, "Octets of the database on its disk."),
    Family("table_bytes", _G, "Octets of a table of this service, with its indexes.", ("table",)),
    Family("table_dead_rows", _G, "Rows of a table whose place VACUUM has yet to make free.", ("table",)),
    Family("processes", _G, "Processes that have reported in the last 20 s.", ("role",)),
    Family("processor_seconds", _C, "Seconds of processor time that the processes have used.", ("role",)),
    Family("memory_bytes", _G, "Resident memory of the processes, what they share included.", ("role",)),
    Family("database_connections", _G, "Connections of the processes to PostgreSQL.", ("role",)),
    Family("disk_free_bytes", _G, "Free space, the least of all hosts: WAYBILL_HOME, temporary files.", ("folder",)),
    Family("endpoints_failing", _G, "Endpoints that tasks could not use when they last tried."),
    Family("backup_age_seconds", _G, "Time since the last `waybill backup` or `nightly-backup`; +Inf: there was none."),
)
#: Of the scrape itself.
OF_SCRAPE = (
    Family("database_answers", _G, "1: the database answered; 0: all metrics from it are missing."),
    Family("redis_answers", _G, "1: Redis answered this web server; 0: it did not, and tasks start later."),
    Family("question_answered", _G, "0: this group of metrics from the database is missing.", ("question",)),
)
#: Counted by the web processes of this host, and added up.
OF_WEB = (
    Family("web_processes", _G, "Processes of this web server."),
    Family("requests_in_progress", _G, "Requests that threads of this web server have now."),
    Family("request_seconds", Type.HISTOGRAM, "Seconds from the head of a request to its answer.", ("route", "status")),
    Family("requests_refused_early", _C, "Requests that this web server refused by their head.", ("status",)),
    Family("database_statements", _C, "Statements that this web server sent to the database."),
    Family("database_statement_seconds", _C, "Seconds that it waited for them."),
    Family(
        "certificate_expires_seconds", _G, "Time to the end of WAYBILL_TLS_CERTIFICATE; missing where it is not set."
    ),
    Family(
        "front_certificate_expires_seconds",
        _G,
        "Time to the end of the certificate that the front server shows; missing where clients use no https.",
    ),
    Family("front_tls_answers", _G, "1: the front server answered with TLS; 0: not within 5 s."),
    Family("database_disk_full", _C, "Statements that PostgreSQL refused this web server because its disk is full."),
    Family("build_info", _G, "1, with the version of this web server and of its Python.", ("version", "python")),
    Family("redis_round_trips", _C, "Connections to Redis that this web server used for a command or a pipeline."),
)
FAMILIES = {one.key: one for one in (*OF_DATABASE, *OF_SCRAPE, *OF_WEB)}
