"""Tasks on real servers with something wrong: what their owner reads of it, and that it ends when it is mended."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.free_ports import free_port
from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp.server import GridFtpServer
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.models import User
from identity.vault import store as vault
from tests.conformance.tasks.slices import run, told, try_once
from tests.gridftp.authority import Authority
from tests.gridftp.toolkit import ToolkitServer
from tests.integration.activated import proxy_of
from tests.integration.cast import submit
from tests.integration.shared import give, make_share
from tests.store_connections import close_connections
from transferapi.rest.transfer import task_documents
from transferapi.tasks.models import WITH_OWNERS, Event, Task
from transferapi.tasks.worker.protection import CODE

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _instance(settings: Any, authority: Authority) -> Iterator[None]:
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    settings.CERTIFICATES = authority.certificates
    close_connections()
    yield
    close_connections()


@pytest.fixture
def alice() -> User:
    return User.objects.create(username="alice")


@pytest.fixture
def good(alice: User, folder: Path, serve: Callable[..., GridFtpServer]) -> Endpoint:
    """An endpoint with nothing wrong."""
    (folder / "file").write_text("content")
    return anonymous(alice, "good", serve().port)


def anonymous(owner: User, name: str, port: int) -> Endpoint:
    return registry.create(owner, {"name": name}, [ServerSpec("127.0.0.1", port, "ftp")])


Gsi = Callable[..., Endpoint]


@pytest.fixture
def gsi(
    alice: User,
    folder: Path,
    gsi_server_factory: Callable[..., ToolkitServer],
    identity_of: Callable[..., CertificateFiles],
) -> Gsi:
    """An activated endpoint of a toolkit's server over the folder."""

    def make(name: str, *extra: str, port: int = 0, **more: Any) -> Endpoint:
        port = port or gsi_server_factory(folder, *extra, **more).port
        endpoint = registry.create(alice, {"name": name}, [ServerSpec("127.0.0.1", port, "gsiftp")])
        proxy = proxy_of(identity_of("alice"))
        binding = vault.endpoint_binding(endpoint.pk)
        vault.store(
            alice,
            binding,
            vault.CredentialKind.X509,
            proxy.to_pem(),
            subject=proxy.identity,
            expires_at=proxy.expires_at,
        )
        return endpoint

    (folder / "file").write_text("content")
    return make


def seen(task: Task) -> dict[str, Any]:
    return task_documents.task(Task.objects.select_related(*WITH_OWNERS).get(pk=task.pk))


def after_a_fault(task: Task) -> dict[str, Any]:
    asyncio.run(try_once(task))
    return seen(task)


@contextmanager
def speaking(words: bytes) -> Iterator[int]:
    """A server that says this to whoever comes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(words)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@pytest.mark.parametrize("side", ["source", "destination"])
def test_a_server_that_is_down_is_named_until_it_is_up(
    alice: User, good: Endpoint, serve: Callable[..., GridFtpServer], side: str
) -> None:
    port = free_port()
    down = anonymous(alice, "down", port)
    ends = (down, good) if side == "source" else (good, down)
    task = submit(alice, *ends, ("/file", "/copy"))

    found = after_a_fault(task)

    start = f"No connection at the {side} alice#down (127.0.0.1:{port}): Connection refused. It is tried again at "
    assert (found["status"], found["nice_status"], found["is_ok"]) == ("ACTIVE", "CONNECT_FAILED", False)
    assert found["nice_status_details"].startswith(start)
    assert found["faults"] >= 1
    (event,) = Event.objects.filter(task=task, is_error=True)
    assert event.description.startswith(start)

    serve(port=port)
    assert run(task) == "SUCCEEDED", told(task)


@pytest.mark.toolkit
def test_a_wrong_certificate_is_named(
    alice: User, good: Endpoint, gsi: Gsi, other_authority: Authority, host_of: Callable[[Authority], CertificateFiles]
) -> None:
    wrong = gsi("wrong", host=host_of(other_authority))
    task = submit(alice, good, wrong, ("/file", "/copy"))

    found = after_a_fault(task)

    assert (found["nice_status"], found["is_ok"]) == ("INVALID_SERVICE_CREDENTIAL", False)
    assert "at the destination alice#wrong (127.0.0.1:" in found["nice_status_details"]
    assert "is signed by an authority that is not trusted here" in found["nice_status_details"]


@pytest.mark.parametrize("words", [b"SSH-2.0-OpenSSH_9.2\r\n\xff\x00\x1b[31m\r\n", b"500-no\r\n500 service here\r\n"])
def test_what_something_else_says_is_reported_as_words(alice: User, good: Endpoint, words: bytes) -> None:
    with speaking(words) as port:
        task = submit(alice, anonymous(alice, "other", port), good, ("/file", "/copy"))
        found = after_a_fault(task)

    assert (found["nice_status"], found["is_ok"]) == ("ENDPOINT_ERROR", False)
    assert f"at the source alice#other (127.0.0.1:{port}): " in found["nice_status_details"]
    for text in (found["nice_status_details"], told(task)):
        assert "b'" not in text
        assert 'b"' not in text
        assert "\\x" not in text
        assert "\x1b" not in text
        assert "OpenSSH" not in text, "what another service says is shown to nobody"
        assert "is no FTP reply" in text or "no / service here" in text


def test_a_folder_that_was_named_as_a_file_is_reported(alice: User, folder: Path, good: Endpoint) -> None:
    (folder / "in").mkdir()
    task = submit(alice, good, good, ("/in", "/out", False))
    assert run(task) == "FAILED", told(task)
    fatal = seen(task)["fatal_error"]
    assert fatal["code"] == "IS_A_DIRECTORY"
    assert fatal["description"].endswith(
        "/in: This is a folder; to transfer it with its contents, recursive must not be false."
    )


@pytest.mark.toolkit
def test_a_folder_that_the_source_may_not_list_makes_none_at_the_destination(
    alice: User, folder: Path, gsi: Gsi
) -> None:
    (folder / "closed").mkdir(mode=0o000)
    task = submit(alice, gsi("one"), gsi("two"), (f"{folder}/closed/", f"{folder}/new/copy/", True))

    found = after_a_fault(task)

    assert found["nice_status"] == "PERMISSION_DENIED", told(task)
    assert {path.name for path in folder.iterdir()} == {"file", "closed"}


def test_the_server_of_a_shared_endpoint_is_not_named(alice: User, good: Endpoint) -> None:
    bob = User.objects.create(username="bob")
    port = free_port()
    share = make_share(anonymous(alice, "host", port), "share", "/secret-folder/")
    give(share, bob)
    home = anonymous(bob, "home", good.servers.all()[0].port)
    task = submit(bob, share, home, ("/file", "/copy"))

    found = after_a_fault(task)

    assert found["nice_status_details"].startswith("No connection at the source alice#share: Connection refused.")
    for text in (found["nice_status_details"], told(task)):
        assert str(port) not in text
        assert "secret-folder" not in text


# ---- data channels


@pytest.mark.toolkit
def test_servers_that_refuse_dcsc_move_data_bare_and_say_so(alice: User, folder: Path, gsi: Gsi) -> None:
    refusing = gsi("one", "-disable-command-list", "DCSC"), gsi("two", "-disable-command-list", "DCSC")
    task = submit(alice, *refusing, (f"{folder}/file", f"{folder}/copy"))

    assert run(task) == "SUCCEEDED", told(task)

    assert seen(task)["data_protection"] == "clear"
    (event,) = Event.objects.filter(task=task, code=CODE)
    assert "the server of alice#one (the source) takes no key" in event.description
    assert event.details == "DCSC P: 500 Command not supported."
    assert (task.faults, Event.objects.filter(task=task, is_error=True).count()) == (0, 0)

    items = (f"{folder}/file", f"{folder}/new/again"), (f"{folder}/", f"{folder}/mirror/", True)
    task = submit(alice, *refusing, *items, options={"encrypt_data": True})
    assert run(task) == "FAILED", told(task)
    fatal = seen(task)["fatal_error"]
    assert fatal["code"] == "UNSUPPORTED"
    assert fatal["description"].startswith("alice#one (the source): The data cannot be encrypted: the source server")
    assert fatal["description"].endswith("The server said: DCSC P: 500 Command not supported.")
    assert {path.name for path in folder.iterdir()} == {"file", "copy"}


@pytest.mark.toolkit
def test_a_file_that_may_not_be_read_leaves_no_folder_at_the_destination(
    alice: User, folder: Path, gsi: Gsi, good: Endpoint
) -> None:
    secret = folder / "secret"
    secret.write_text("content")
    os.chown(secret, 0, 0)
    secret.chmod(0)
    (folder / "empty").touch()
    source = gsi("one")
    task = submit(alice, source, good, (f"{folder}/secret", "/new/deep/secret"))
    assert after_a_fault(task)["nice_status"] == "PERMISSION_DENIED"
    assert not (folder / "new").exists()

    for name in ("file", "empty"):
        task = submit(alice, source, good, (f"{folder}/{name}", f"/new/deep/{name}"))
        assert run(task) == "SUCCEEDED", told(task)
    task = submit(alice, source, good, (f"{folder}/secret", "/new/deep/secret"))
    after_a_fault(task)
    assert sorted(path.name for path in (folder / "new" / "deep").iterdir()) == ["empty", "file"]


@pytest.mark.toolkit
def test_what_a_shared_server_says_of_its_account_is_not_shown(alice: User, folder: Path, gsi: Gsi) -> None:
    bob = User.objects.create(username="bob")
    share = make_share(gsi("host", "-disable-command-list", "DCSC"), "share", f"{folder}/")
    give(share, bob, write=True)
    for encrypt, end in ((False, "SUCCEEDED"), (True, "FAILED")):
        task = submit(bob, share, share, ("/file", f"/copy-{encrypt}"), options={"encrypt_data": encrypt})
        assert run(task) == end, told(task)
        assert "alice#share (the source)" in told(task)
        assert "takes no key for its data connections" in told(task)
        assert "Command not supported" not in told(task)


@pytest.mark.toolkit
@pytest.mark.parametrize(("encrypt", "held"), [(False, "authenticated"), (True, "encrypted")])
def test_what_protects_the_data_is_reported_once(alice: User, folder: Path, gsi: Gsi, encrypt: bool, held: str) -> None:
    task = submit(
        alice, gsi("one"), gsi("two"), (f"{folder}/file", f"{folder}/copy"), options={"encrypt_data": encrypt}
    )

    assert run(task) == "SUCCEEDED", told(task)

    assert seen(task)["data_protection"] == held
    (event,) = Event.objects.filter(task=task, code=CODE)
    assert held in event.description
