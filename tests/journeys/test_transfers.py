"""The main job through the whole service: REST in, real bytes between real servers out."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.instance import Api
from tests.journeys.conftest import Site
from tests.waiting import eventually

MakeSite = Callable[..., Site]
PAIRS = [
    pytest.param("toolkit", "toolkit", marks=pytest.mark.toolkit),
    pytest.param("own", "own"),
    pytest.param("toolkit", "own", marks=pytest.mark.toolkit),
    pytest.param("own", "toolkit", marks=pytest.mark.toolkit),
]
#: Unusual file names of users; non-ASCII names only where the control channel carries them.
NASTY = [
    "hello? sausage",
    "a\"b'c",
    "#hash",
    "100%",
    "a%20b",
    "semi;colon",
    " lead",
    "trail ",
    "*[x]?",
    "~user",
    "-rf",
    "x" * 255,
]


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def digests(folder: Path) -> dict[str, str]:
    """Every file below a folder, and every empty folder, by relative path."""
    found: dict[str, str] = {}
    for root, folders, files in os.walk(os.fsencode(folder)):
        for name in files:
            path = os.path.join(root, name)
            relative = os.fsdecode(os.path.relpath(path, os.fsencode(folder)))
            with open(path, "rb") as file:
                found[relative] = hashlib.file_digest(file, "sha256").hexdigest()
        if not folders and not files:
            found[os.fsdecode(os.path.relpath(root, os.fsencode(folder)))] = "empty folder"
    return found


def make_tree(folder: Path, count: int = 200, names: list[str] = NASTY) -> None:
    for index in range(count):
        path = folder / f"d{index % 7}" / f"e{index % 3}" / f"f{index}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(index * 13))
    for name in names:
        (folder / name).write_bytes(name.encode("utf-8", "surrogateescape"))
    (folder / "empty file").touch()
    (folder / "empty folder").mkdir()


def hand_over(site: Site) -> None:
    """Files made after the server was started belong to us: the toolkit's account must read them."""
    for root, folders, files in os.walk(site.folder):
        for name in [*folders, *files]:
            path = os.path.join(root, name)
            os.chmod(path, 0o755 if os.path.isdir(path) else 0o644)


def events(api: Api, task_id: str) -> list[dict[str, Any]]:
    document = api.call("GET", f"/task/{task_id}/event_list?limit=1000")
    return list(document["DATA"])


def succeeded(task: dict[str, Any]) -> dict[str, Any]:
    assert task["status"] == "SUCCEEDED", (task["nice_status"], task["nice_status_details"], task["fatal_error"])
    assert task["files"] == task["files_transferred"] + task["files_skipped"]
    return task


@pytest.mark.parametrize(("source_kind", "destination_kind"), PAIRS)
def test_a_folder_arrives_bit_for_bit(service: Api, site: MakeSite, source_kind: str, destination_kind: str) -> None:
    a, b = site("a", source_kind), site("b", destination_kind)
    clean = source_kind == destination_kind == "own"
    make_tree(a.folder, names=[*NASTY, "grüße 世界", "not utf8 \udcff\udcfe"] if clean else NASTY)
    hand_over(a)
    task = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("new/parents/copy/"))))
    assert digests(b.folder / "new" / "parents" / "copy") == digests(a.folder)
    assert task["files"] == len([value for value in digests(a.folder).values() if value != "empty folder"])
    assert task["bytes_transferred"] == sum(path.stat().st_size for path in a.folder.rglob("*") if path.is_file())
    assert task["completion_time"]
    codes = [event["code"] for event in events(service, task["task_id"])]
    assert codes[0] == "SUCCEEDED"
    assert "STARTED" in codes
    transferred = service.call("GET", f"/task/{task['task_id']}/successful_transfers?limit=1000")["DATA"]
    assert len(transferred) == task["files"]


@pytest.mark.parametrize(("source_kind", "destination_kind"), PAIRS)
def test_many_items_that_are_files_arrive_under_their_new_names(
    service: Api, site: MakeSite, source_kind: str, destination_kind: str
) -> None:
    a, b = site("a", source_kind), site("b", destination_kind)
    for index in range(30):
        (a.folder / f"f{index}").write_bytes(b"%d" % index * index)
    hand_over(a)
    items = [(a.path(f"f{index}"), b.path(f"sub{index % 3}/g{index}")) for index in range(30)]
    succeeded(service.wait(service.transfer_items(a.id, b.id, items)))
    for index in range(30):
        assert (b.folder / f"sub{index % 3}" / f"g{index}").read_bytes() == b"%d" % index * index


def test_the_plan_and_its_reason_are_in_an_event(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    for index in range(150):
        (a.folder / f"f{index}").write_bytes(b"x")
    task = succeeded(service.wait(service.transfer(a.id, "/", b.id, "/copy/", tuning="paper")))
    details = " ".join(event["details"] for event in events(service, task["task_id"]))
    assert '"concurrency": 2' in details
    assert '"parallelism": 2' in details
    assert '"pipelining": 20' in details
    assert "more than 100 files" in details


@pytest.mark.parametrize("kind", ["own", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def test_one_bad_file_holds_up_no_other_and_the_deadline_counts_what_arrived(
    service: Api, site: MakeSite, kind: str
) -> None:
    a, b = site("a", kind), site("b", kind)
    for index in range(60):
        (a.folder / f"f{index}").write_bytes(b"%d" % index)
    hand_over(a)
    (b.folder / "f7").mkdir()
    items = [(a.path(f"f{index}"), b.path(f"f{index}")) for index in range(60) if index != 7]
    items += [(a.path("missing"), b.path("missing"))]
    task_id = service.transfer_items(a.id, b.id, items)
    eventually(lambda: service.call("GET", f"/task/{task_id}")["files_transferred"] == 59)
    # Progress clears the trouble that is shown; the next try of the missing file shows it again.
    eventually(lambda: service.call("GET", f"/task/{task_id}")["nice_status"] == "FILE_NOT_FOUND")
    running = service.call("GET", f"/task/{task_id}")
    assert running["status"] == "ACTIVE"
    assert running["is_ok"] is False
    assert running["faults"] >= 1
    service.call("PUT", f"/task/{task_id}", {"DATA_TYPE": "task", "deadline": soon(2)})
    task = service.wait(task_id)
    assert task["status"] == "FAILED"
    assert task["fatal_error"]["code"] == "EXPIRED"
    assert task["files_transferred"] == 59
    assert len([path for path in b.folder.iterdir() if path.is_file()]) == 59
    faults = [event for event in events(service, task_id) if event["is_error"] and event["code"] == "FILE_NOT_FOUND"]
    assert faults
    assert "missing" in faults[0]["details"]


def test_a_missing_source_that_appears_is_moved_after_all(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    task_id = service.transfer(a.id, "/late", b.id, "/late")
    time.sleep(1.5)
    (a.folder / "late").write_bytes(b"better late than never")
    succeeded(service.wait(task_id, timeout=40))
    assert (b.folder / "late").read_bytes() == b"better late than never"


def test_a_cancel_ends_a_running_transfer(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    for index in range(6):
        with (a.folder / f"big{index}").open("wb") as file:
            file.truncate(3 * 2**30)
    task_id = service.transfer(a.id, "/", b.id, "/copy/")
    eventually(lambda: service.call("GET", f"/task/{task_id}")["bytes_transferred"] > 0)
    assert service.call("POST", f"/task/{task_id}/cancel")["code"] in ("Canceled", "CancelAccepted")
    task = service.wait(task_id)
    assert task["status"] == "FAILED"
    assert events(service, task_id)[0]["code"] == "CANCELED"


def test_a_deadline_can_be_moved_and_a_label_changed(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    task_id = service.transfer(a.id, "/none", b.id, "/none", label="before")
    service.call("PUT", f"/task/{task_id}", {"DATA_TYPE": "task", "label": "after", "deadline": soon(2)})
    task = service.wait(task_id, timeout=60)
    assert (task["status"], task["label"]) == ("FAILED", "after")


def test_a_delete_removes_a_tree_and_follows_no_symlink(service: Api, site: MakeSite) -> None:
    a = site("a", "own")
    (a.folder / "tree").mkdir()
    make_tree(a.folder / "tree", 50)
    (a.folder / "kept").mkdir()
    (a.folder / "kept" / "file").write_bytes(b"keep me")
    (a.folder / "tree" / "link").symlink_to("../kept")
    document = {
        "DATA_TYPE": "delete",
        "submission_id": service.call("GET", "/submission_id")["value"],
        "endpoint": a.id,
        "recursive": True,
        "DATA": [{"DATA_TYPE": "delete_item", "path": "/tree"}],
    }
    task = service.wait(service.call("POST", "/delete", document)["task_id"])
    assert task["status"] == "SUCCEEDED", task["fatal_error"]
    assert os.listdir(a.folder) == ["kept"]
    assert (a.folder / "kept" / "file").read_bytes() == b"keep me"


def test_a_full_disk_is_a_typed_fault_and_spoils_nothing_else(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own", "prlimit", "--fsize=1000000")
    for index in range(10):
        (a.folder / f"small{index}").write_bytes(b"x" * 1000)
    (a.folder / "large").write_bytes(b"x" * 5_000_000)
    task_id = service.transfer(a.id, "/", b.id, "/")
    eventually(lambda: service.call("GET", f"/task/{task_id}")["files_transferred"] == 10)
    eventually(lambda: "NO_SPACE_LEFT" in [event["code"] for event in events(service, task_id)])
    service.call("PUT", f"/task/{task_id}", {"DATA_TYPE": "task", "deadline": soon(2)})
    task = service.wait(task_id)
    assert task["status"] == "FAILED"
    assert task["files_transferred"] == 10


def test_workers_killed_three_times_lose_and_double_nothing(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    make_tree(a.folder, 3000, [])
    with (a.folder / "large").open("wb") as file:
        for _ in range(150):
            file.write(os.urandom(2**20) * 8)
    task_id = service.transfer(a.id, "/", b.id, "/copy/")
    for moment in (0, 1, 2):
        eventually(lambda: service.call("GET", f"/task/{task_id}")["bytes_transferred"] > 0)
        time.sleep(0.3 * moment)
        for name, pid in service.connection["pids"].items():
            if name.startswith("worker"):
                os.kill(pid, signal.SIGKILL)
        time.sleep(1.0)
    task = succeeded(service.wait(task_id, timeout=90))
    assert digests(b.folder / "copy") == digests(a.folder)
    assert task["files_transferred"] == 3002


def test_a_task_ends_when_its_endpoint_is_taken_away(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    task_id = service.transfer(a.id, "/none", b.id, "/none")
    eventually(lambda: service.call("GET", f"/task/{task_id}")["faults"] > 0)
    service.call("DELETE", f"/endpoint/{a.id}")
    task = service.wait(task_id, timeout=60)
    assert task["status"] == "FAILED"
    assert task["fatal_error"]["code"] == "PERMISSION_DENIED"
