"""The growth of the tables and of Redis over a simulated year, on a PostgreSQL and a Redis of our own.

    .venv/bin/python -m bench.database.year [--days 360] [--every 3] [--users 4] [--kept 90] [--large 3]

The clock of this program, of PostgreSQL and of Redis is moved by a library (bench/drill/clock.c): no row is
back-dated, and what expires, expires by itself. Each step is `--every` days long. In each, people, programs and
strangers do what they do in a day (`bench.database.use`), by the functions and pages of the product; then the
periodic jobs of `workers.rounds.JOBS` run until they have nothing more to do. Of the sweep only the end of overdue
tasks is done, since no servers are here: what a worker writes for a task is written without a transfer.

`--kept` is WAYBILL_TASK_DAYS and WAYBILL_AUDIT_DAYS (0: for ever), so that a year shows whether a table stops growing.
VACUUM runs at every fifth step, since autovacuum waits for a minute of the real clock.

At month 1, the middle and the end: rows and octets of each table, rows that were dead before VACUUM, kinds of keys in
Redis with their octets and how many have no end, and the number of series in /metrics. Then what still grows: tables
and keys with over 15 % more rows, and more than 20, at the end than in the middle.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import redis

from bench.database import growth
from bench.table import machine
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis

if TYPE_CHECKING:
    from bench.database.use import Use

CLOCK = "DRILL_CLOCK"
DAY = 86400
#: A table grows where it has more rows than this part of those of the middle, and so many more at least.
PART, LEAST = 1.15, 20
#: Steps between two calls of VACUUM.
VACUUM = 5
#: Periodic jobs that need other machines: the sweep gives tasks to threads that would transfer.
WITHOUT = ("sweep",)


@dataclass
class Report:
    """The measurements of one time."""

    day: int
    tables: dict[str, growth.Table]
    keys: dict[str, growth.Keys]
    series: int
    dead: dict[str, int] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=360)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--users", type=int, default=4)
    parser.add_argument("--kept", type=int, default=90)
    parser.add_argument("--large", type=int, default=3)
    options = parser.parse_args()
    if CLOCK not in os.environ:
        sys.exit(_with_clock())
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        Path(folder).chmod(0o711)
        servers = (Postgres(Path(folder)), Redis(Path(folder)))
        for server in servers:
            server.start()
        try:
            _setup(servers[0].url(), servers[1].url(), options.kept)
            _run(options, servers[1].url())
        finally:
            for server in servers:
                server.stop()


def _with_clock() -> int:
    """Run this program again with a clock that can be moved; return its status."""
    with tempfile.TemporaryDirectory(prefix="waybill-clock-") as folder:
        Path(folder).chmod(0o755)
        library, offset = Path(folder, "clock.so"), Path(folder, "offset")
        source = Path(__file__).parents[1] / "drill" / "clock.c"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        offset.write_bytes(bytes(8))
        offset.chmod(0o644)
        environ = {**os.environ, "LD_PRELOAD": str(library), CLOCK: str(offset)}
        words = [sys.executable, "-m", "bench.database.year", *sys.argv[1:]]
        return subprocess.run(words, env=environ, check=False).returncode


def _move_to(seconds: float) -> None:
    """The clock is so many seconds ahead. The file is mapped by all programs, so it is written in place."""
    with Path(os.environ[CLOCK]).open("r+b", buffering=0) as file:
        file.write(int(seconds).to_bytes(8, "little"))


def _setup(database: str, server: str, kept: int) -> None:
    import django
    from django.core.management import call_command

    words = {
        "WAYBILL_SECRET_KEY": secrets.token_urlsafe(40), "WAYBILL_VAULT_KEY": _vault_key(), "DATABASE_URL": database,
        "REDIS_URL": server, "WAYBILL_LOG_LEVEL": "ERROR", "WAYBILL_SIGN_UP": "open",
        "WAYBILL_MAIL": "smtp://127.0.0.1:9", "WAYBILL_TASK_DAYS": str(kept), "WAYBILL_AUDIT_DAYS": str(kept),
        "WAYBILL_ALLOW_TARGETS": "127.0.0.0/8", "WAYBILL_ALLOW_WEBHOOKS": "127.0.0.0/8",
        "WAYBILL_PUBLIC_URL": "http://localhost",
    }  # fmt: skip
    os.environ.update(words, DJANGO_SETTINGS_MODULE="transferapi.settings")
    django.setup()
    from django.conf import settings

    # A hash of a password would take most of the time.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.ALLOWED_HOSTS = ["*"]
    call_command("migrate", verbosity=0)
    from django.db import connection

    with connection.cursor() as cursor:
        # The disk's speed does not matter here.
        cursor.execute("ALTER SYSTEM SET fsync = off")
        cursor.execute("SELECT pg_reload_conf()")


def _vault_key() -> str:
    from identity.vault.keys import new_key

    return new_key()


def _run(options: argparse.Namespace, url: str) -> None:
    from bench.database.use import Use

    place = machine()
    use, server, begun = Use(options.users), redis.Redis.from_url(url), time.monotonic()
    reports: list[Report] = []
    months = (30, options.days // 2, options.days)
    steps = range(0, options.days, options.every)
    large = {steps[number * len(steps) // max(1, options.large)] for number in range(options.large)}
    longest = 0
    for day in steps:
        _move_to(day * DAY)
        use.act(day)
        longest = max(longest, _jobs(use, server))
        if day in large:
            use.large_task()
            _jobs(use, server)
        today = day + options.every
        dead = {name: table.dead for name, table in growth.tables().items()} if today in months else {}
        if dead or day // options.every % VACUUM == 0:
            growth.vacuum()
        if today in months:
            _jobs(use, server)
            report = Report(today, growth.tables(), growth.keys(server), _series(), dead)
            reports.append(report)
            sys.stderr.write(f"day {today}: {time.monotonic() - begun:.0f} s\n")
    seconds = time.monotonic() - begun
    what = f"{place}, {options.days} days in steps of {options.every}, {options.users} users, in {seconds:.0f} s"
    _print(what, reports, options.kept, longest)


def _jobs(use: Use, server: redis.Redis) -> int:
    """Run the periodic jobs; return the number of messages of Celery that waited, which then a worker has taken."""
    from transferapi.tasks import moves
    from workers import webhook_sender
    from workers.rounds import JOBS

    moves.expire_overdue()
    for job in JOBS:
        if job.name not in WITHOUT:
            for step in job.steps:
                _until_nothing(step)
    ends_at = time.monotonic() + 5.0
    while webhook_sender._under_way.total() and time.monotonic() < ends_at:
        time.sleep(0.002)
    waiting = int(server.llen("celery"))
    server.delete("celery")
    return waiting


def _until_nothing(step: object) -> None:
    """A step that deletes a part is called again while it says that it has done something, as the next rounds do."""
    assert callable(step)
    for _ in range(50):
        done = step()
        if not (isinstance(done, int) and done > 0):
            return


def _series() -> int:
    from transferapi.rest.metrics import exposition

    return sum(1 for line in exposition.text(lambda _: True).splitlines() if not line.startswith(b"#"))


def _print(what: str, reports: list[Report], kept: int, longest: int) -> None:
    from django.db import connection

    out = sys.stdout.write
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        version = cursor.fetchone()[0]
    out(f"{what}, PostgreSQL {version}; tasks and audit log kept for {kept} days\n\n")
    days = " | ".join(f"day {one.day}: rows | kB | dead" for one in reports)
    out(f"| table | {days} |\n|---|{'---|' * 3 * len(reports)}\n")
    for name in sorted({name for one in reports for name in one.tables}):
        out(f"| {name} | {' | '.join(_of_table(one, name) for one in reports)} |\n")
    out(f"\n| keys in Redis | {' | '.join(f'day {one.day}: keys | kB | no TTL' for one in reports)} | longest |\n")
    out(f"|---|{'---|' * (3 * len(reports) + 1)}\n")
    for name in sorted({name for one in reports for name in one.keys}):
        longest_of = max(one.keys[name].longest for one in reports if name in one.keys)
        out(f"| {name} | {' | '.join(_of_keys(one, name) for one in reports)} | {longest_of} |\n")
    out(f"\nseries in /metrics: {', '.join(str(one.series) for one in reports)}\n")
    out(f"messages that waited for a worker, at most: {longest}\n")
    out(f"sequences of 32 bits and less: {growth.narrow_sequences() or 'none'}\n")
    out(f"still growing: {', '.join(_growing(reports)) or 'nothing'}\n")


def _of_table(report: Report, name: str) -> str:
    table = report.tables.get(name, growth.Table(0, 0, 0))
    return f"{table.rows} | {table.octets / 1000:.0f} | {report.dead.get(name, 0)}"


def _of_keys(report: Report, name: str) -> str:
    keys = report.keys.get(name, growth.Keys())
    return f"{keys.count} | {keys.octets / 1000:.1f} | {keys.endless}"


def _growing(reports: list[Report]) -> list[str]:
    middle, last = reports[-2], reports[-1]
    rows = {name: (middle.tables.get(name, growth.Table(0, 0, 0)).rows, one.rows) for name, one in last.tables.items()}
    keys = {name: (middle.keys.get(name, growth.Keys()).count, one.count) for name, one in last.keys.items()}
    return [name for name, (then, now) in sorted({**rows, **keys}.items()) if now > max(PART * then, then + LEAST)]


if __name__ == "__main__":
    main()
