"""Deletes and mirrors through the whole service: what was asked for goes, and nothing else.

Tests of the engine and the servers alone are in tests/conformance/tasks/test_trees.py and test_deletions.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_transfers import PAIRS, MakeSite, digests, events, hand_over, soon, succeeded
from tests.waiting import eventually

KINDS = [pytest.param("toolkit", marks=pytest.mark.toolkit), "own"]
#: A server that is run as root may read everything: only the toolkit's runs as somebody else.
AS_NOBODY = [
    pytest.param("toolkit", "toolkit", marks=pytest.mark.toolkit),
    pytest.param("toolkit", "own", marks=pytest.mark.toolkit),
]


def delete(api: Api, site: Site, *names: str, **options: object) -> dict[str, Any]:
    """Delete these, and wait for the end."""
    document = {
        "DATA_TYPE": "delete",
        "submission_id": api.call("GET", "/submission_id")["value"],
        "endpoint": site.id,
        "DATA": [{"DATA_TYPE": "delete_item", "path": site.path(name)} for name in names],
        **options,
    }
    return api.wait(str(api.call("POST", "/delete", document)["task_id"]))


def give(site: Site) -> None:
    """All that lies in the folder belongs to the server's account, which must be able to delete it."""
    owner = site.folder.stat()
    for root, folders, files in os.walk(site.folder):
        for name in [*folders, *files]:
            os.lchown(os.path.join(root, name), owner.st_uid, owner.st_gid)


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def names(folder: Path) -> set[str]:
    """All that lies under this folder; symlinks are not followed."""
    found: set[str] = set()
    for root, folders, files in os.walk(folder):
        found |= {os.path.relpath(os.path.join(root, name), folder) for name in [*folders, *files]}
    return found


def links(folder: Path, outside: Path) -> None:
    """Symlinks to a folder and a file elsewhere, and to nothing."""
    (folder / "to-folder").symlink_to(outside)
    (folder / "to-file").symlink_to(outside / "precious")
    (folder / "dangling").symlink_to("nowhere")


@pytest.mark.parametrize("kind", KINDS)
def test_five_thousand_files_of_one_folder_go(service: Api, site: MakeSite, kind: str) -> None:
    a = site("a", kind)
    make(a.folder, *(f"old/f{n}" for n in range(5000)), "keep")
    give(a)
    task = succeeded(delete(service, a, "old", recursive=True))
    assert names(a.folder) == {"keep"}
    assert task["files"] == 5000


# ---- mirrors


def extras_of(api: Api, task: dict[str, Any]) -> list[dict[str, Any]]:
    codes = ("DELETE_DESTINATION_EXTRA_SKIPPED",)
    return [one for one in events(api, task["task_id"]) if one["code"] in codes]


def fill_mirror(a: Site, b: Site) -> None:
    make(a.folder, "f", "d/f", "d/e/f", *(f"many/f{n}" for n in range(300)))
    make(b.folder, "outside/precious", "copy/old", "copy/d/old", "copy/d/e/old", "copy/gone/deep/old", "copy/d/e/f")
    make(b.folder, *(f"copy/many/x{n}" for n in range(700)), *(f"copy/lots/x{n}" for n in range(700)))
    (b.folder / "copy" / "gone" / "empty").mkdir()
    hand_over(a)
    give(b)


@pytest.mark.toolkit
def test_a_mirror_has_what_the_source_has_and_nothing_else(service: Api, site: MakeSite) -> None:
    a, b = site("a", "toolkit"), site("b", "own")
    fill_mirror(a, b)
    (a.folder / "linked").symlink_to("d")
    make(b.folder, "copy/linked")
    for folder in ("copy/gone", "copy/gone/deep"):
        links(b.folder / folder, b.folder / "outside")
    (b.folder / "copy" / "d" / "to-folder").symlink_to(b.folder / "outside")
    give(b)
    task = succeeded(
        service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), delete_destination_extra=True))
    )
    assert names(b.folder / "copy") == names(a.folder)
    assert (b.folder / "outside" / "precious").read_bytes() == b"outside/precious"
    os.remove(a.folder / "linked")
    os.remove(b.folder / "copy" / "linked")
    assert digests(b.folder / "copy") == digests(a.folder)
    assert task["delete_destination_extra"] is True
    told = [one for one in events(service, task["task_id"]) if "Deleted at the destination" in one["description"]]
    assert len(told) == 1


@pytest.mark.parametrize(("source_kind", "destination_kind"), AS_NOBODY)
def test_what_could_not_be_read_is_passed_over_and_nothing_is_deleted_then(
    service: Api, site: MakeSite, source_kind: str, destination_kind: str
) -> None:
    a, b = site("a", source_kind), site("b", destination_kind)
    fill_mirror(a, b)
    make(a.folder, "secret/f", "d/closed")
    hand_over(a)
    (a.folder / "secret").chmod(0)
    (a.folder / "d" / "closed").chmod(0)
    before = names(b.folder / "copy")
    items = [(a.path(""), b.path("copy/")), (a.path("gone"), b.path("none"))]
    options = {"skip_source_errors": True, "delete_destination_extra": True}
    task = succeeded(service.wait(service.transfer_items(a.id, b.id, items, **options)))
    assert (task["files_skipped"], task["subtasks_skipped_errors"]) == (3, 3)
    assert task["subtasks_total"] == task["subtasks_succeeded"] + task["subtasks_skipped_errors"]
    rows = service.call("GET", f"/task/{task['task_id']}/skipped_errors")["DATA"]
    assert {(row["source_path"], row["error_code"], row["is_directory"]) for row in rows} == {
        (a.path("secret"), "PERMISSION_DENIED", True),
        (a.path("d/closed"), "PERMISSION_DENIED", False),
        (a.path("gone"), "FILE_NOT_FOUND", False),
    }
    codes = [event["code"] for event in events(service, task["task_id"])]
    assert codes[0] == "SUCCEEDED"
    assert "SKIPPED_ERRORS" in codes
    assert len(extras_of(service, task)) == 1
    assert before <= names(b.folder / "copy")
    assert (b.folder / "copy" / "d" / "f").read_bytes() == b"d/f"
    assert not (b.folder / "copy" / "d" / "closed").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_source_and_a_second_source_for_one_file_are_passed_over(
    service: Api, site: MakeSite, kind: str
) -> None:
    a, b = site("a", kind), site("b", "own")
    make(a.folder, "one/f", "one/g", "two/f")
    hand_over(a)
    items = [("one/", "copy/"), ("two/f", "copy/f"), ("gone", "none")]
    pairs = [(a.path(source), b.path(target)) for source, target in items]
    task = succeeded(service.wait(service.transfer_items(a.id, b.id, pairs, skip_source_errors=True)))
    rows = service.call("GET", f"/task/{task['task_id']}/skipped_errors")["DATA"]
    assert {row["error_code"] for row in rows} == {"AMBIGUOUS_PATH", "FILE_NOT_FOUND"}
    assert (task["subtasks_skipped_errors"], task["files_transferred"]) == (2, 2)
    assert names(b.folder) == {"copy", "copy/f", "copy/g"}


def test_a_folder_that_is_copied_into_the_one_beside_it_keeps_its_source(service: Api, site: MakeSite) -> None:
    a = site("a", "own")
    make(a.folder, "home/data/f", "home/old")
    items = [(a.path("home/data/"), a.path("home/"))]
    task = succeeded(service.wait(service.transfer_items(a.id, a.id, items, delete_destination_extra=True)))
    assert len(extras_of(service, task)) == 1
    assert names(a.folder) == {"home", "home/data", "home/data/f", "home/old", "home/f"}


# ---- what is not brought to an end


@pytest.mark.parametrize(("source_kind", "destination_kind"), PAIRS)
def test_a_transfer_that_is_canceled_leaves_no_part_of_a_file(
    service: Api, site: MakeSite, source_kind: str, destination_kind: str
) -> None:
    a, b = site("a", source_kind), site("b", destination_kind)
    with (a.folder / "large").open("wb") as file:
        file.truncate(5 * 2**30)
    make(b.folder, "copy/untouched")
    hand_over(a)
    give(b)
    task_id = service.transfer(a.id, a.path(""), b.id, b.path("copy/"))
    end = time.monotonic() + 20
    # It is under a temporary name until it is whole.
    while names(b.folder / "copy") == {"untouched"}:
        assert time.monotonic() < end
        time.sleep(0.01)
    service.call("POST", f"/task/{task_id}/cancel")
    task = service.wait(task_id)
    assert task["fatal_error"]["code"] == "CANCELED"
    assert names(b.folder / "copy") == {"untouched"}


# ---- quotas

#: Loaded first by the server's interpreter. Simulates an exhausted quota: writes beyond the first MB of a file raise
#: EDQUOT, as the operating system does. The server itself is unchanged.
_QUOTA = """
import errno, os
write, splice = os.pwrite, os.splice
def check(end):
    if end > 10**6:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
def checked_write(fd, data, offset):
    check(offset + len(data))
    return write(fd, data, offset)
def checked_splice(source, target, count, offset_src=None, offset_dst=None):
    if offset_dst is not None:
        check(offset_dst + count)
    return splice(source, target, count, offset_src, offset_dst)
os.pwrite, os.splice = checked_write, checked_splice
"""


@pytest.mark.parametrize("asked", [True, False])
def test_a_quota_that_is_used_up_ends_the_task_at_once_or_is_waited_for(
    service: Api, site: MakeSite, workspace: Path, asked: bool
) -> None:
    (workspace / "os").mkdir()
    (workspace / "os" / "sitecustomize.py").write_text(_QUOTA)
    a, b = site("a", "own"), site("b", "own", "env", f"PYTHONPATH={workspace / 'os'}")
    make(a.folder, *(f"small{n}" for n in range(20)))
    (a.folder / "large").write_bytes(b"x" * 5_000_000)
    task_id = service.transfer(a.id, "/", b.id, "/copy/", fail_on_quota_errors=asked)
    if not asked:
        eventually(lambda: service.call("GET", f"/task/{task_id}")["files_transferred"] == 20)
        eventually(lambda: "QUOTA_EXCEEDED" in [event["code"] for event in events(service, task_id)])
        service.call("PUT", f"/task/{task_id}", {"DATA_TYPE": "task", "deadline": soon(2)})
    task = service.wait(task_id, timeout=60)
    assert (task["status"], task["fatal_error"]["code"]) == ("FAILED", "QUOTA_EXCEEDED" if asked else "EXPIRED")
    codes = [event["code"] for event in events(service, task_id)]
    assert "QUOTA_EXCEEDED" in codes
    assert not (b.folder / "copy" / "large").exists()
    if not asked:
        assert task["files_transferred"] == 20
