"""The real `globus` command in the hands of several people: shared folders, roles, groups, timers, and signing in."""

from __future__ import annotations

import re
import subprocess
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.browsers.real_browser import Browser
from tests.instance import Api
from tests.journeys.conftest import Site, waybill
from tests.real_clients import GLOBUS, Globus
from tests.waiting import eventually

pytestmark = pytest.mark.real_clients
MakeSite = Callable[..., Site]
#: For what happens by itself.
SECONDS = 60


@pytest.fixture
def host(service: Api, site: MakeSite) -> Site:
    """An endpoint of alice's own, closed to others, with two folders."""
    made = site("host", "own")
    for name in ("share/in/a.txt", "share/in/b.txt", "share/out/", "private/c.txt"):
        path = made.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_text(f"This is {name}.\n")
    service.call("PUT", f"/endpoint/{made.id}", {"public": False})
    return made


@pytest.fixture
def share(alice: Globus, host: Site) -> str:
    """Alice's shared endpoint: the folder /share/ of her host."""
    return str(alice.json("gcp", "create", "guest", f"share {uuid.uuid4()}", f"{host.id}:/share/")["id"])


def wait(globus: Globus, task_id: str, status: int = 0) -> dict[str, Any]:
    globus("task", "wait", task_id, "--timeout", "60", "--polling-interval", "1", status=status)
    task: dict[str, Any] = globus.json("task", "show", task_id)
    return task


# ---- who one is


def test_who_one_is(alice: Globus, bob: Globus, bob_name: str) -> None:
    assert alice("whoami").out.strip() == "demo@127.0.0.1"
    found = bob.json("whoami")
    assert found["preferred_username"] == bob_name
    assert bob_name in alice("get-identities", bob_name, "--verbose").out


# ---- shared folders


def test_a_folder_is_shared_and_taken_back(
    alice: Globus, bob: Globus, bob_name: str, host: Site, share: str, site: MakeSite
) -> None:
    assert "EndpointNotFound" in bob("endpoint", "show", share, status=1).err
    rule = alice.json("endpoint", "permission", "create", f"{share}:/in/", "--permissions", "r", "--identity", bob_name)
    rule_id = rule["access_id"]
    assert bob_name in alice("endpoint", "permission", "list", share).out

    assert bob.json("endpoint", "show", share)["id"] == share
    assert bob("ls", f"{share}:/in/").out.split() == ["a.txt", "b.txt"]
    assert "EndpointPermissionDenied" in bob("ls", f"{share}:/", status=1).err
    assert "PermissionDenied" in bob("mkdir", f"{share}:/in/new/", status=1).err
    assert "EndpointNotFound" in bob("ls", f"{host.id}:/", status=1).err

    target = site("target", "own")
    task = wait(bob, bob.json("transfer", f"{share}:/in/", f"{target.id}:/got/", "--recursive")["task_id"])
    assert (task["status"], task["files_transferred"]) == ("SUCCEEDED", 2)
    assert (target.folder / "got/a.txt").read_text() == "This is share/in/a.txt.\n"

    alice("endpoint", "permission", "update", share, rule_id, "--permissions", "rw")
    bob("mkdir", f"{share}:/in/new/")
    assert (host.folder / "share/in/new").is_dir()
    assert alice.json("endpoint", "permission", "show", share, rule_id)["permissions"] == "rw"

    alice("endpoint", "permission", "delete", share, rule_id)
    assert "EndpointNotFound" in bob("ls", f"{share}:/in/", status=1).err
    refused = bob("transfer", f"{share}:/in/", f"{target.id}:/again/", "--recursive", status=1)
    assert "EndpointNotFound" in refused.err


def test_an_identity_that_would_have_to_be_made_is_refused_with_a_sentence(alice: Globus, share: str) -> None:
    words = ["--permissions", "r", "--provision-identity", "nobody@example.org"]
    refused = alice("endpoint", "permission", "create", f"{share}:/", *words, status=1)
    assert "ask them to sign in here once" in " ".join(refused.err.split())


def test_what_is_shared_is_found(alice: Globus, bob: Globus, bob_name: str, share: str) -> None:
    alice("endpoint", "permission", "create", f"{share}:/", "--permissions", "r", "--identity", bob_name)
    found = bob.json("endpoint", "search", "--filter-scope", "shared-with-me", "--limit", "1000")["DATA"]
    assert share in [row["id"] for row in found]
    mine = alice.json("endpoint", "search", "--filter-scope", "shared-by-me", "--limit", "1000")["DATA"]
    assert share in [row["id"] for row in mine]


def test_a_rule_until_a_date(alice: Globus, bob: Globus, share: str) -> None:
    end = (datetime.now(UTC) + timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%S")
    words = ["--permissions", "r", "--all-authenticated", "--expiration-date", end]
    alice("endpoint", "permission", "create", f"{share}:/", *words)
    eventually(lambda: bob("ls", f"{share}:/in/", status=None).status != 0)
    assert datetime.now(UTC) >= datetime.fromisoformat(f"{end}+00:00")


def test_a_group_is_given_a_folder(alice: Globus, bob: Globus, bob_name: str, share: str) -> None:
    group = alice.json("group", "create", f"group {uuid.uuid4()}", "--description", "who reads")["id"]
    alice("endpoint", "permission", "create", f"{share}:/out/", "--permissions", "rw", "--group", group)
    assert bob("ls", f"{share}:/out/", status=1).err
    alice("group", "member", "invite", group, bob_name)
    assert bob("ls", f"{share}:/out/", status=1).err, "an invitation alone gives nothing"
    bob("group", "invite", "accept", group)
    assert bob("ls", f"{share}:/out/").status == 0
    assert group in bob("group", "list").out
    assert bob_name in alice("group", "member", "list", group).out
    bob("group", "leave", group)
    assert bob("ls", f"{share}:/out/", status=1).err
    alice("group", "update", group, "--name", "another name")
    assert alice.json("group", "show", group)["name"] == "another name"
    alice("group", "delete", group)


def test_a_role_lets_another_one_grant(alice: Globus, bob: Globus, bob_name: str, share: str) -> None:
    words = ["endpoint", "permission", "create", f"{share}:/in/", "--permissions", "r", "--all-authenticated"]
    bob(*words, status=1)
    given = ["--role", "access_manager", "--identity", bob_name]
    role = alice.json("endpoint", "role", "create", share, *given)["id"]
    bob(*words)
    assert "access_manager" in alice("endpoint", "role", "list", share).out
    assert alice.json("endpoint", "role", "show", share, role)["role"] == "access_manager"
    alice("endpoint", "role", "delete", share, role)
    assert "Denied" in bob("endpoint", "role", "list", share, status=1).err


def test_a_shared_endpoint_goes_away(alice: Globus, host: Site, share: str) -> None:
    assert share in alice("endpoint", "my-shared-endpoint-list", host.id).out
    alice("gcp", "update", "guest", share, "--description", "for a week")
    assert alice.json("endpoint", "show", share)["description"] == "for a week"
    alice("endpoint", "delete", share)
    assert "EndpointNotFound" in alice("endpoint", "show", share, status=1).err
    assert (host.folder / "share/in/a.txt").exists()


# ---- timers


def test_a_timer_runs(alice: Globus, host: Site, site: MakeSite) -> None:
    target = site("target", "own")
    words = [
        f"{host.id}:/share/in/",
        f"{target.id}:/timed/",
        "--recursive",
        "--name",
        "nightly",
        "--stop-after-runs",
        "1",
    ]
    timer = alice.json("timer", "create", "transfer", *words)["job_id"]
    until = time.monotonic() + SECONDS
    while not (target.folder / "timed/b.txt").exists():
        assert time.monotonic() < until, alice.json("timer", "show", timer)
        time.sleep(0.5)
    assert "nightly" in alice("timer", "list").out
    alice("timer", "delete", timer)


def test_a_timer_that_comes_again_is_paused(alice: Globus, host: Site, site: MakeSite) -> None:
    target = site("target", "own")
    start = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
    words = [f"{host.id}:/share/in/", f"{target.id}:/timed/", "--recursive"]
    timer = alice.json("timer", "create", "transfer", *words, "--interval", "1d", "--start", start)["job_id"]
    alice("timer", "pause", timer)
    assert alice.json("timer", "show", timer)["status"] == "inactive"
    alice("timer", "resume", timer)
    assert alice.json("timer", "show", timer)["status"] in ("new", "loaded")
    alice("timer", "delete", timer)
    assert not (target.folder / "timed").exists()


# ---- signing in as a user


def signed_in(service: Api, name: str, password: str, home: Path) -> Globus:
    """`globus login --no-local-server`, with the page that its address leads to, and the code pasted back."""
    globus = Globus(service.url, home)
    process = subprocess.Popen(
        [str(GLOBUS), "login", "--no-local-server"], env=globus.environment(), cwd=home, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = next(word for line in process.stdout for word in line.split() if word.startswith("http"))
        browser = Browser()
        browser.open(address)
        browser.press("Sign in", username=name, password=password)
        browser.press("Allow")
        told, _ = process.communicate(browser.inputs["code"] + "\n", timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, told
    return globus


@pytest.fixture
def person(service: Api, bob_name: str, bob: Globus, tmp_path: Path) -> Globus:
    password = waybill(service, "password", bob_name, "--generate").strip().split()[-1]
    return signed_in(service, bob_name, password, tmp_path)


def test_a_user_signs_in_by_a_pasted_code(service: Api, person: Globus, bob_name: str) -> None:
    assert person("whoami").out.strip() == bob_name
    assert re.search(rf"\b{bob_name}\b", person("session", "show").out)
    ep1 = service.connection["endpoints"]["go#ep1"]
    assert person("ls", f"{ep1}:/share/godata/").out.split() == ["file1.txt", "file2.txt", "file3.txt"]
    assert person("group", "list").status == 0
    assert person("timer", "list").status == 0
    again = person("login", "--no-local-server")
    assert "already logged in" in again.out


def test_a_user_signs_out(service: Api, person: Globus) -> None:
    ep1 = service.connection["endpoints"]["go#ep1"]
    person("ls", f"{ep1}:/")
    person("logout", "--yes")
    assert person("ls", f"{ep1}:/", status=4).err


def test_maintenance_is_reported_with_the_words_of_the_operator(service: Api, alice: Globus, host: Site) -> None:
    told = ""

    def refused() -> bool:
        """Each web process knows of the maintenance within about a second; until then the folder is made, or exists."""
        nonlocal told
        told = alice("mkdir", f"{host.id}:/first/", status=None).err
        return "Maintenance" in told

    waybill(service, "maintenance", "on", "The disks are replaced.", "--until", "2099-01-01T00:00:00Z")
    try:
        eventually(refused, seconds=SECONDS)
        assert "The disks are replaced." in told
        assert "2099-01-01 00:00 UTC" in told
        assert "share/" in alice("ls", f"{host.id}:/").out.split()
    finally:
        waybill(service, "maintenance", "off")
    # The SDK tries again what a process refuses that does not know yet.
    assert "created successfully" in alice("mkdir", f"{host.id}:/second/").out
