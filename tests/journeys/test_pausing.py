"""A manager stops an endpoint in the middle of a transfer, with the published globus-sdk, and lets it go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_transfers import digests, hand_over
from tests.real_clients import Globus, run_python

MakeSite = Callable[..., Site]
#: It takes seconds to be moved and compared, whatever the machine.
LARGE = 3 << 29
FILES = 400

PRELUDE = """
import time
import globus_sdk
client = globus_sdk.TransferClient(authorizer=globus_sdk.AccessTokenAuthorizer(TOKEN), base_url=URL)


def until(condition, seconds=90):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to pass in time"
        time.sleep(0.1)
    return found


def task():
    return client.get_task(TASK).data


def refused(call):
    try:
        call()
    except globus_sdk.TransferAPIError as error:
        return [error.http_status, error.code, error.message]
    raise AssertionError("it was allowed")
"""

PAUSE = """
until(lambda: task()["bytes_transferred"] > 0)
began = time.monotonic()
rule = client.endpoint_manager_create_pause_rule(
    {"DATA_TYPE": "pause_rule", "endpoint_id": SOURCE, "identity_id": None, "message": "The disks are replaced."}
)
paused = until(lambda: task()["is_paused"] and task())
print(json.dumps({
    "seconds": time.monotonic() - began,
    "rule": rule.data,
    "task": paused,
    "info": client.task_pause_info(TASK).data,
    "effective": list(client.my_effective_pause_rule_list(SOURCE)),
    "ls": refused(lambda: client.operation_ls(SOURCE)),
}))
"""

GO_ON = """
client.endpoint_manager_delete_pause_rule(RULE)
assert client.task_wait(TASK, timeout=60, polling_interval=1)
print(json.dumps(task()))
"""

#: Every method of the client that is about endpoints of one's own, once.
EVERYTHING = """
ids = lambda answer: [row.get("task_id") or row.get("id") for row in answer]
pages = lambda method, **query: [row for page in getattr(client.paginated, method)(**query) for row in page]
rule = client.endpoint_manager_create_pause_rule(
    {"endpoint_id": SOURCE, "message": "Wait.", "pause_ls": False, "pause_task_transfer_read": True}
)
waiting = until(lambda: task()["is_paused"] and task())
found = {
    "monitored": ids(client.endpoint_manager_monitored_endpoints()),
    "endpoint": client.endpoint_manager_get_endpoint(SOURCE)["id"],
    "hosted": ids(client.endpoint_manager_hosted_endpoint_list(SOURCE)),
    "access": [row["permissions"] for row in client.endpoint_manager_acl_list(SHARE)],
    "tasks": ids(pages("endpoint_manager_task_list", filter_status="ACTIVE", filter_is_paused=True,
        filter_endpoint=SOURCE, filter_endpoint_use="source")),
    "by_id": ids(client.endpoint_manager_task_list(filter_task_id=[TASK])),
    "task": client.endpoint_manager_get_task(TASK).data,
    "events": [row["code"] for row in pages("endpoint_manager_task_event_list", task_id=TASK)],
    "errors": [row["code"] for row in client.endpoint_manager_task_event_list(TASK, filter_is_error=True)],
    "info": client.endpoint_manager_task_pause_info(TASK).data,
    "moved": pages("endpoint_manager_task_successful_transfers", task_id=TASK),
    "skipped": pages("endpoint_manager_task_skipped_errors", task_id=TASK),
    "rules": ids(client.endpoint_manager_pause_rule_list(filter_endpoint=SOURCE)),
    "rule": client.endpoint_manager_get_pause_rule(rule["id"])["message"],
    "updated": client.endpoint_manager_update_pause_rule(rule["id"], {"message": "Wait on."})["message"],
}
client.endpoint_manager_pause_tasks([TASK], "And this one above all.")
found["deleted"] = client.endpoint_manager_delete_pause_rule(rule["id"])["code"]
found["by_admin"] = until(lambda: task()["nice_status"] == "PAUSED_BY_ADMIN" and task())
client.endpoint_manager_resume_tasks([TASK])
until(lambda: not task()["is_paused"])
cancel = client.endpoint_manager_cancel_tasks([TASK], "Enough of that.")
until(lambda: client.endpoint_manager_cancel_status(cancel["id"])["done"])
found["canceled"] = task()
found["rule_id"] = rule["id"]
print(json.dumps(found))
"""


@pytest.fixture
def python(service: Api, tmp_path: Path) -> Callable[..., Any]:
    """Run a piece of Python with the SDK, as the sample user; what it prints, as JSON."""

    def run(code: str, **given: Any) -> Any:
        token = service.connection["token"]
        ran = run_python("sdk4", PRELUDE + code, url=service.url, home=tmp_path, token=token, seconds=150, **given)
        return json.loads(ran.out)

    return run


@pytest.mark.real_clients
@pytest.mark.parametrize("kind", ["own", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def test_a_rule_stops_a_transfer_in_the_middle_and_all_arrives_when_it_is_taken_back(
    service: Api, site: MakeSite, python: Callable[..., Any], tmp_path: Path, kind: str
) -> None:
    a, b = site("a", kind), site("b", kind)
    for number in range(FILES):
        (a.folder / f"f{number}").write_bytes(b"%d" % number * 100)
    with (a.folder / "large").open("wb") as file:
        file.truncate(LARGE)
    hand_over(a)
    task_id = service.transfer(a.id, a.path(""), b.id, b.path("copy/"), verify_checksum=True)
    told = python(PAUSE, task=task_id, source=a.id)
    task, rule_id = told["task"], told["rule"]["id"]
    assert (task["status"], task["nice_status"]) == ("ACTIVE", "PAUSED")
    assert task["files_transferred"] <= FILES, "it was stopped in the middle"
    assert [rule["id"] for rule in told["info"]["pause_rules"]] == [rule_id]
    assert [rule["id"] for rule in told["effective"]] == [rule_id]
    status, code, message = told["ls"]
    assert (status, code) == (409, "ExternalError.DirListingFailed.GCPaused")
    assert "The disks are replaced." in message
    client = service.connection["client"]
    words = Globus(service.url, tmp_path, (client["id"], client["secret"]))("task", "pause-info", task_id).out
    assert "The disks are replaced." in words
    done = python(GO_ON, task=task_id, rule=rule_id)
    assert done["status"] == "SUCCEEDED", done["fatal_error"]
    assert done["files_transferred"] == FILES + 1
    assert digests(b.folder / "copy") == digests(a.folder)
    codes = [event["code"] for event in service.call("GET", f"/task/{task_id}/event_list?limit=1000")["DATA"]]
    assert codes.index("UNPAUSED") < codes.index("PAUSED"), "newest first"


@pytest.mark.real_clients
def test_every_method_of_the_sdk_for_managers_finds_its_route(
    service: Api, site: MakeSite, python: Callable[..., Any]
) -> None:
    a, b = site("a", "own"), site("b", "own")
    share = service.call(
        "POST", "/shared_endpoint", {"host_endpoint": a.id, "host_path": "/shared/", "display_name": "share"}
    )["id"]
    task_id = service.transfer(a.id, "/never there", b.id, "/copy")
    found = python(EVERYTHING, task=task_id, source=a.id, share=share)
    assert {a.id, b.id, share} <= set(found["monitored"])
    assert (found["endpoint"], found["hosted"]) == (a.id, [share])
    assert found["access"] == ["rw"], "the owner's"
    assert found["tasks"] == found["by_id"] == [task_id]
    assert (found["task"]["owner_string"], found["task"]["is_paused"]) == (
        f"{found['task']['username']}@127.0.0.1",
        True,
    )
    assert {"SUBMITTED", "PAUSED"} <= set(found["events"])
    assert set(found["errors"]) <= {"FILE_NOT_FOUND"}
    assert (found["moved"], found["skipped"]) == ([], [])
    assert found["rules"] == [rule["id"] for rule in found["info"]["pause_rules"]] == [found["rule_id"]]
    assert (found["rule"], found["updated"], found["deleted"]) == ("Wait.", "Wait on.", "Deleted")
    assert "And this one above all." in found["by_admin"]["nice_status_details"]
    canceled = found["canceled"]
    assert (canceled["status"], canceled["canceled_by_admin"]) == ("FAILED", "BOTH")
    assert canceled["canceled_by_admin_message"] == "Enough of that."
