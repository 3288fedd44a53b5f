"""The key of the vault while the service runs: changed without a pause, lost, found again; and no secret lies about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.embedded import embedded_environment
from deploy.stack.home import write_private
from identity.vault.keys import new_key
from tests.gridftp.authority import Authority
from tests.gridftp.myproxy import MyProxyServer
from tests.gridftp.toolkit import ToolkitServer
from tests.instance import Api, instance
from tests.secrets_search import search
from tests.waiting import eventually

pytestmark = [pytest.mark.toolkit, pytest.mark.own_interpreter, pytest.mark.timeout(240)]

PASSPHRASE = "the horse & the battery"


@pytest.fixture
def service(authority: Authority, give_schema: Callable[[Path], object]) -> Iterator[Api]:
    """An instance of its own, that trusts the authority of the tests."""
    with instance(before=give_schema, WAYBILL_CERTIFICATES=str(authority.certificates)) as api:
        yield api


class Site:
    """Two endpoints at one server with GSI, both of which name one MyProxy server."""

    def __init__(self, service: Api, server: ToolkitServer, myproxy: MyProxyServer, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self.names = [self._register(name, server.port, myproxy.port) for name in ("one", "two")]

    def _register(self, name: str, port: int, myproxy_port: int) -> str:
        server = {"DATA_TYPE": "server", "hostname": "localhost", "port": port, "scheme": "gsiftp"}
        document = {"DATA_TYPE": "endpoint", "name": name, "display_name": name, "DATA": [server]}
        document["myproxy_server"] = f"localhost:{myproxy_port}"
        return str(self.service.call("POST", "/endpoint", document)["id"])

    def activate(self) -> None:
        """The first of them, with the passphrase."""
        values = {"username": "alice", "passphrase": PASSPHRASE}
        rows = [{"type": "myproxy", "name": name, "value": value} for name, value in values.items()]
        document = {"DATA_TYPE": "activation_requirements", "DATA": rows}
        self.service.call("POST", f"/endpoint/{self.names[0]}/activate", document)

    def copy(self, name: str) -> None:
        """A file from one endpoint to the other."""
        task = self.service.transfer(self.names[0], f"{self.folder}/file", self.names[1], f"{self.folder}/{name}")
        assert self.service.wait(task, timeout=60)["status"] == "SUCCEEDED"
        assert (self.folder / name).read_bytes() == (self.folder / "file").read_bytes()

    def trouble(self, task: str) -> list[str]:
        """The codes of what has gone wrong with a task, once something has."""
        codes: list[str] = []

        def has_come() -> bool:
            events = self.service.call("GET", f"/task/{task}/event_list?filter=is_error:1")["DATA"]
            codes[:] = [event["code"] for event in events]
            return bool(codes)

        eventually(has_come)
        assert self.service.call("GET", f"/task/{task}")["status"] == "ACTIVE"
        return codes

    def refusal(self) -> dict[str, Any]:
        """Return the error document of a listing that fails."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.service.call("GET", f"/operation/endpoint/{self.names[0]}/ls?path={self.folder}/")
        with refused.value as answer:
            document: dict[str, Any] = json.load(answer)
        return document


@pytest.fixture
def site(
    service: Api,
    tmp_path: Path,
    gsi_server_factory: Callable[..., ToolkitServer],
    myproxy_server: MyProxyServer,
    identity_of: Callable[..., CertificateFiles],
) -> Site:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "file").write_bytes(os.urandom(100_000))
    myproxy_server.keep("alice", PASSPHRASE, identity_of("alice"))
    return Site(service, gsi_server_factory(folder), myproxy_server, folder)


def waybill(service: Api, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"WAYBILL_HOME": str(service.home)}
    command = [sys.executable, "-m", "deploy.cli", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_key_is_changed_lost_and_found_while_the_service_runs(service: Api, site: Site) -> None:
    file = service.home / "vault-key"
    old, new = file.read_text(), new_key() + "\n"
    site.activate()
    site.copy("with the old key")

    write_private(file, new + old)
    site.copy("with both")
    rotated = waybill(service, "vault", "rotate")
    assert (rotated.returncode, rotated.stdout.split()[:2]) == (0, ["1", "sealed"]), rotated
    write_private(file, new)
    assert waybill(service, "vault", "status").returncode == 0
    site.copy("with the new key")
    site.activate()
    site.copy("with the credential anew")
    site.activate()  # nobody's session is warm with this one

    write_private(file, new_key())
    assert "vault key" in site.refusal()["message"]
    assert waybill(service, "vault", "status").returncode == 1
    sample = service.transfer("go#ep1", "/share/godata/file1.txt", "go#ep2", "/still.txt")
    assert service.wait(sample, timeout=60)["status"] == "SUCCEEDED", "what needs no credential needs no key"
    task = service.transfer(site.names[0], f"{site.folder}/file", site.names[1], f"{site.folder}/waited")
    assert "INTERNAL_ERROR" in site.trouble(task)
    write_private(file, new)
    assert service.wait(task, timeout=60)["status"] == "SUCCEEDED", "by itself"
    site.copy("with the key found again")

    secrets = {"the passphrase": PASSPHRASE, "the old key": old.strip(), "the new key": new.strip()}
    url = embedded_environment(service.home)["DATABASE_URL"]
    processes = service.connection["pids"].values()
    assert search(secrets, folders=[service.home], database=url, processes=processes, exempt=[file]) == []
