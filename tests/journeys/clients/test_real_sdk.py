"""A science gateway's Python, with globus-sdk as it was published: today's, and what gateways still run."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_transfers import digests
from tests.real_clients import SDKS, run_python
from transferapi.config import CHECKOUT

pytestmark = pytest.mark.real_clients
MakeSite = Callable[..., Site]

#: Code that works with all generations of the SDK: it defines `client` and `transfer_data(...)`.
PRELUDE = """
import globus_sdk
MAJOR = int(globus_sdk.__version__.split(".")[0])
client = globus_sdk.TransferClient(authorizer=globus_sdk.AccessTokenAuthorizer(TOKEN), base_url=URL)


def transfer_data(source, destination, **options):
    if MAJOR < 4:
        return globus_sdk.TransferData(client, source, destination, **options)
    return globus_sdk.TransferData(source, destination, **options)


def delete_data(endpoint, **options):
    return globus_sdk.DeleteData(*([client] if MAJOR < 4 else []), endpoint, **options)


def done(task_id):
    assert client.task_wait(task_id, timeout=60, polling_interval=1)
    return client.get_task(task_id)
"""


@pytest.fixture(params=SDKS)
def python(request: pytest.FixtureRequest, service: Api, tmp_path: Path) -> Callable[..., Any]:
    """Run a piece of Python with one generation of the SDK, signed in with an API token; what it prints, as JSON."""

    def run(code: str, **given: Any) -> Any:
        token = service.connection["token"]
        ran = run_python(request.param, PRELUDE + code, url=service.url, home=tmp_path, token=token, **given)
        return json.loads(ran.out)

    return run


@pytest.fixture
def source(site: MakeSite) -> Site:
    made = site("source", "own")
    for name in ("tree/a.txt", "tree/deep/b.txt"):
        (made.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (made.folder / name).write_text(f"This is {name}.\n")
    return made


@pytest.fixture
def target(site: MakeSite) -> Site:
    return site("target", "own")


TRANSFER = """
data = transfer_data(SOURCE, TARGET, label="nightly", sync_level="checksum", verify_checksum=True)
data.add_item("/tree/", "/copy/", recursive=True)
data.add_item("/tree/a.txt", "/one.txt")
task = done(client.submit_transfer(data)["task_id"])
files = sorted(row["destination_path"] for row in client.task_successful_transfers(task["task_id"]))
events = [row["code"] for row in client.task_event_list(task["task_id"])]
mine = [row["label"] for row in client.task_list(filter="task_id:" + task["task_id"])]
print(json.dumps([task["status"], task["files_transferred"], files, events[0], mine]))
"""


def test_a_transfer(python: Callable[..., Any], source: Site, target: Site) -> None:
    status, files, names, last, mine = python(TRANSFER, source=source.id, target=target.id)
    assert (status, files, last, mine) == ("SUCCEEDED", 3, "SUCCEEDED", ["nightly"])
    assert names == ["/copy/a.txt", "/copy/deep/b.txt", "/one.txt"]
    assert digests(target.folder / "copy") == digests(source.folder / "tree")


OPERATIONS = """
client.operation_mkdir(ENDPOINT, "/made")
client.operation_rename(ENDPOINT, "/made", "/named")
names = [row["name"] for row in client.operation_ls(ENDPOINT, path="/")]
try:
    client.operation_ls(ENDPOINT, path="/nothing")
except globus_sdk.TransferAPIError as error:
    missing = [error.http_status, error.code]
task = delete_data(ENDPOINT, recursive=True)
task.add_item("/named")
status = done(client.submit_delete(task)["task_id"])["status"]
print(json.dumps([names, missing, status]))
"""


def test_operations_and_a_delete(python: Callable[..., Any], target: Site) -> None:
    names, missing, status = python(OPERATIONS, endpoint=target.id)
    assert names == ["named"]
    assert missing == [404, "ClientError.NotFound"]
    assert status == "SUCCEEDED"
    assert not (target.folder / "named").exists()


ENDPOINTS = """
name = client.get_endpoint(ENDPOINT)["canonical_name"]
same = client.get_endpoint(name)["id"]
client.update_endpoint(ENDPOINT, {"description": "changed"})
found = [row["description"] for row in client.endpoint_search(NAME, filter_scope="my-endpoints")]
servers = [row["uri"] for row in client.endpoint_server_list(ENDPOINT)] if MAJOR < 4 else None
active = client.endpoint_autoactivate(ENDPOINT)["code"] if MAJOR < 4 else None
mark = client.create_bookmark({"name": NAME, "endpoint_id": ENDPOINT, "path": "/tree/"})["id"]
marks = [row["path"] for row in client.bookmark_list() if row["id"] == mark]
client.delete_bookmark(mark)
print(json.dumps([same, found, servers, active, marks]))
"""


def test_endpoints_and_bookmarks(python: Callable[..., Any], source: Site) -> None:
    """The forms of 1.x to 3.x as well: servers, and activation that is asked for before each transfer."""
    name = source.folder.parent.name
    same, found, servers, active, marks = python(ENDPOINTS, endpoint=source.id, name=name)
    assert same == source.id
    assert found == ["changed"]
    assert servers is None or servers[0].startswith("ftp://127.0.0.1:")
    assert active in (None, "AlreadyActivated", "AutoActivated.CachedCredential")
    assert marks == ["/tree/"]


CANCEL = """
data = transfer_data(SOURCE, TARGET)
data.add_item("/tree/", "/copy/", recursive=True)
task_id = client.submit_transfer(data)["task_id"]
again = client.submit_transfer(data)["task_id"]
client.update_task(task_id, {"DATA_TYPE": "task", "label": "new"})
early = client.task_wait(task_id, timeout=1, polling_interval=1)
code = client.cancel_task(task_id)["code"]
task = done(task_id)
print(json.dumps([again == task_id, early, code, task["status"], task["fatal_error"]["code"], task["label"]]))
"""


def test_a_task_that_takes_long_is_canceled(python: Callable[..., Any], service: Api, source: Site) -> None:
    nowhere = service.endpoint(f"nowhere-{uuid.uuid4()}", 1)
    same, early, code, status, why, label = python(CANCEL, source=source.id, target=nowhere)
    assert same
    assert not early
    assert code in ("Canceled", "CancelAccepted")
    assert (status, why, label) == ("FAILED", "CANCELED", "new")


def test_the_gateway_of_the_readme(service: Api, source: Site, target: Site, tmp_path: Path) -> None:
    """Five lines of Python, as they stand there."""
    text = (CHECKOUT / "README.md").read_text()
    code = text.split("<!-- gateway -->\n```python\n")[1].split("```")[0]
    for word, value in {
        "http://127.0.0.1:8000": service.url,
        "TOKEN": repr(service.connection["token"]),
        "SOURCE": repr(source.id),
        "DESTINATION": repr(target.id),
        "/share/godata/": "/tree/",
    }.items():
        assert word in code, word
        code = code.replace(word, value)
    ran = run_python("sdk4", code, url=service.url, home=tmp_path)
    assert ran.out.strip() == "SUCCEEDED"
    assert len([line for line in code.splitlines() if line and not line.startswith(("#", "import", "from"))]) == 5
