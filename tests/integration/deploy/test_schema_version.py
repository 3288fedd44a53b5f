"""Programs of one version on the schema of another: they do not start, and say which migration it is about."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import IntegrityError, connection
from django.db.migrations.recorder import MigrationRecorder

from deploy.commands.run import ROLES
from deploy.stack.free_ports import free_port
from deploy.stack.redis import Redis
from endpoints import registry
from endpoints.errors import ENDPOINT_EXISTS
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.rest import Api
from tests.refusals import raises_refusal
from transferapi import schema_version
from transferapi.config import CHECKOUT, load

OURS, FOREIGN = ("tasks", "0013_rounds"), ("tasks", "9999_of_tomorrow")


@contextmanager
def an_older_schema() -> Iterator[None]:
    """Remove the record of a migration, so that the schema seems to be older."""
    rows = MigrationRecorder.Migration.objects.filter(app=OURS[0], name=OURS[1])
    applied = rows.get().applied
    rows.delete()
    yield
    MigrationRecorder.Migration.objects.create(app=OURS[0], name=OURS[1], applied=applied)


@contextmanager
def a_newer_schema() -> Iterator[None]:
    row = MigrationRecorder.Migration.objects.create(app=FOREIGN[0], name=FOREIGN[1])
    yield
    row.delete()


@pytest.mark.django_db
def test_the_schema_of_this_version_is_accepted_and_any_other_is_named() -> None:
    schema_version.check()
    with (
        an_older_schema(),
        pytest.raises(schema_version.WrongSchemaError, match=r"lacks .*tasks\.0013.*waybill run migrate"),
    ):
        schema_version.check()
    with a_newer_schema(), pytest.raises(schema_version.WrongSchemaError, match=r"has .*tasks\.9999.*newer version"):
        schema_version.check()
    schema_version.check()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("role", ["shell", "relay", "migrate"])
def test_the_roles_in_this_process_do_not_start_either(role: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A newer schema: migrations would change nothing of it."""
    with a_newer_schema(), pytest.raises(SystemExit) as ended:
        ROLES[role](load({}))
    assert ended.value.code == 78
    assert "waybill: the database has the migration tasks.9999_of_tomorrow" in capfd.readouterr().err


@pytest.mark.own_interpreter
@pytest.mark.timeout(120)
@pytest.mark.django_db(transaction=True)
def test_no_program_starts_on_another_schema(database_url: str, redis_server: Redis, tmp_path: Path) -> None:
    """The web server, a worker, and a command of the operator: all at one time, to save some."""
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_server.url(),
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_HOME": str(tmp_path),
        "WAYBILL_LOG_LEVEL": "ERROR",
    }
    given["WAYBILL_PORT"] = str(free_port())
    programs = (
        (78, ["deploy.cli", "run", "web"]),
        (78, ["deploy.cli", "run", "worker"]),
        (1, ["deploy.cli", "token", "nobody"]),
    )

    def run(words: list[str]) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", *words]
        return subprocess.run(
            argv,
            env=given,
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=90,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    with an_older_schema(), ThreadPoolExecutor() as pool:
        ended = list(pool.map(run, [words for _, words in programs]))
    for (status, words), end in zip(programs, ended, strict=True):
        assert end.returncode == status, (words, end.stdout, end.stderr)
        assert f"waybill: the database lacks the migration {'.'.join(OURS)}, " in end.stderr
        assert "Traceback" not in end.stderr


# ---- "exists" is said of what exists


@pytest.mark.django_db
def test_only_the_constraint_that_is_meant_says_that_something_exists(alice: User, ep1: Endpoint) -> None:
    """A newer schema has a column that this version does not fill."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE endpoints_endpoint ADD COLUMN tomorrow text NOT NULL DEFAULT 'x'")
        cursor.execute("ALTER TABLE endpoints_endpoint ALTER COLUMN tomorrow DROP DEFAULT")
    with pytest.raises(IntegrityError, match="tomorrow"):
        registry.create(alice, {"name": "new"})
    answer = Api(alice).post("/endpoint", {"DATA_TYPE": "endpoint", "name": "new", "DATA": []})
    assert answer.status == 500
    assert "Exists" not in answer.body["code"]
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE endpoints_endpoint DROP COLUMN tomorrow")
    with raises_refusal(ENDPOINT_EXISTS):
        registry.create(alice, {"name": "ep1"})
