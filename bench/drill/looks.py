"""Rows of the drill without a fault: secrets in the output of the engine, and what pages have commands for."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from cryptography import x509

from bench.drill.host import Host
from bench.drill.load import digest, digests, insist, submission, submit, wait_done
from bench.drill.measure import submission_ids
from tests import hostile_certificates as grid
from tests.secrets_search import search
from tests.waiting import eventually
from transferapi.rest.metrics.certificates import NoCertificateError, certificate_of

#: A line of a source file in the image, and a variable of each container: a search that does not see them sees nothing.
IN_IMAGE, IN_CONTAINERS = "Gunicorn's threaded worker, changed so that threads", "WAYBILL_VAULT_KEY_FILE"
#: Seconds in which a task that is held must not begin.
HELD_SECONDS = 5.0


def no_secrets(host: Host) -> str:
    """Raises AssertionError where a secret is found, or the search does not see what is there."""
    secrets, texts, image = host.secrets(), host.shown(), host.image()
    control = {"the control of the image": IN_IMAGE, "the control of the containers": IN_CONTAINERS}
    found = search(secrets | control, folders=[image], texts=texts)
    seen = {one.secret for one in found} & control.keys()
    assert seen == control.keys(), f"the search sees no content: {sorted(control.keys() - seen)}"
    leaks = [f"{one.secret} ({one.form}) in {one.where}" for one in found if one.secret in secrets]
    assert not leaks, f"{len(leaks)} secrets are shown: {leaks[:5]}"
    size = sum(path.stat().st_size for path in image.rglob("*")) >> 20
    return f"none of {len(secrets)} secrets in {size} MB of the image and {len(texts)} other places"


def backup_and_restore(host: Host) -> str:
    """Two tasks wait for a pause rule, and one is canceled after the backup. After the restore both are held, though
    the rule is deleted, and both go on when they are released. Raises AssertionError."""
    rule = {"DATA_TYPE": "pause_rule", "endpoint_id": host.endpoints[0], "identity_id": None, "message": "drill"}
    rule_id = insist(lambda: str(host.api.call("POST", "/endpoint_manager/pause_rule", rule)["id"]))
    folder, names = f"restored-{time.time():.0f}", ("kept", "canceled")
    documents = [
        submission(host, id_, "/tree/1/00001", f"/{folder}/{name}", folder)
        for id_, name in zip(submission_ids(len(names)), names, strict=True)
    ]
    tasks = [submit(host.api, document) for document in documents]
    host.follow("backup")
    insist(lambda: host.api.call("POST", f"/task/{tasks[1]}/cancel", {}))
    held = host.follow("restore")
    host.wait_ready()
    assert all(task in held for task in tasks), f"not in the list of held tasks: {tasks}, {held[-300:]}"
    insist(lambda: host.api.call("DELETE", f"/endpoint_manager/pause_rule/{rule_id}"))
    time.sleep(HELD_SECONDS)
    copies = [host.folders[1] / folder / name for name in names]
    assert not any(copy.exists() for copy in copies), "a file was sent before its task was released"
    host.follow("release")
    assert [wait_done(host.api, task) for task in tasks] == ["SUCCEEDED"] * 2, "a released task has not succeeded"
    wanted = digest(host.folders[0] / "tree/1/00001")
    assert all(digest(copy) == wanted for copy in copies), "the file of a released task is wrong"
    files = host.follow("keys").split()
    return f"2 tasks held until they were released, then right; {len(files)} keys as files"


def vault_key_replaced(host: Host) -> str:
    """By the commands of the page: another key, and the former one is gone. Raises AssertionError, EngineError."""
    before = host.secrets()["keys/vault-key"]
    host.follow("vault-key")
    after = host.secrets()["keys/vault-key"]
    assert len(after.split()) == 1, f"{len(after.split())} keys"
    assert after != before, "it is the same key"
    host.wait_ready()
    return "another key, and nothing was restarted"


def certificate_renewed(host: Host) -> str:
    """The front server shows another certificate after the commands of the page, and not before. Raises AssertionError,
    EngineError."""
    address, name = urlsplit(host.api.url).netloc, "data.example.org"
    first, second = (_certificate(name) for _ in range(2))
    host.begin_tls(first)
    try:
        eventually(lambda: _serial(address, name))
        host.replace_tls(second)
        assert _serial(address, name) == _number(first), "it was shown before it was loaded"
        host.follow("certificate")
        eventually(lambda: _serial(address, name) == _number(second))
    finally:
        host.end_tls()
    host.wait_ready()
    return "the new one is shown, by a container that was not restarted"


def own_addresses(host: Host) -> str:
    """With deploy/compose-public.yml clients by IPv6 have addresses of their own. Raises AssertionError."""
    sources = [("198.51.100.7", "198.51.100.1"), ("2001:db8::7", "2001:db8::1")]
    seen = host.addresses_seen(_certificate("data.example.org"), sources)
    assert seen == [source for source, _target in sources], f"seen: {seen}"
    host.wait_ready()
    return f"as {' and '.join(seen)}"


def _certificate(name: str) -> dict[str, bytes]:
    now = datetime.now(UTC)
    made = grid.host(grid.authority(), x509.DNSName(name), begins=now - timedelta(days=1), ends=now + timedelta(days=9))
    return {"certificate.pem": grid.certificate_pem(made.certificate), "key.pem": grid.key_pem(made.key)}


def _number(files: dict[str, bytes]) -> int:
    return x509.load_pem_x509_certificate(files["certificate.pem"]).serial_number


def _serial(address: str, name: str) -> int:
    """Of the certificate that is shown; 0: none is."""
    try:
        return certificate_of(address, name).serial_number
    except NoCertificateError:
        return 0


def major_version(host: Host) -> str:
    """A transfer begins on the old version and ends on the new one, and every row of every table is there. Raises
    AssertionError, EngineError."""
    folder = f"major-{time.time():.0f}"
    [id_] = submission_ids(1)
    task = submit(host.api, submission(host, id_, "/tree/", f"/{folder}/", folder))
    begun = time.monotonic()
    host.follow("postgres-dump")
    before, old = _content(host)
    host.follow("postgres-restore")
    after, new = _content(host)
    assert (old, new) == (17, 18), f"from version {old} to {new}"
    assert before == after, f"not the same: {sorted(before.items() ^ after.items())[:5]}"
    host.follow("postgres-start")
    host.wait_ready()
    away = time.monotonic() - begun
    assert wait_done(host.api, task) == "SUCCEEDED", "the task that had begun before has not succeeded"
    assert digests(host.folders[1] / folder) == digests(host.folders[0] / "tree"), "a file is wrong"
    rows = sum(count for count, _sum in after.values())
    return f"{rows} rows of {len(after)} tables are the same; away for {away:.0f} s"


def _content(host: Host) -> tuple[dict[str, tuple[int, str]], int]:
    """By the name of each table and sequence: its rows, and a sum over them. And the major version of the server."""
    with closing(host.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        found: dict[str, tuple[int, str]] = {}
        for (name,) in cursor.fetchall():
            cursor.execute(f'SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM "{name}" t')
            [(count, value)] = cursor.fetchall()
            found[name] = count, value
        cursor.execute("SELECT sequencename, 1, last_value::text FROM pg_sequences WHERE schemaname = 'public'")
        found |= {name: (count, value) for name, count, value in cursor.fetchall()}
        return found, connection.server_version // 10000
