"""Run the migrations of one kind, after a look at who still runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from django.core.management.sql import emit_post_migrate_signal
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.migrations.migration import Migration

from deploy.stack.errors import PassingError, StackError
from deploy.stack.roles import MIGRATING
from transferapi.outages.database import is_outage
from transferapi.schema_migration import BoundedExecutor, LockedError
from transferapi.schema_version import CONTRACT, EXPAND, Key
from transferapi.tasks.upkeep import service_processes
from transferapi.tasks.upkeep.service_processes import Process
from transferapi.tasks.upkeep.worker_reports import GONE_SECONDS

from .plan import Step, UpgradePlan


def processes() -> list[Process]:
    """The processes that run, as far as the schema knows them."""
    query = "SELECT name FROM unnest(%s::text[]) AS names (name) WHERE to_regclass(name) IS NOT NULL"
    with connection.cursor() as cursor:
        cursor.execute(query, [list(service_processes.TABLES)])
        return service_processes.alive([name for (name,) in cursor.fetchall()])


def older(found: Sequence[Process], migrations: Collection[str]) -> list[Process]:
    """The processes whose code lacks one of these migrations."""
    return [one for one in found if one.lacks(migrations)]


def may_run(plan: UpgradePlan, running: Sequence[Process], *, contract: bool) -> str:
    """Return "" where all migrations of this kind may run now; else a sentence on what must be done before."""
    if plan.fresh:
        return ""
    if plan.unjudged:
        return _needs_pause(plan.unjudged[0], running)
    return _needs_other_kind(plan, contract=contract) or (_needs_newer_processes(plan, running) if contract else "")


def _needs_pause(step: Step, running: Sequence[Process]) -> str:
    names = ", ".join(one.name for one in running)
    return f"{step.name} needs a pause: stop every process ({names})" if running else ""


def _needs_other_kind(plan: UpgradePlan, *, contract: bool) -> str:
    waiting = [step for step in plan.of(CONTRACT if contract else EXPAND) if step.after is not None]
    if not waiting:
        return ""
    words = "" if contract else " --contract"
    name = ".".join(waiting[0].after or ())
    return f"{waiting[0].name} needs {name} before it: run `waybill upgrade{words}`"


def _needs_newer_processes(plan: UpgradePlan, running: Sequence[Process]) -> str:
    left = older(running, [step.name for step in plan.contractions])
    if not left or not plan.contractions:
        return ""
    names = ", ".join(f"{one.kind} {one.name} of version {one.version}" for one in left)
    return f"older processes run: {names}. Stop them; one that was killed counts for {GONE_SECONDS:.0f} s"


def chosen(plan: UpgradePlan, running: Sequence[Process], *, contract: bool) -> list[Step]:
    """The migrations that one run of the command runs."""
    if plan.fresh or (plan.unjudged and not running):
        return plan.steps
    return plan.contractions if contract else plan.expansions


def run(steps: Sequence[Step]) -> None:
    """Run these migrations, in order. Raises StackError, and PassingError where another try may succeed.

    Migrations that were done stay done.
    """
    executor = BoundedExecutor(connection)
    wanted = {step.key for step in steps}
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    plan = [(one, backwards) for one, backwards in pending if _key(one) in wanted]
    if not plan:
        return
    try:
        executor.recorder.ensure_schema()
        executor.migrate([_key(one) for one, _ in plan], plan=plan)
        emit_post_migrate_signal(verbosity=0, interactive=False, db=connection.alias, plan=plan)
    except LockedError as error:
        raise PassingError(str(error)) from None
    except (OperationalError, InterfaceError) as error:
        if is_outage(error.__cause__ or error):
            # The text may hold the address of the database, with its password.
            raise PassingError("the connection to the database was lost during a migration, which was undone") from None
        raise StackError(_undone(error)) from None
    except DatabaseError as error:
        raise StackError(_undone(error)) from None


def _undone(error: DatabaseError | InterfaceError) -> str:
    return f"a migration failed, and was undone: {str(error).strip()}"


def _key(migration: Migration) -> Key:
    return migration.app_label, migration.name


@contextmanager
def alone() -> Iterator[None]:
    """Raises StackError where another upgrade is under way."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [MIGRATING])
        if not cursor.fetchone()[0]:
            raise StackError("another upgrade is under way")
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATING])
