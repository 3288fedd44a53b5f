"""`waybill doctor` with a real PostgreSQL, Redis and web server, and without them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connection
from django.utils import timezone

from deploy.doctor import disk, keys, ports, servers, versions
from deploy.doctor.findings import Severity
from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.connect import authority
from identity.models import Credential, User
from identity.vault import store as vault
from identity.vault.keys import new_key, parse_keys
from identity.vault.store import CredentialKind
from tests.integration.web.web_server import web_server
from tests.unit.deploy.test_doctor import only, said
from transferapi.config import CHECKOUT, Config, load
from transferapi.tasks.upkeep import rounds

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_server")]


def with_keys(settings: Any, *texts: str) -> Config:
    """The keys of the vault for this process, and a configuration that has them."""
    settings.VAULT_KEYS = parse_keys(",".join(texts))
    return load({"WAYBILL_VAULT_KEY": ",".join(texts)})


def test_the_vault_is_opened(alice: User, settings: Any) -> None:
    old, new = new_key(), new_key()
    config = with_keys(settings, old)
    vault.store(
        alice, vault.endpoint_binding(uuid.uuid4()), CredentialKind.PASSWORD, b"secret", subject="", expires_at=None
    )
    assert said(keys.check(config)) == []
    only(keys.check(with_keys(settings, new, old)), "warning", "1 kept credentials are sealed by an older key")
    only(keys.check(with_keys(settings, new)), "error", "1 kept credentials are sealed by a key that is not configured")
    config = with_keys(settings, old)
    Credential.objects.update(sealed=b"x" * 60)
    only(keys.check(config), "error", "were changed since they were sealed")


def test_the_authority_of_agents_that_ends(settings: Any) -> None:
    config = with_keys(settings, new_key())
    authority.rotate(timezone.now() - authority.LIFETIME + timedelta(days=100))
    only(keys.check(config), "warning", "The authority of agents ends on")
    authority.rotate()
    assert said(keys.check(config)) == []


def test_the_servers_and_their_clocks() -> None:
    config = load({})
    only(servers.check(config), "error", "No worker has ever swept")
    rounds.poll({"sweep": rounds.Interval(2.0)})
    rounds.poll({"sweep": rounds.Interval(2.0)})
    assert said(servers.check(config)) == []
    assert [one.severity for one in servers.clock(config)] == [Severity.OK, Severity.OK]
    assert said(versions.check(config)) == []
    assert any("the database has" in one.text for one in disk.check(config))


def test_the_disk_check_names_the_largest_tables_and_keys_of_redis_that_never_end(
    redis_server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = redis.Redis.from_url(redis_server.url())
    client.set("with an end", 1, ex=100)
    found = list(disk.check(load({})))
    [tables] = [one for one in found if "the database has" in one.text]
    assert re.search(r"The largest tables: \w+ \d+ MiB, \w+ \d+ MiB, \w+ \d+ MiB", tables.text)
    assert any(one.severity is Severity.OK and "Redis has" in one.text for one in found)
    monkeypatch.setattr(disk, "MOST_WITHOUT_END", 2)
    for number in range(3):
        client.set(f"of another program {number}", 1)
    only([one for one in disk.check(load({})) if "Redis has" in one.text], "warning", "without an end")


def test_the_public_address_and_the_programs_of_this_machine(
    postgres: Postgres, redis_server: Redis, tmp_path: Path
) -> None:
    with web_server(postgres, redis_server, tmp_path, "--workers", "1") as port:
        environ = {"WAYBILL_PORT": str(port), "WAYBILL_SSH_PORT": "1", "WAYBILL_RELAY": "127.0.0.1:1"}
        found = said(ports.check(load(environ)))
        assert [text.split(":")[1] for text in found] == [
            " Nothing moves files on this machine", " Nobody can use the ssh shell", " No agent can connect",
        ]  # fmt: skip
        # A server in front needs the events server, too.
        more = said(ports.check(load(environ | {"WAYBILL_FRONT_SERVERS": "127.0.0.1/32", "WAYBILL_EVENTS_PORT": "1"})))
        assert [text for text in more if text not in found] == more[-1:]
        assert "Few streams of events are possible: the events server does not answer at port 1" in more[-1]
        document, status = doctor(
            tmp_path, "servers", "ports", "clock", **environ,
            DATABASE_URL=postgres.url(str(connection.settings_dict["NAME"])), REDIS_URL=redis_server.url(),
        )  # fmt: skip
    assert list(document["checks"]) == ["servers", "clock", "ports"]
    assert (status, document["status"]) == (2, "error"), "no worker sweeps"
    assert [one["severity"] for one in document["checks"]["clock"]] == ["OK", "OK"]


def doctor(home: Path, *words: str, **environ: str) -> tuple[dict[str, Any], int]:
    """The printed document and the status of a process."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("WAYBILL_")}
    done = subprocess.run(
        [sys.executable, "-m", "deploy.cli", "doctor", "--json", *words], cwd=CHECKOUT, timeout=120,
        env=kept | {"WAYBILL_HOME": str(home)} | environ, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def test_without_any_server_it_ends_and_says_so(tmp_path: Path) -> None:
    away, secret = free_port(), "hunter2hunter2"
    document, status = doctor(
        tmp_path, DATABASE_URL=f"postgresql://waybill:{secret}@127.0.0.1:{away}/waybill",
        REDIS_URL=f"redis://:{secret}@127.0.0.1:{away}/0", WAYBILL_PORT=str(away), WAYBILL_SSH_PORT="1",
        WAYBILL_VAULT_KEY=new_key(),
    )  # fmt: skip
    assert status == 2
    checks = {
        name: [one["text"] for one in each if one["severity"] != "OK"] for name, each in document["checks"].items()
    }
    assert "PostgreSQL does not answer (OperationalError)" in checks["servers"][0]
    assert [text.partition(" is not known")[0] for text in checks["clock"]] == [
        "The clock of PostgreSQL", "The clock of Redis",
    ]  # fmt: skip
    assert "Whether the vault opens is not known: PostgreSQL does not answer." in checks["keys"]
    assert secret not in json.dumps(document)
    assert "The check itself failed" not in json.dumps(document)
