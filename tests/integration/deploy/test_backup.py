"""`waybill backup` and `waybill restore` on a home with a PostgreSQL of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg2
import pytest

from deploy.backup import archive
from deploy.commands.backup import wait_until_stopped
from deploy.stack.home import Home
from deploy.stack.postgres import Postgres
from tests.database import first_row
from tests.waiting import children_of, eventually

pytestmark = pytest.mark.timeout(240)

#: A user with a credential, a session, a token and a timer, and a task that a worker has.
FILL = """
import datetime, uuid
from deploy.commands.base import open_database
open_database()
from identity.models import User
from identity import tokens
from identity.models import UserSession
from identity.vault import store
from endpoints.models import Endpoint
from transferapi.tasks.models import Task, Lease
from transferapi.timers.models import Timer
now = datetime.datetime.now(datetime.UTC)
alice = User.objects.create(username="alice", email="before@example.org")
place = f"endpoint:{uuid.UUID(int=1)}"
store.store(alice, place, store.CredentialKind.PASSWORD, b"secret", subject="alice", expires_at=None)
tokens.issue(alice, "program")
UserSession.objects.create(session_key="k" * 32, session_data="x", expire_date=now + datetime.timedelta(days=1))
one = Endpoint.objects.create(owner=alice, name="one")
task = Task.objects.create(
    owner=alice, type="TRANSFER", submission_id=uuid.uuid4(), source=one, destination=one, source_host=one,
    destination_host=one, request_time=now, deadline=now, next_run_at=now, phase="running",
)
Lease.objects.create(task=task, epoch=4, worker="w", expires_at=now + datetime.timedelta(days=1), sessions=2)
Timer.objects.create(owner=alice, schedule={}, body="{}", submitted_at=now, next_run=now)
"""
STATE = """
    SELECT (SELECT email FROM identity_user WHERE username = 'alice'), (SELECT count(*) FROM identity_usersession),
    (SELECT count(*) FROM identity_apitoken), (SELECT count(*) FROM timers_timer WHERE next_run IS NOT NULL),
    (SELECT count(*) FROM tasks_task WHERE phase <> 'done' AND NOT admin_pauses ? 'operator'),
    (SELECT count(*) FROM tasks_lease WHERE expires_at > now() + interval '1 hour')"""
OLD = ("after@example.org", 1, 1, 1, 1, 1)
HELD = ("before@example.org", 0, 1, 0, 0, 0)


def command(home: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "deploy.cli", *words]


def environment(home: Path) -> dict[str, str]:
    return os.environ | {"WAYBILL_HOME": str(home)}


def waybill(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(home, *words), env=environment(home), capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def running(home: Path) -> Iterator[Postgres]:
    server = Postgres(home, durable=False)
    wait_until_stopped(server)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def asked(home: Path, statement: str) -> tuple[object, ...]:
    with running(home) as server:
        return first_row(server.url(), statement)


def session_of(pid: int) -> int | None:
    """The process `psql` of a restore; None if there is none yet."""
    for child in children_of(pid):
        with suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().strip() == "psql":
                return child
    return None


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="waybill-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(scope="module")
def home(folder: Path, give_schema: Callable[[Path], object]) -> Path:
    """With a backup and its keys beside it, and a change since."""
    home = folder / "home"
    give_schema(home)
    with running(home) as server:
        subprocess.run([sys.executable, "-c", FILL], env=environment(home), timeout=60, check=True)
        done = waybill(home, "backup", str(folder / "backup"), "--keys", str(folder / "keys"))
        assert done.returncode == 0, done
        session = psycopg2.connect(server.url())
        with session, session.cursor() as cursor:
            cursor.execute("UPDATE identity_user SET email = 'after@example.org'")
        session.close()
    return home


def test_the_backup_holds_no_key_and_both_files_are_private(home: Path, folder: Path) -> None:
    secrets = [(home / name).read_text().strip() for name in ("secret-key", "vault-key", "oidc-key.pem")]
    octets = (folder / "backup").read_bytes()
    assert not [one for one in secrets if one.encode() in octets]
    kept = json.loads((folder / "keys").read_text())["keys"].values()
    assert {text.strip() for text in kept} >= set(secrets)
    assert {(folder / name).stat().st_mode & 0o777 for name in ("backup", "keys")} == {0o600}
    assert waybill(home, "restore", str(folder / "backup"), "--verify").returncode == 0


def test_what_must_not_be_restored_is_refused_and_changes_nothing(home: Path, folder: Path) -> None:
    backup = folder / "backup"
    octets = backup.read_bytes()
    (folder / "cut").write_bytes(octets[: len(octets) // 2])
    (folder / "changed").write_bytes(octets[:5000] + bytes([octets[5000] ^ 1]) + octets[5001:])
    with archive.read(backup) as found:
        facts = {**found.manifest, "migrations": [*found.manifest["migrations"], ["tasks", "9999_future"]]}
        pieces = list(found.pieces())
    archive.write(folder / "newer", facts, {}, lambda take: [take(piece) for piece in pieces])
    archive.write(folder / "nonsense", {**facts, "migrations": []}, {}, lambda take: take(b"PGDMP nonsense"))
    (folder / "wrong-keys").write_text(json.dumps({"format": "waybill keys 1", "backup": "another", "keys": {}}))
    for words, reason in (
        ([str(backup)], "--replace"),
        ([str(folder / "cut"), "--replace"], "cut|end of data|no backup"),
        ([str(folder / "changed"), "--replace"], "changed"),
        ([str(folder / "newer"), "--replace"], "tasks.9999_future"),
        ([str(folder / "nonsense"), "--replace"], "pg_restore failed"),
        ([str(backup), "--replace", "--keys", str(folder / "wrong-keys")], "another backup"),
        ([str(folder / "none"), "--replace"], "No such file"),
    ):
        done = waybill(home, "restore", *words)
        assert done.returncode == 1, (words, done)
        assert any(one in done.stderr for one in reason.split("|")), (words, done.stderr)
        assert "Traceback" not in done.stderr
    assert asked(home, STATE) == OLD


def test_a_service_that_runs_is_not_replaced(home: Path, folder: Path) -> None:
    lock = Home(home).acquire()
    try:
        assert "stop it first" in waybill(home, "restore", str(folder / "backup"), "--replace").stderr
    finally:
        os.close(lock)
    with running(home) as server:
        session = psycopg2.connect(server.url())
        given = environment(home) | {"DATABASE_URL": server.url()}
        words = command(home, "restore", str(folder / "backup"), "--replace")
        done = subprocess.run(words, env=given, capture_output=True, text=True, timeout=120, check=False)
        session.close()
    assert "other sessions use the database" in done.stderr
    assert asked(home, STATE) == OLD


def test_a_kill_leaves_the_old_state_or_the_held_one(home: Path, folder: Path) -> None:
    found = []
    for seconds in (0.0, 0.15, 0.4, 0.8):
        words = command(home, "restore", str(folder / "backup"), "--replace")
        process = subprocess.Popen(words, env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # The session that has the transaction, and the seconds that the load takes.
        eventually(partial(session_of, process.pid))
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        found.append(asked(home, STATE))
        if found[-1] == HELD:
            break
    assert found[0] == OLD
    assert set(found) <= {OLD, HELD}


def test_after_a_restore_everything_is_held_and_sessions_have_ended(home: Path, folder: Path) -> None:
    done = waybill(home, "restore", str(folder / "backup"), "--keys", str(folder / "keys"), "--replace")
    assert (done.returncode, "1 tasks and 1 timers are held" in done.stdout) == (0, True), done
    assert asked(home, STATE) == HELD
    assert asked(home, "SELECT phase, nice_status FROM tasks_task") == ("paused", "PAUSED_BY_OPERATOR")
    assert asked(home, "SELECT what, actor FROM identity_auditevent ORDER BY id DESC") == ("restored", "operator")


def test_without_the_keys_a_new_home_reports_what_it_cannot_open(home: Path, folder: Path) -> None:
    new = folder / "new"
    done = waybill(new, "restore", str(folder / "backup"), "--end-tokens")
    assert done.returncode == 1, done
    assert "cannot be opened: the credential of alice: endpoint:00000000-0000-0000-0000-000000000001" in done.stdout
    assert asked(new, STATE) == ("before@example.org", 0, 0, 0, 0, 0)
    done = waybill(new, "restore", str(folder / "backup"), "--replace", "--keys", str(folder / "keys"))
    assert done.returncode == 0, done
    assert (new / "oidc-key.pem").read_text().strip() == (home / "oidc-key.pem").read_text().strip()
    assert (home / "vault-key").read_text().strip() in (new / "vault-key").read_text()
    assert (new / "vault-key").stat().st_mode & 0o777 == 0o600


def test_keys_of_a_backup_become_files_that_a_new_host_is_given(home: Path, folder: Path) -> None:
    """Without a service, a database or settings: this is done first."""
    words = ["restore", str(folder / "backup"), "--keys", str(folder / "keys"), "--write-keys"]
    private, shared = folder / "etc" / "private", folder / "etc" / "shared"
    shared.mkdir(mode=0o750, parents=True)
    shared.chmod(0o750)
    for place, mode in ((private, 0o600), (shared, 0o640)):
        done = waybill(folder / "nowhere", *words, str(place))
        assert (done.returncode, done.stderr) == (0, ""), done
        assert f"WAYBILL_VAULT_KEY_FILE={place / 'vault-key'}" in done.stdout
        for name in ("secret-key", "vault-key", "oidc-key.pem"):
            file = place / name
            assert file.read_text().strip() == (home / name).read_text().strip()
            assert (file.stat().st_mode & 0o777, file.stat().st_gid) == (mode, place.stat().st_gid)
    assert private.stat().st_mode & 0o777 == 0o700
    assert not (folder / "nowhere").exists()


def test_a_key_that_is_there_is_overwritten_only_when_the_operator_says_so(folder: Path) -> None:
    place = folder / "used"
    place.mkdir()
    (place / "vault-key").write_text("another\n")
    words = ["restore", str(folder / "backup"), "--write-keys", str(place)]
    assert "--keys" in waybill(folder / "nowhere", *words).stderr
    words += ["--keys", str(folder / "keys")]
    done = waybill(folder / "nowhere", *words)
    assert (done.returncode, "vault-key exists with another content" in done.stderr) == (1, True), done
    assert sorted(path.name for path in place.iterdir()) == ["vault-key"]
    assert (place / "vault-key").read_text() == "another\n"
    assert waybill(folder / "nowhere", *words, "--replace").returncode == 0
    assert (place / "vault-key").read_text() != "another\n"
    # The same keys once more change nothing.
    assert waybill(folder / "nowhere", *words).returncode == 0
