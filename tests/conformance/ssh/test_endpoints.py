"""Endpoints of ssh accounts in the registry: host keys that are read, shown, changed and accepted, and jump hosts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from endpoints import operations, registry
from endpoints.activation import status as activation
from endpoints.addresses.openings import parse_openings
from endpoints.errors import NotActivatedError
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from endpoints.program_removal import remove_programs
from endpoints.registry import ServerSpec
from endpoints.ssh.keys import parse_ssh_key
from identity.error_categories import InvalidFieldError
from identity.models import User
from identity.vault import store as vault
from identity.vault.store import CredentialKind
from tests.conformance.tasks.slices import run
from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair
from tests.gridftp.sshd import SshServer, make_key
from tests.integration.cast import submit
from tests.store_connections import close_connections
from transferapi.tasks.models import Event, Mail, Task
from transferapi.tasks.worker import host_keys

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.toolkit, NEEDS_SSHD]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return key_pair(tmp_path_factory.mktemp("key"))


@pytest.fixture(scope="module")
def servers(grid_home: Path, key: Path) -> Iterator[list[SshServer]]:
    """Two bare accounts: the second one has the keys of its host replaced by a test."""
    with ExitStack() as running:
        started = []
        for name in ("first-host", "second-host"):
            (grid_home / name).mkdir(mode=0o711)
            started.append(running.enter_context(SshServer(grid_home / name, profile="")))
            started[-1].authorize(key)
        yield started


@pytest.fixture(autouse=True)
def _instance(settings: Any) -> Iterator[None]:
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    close_connections()
    yield
    close_connections()


@pytest.fixture
def alice() -> User:
    return User.objects.create(username="alice", email="alice@example.org")


def account(owner: User, name: str, server: SshServer, key: Path, *, scheme: str = "ssh", **fields: object) -> Endpoint:
    """An activated endpoint, whose host key is read at registration."""
    endpoint = registry.create(owner, {"name": name, **fields}, [ServerSpec("127.0.0.1", server.port, scheme)])
    activate(owner, endpoint, server, key)
    return endpoint


def activate(owner: User, endpoint: Endpoint, server: SshServer, key: Path) -> None:
    secret = activation.pack_ssh(server.username, parse_ssh_key(key.read_text()).pem)
    bound_to = vault.endpoint_binding(endpoint.pk)
    vault.store(owner, bound_to, CredentialKind.SSH, secret, subject=server.username, expires_at=None)


def test_the_host_key_is_read_at_registration_and_shown(alice, servers, key):
    endpoint = account(alice, "bare", servers[0], key)
    [row] = registry.servers(endpoint)
    assert row.subject == servers[0].fingerprint()
    assert [entry.name for entry in operations.list_directory(alice, "bare", "/etc/ssh").entries]


def test_a_fingerprint_that_is_given_is_kept_and_nothing_is_read(alice):
    given = "SHA256:" + "x" * 43
    endpoint = registry.create(alice, {"name": "down"}, [ServerSpec("127.0.0.1", 1, "ssh", given)])
    assert registry.servers(endpoint)[0].subject == given


@pytest.mark.parametrize(("host", "words"), [("127.0.0.1", "cannot be read now")])
def test_a_server_that_does_not_answer_needs_a_given_fingerprint(alice, host, words):
    with pytest.raises(InvalidFieldError, match=words):
        registry.create(alice, {"name": "down"}, [ServerSpec(host, 1, "ssh")])
    assert not Endpoint.objects.exists()


@pytest.mark.parametrize("scheme", ["ssh", "sftp"])
def test_a_changed_host_key_holds_tasks_until_the_owner_accepts_it(
    alice, servers, key, grid_home, scheme, ssh_server_factory
):
    first, second = servers
    if scheme == "sftp":
        second = ssh_server_factory(sftp_only=True)
        second.authorize(key)
    source = account(alice, "source", first, key)
    destination = account(alice, "target", second, key, scheme=scheme)
    data = grid_home / f"{scheme}-data"
    data.mkdir()
    (data / "file").write_bytes(os.urandom(200_000))
    before = second.fingerprint()
    second.stop()
    for path in second.host_keys.values():
        for one in (path, path.with_name(path.name + ".pub")):
            one.unlink()
    make_key(second.host_keys["ed25519"], "ed25519")
    port = second.port
    second.start()
    registry.servers(destination)[0].__class__.objects.filter(endpoint=destination).update(port=second.port)
    assert port
    task = submit(alice, source, destination, (f"{data}/file", f"{data}/copy"))
    run(task)
    task.refresh_from_db()
    assert (task.status, task.nice_status) == ("INACTIVE", Kind.HOST_KEY_CHANGED)
    [row] = registry.servers(destination)
    assert (row.subject, row.shown_host_key) == (before, second.fingerprint())
    event = Event.objects.get(task=task, code=Kind.HOST_KEY_CHANGED)
    assert before in event.description
    assert row.shown_host_key in event.description
    mail = Mail.objects.get(user=alice, subject__contains="host key")
    assert row.shown_host_key in mail.body
    assert host_keys.resume_settled() == 0
    registry.update_server(alice, "target", row.pk, ServerSpec("127.0.0.1", second.port, scheme, row.shown_host_key))
    task.refresh_from_db()
    assert task.status == "ACTIVE"
    run(task)
    task.refresh_from_db()
    assert task.status == "SUCCEEDED"
    assert (data / "copy").read_bytes() == (data / "file").read_bytes()
    assert Task.objects.count() == 1
    shutil.rmtree(data)


def test_a_jump_host_is_an_endpoint_of_its_own(alice, servers, key):
    jump = account(alice, "bastion", servers[0], key)
    inner = registry.create(
        alice,
        {"name": "inner", "jump_host": "bastion"},
        [ServerSpec("localhost", servers[1].port, "ssh")],
    )
    assert inner.jump_host == jump
    assert registry.servers(inner)[0].subject == servers[1].fingerprint()
    with pytest.raises(NotActivatedError):
        operations.list_directory(alice, "inner", "/")
    activate(alice, inner, servers[1], key)
    assert operations.list_directory(alice, "inner", "/").entries
    vault.forget_all(vault.endpoint_binding(jump.pk))
    with pytest.raises(NotActivatedError):
        operations.list_directory(alice, "inner", "/")
    assert not activation.activation_status(alice.pk, inner).active


@pytest.mark.parametrize("jump_host", ["self", "inner", "plain"])
def test_only_an_ssh_endpoint_that_is_reached_directly_can_be_a_jump_host(alice, servers, key, jump_host):
    account(alice, "bastion", servers[0], key)
    given = ServerSpec("inner.example.org", 22, "ssh", "SHA256:" + "x" * 43)
    registry.create(alice, {"name": "inner", "jump_host": "bastion"}, [given])
    registry.create(alice, {"name": "plain"}, [ServerSpec("ftp.example.org", 21, "ftp")])
    registry.create(alice, {"name": "self"}, [given])
    with pytest.raises(InvalidFieldError, match="jump host"):
        registry.update(alice, "self", {"jump_host": jump_host})
    registry.update(alice, "self", {"jump_host": "bastion", "data_ports": "50000-51000"})
    with pytest.raises(InvalidFieldError, match="range"):
        registry.update(alice, "self", {"data_ports": "22-23"})


def test_our_program_is_removed_on_request(alice, servers, key):
    account(alice, "bare", servers[0], key)
    operations.list_directory(alice, "bare", "/")
    cache = servers[0].home / ".cache" / "waybill"
    assert cache.exists()
    assert remove_programs(alice, "bare")[1]
    assert not cache.exists()
    registry.create(alice, {"name": "plain"}, [ServerSpec("ftp.example.org", 21, "ftp")])
    with pytest.raises(InvalidFieldError):
        remove_programs(alice, "plain")


def test_another_host_key_is_a_fault_of_an_operation_too(alice, servers, key):
    wrong = "SHA256:" + "A" * 43
    endpoint = registry.create(alice, {"name": "bare"}, [ServerSpec("127.0.0.1", servers[0].port, "ssh", wrong)])
    activate(alice, endpoint, servers[0], key)
    with pytest.raises(FaultError) as caught:
        operations.list_directory(alice, "bare", "/")
    assert caught.value.fault.kind is Kind.HOST_KEY_CHANGED
    assert registry.servers(endpoint)[0].shown_host_key == servers[0].fingerprint()


def test_a_key_that_was_read_is_unconfirmed_until_somebody_says_that_it_is_right(alice, servers, key):
    account(alice, "bare", servers[0], key)
    [row] = registry.servers(registry.resolve(alice, "bare", Permission.VIEW))
    assert not row.host_key_confirmed
    assert operations.list_directory(alice, "bare", "/").entries, "it is pinned, and used"

    moved = replace(registry.server_spec(row), hostname="localhost")
    row = registry.update_server(alice, "bare", row.pk, moved)
    assert not row.host_key_confirmed, "another change is no comparison"
    row = registry.update_server(alice, "bare", row.pk, replace(moved, confirmed=True))
    assert (row.subject, row.host_key_confirmed) == (servers[0].fingerprint(), True)

    row = registry.update_server(alice, "bare", row.pk, replace(registry.server_spec(row), hostname="127.0.0.1"))
    assert row.host_key_confirmed
    row = registry.update_server(alice, "bare", row.pk, replace(registry.server_spec(row), subject=""))
    assert (row.subject, row.host_key_confirmed) == (servers[0].fingerprint(), False), "it was read again"
