"""The real `globus` command, unmodified, does with Waybill what its users do all day."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_transfers import digests
from tests.real_clients import Globus

pytestmark = pytest.mark.real_clients
MakeSite = Callable[..., Site]


@pytest.fixture(scope="module")
def globus(service: Api, tmp_path_factory: pytest.TempPathFactory) -> Globus:
    """Signed in as the sample user's application; its token is kept from test to test."""
    client = service.connection["client"]
    return Globus(service.url, tmp_path_factory.mktemp("globus"), (client["id"], client["secret"]))


@pytest.fixture
def source(site: MakeSite) -> Site:
    """A folder of ten files in three folders, one of them hidden."""
    made = site("source", "own")
    for name in ("tree/a.txt", "tree/b.dat", "tree/.hidden", "tree/deep/c.txt", "tree/deep/deeper/d.txt"):
        (made.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (made.folder / name).write_text(f"This is {name}.\n")
    return made


@pytest.fixture
def target(site: MakeSite) -> Site:
    return site("target", "own")


@pytest.fixture
def nowhere(service: Api) -> Iterator[str]:
    """An endpoint whose server does not answer: a task that needs it goes on trying."""
    endpoint = service.endpoint(f"nowhere-{uuid.uuid4()}", 1)
    yield endpoint
    service.call("DELETE", f"/endpoint/{endpoint}")


def moved(globus: Globus, *words: str) -> dict[str, Any]:
    """Run `globus transfer` or `globus delete` with these words, wait for success, and return the task."""
    task_id = globus.json(*words)["task_id"]
    globus("task", "wait", task_id, "--timeout", "60", "--polling-interval", "1")
    task: dict[str, Any] = globus.json("task", "show", task_id)
    assert task["status"] == "SUCCEEDED", task
    return task


# ---- looking around


def test_search_and_show(globus: Globus, source: Site) -> None:
    (found,) = globus.json("endpoint", "search", "--filter-scope", "my-endpoints", source.folder.parent.name)["DATA"]
    assert found["id"] == source.id
    shown = globus("endpoint", "show", source.id).out
    assert re.search(rf"^ID:\s+{source.id}$", shown, re.MULTILINE)
    missing = globus("endpoint", "show", str(uuid.uuid4()), status=1)
    assert "EndpointNotFound" in missing.err


@pytest.mark.own_interpreter
def test_listings(globus: Globus, source: Site) -> None:
    place = f"{source.id}:/tree/"
    assert globus("ls", place).out.split() == ["a.txt", "b.dat", "deep/"]
    assert ".hidden" in globus("ls", "--all", place).out.split()
    long = globus("ls", "--long", place).out.splitlines()
    assert "Filename" in long[0]
    assert len(long) == 5
    assert globus("ls", "--filter", "~*.txt", place).out.split() == ["a.txt"]
    assert globus("ls", "--orderby", "name:DESC", place).out.split() == ["deep/", "b.dat", "a.txt"]


def test_a_recursive_listing(globus: Globus, source: Site) -> None:
    found = globus("ls", "--recursive", f"{source.id}:/tree/").out.split()
    assert sorted(found) == ["a.txt", "b.dat", "deep/", "deep/c.txt", "deep/deeper/", "deep/deeper/d.txt"]
    assert "d.txt" not in globus("ls", "-r", "--recursive-depth-limit", "1", f"{source.id}:/tree/").out


def test_what_is_not_there(globus: Globus, source: Site) -> None:
    refused = globus("ls", f"{source.id}:/nothing/", status=1)
    assert "ClientError.NotFound" in refused.err
    assert globus("stat", f"{source.id}:/nothing").out.startswith("Nothing found at")
    globus("ls", f"{source.id}:/nothing/", "--map-http-status", "404=50", status=50)


def test_stat_mkdir_and_rename(globus: Globus, target: Site) -> None:
    assert globus("mkdir", f"{target.id}:/made").out.strip() == "The directory was created successfully"
    again = globus("mkdir", f"{target.id}:/made", status=1)
    assert "ExternalError.MkdirFailed.Exists" in again.err
    globus("rename", target.id, "/made", "/named")
    assert (target.folder / "named").is_dir()
    assert globus.json("stat", f"{target.id}:/named")["type"] == "dir"


def test_an_endpoint_is_changed_and_deleted(globus: Globus, target: Site) -> None:
    globus("endpoint", "update", target.id, "--description", "for the night", "--organization", "Site", "--private")
    shown = globus.json("endpoint", "show", target.id)
    assert (shown["description"], shown["organization"], shown["public"]) == ("for the night", "Site", False)
    says = ["--user-message", "Down on Sunday", "--user-message-link", "https://dtn.example.org/", "--verify", "force"]
    globus("gcp", "update", "mapped", target.id, *says)
    shown = globus.json("endpoint", "show", target.id)
    assert (shown["user_message"], shown["user_message_link"]) == ("Down on Sunday", "https://dtn.example.org/")
    assert (shown["force_verify"], shown["disable_verify"]) == (True, False)
    refused = globus("gcp", "update", "mapped", target.id, "--subscription-id", str(uuid.uuid4()), status=1)
    assert "subscription_id" in refused.err
    globus("endpoint", "delete", target.id)
    assert "EndpointNotFound" in globus("endpoint", "show", target.id, status=1).err


# ---- transfers


@pytest.mark.own_interpreter
def test_a_file(globus: Globus, source: Site, target: Site) -> None:
    words = [f"{source.id}:/tree/a.txt", f"{target.id}:/new/one.txt"]
    task = moved(globus, "transfer", *words, "--label", "one file")
    assert (task["label"], task["files"], task["files_transferred"]) == ("one file", 1, 1)
    assert (task["subtasks_total"], task["subtasks_succeeded"]) == (2, 2)
    assert (target.folder / "new/one.txt").read_bytes() == (source.folder / "tree/a.txt").read_bytes()
    (done,) = globus.json("task", "show", "-t", task["task_id"])["DATA"]
    assert (done["source_path"], done["destination_path"]) == ("/tree/a.txt", "/new/one.txt")
    codes = [event["code"] for event in globus.json("task", "event-list", task["task_id"])["DATA"]]
    assert codes[0] == "SUCCEEDED"
    assert "STARTED" in codes
    assert globus.json("task", "event-list", "--filter-errors", task["task_id"])["DATA"] == []


def test_a_folder_that_the_service_recognises(globus: Globus, source: Site, target: Site) -> None:
    """Without --recursive the command does not say whether it is one."""
    moved(globus, "transfer", f"{source.id}:/tree", f"{target.id}:/tree")
    assert digests(target.folder / "tree") == digests(source.folder / "tree")


def test_a_batch(globus: Globus, source: Site, target: Site) -> None:
    lines = '/tree/a.txt /batch/one.txt\n# a comment\n--recursive /tree/deep/ "/batch/with blanks/"\n'
    ran = globus("transfer", source.id, target.id, "--batch", "-", "-F", "json", given=lines)
    globus("task", "wait", ran.json["task_id"], "--timeout", "60", "--polling-interval", "1")
    assert digests(target.folder / "batch/with blanks") == digests(source.folder / "tree/deep")
    assert (target.folder / "batch/one.txt").exists()


def test_every_option(globus: Globus, source: Site, target: Site) -> None:
    (target.folder / "tree").mkdir()
    (target.folder / "tree/extra.txt").write_text("not at the source\n")
    task = moved(
        globus, "transfer", f"{source.id}:/tree/", f"{target.id}:/tree/", "--recursive",
        "--sync-level", "checksum", "--preserve-timestamp", "--verify-checksum", "--skip-source-errors",
        "--fail-on-quota-errors", "--delete-destination-extra", "--exclude", "*.dat", "--include", "*.txt",
        "--notify", "off", "--label", "all of them", "--deadline", "2100-01-01T00:00:00",
    )  # fmt: skip
    names = sorted(str(path.relative_to(target.folder)) for path in target.folder.rglob("*") if path.is_file())
    assert names == ["tree/.hidden", "tree/a.txt", "tree/deep/c.txt", "tree/deep/deeper/d.txt"]
    kept = (target.folder / "tree/a.txt").stat().st_mtime
    assert int(kept) == int((source.folder / "tree/a.txt").stat().st_mtime)
    assert task["sync_level"] == 3
    assert task["deadline"] == "2100-01-01T00:00:00+00:00"
    asked = "verify_checksum preserve_timestamp skip_source_errors fail_on_quota_errors delete_destination_extra"
    assert all(task[name] for name in asked.split())


def test_a_checksum_that_is_known(globus: Globus, source: Site, target: Site) -> None:
    content = (source.folder / "tree/a.txt").read_bytes()
    words = [f"{source.id}:/tree/a.txt", f"{target.id}:/checked.txt", "--checksum-algorithm", "SHA256"]
    moved(globus, "transfer", *words, "--external-checksum", hashlib.sha256(content).hexdigest())
    assert (target.folder / "checked.txt").read_bytes() == content


def test_one_submission_id_is_one_task(globus: Globus, source: Site, target: Site) -> None:
    given = globus("task", "generate-submission-id").out.strip()
    words = [f"{source.id}:/tree/a.txt", f"{target.id}:/once.txt", "--submission-id", given]
    first, again = (globus.json("transfer", *words) for _ in range(2))
    assert first["task_id"] == again["task_id"]


def test_a_dry_run_moves_nothing(globus: Globus, source: Site, target: Site) -> None:
    document = globus.json("transfer", f"{source.id}:/tree/", f"{target.id}:/tree/", "--dry-run")
    assert document["DATA_TYPE"] == "transfer"
    assert list(target.folder.iterdir()) == []


@pytest.mark.toolkit
def test_errors_that_were_passed_over(globus: Globus, site: MakeSite, target: Site) -> None:
    bad = site("bad", "toolkit")
    (bad.folder / "tree").mkdir()
    (bad.folder / "tree/good.txt").write_text("words\n")
    (bad.folder / "tree/unreadable.txt").touch(mode=0o000)
    task = moved(
        globus,
        "transfer",
        f"{bad.id}:{bad.path('tree/')}",
        f"{target.id}:/tree/",
        "--recursive",
        "--skip-source-errors",
    )
    (skipped,) = globus.json("task", "show", "--skipped-errors", task["task_id"])["DATA"]
    assert (skipped["source_path"], skipped["error_code"]) == (bad.path("tree/unreadable.txt"), "PERMISSION_DENIED")
    assert task["subtasks_skipped_errors"] == 1


# ---- tasks that take long


def test_a_task_is_changed_waited_for_and_canceled(globus: Globus, source: Site, nowhere: str) -> None:
    task_id = globus.json("transfer", f"{source.id}:/tree/", f"{nowhere}:/tree/", "--label", "first")["task_id"]
    globus("task", "update", task_id, "--label", "second", "--deadline", "2100-01-01T00:00:00")
    assert globus.json("task", "show", task_id)["label"] == "second"
    waited = ["task", "wait", task_id, "--timeout", "1", "--polling-interval", "1"]
    globus(*waited, status=1)
    globus(*waited, "--timeout-exit-code", "77", status=77)
    listed = globus.json("task", "list", "--filter-status", "ACTIVE", "--filter-label", "sec*")["DATA"]
    assert [row["task_id"] for row in listed] == [task_id]
    globus("task", "cancel", task_id)
    globus("task", "wait", task_id, "--timeout", "30", "--polling-interval", "1", status=1)
    task = globus.json("task", "show", task_id)
    assert (task["status"], task["fatal_error"]["code"]) == ("FAILED", "CANCELED")
    refused = globus("task", "update", task_id, "--label", "third", status=1)
    assert "TaskComplete" in refused.err


def test_all_tasks_are_canceled(globus: Globus, source: Site, nowhere: str) -> None:
    made = {globus.json("transfer", f"{source.id}:/tree/", f"{nowhere}:/{number}/")["task_id"] for number in range(2)}
    told = globus("task", "cancel", "--all").out
    assert all(task_id in told for task_id in made)
    for task_id in made:
        globus("task", "wait", task_id, "--timeout", "30", "--polling-interval", "1", status=1)


def test_why_a_task_waits(globus: Globus, source: Site, nowhere: str) -> None:
    task_id = globus.json("transfer", f"{source.id}:/tree/", f"{nowhere}:/tree/")["task_id"]
    assert "not paused" in (told := globus("task", "pause-info", task_id, status=None)).out + told.err
    globus("task", "cancel", task_id)


# ---- deletes


def test_a_delete(globus: Globus, target: Site) -> None:
    (target.folder / "old/deep").mkdir(parents=True)
    (target.folder / "old/deep/file").touch()
    task = moved(globus, "delete", f"{target.id}:/old", "--recursive", "--label", "away")
    assert task["type"] == "DELETE"
    assert not (target.folder / "old").exists()
    moved(globus, "delete", f"{target.id}:/old", "--recursive", "--ignore-missing")


def test_a_delete_of_many(globus: Globus, target: Site) -> None:
    for name in ("a.txt", "b.txt", "c.dat"):
        (target.folder / name).touch()
    ran = globus("delete", target.id, "--batch", "-", "-F", "json", given="/a.txt\n/b.txt\n")
    globus("task", "wait", ran.json["task_id"], "--timeout", "60", "--polling-interval", "1")
    assert [path.name for path in target.folder.iterdir()] == ["c.dat"]


def test_rm_knows_patterns_and_waits(globus: Globus, target: Site) -> None:
    for name in ("a.txt", "b.txt", "c.dat"):
        (target.folder / name).touch()
    globus("rm", f"{target.id}:/*.txt", "--polling-interval", "1", "--timeout", "60")
    assert [path.name for path in target.folder.iterdir()] == ["c.dat"]


# ---- bookmarks, and what has no command


@pytest.mark.own_interpreter
def test_bookmarks(globus: Globus, source: Site) -> None:
    name = f"my place {uuid.uuid4()}"
    made = globus.json("bookmark", "create", f"{source.id}:/tree/", name)["id"]
    assert globus.json("bookmark", "show", name)["path"] == "/tree/"
    globus("bookmark", "rename", name, f"{name} again")
    assert made in globus("bookmark", "list").out
    assert globus("ls", globus("bookmark", "show", f"{name} again").out.strip()).out.split() == [
        "a.txt",
        "b.dat",
        "deep/",
    ]
    globus("bookmark", "delete", made)
    assert "No bookmark found" in globus("bookmark", "show", made, status=1).err


def test_any_route_by_hand(globus: Globus, source: Site) -> None:
    """Names of endpoints, which the command itself does not know, too."""
    name = globus.json("endpoint", "show", source.id)["canonical_name"]
    answer = globus("api", "transfer", "GET", f"/endpoint/{name}").out
    assert json.loads(answer)["id"] == source.id
