"""The way of a box's user: her password becomes a certificate at the service, and the service moves her files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.instance import Api, instance

from .box_host import PASSWORD, UID, BoxHost

pytestmark = [pytest.mark.toolkit, pytest.mark.timeout(180)]


@pytest.fixture
def host() -> Iterator[BoxHost]:
    """At a service of its own, whose folder of authorities is empty yet."""
    folder = Path(tempfile.mkdtemp(prefix="waybill-box-"))
    folder.chmod(0o711)
    (folder / "trusted").mkdir()
    with instance(WAYBILL_CERTIFICATES=str(folder / "trusted")) as api:
        made = BoxHost(folder, api)
        if not made.works():
            shutil.rmtree(folder)
            pytest.skip("this machine does not let us have mount namespaces")
        yield made
        made.stop()
    shutil.rmtree(folder)


def activate(api: Api, endpoint: str, user: str) -> dict[str, object]:
    values = {"username": user, "passphrase": PASSWORD, "lifetime_in_hours": "1"}
    rows = [{"type": "myproxy", "name": name, "value": value} for name, value in values.items()]
    document = {"DATA_TYPE": "activation_requirements", "DATA": rows}
    answer: dict[str, object] = api.call("POST", f"/endpoint/{endpoint}/activate", document)
    return answer


def test_a_password_at_the_box_moves_files_by_the_service(host: BoxHost) -> None:
    host.setup()
    host.start()
    for path in (host.box / "authority" / "certificates").iterdir():  # what `setup` asks the operator to do
        shutil.copy(path, host.folder / "trusted")
    [endpoint] = host.endpoints()
    answer = activate(host.service, str(endpoint["id"]), host.user)
    assert answer["code"] == "Activated.MyProxyCredential"
    assert answer["subject"] == f"/O=Waybill Endpoint/OU=localhost/OU=people/CN={host.user}"

    data = host.folder / "data"
    data.mkdir()
    (data / "file").write_bytes(os.urandom(100_000))
    if host.root:
        os.chown(data, UID, UID)
    ids = [str(endpoint["id"])] * 2
    task = host.service.wait(
        host.service.transfer(ids[0], f"{data}/file", ids[1], f"{data}/copy", encrypt_data=True), timeout=60
    )
    assert task["status"] == "SUCCEEDED", task
    assert (data / "copy").read_bytes() == (data / "file").read_bytes()
    assert (data / "copy").stat().st_uid == (UID if host.root else os.getuid())
