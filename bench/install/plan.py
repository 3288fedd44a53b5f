"""The order in which somebody who follows the pages runs their commands, and what is done by hand between them."""

from __future__ import annotations

from dataclasses import dataclass

#: The hosts and their names; the last octet of the address follows the order.
HOSTS = {
    "database": "db.example.org",
    "web": "data.example.org",
    "worker": "worker.example.org",
    "single": "single.example.org",
}


@dataclass(frozen=True)
class Run:
    """A block of a page, on one host. newer: with the package of the newer version."""

    page: str
    block: str
    host: str
    newer: bool = False


@dataclass(frozen=True)
class Act:
    """A deed of a person, such as the copy of a file, or a check of the rehearsal: a method of `Deeds`."""

    name: str
    words: str


PLAN: tuple[Run | Act, ...] = (
    Run("external-servers", "postgresql", "database"),
    Run("external-servers", "redis", "database"),
    Act("carry_addresses", "the two addresses are copied to the web host"),
    Run("several-hosts", "package", "web"),
    Run("install", "keys", "web"),
    Run("several-hosts", "settings", "web"),
    Run("several-hosts", "units", "web"),
    Run("front-servers", "nginx", "web"),
    Run("several-hosts", "archive", "web"),
    Act("carry_settings", "the archive is copied to the worker"),
    Run("several-hosts", "worker", "worker"),
    Run("several-hosts", "whole", "web"),
    Run("install", "first-user", "web"),
    Act("confined", "each process runs without capabilities, behind its filter of system calls"),
    Act("late_database", "PostgreSQL answers 45 s after the start of the units: all of them run then"),
    Run("metrics", "metrics", "web"),
    Act("transfer", "a transfer through https between two GridFTP servers, compared by hash"),
    Act("unfinished", "a transfer to a server that is away"),
    Run("backup", "backup", "web"),
    Run("backup", "stop", "worker"),
    Run("backup", "stop", "web"),
    Act("stopped", "each unit ended by itself within its time"),
    Run("backup", "empty", "database"),
    Run("backup", "restore", "web"),
    Run("backup", "start", "web"),
    Run("backup", "start", "worker"),
    Act("still_held", "the unfinished transfer is held, and does not start"),
    Run("backup", "release", "web"),
    Act("finished", "its server is back: it ends, compared by hash"),
    Run("upgrade", "backup", "web"),
    Act("begin_large", "a transfer of large files begins"),
    Run("upgrade", "package", "worker", newer=True),
    Run("upgrade", "package", "web", newer=True),
    Run("upgrade", "contract", "web"),
    Act("newer", "all processes are of the newer version"),
    Act("end_large", "the transfer ends, compared by hash"),
    Run("install", "package", "single"),
    Run("install", "servers", "single"),
    Run("install", "keys", "single"),
    Run("install", "units", "single"),
    Run("front-servers", "nginx", "single"),
    Run("install", "first-user", "single"),
    Run("metrics", "metrics", "single"),
    Run("backup", "nightly", "single"),
    Run("keys", "vault", "single"),
    Run("keys", "oidc", "single"),
    Act("rotated", "the new keys are in force, and the service starts with them"),
    Run("install", "upgrade", "single", newer=True),
    Act("healthy", "`waybill doctor` finds nothing to change in limits, versions, files and keys"),
)
