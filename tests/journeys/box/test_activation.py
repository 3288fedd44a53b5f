"""The way of a box's user: her password becomes a certificate at the service, and the service moves her files."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.endpoint.boxed.settings import OWN
from tests.instance import Api, instance
from tests.memory import folder_in_memory

from .box_host import PASSWORD, UID, BoxHost

pytestmark = [pytest.mark.toolkit, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def trusted() -> Iterator[Path]:
    """The service's folder of authorities, which is empty yet."""
    # An instance that root starts runs as an account of its own.
    with folder_in_memory("waybill-trusted-", 0o755) as folder:
        yield folder


@pytest.fixture(scope="module")
def service(trusted: Path, give_schema: Callable[[Path], object]) -> Iterator[Api]:
    with instance(before=give_schema, WAYBILL_CERTIFICATES=str(trusted)) as api:
        yield api


@pytest.fixture
def new_host(service: Api) -> Iterator[Callable[[], BoxHost]]:
    """Another place for a box on this machine, with ports of its own."""
    made: list[BoxHost] = []

    def make() -> BoxHost:
        folder = Path(tempfile.mkdtemp(prefix="waybill-box-"))
        folder.chmod(0o711)
        made.append(BoxHost(folder, service))
        if not made[-1].works():
            pytest.skip("this machine does not let us have mount namespaces")
        return made[-1]

    yield make
    for host in made:
        host.stop()
        shutil.rmtree(host.folder)


def hand_over(host: BoxHost, trusted: Path) -> list[str]:
    """Copy the files of the authority to the service, as `setup` and `renew` ask its operator. Return their names."""
    files = [path for path in (host.box / "authority" / "certificates").iterdir() if path.name[0] != "."]
    for path in files:
        shutil.copy(path, trusted)
    return [path.name for path in files]


def data_of(host: BoxHost) -> Path:
    data = host.folder / "data"
    data.mkdir()
    (data / "file").write_bytes(os.urandom(100_000))
    if host.root:
        os.chown(data, UID, UID)
    return data


def activate(api: Api, endpoint: str, user: str) -> dict[str, object]:
    values = {"username": user, "passphrase": PASSWORD, "lifetime_in_hours": "1"}
    rows = [{"type": "myproxy", "name": name, "value": value} for name, value in values.items()]
    document = {"DATA_TYPE": "activation_requirements", "DATA": rows}
    answer: dict[str, object] = api.call("POST", f"/endpoint/{endpoint}/activate", document)
    return answer


def test_passwords_at_two_boxes_of_one_host_move_files_by_the_service(
    service: Api, new_host: Callable[[], BoxHost], trusted: Path
) -> None:
    """Such as that of root and that of an ordinary user."""
    ends: list[tuple[str, Path]] = []
    for host in (one := new_host(), two := new_host()):
        host.setup()
        host.start()
        hand_over(host, trusted)
        [endpoint] = host.endpoints()
        ends.append((str(endpoint["id"]), data_of(host)))
    subjects = []
    for endpoint_id, _ in ends:  # the first one is still believed when the files of the second one are there
        answer = activate(service, endpoint_id, one.user)
        assert answer["code"] == "Activated.MyProxyCredential"
        subjects.append(str(answer["subject"]))
    assert all(re.fullmatch(rf"{OWN}[0-9a-f]{{8}}/OU=localhost/OU=people/CN={one.user}", name) for name in subjects)
    assert len(set(subjects)) == 2
    (source, here), (destination, there) = ends
    asked = service.transfer(source, f"{here}/file", destination, f"{there}/copy", encrypt_data=True)
    task = service.wait(asked, timeout=60)
    assert task["status"] == "SUCCEEDED", task
    assert (there / "copy").read_bytes() == (here / "file").read_bytes()
    assert (there / "copy").stat().st_uid == (UID if two.root else os.getuid())


def test_a_box_that_is_set_up_again_is_believed_beside_what_is_left_of_the_old_one(
    service: Api, new_host: Callable[[], BoxHost], trusted: Path
) -> None:
    host = new_host()
    host.setup()
    host.call("renew", "--folder", host.box, "--revoke")
    old = hand_over(host, trusted)
    assert any(name.endswith(".r0") for name in old)
    said = host.remove().splitlines()
    told = said.index("The operator of Waybill deletes these from the folder that WAYBILL_CERTIFICATES names:")
    assert sorted(old) == said[told + 1].split()
    host.setup()
    host.start()
    assert not set(old) & set(hand_over(host, trusted)), "nothing of the old one is written over"
    [endpoint] = host.endpoints()
    assert activate(service, str(endpoint["id"]), host.user)["code"] == "Activated.MyProxyCredential"
