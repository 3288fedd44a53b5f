"""The probes of `waybill doctor`, in the order of its report: one record each.

`servers` are the checks of `/readyz` (`transferapi.rest.health_checks.CHECKS`), and `ports` those of `waybill check`
(`deploy.doctor.programs.PROGRAMS`): each has its record there. A new probe is one more record here, and a function.
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from .findings import Check


class Probe(NamedTuple):
    """about: its errors and warnings, for docs/operate/doctor.md. place: MODULE:FUNCTION below `deploy.doctor`."""

    name: str
    place: str
    about: str

    def load(self) -> Check:
        """The function. Its modules are loaded by the command alone: they need Django."""
        return cast("Check", pkgutil.resolve_name(f"deploy.doctor.{self.place}"))


PROBES = (
    Probe(
        "settings",
        "settings:check",
        "a variable that is unknown, wrong (docs/operate/configuration.md) or missing; tracebacks or http where others "
        "can reach the service; in a container, a monitor that is Docker's gateway; Django's own checks of a "
        "deployment",
    ),
    Probe(
        "servers",
        "servers:check",
        "the checks of `/readyz`: PostgreSQL, the schema of this code, Redis, the sweep of the workers",
    ),
    Probe(
        "connections",
        "connections:check",
        "fewer connections allowed by PostgreSQL than the running processes may need; nearly all in use; a pooler in "
        "transaction mode before it",
    ),
    Probe(
        "clock",
        "servers:clock",
        "clocks of this machine, PostgreSQL and Redis that differ by more than 1 s (warning) or 5 s (error); workers "
        "of any machine that take no task because their clock differs from PostgreSQL's by more than 5 s",
    ),
    Probe(
        "keys",
        "keys:check",
        "credentials that no vault key opens, or an older one; old keys; the certificate of the web server: expired, "
        "soon to expire, another name, another key; the certificate that the front server shows: the same, or none; "
        "certificates of federations; the authority of agents",
    ),
    Probe("files", "files:check", "a file with a secret that other accounts can read, change or replace"),
    Probe(
        "names",
        "names:check",
        "a host of the settings without an address: our own, of mail, providers, MyProxy servers, federations, OAuth "
        "servers, the relay",
    ),
    Probe(
        "ports",
        "ports:check",
        "the public address (`/healthz` by way of the front server); the web server, a worker, the ssh shell and the "
        "relay of this machine",
    ),
    Probe("mail", "mail:check", "connection, TLS and sign-in at the mail server, as the workers make them"),
    Probe("traces", "traces:check", "whether the collector of `WAYBILL_TRACES` takes an empty message"),
    Probe(
        "authorities",
        "authorities:check",
        "trusted authorities that have expired, are unreadable or have no signing policy; revocation lists that are "
        "out of date",
    ),
    Probe(
        "disk",
        "disk:check",
        "less than 2 GiB (warning) or 200 MiB (error) free for the database, logs or temporary files; inodes; the size "
        "of the database, of its largest tables and of Redis; keys in Redis that never end",
    ),
    Probe("limits", "limits:check", "too few open files or threads for many sessions; core files"),
    Probe(
        "versions",
        "versions:check",
        "Python, PostgreSQL or Redis too old; libraries that are not those of the lock file. An installation of the "
        "wheel alone has no lock file, and says that nothing was compared",
    ),
)
