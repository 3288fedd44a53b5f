"""An upgrade without a pause: two versions of the service on one schema, and the command that changes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psycopg2
import pytest

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from tests import newer_version
from tests.integration.deploy.two_versions import SECONDS, Site, site_with
from tests.newer_version import CONTRACTION, EXPANSION
from tests.waiting import eventually
from transferapi.config import CHECKOUT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(240 + 2 * SECONDS)]


@pytest.fixture(scope="module")
def site(postgres: Postgres, redis_server: Redis, django_db_modify_db_settings: None) -> Iterator[Site]:
    with site_with(postgres, redis_server, "upgrades", newer_version.make) as found:
        yield found


@pytest.fixture(scope="module")
def cast(site: Site) -> Site:
    site.add_cast()
    return site


def test_a_migration_that_finds_a_table_in_use_gives_way_to_the_service(site: Site) -> None:
    """While it waits for a lock, a reader behind it waits for at most its time limit; then it is tried again."""
    blocking = psycopg2.connect(site.postgres.url(site.database))
    with blocking.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM tasks_task")
        process = subprocess.Popen(
            [sys.executable, "-m", "deploy.cli", "upgrade"],
            env=site.environ,
            cwd=site.other,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tasks_task'::regclass"
        eventually(lambda: site.ask(waits)[0])
        # It has given up its place in the queue: others read and write.
        eventually(lambda: not site.ask(waits)[0])
        site.ask("SELECT count(*) FROM tasks_task")
        assert process.poll() is None
    blocking.close()
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "a table is in use (attempt 1 of" in said
    assert f"{EXPANSION}: done" in said
    assert "1 contractions are left" in said


def test_two_versions_work_on_one_schema(cast: Site) -> None:
    """The expansion is done; a web server and a worker of each version do real transfers."""
    site = cast
    old, end_old = site.web(CHECKOUT, "old-web")
    new, _ = site.web(site.other, "new-web")
    end_worker = site.worker(CHECKOUT, "old-worker")
    site.worker(site.other, "new-worker")
    site.transfer_for(SECONDS, [old, new], ["old-worker", "new-worker"])
    written = site.ask("SELECT array_agg(DISTINCT tomorrow ORDER BY tomorrow) FROM tasks_task")
    assert written == (["later", "sooner"],)
    eventually(lambda: (site.reported("web"), site.reported("worker")) == (2, 2))
    for name in ("old-web", "old-worker"):
        assert f"the migration {EXPANSION} of a newer version, an expansion" in site.logs[name].read_text()

    refused = site.upgrade("--contract")
    assert refused.returncode == 1
    assert "older processes run: web " in refused.stderr
    end_old()
    end_worker()
    site.ask("UPDATE tasks_serviceprocess SET seen_at = seen_at - interval '1 hour'")
    site.ask("UPDATE tasks_workerprocess SET seen_at = seen_at - interval '1 hour'")


def test_after_the_contraction_the_older_version_does_not_start(site: Site) -> None:
    shown = site.upgrade("--check", "--contract")
    assert (shown.returncode, f"{CONTRACTION}: contraction" in shown.stdout) == (0, True), shown
    done = site.upgrade("--contract")
    assert (done.returncode, f"{CONTRACTION}: done" in done.stdout) == (0, True), done
    again = site.upgrade("--check")
    assert (again.returncode, "Nothing to do" in again.stdout) == (0, True), again
    old = site.run(CHECKOUT, "-m", "deploy.cli", "token", "alice")
    assert old.returncode == 1
    assert f"the database has the migration {CONTRACTION}, which this version does not know" in old.stderr


def test_the_newer_version_works_before_and_after_the_contraction(cast: Site) -> None:
    """Its processes ran before it, and go on."""
    site = cast
    removed = site.ask("SELECT count(*) FROM information_schema.columns WHERE column_name = 'trace_context'")
    assert removed == (0,)
    site.transfer_for(0.0, [site.api("new-web")], ["new-worker"])
