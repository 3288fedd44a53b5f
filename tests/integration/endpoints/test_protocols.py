"""A new protocol is a folder and a record: every place reads `endpoints.protocols`."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from endpoints import host_key_registration, protocols, registry
from endpoints.activation import services
from endpoints.activation import status as activation
from endpoints.activation.forms import Form
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind, Side
from endpoints.gridftp.login import ANONYMOUS, Login, PasswordLogin
from endpoints.models import Endpoint, Server
from endpoints.protocols import PROTOCOLS, LoginContext, LoginMaker, Need, ServerAddress, StorageProtocol
from endpoints.registry import ServerSpec
from endpoints.sessions.remote import RemoteSession
from endpoints.ssh.sftp.session import SftpSession
from identity import tokens
from identity.error_categories import InvalidFieldError
from identity.models import User
from identity.vault import store as vault
from identity.vault.store import CredentialKind
from tests.integration.cast import make_endpoint, submit
from tests.integration.pages import PASSWORD, Browser
from tests.shell_context import Shell
from transferapi.config import CHECKOUT
from transferapi.tasks.worker import leases
from workers.sessions import address_gate
from workers.sessions.pool import Address, SessionKey
from workers.sessions.pooled_sessions import PooledSession
from workers.ways import through_service

pytestmark = pytest.mark.django_db

KEY = f"SHA256:{'A' * 43}"
OTHER_KEY = f"SHA256:{'B' * 43}"


@dataclasses.dataclass(frozen=True)
class NewLogin(PasswordLogin):
    """The login of the new protocol, which lies in a folder of its own."""

    hostname: str = ""


def new_logins(context: LoginContext) -> LoginMaker:
    def make(hostname: str, port: int, subject: str) -> Login:
        return NewLogin(*protocols.unpack_ssh(context.secret or b""), hostname)

    return make


async def read_key(server: ServerAddress) -> str:
    return KEY if server[:3] == ("127.0.0.1", 443, "127.0.0.1") else ""


NEW = StorageProtocol("davs", 443, Need.PASSWORD, new_logins, pinned=True, read_key=read_key, streamed=True)


@pytest.fixture(autouse=True)
def record(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1")
    monkeypatch.setitem(PROTOCOLS, "davs", NEW)


@pytest.fixture
def files(alice: User) -> Endpoint:
    """An endpoint with a server of the new protocol, whose key is read at registration."""
    return registry.create(alice, {"name": "files"}, [ServerSpec.parse("davs://127.0.0.1")])


def test_addresses_have_its_port_and_its_key(files: Endpoint) -> None:
    [server] = files.servers.all()
    assert registry.server_uri(server) == "davs://127.0.0.1:443"
    assert (server.subject, server.host_key_confirmed) == (KEY, False)
    with pytest.raises(InvalidFieldError, match="SHA256"):
        ServerSpec.parse("davs://127.0.0.1", "CN=a certificate")
    with pytest.raises(InvalidFieldError, match="gsiftp, ftp, ftpes, sshftp, ssh, sftp, s3 or davs"):
        ServerSpec.parse("dav://127.0.0.1")


def test_users_activate_it_and_get_its_logins(alice: User, files: Endpoint, settings: Any) -> None:
    settings.CLEAR_PASSWORDS = False
    assert services.offered(files) == (Form.PASSWORD,)
    assert activation.logins(alice.pk, files).at("127.0.0.1", 443, KEY) == NewLogin("", b"", "127.0.0.1")
    secret = protocols.pack_ssh("a", b"b")
    place = vault.endpoint_binding(files.pk)
    vault.store(alice, place, CredentialKind.PASSWORD, secret, subject="a", expires_at=None)
    assert activation.logins(alice.pk, files).at("127.0.0.1", 443, KEY) == NewLogin("a", b"b", "127.0.0.1")


def test_a_password_in_clear_is_for_the_operator_to_allow(
    files: Endpoint, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CLEAR_PASSWORDS = False
    monkeypatch.setitem(PROTOCOLS, "davs", dataclasses.replace(NEW, clear_password=True))
    assert services.offered(files) == ()


def test_the_scheduler_knows_that_its_data_go_through_this_service(alice: User, files: Endpoint, ep1: Endpoint) -> None:
    grant = leases.acquire(submit(alice, files, ep1).pk, "a worker")
    assert isinstance(grant, leases.Grant)
    assert grant.spec.source.streamed
    assert grant.spec.destination is not None
    assert not grant.spec.destination.streamed


def test_jump_hosts_are_for_protocols_that_use_them(
    alice: User, files: Endpoint, ep1: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    jump = make_endpoint(alice, "jump", scheme="ssh")
    with pytest.raises(InvalidFieldError, match="through a jump host: davs servers"):
        host_key_registration.check_jump_host(files, jump)
    with pytest.raises(InvalidFieldError, match="A jump host is another endpoint with an ssh server"):
        host_key_registration.check_jump_host(files, files)
    monkeypatch.setitem(PROTOCOLS, "davs", dataclasses.replace(NEW, uses_jump_host=True, can_be_jump_host=True))
    host_key_registration.check_jump_host(files, jump)
    host_key_registration.check_jump_host(make_endpoint(alice, "other", scheme="ssh"), files)
    files.jump_host = jump
    assert [place.through_jump_host for place in address_gate.places(files)] == [True]


def test_rest_the_shell_and_the_pages_take_it(alice: User, passwords: None, monkeypatch: pytest.MonkeyPatch) -> None:
    client, bearer = Client(), {"Authorization": f"Bearer {tokens.issue(alice)}"}
    body = {"DATA_TYPE": "endpoint", "name": "files", "DATA": [
        {"DATA_TYPE": "server", "hostname": "127.0.0.1", "scheme": "davs"}
    ]}  # fmt: skip
    made = client.post("/v0.10/endpoint", json.dumps(body), "application/json", headers=bearer)
    assert made.status_code == 201, made.content
    [shown] = client.get(f"/v0.10/endpoint/{made.json()['id']}", headers=bearer).json()["DATA"]
    assert (shown["uri"], shown["scheme"], shown["host_key_confirmed"]) == ("davs://127.0.0.1:443", "davs", False)
    shell = Shell(alice)
    assert "Server ID: " in shell.ok(f"server-add files 127.0.0.1:444 -s {OTHER_KEY}")
    assert "davs://127.0.0.1:444" in shell.ok("server-list files"), "the scheme of the other servers is the usual one"
    alice.set_password(PASSWORD)
    alice.save()
    browser = Browser()
    browser.sign_in(alice)
    browser.get(f"/endpoints/{made.json()['id']}")
    assert "Nobody has confirmed this host key yet" in browser.text
    assert "Data ports" not in browser.text
    monkeypatch.setitem(PROTOCOLS, "davs", dataclasses.replace(NEW, runs_program=True, uses_jump_host=True))
    browser.get(f"/endpoints/{made.json()['id']}")
    assert "Data ports" in browser.text
    assert "Jump host" in browser.text


class NewSession:
    """The session of the new protocol, as far as a lane asks for its name."""

    protocol = "WebDAV"
    multiplexed = True
    protected = True


@pytest.mark.parametrize(
    ("source", "destination", "words"),
    [
        (NewSession, SftpSession, "Both servers speak SFTP and WebDAV, which have no transfers between servers."),
        (NewSession, NewSession, "Both servers speak WebDAV, which has no transfers between servers."),
        (GridFTPSession, NewSession, "The server of the destination speaks WebDAV, which has no transfers between"),
    ],
)
def test_the_reason_why_data_go_through_this_service_names_the_protocol(
    source: type[RemoteSession], destination: type[RemoteSession], words: str
) -> None:
    key = SessionKey(Address("server.example.org", 443))
    ends = [
        PooledSession(key, side, object.__new__(kind))
        for side, kind in ((Side.SOURCE, source), (Side.DESTINATION, destination))
    ]
    assert through_service._why_not_between(ends).startswith(words)


DOCUMENTS = """
import django
django.setup()
from dataclasses import replace
from endpoints.protocols import PROTOCOLS
PROTOCOLS["davs"] = replace(PROTOCOLS["sftp"], scheme="davs")
from transferapi.rest.transfer import endpoint_documents
from transferapi.shell.commands import endpoint_changes
print(endpoint_documents._SCHEME["enum"], endpoint_documents._PINNED, endpoint_changes.SERVERS)
"""


def test_documents_and_the_manual_of_the_shell_name_each_scheme() -> None:
    given = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "transferapi.settings",
        "WAYBILL_SECRET_KEY": "x" * 50,
        "DATABASE_URL": "postgres://nobody@127.0.0.1/none",
        "REDIS_URL": "redis://127.0.0.1",
    }
    words = [sys.executable, "-c", DOCUMENTS]
    said = subprocess.run(words, env=given, cwd=CHECKOUT, check=True, capture_output=True, text=True, timeout=60).stdout
    assert "'s3', 'davs'] ftpes, sshftp, ssh, sftp, s3 and davs" in said
    assert "sshftp, ssh, sftp, s3 or davs" in said


def test_no_other_module_asks_for_a_scheme_by_its_name() -> None:
    """Those that do have the name of something else: of a subsystem of ssh, or of the service's own servers."""
    asked = {
        str(path.relative_to(CHECKOUT))
        for room in ("endpoints", "transferapi", "webui", "workers")
        for path in (CHECKOUT / room).rglob("*.py")
        if "migrations" not in path.parts and _compares(path)
    }
    assert asked == set()


def _compares(path: Path) -> bool:
    """Whether a scheme stands in a comparison."""
    return any(
        isinstance(constant, ast.Constant) and constant.value in SCHEMES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare)
        for constant in ast.walk(node)
    )


SCHEMES = {"gsiftp", "ftp", "ftpes", "sshftp", "ssh", "sftp"}


def test_a_scheme_of_a_newer_version_is_a_fault_and_no_anonymous_login(alice: User, ep1: Endpoint) -> None:
    """After a rollback, or in a worker of the older version during an upgrade. The pages show the endpoint."""
    ep1.servers.update(scheme="newer")
    row = ep1.servers.get()
    assert registry.server_uri(row).startswith("newer://")
    assert activation.activation_status(alice.pk, ep1).active
    assert services.offered(ep1) == ()
    with pytest.raises(FaultError, match="does not know the protocol") as raised:
        activation.logins(alice.pk, ep1).at(row.hostname, row.port, "")
    assert (raised.value.fault.kind, raised.value.fault.retryable) == (Kind.UNSUPPORTED, True)


def test_each_scheme_fits_into_its_column_and_an_anonymous_user_has_a_login(alice: User) -> None:
    longest = Server._meta.get_field("scheme").max_length
    assert longest is not None
    assert all(len(scheme) <= longest for scheme in PROTOCOLS)
    ftp = make_endpoint(alice, "ftp")
    assert activation.logins(alice.pk, ftp).at("h", 21, "") is ANONYMOUS
