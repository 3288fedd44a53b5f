"""Checksums and modification times through the whole service, between real servers."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_transfers import digests, events, hand_over, make_tree, soon, succeeded
from tests.waiting import eventually

MakeSite = Callable[..., Site]


def settled_as(api: Api, task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The lines of successful_transfers, by destination path."""
    document = api.call("GET", f"/task/{task['task_id']}/successful_transfers?limit=1000")
    return {row["destination_path"]: row for row in document["DATA"]}


@pytest.mark.parametrize("kind", ["own", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def test_a_folder_is_verified_and_keeps_its_times(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
    make_tree(a.folder, 120)
    (a.folder / "large").write_bytes(os.urandom(1 << 20) * 60)
    files = [path for path in a.folder.rglob("*") if path.is_file()]
    for index, path in enumerate(files):
        os.utime(path, (0, 10**9 + index * 1001))
    hand_over(a)
    options = {"verify_checksum": True, "preserve_timestamp": True}
    task = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), **options)))
    assert task["faults"] == 0
    assert task["bytes_checksummed"] == sum(path.stat().st_size for path in files)
    copy = b.folder / "copy"
    assert digests(copy) == digests(a.folder)
    rows = settled_as(service, task)
    for path in files:
        twin = copy / path.relative_to(a.folder)
        assert int(twin.stat().st_mtime) == int(path.stat().st_mtime)
        row = rows[b.path(f"copy/{path.relative_to(a.folder)}")]
        assert (row["checksum_algorithm"], row["size"]) == ("MD5", path.stat().st_size)
        assert row["checksum"] == hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    assert not any(event["is_error"] or "SKIPPED" in event["code"] for event in events(service, task["task_id"]))


def test_what_rots_before_it_is_verified_is_sent_again(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "bad disk")
    for name in (*(f"f{index}" for index in range(30)), "rot-once-small"):
        (a.folder / name).write_bytes(name.encode() * 1000)
    (a.folder / "rot-once-large").write_bytes(os.urandom(60 << 20))
    hand_over(a)
    options = {"verify_checksum": True, "preserve_timestamp": True}
    task = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), **options)))
    assert digests(b.folder / "copy") == digests(a.folder)
    assert task["faults"] == 2
    told = [event for event in events(service, task["task_id"]) if event["is_error"]]
    assert {event["code"] for event in told} == {"VERIFY_CHECKSUM"}
    assert "rot-once" in told[0]["details"]
    sizes = [path.stat().st_size for path in a.folder.iterdir()]
    rotten = [path.stat().st_size for path in a.folder.iterdir() if path.name.startswith("rot")]
    assert task["bytes_checksummed"] == sum(sizes) + sum(rotten)
    for path in a.folder.iterdir():
        assert int((b.folder / "copy" / path.name).stat().st_mtime) == int(path.stat().st_mtime)


def test_a_connection_that_ends_over_a_checksum_costs_no_transfer(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "bad disk")
    for index in range(200):
        (a.folder / f"f{index}").write_bytes(b"%d" % index)
    (a.folder / "cut-once").write_bytes(os.urandom(1 << 20))
    task_id = service.transfer(a.id, "/", b.id, "/copy/", verify_checksum=True)
    arrived = b.folder / "copy" / "cut-once"
    eventually(lambda: arrived.exists() and arrived.stat().st_size == 1 << 20)
    written = arrived.stat().st_mtime_ns
    task = succeeded(service.wait(task_id))
    assert (task["faults"], arrived.stat().st_mtime_ns) == (1, written)
    assert digests(b.folder / "copy") == digests(a.folder)
    (told,) = [event for event in events(service, task_id) if event["is_error"]]
    assert told["code"].startswith("CONNECTION_")


def test_a_time_that_cannot_be_kept_is_reported_once_and_fails_nothing(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "bad disk")
    for name in ("timeless1", "timeless2", "other"):
        (a.folder / name).write_bytes(name.encode())
        os.utime(a.folder / name, (10**9, 10**9))
    task = succeeded(service.wait(service.transfer(a.id, "/", b.id, "/copy/", preserve_timestamp=True)))
    assert digests(b.folder / "copy") == digests(a.folder)
    assert (b.folder / "copy" / "other").stat().st_mtime == 10**9
    (told,) = [event for event in events(service, task["task_id"]) if event["code"] == "PRESERVE_TIMESTAMP_SKIPPED"]
    assert (told["is_error"], task["faults"], "timeless" in told["details"]) == (False, 0, True)


def test_what_always_rots_is_tried_until_the_deadline_and_holds_up_nothing(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "bad disk")
    for name in ("fine", "rotten"):
        (a.folder / name).write_bytes(name.encode())
    task_id = service.transfer(a.id, "/", b.id, "/copy/", verify_checksum=True)
    eventually(lambda: service.call("GET", f"/task/{task_id}?fields=faults")["faults"] > 1)
    service.call("PUT", f"/task/{task_id}", {"DATA_TYPE": "task", "deadline": soon(2)})
    task = service.wait(task_id)
    assert (task["status"], task["fatal_error"]["code"]) == ("FAILED", "EXPIRED")
    assert (task["files_transferred"], task["faults"] > 1) == (1, True)
    (lost,) = service.call("GET", f"/task/{task['task_id']}/skipped_errors")["DATA"]
    assert (lost["error_code"], lost["destination_path"]) == ("VERIFY_CHECKSUM", "/copy/rotten")


@pytest.mark.toolkit
def test_checksums_that_the_user_gives_are_held_to(service: Api, site: MakeSite) -> None:
    a, b = site("a", "toolkit"), site("b", "bad disk")
    for name in ("right", "wrong", "rot-once"):
        (a.folder / name).write_bytes(name.encode())
    hand_over(a)
    items = [
        {"external_checksum": hashlib.sha256(b"right").hexdigest().upper(), "checksum_algorithm": "sha256"},
        {"external_checksum": hashlib.md5(b"something else", usedforsecurity=False).hexdigest()},
        {
            "external_checksum": hashlib.sha1(b"rot-once", usedforsecurity=False).hexdigest(),
            "checksum_algorithm": "SHA1",
        },
    ]
    for item, name in zip(items, ("right", "wrong", "rot-once"), strict=True):
        item |= {"DATA_TYPE": "transfer_item", "source_path": a.path(name), "destination_path": f"/{name}"}
    document = {
        "DATA_TYPE": "transfer",
        "submission_id": service.call("GET", "/submission_id")["value"],
        "source_endpoint": a.id,
        "destination_endpoint": b.id,
        "DATA": items,
    }
    task = service.wait(service.call("POST", "/transfer", document)["task_id"])
    assert (task["status"], task["fatal_error"]["code"]) == ("FAILED", "EXTERNAL_CHECKSUM_MISMATCH")
    assert (b.folder / "rot-once").read_bytes() == b"rot-once"
    rows = settled_as(service, task)
    assert {path: row["checksum"] for path, row in rows.items()} == {
        "/right": items[0]["external_checksum"].lower(),
        "/rot-once": items[2]["external_checksum"],
    }
    (lost,) = service.call("GET", f"/task/{task['task_id']}/skipped_errors")["DATA"]
    assert (lost["source_path"], lost["checksum_algorithm"]) == (a.path("wrong"), "MD5")
    assert lost["external_checksum"] == items[1]["external_checksum"]
    told = {event["description"] for event in events(service, task["task_id"]) if event["is_error"]}
    assert any("at the source" in line and "given up" in line for line in told)
    assert any("at the destination" in line and "tried again" in line for line in told)


@pytest.mark.toolkit
def test_a_large_file_is_not_sent_again_when_the_worker_dies_before_it_is_verified(
    service: Api, site: MakeSite
) -> None:
    a, places = site("a", "bad disk"), [site("b", "own"), site("c", "toolkit")]
    (a.folder / "slow").write_bytes(os.urandom(60 << 20))
    tasks = []
    for b in places:
        (b.folder / "copy").mkdir()
        (b.folder / "copy").chmod(0o777)
        tasks.append(service.transfer(a.id, "/", b.id, b.path("copy/"), verify_checksum=True))
    for task_id in tasks:
        eventually(lambda: service.call("GET", f"/task/{task_id}")["bytes_transferred"] == 60 << 20)  # noqa: B023
    written = [(b.folder / "copy" / "slow").stat().st_mtime_ns for b in places]
    for name, pid in service.connection["pids"].items():
        if name.startswith("worker"):
            os.kill(pid, signal.SIGKILL)
    for task_id, b, before in zip(tasks, places, written, strict=True):
        task = succeeded(service.wait(task_id))
        assert "RESUMED" in {event["code"] for event in events(service, task_id)}
        assert (b.folder / "copy" / "slow").stat().st_mtime_ns == before, "nobody has written to it since"
        assert digests(b.folder / "copy") == digests(a.folder)
        assert task["bytes_checksummed"] == task["bytes_transferred"] == 60 << 20
