"""Groups, timers and bookmarks by the real clients: every command, and the SDK's own classes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.instance import Api
from tests.real_clients import OLDER_COMMANDS, Globus, run_python

pytestmark = pytest.mark.real_clients


@pytest.fixture
def group(alice: Globus) -> str:
    return str(alice.json("group", "create", f"group {uuid.uuid4()}")["id"])


# ---- groups


def test_a_group_is_made_shown_changed_and_deleted(alice: Globus) -> None:
    name = f"group {uuid.uuid4()}"
    made = alice("group", "create", name, "--description", "who measures")
    group = made.out.split()[1]
    assert name in alice("group", "list").out
    shown = alice("group", "show", group).out
    assert "who measures" in shown
    assert "admin" in shown
    alice("group", "update", group, "--name", f"{name} new", "--terms-and-conditions", "be kind")
    assert "be kind" in alice("group", "show", group).out
    alice("group", "set-policies", group, "--visibility", "authenticated", "--join-requests", "--signup-fields", "city")
    policies = alice.json("group", "show", group)["policies"]
    assert (policies["group_visibility"], policies["join_requests"]) == ("authenticated", True)
    assert policies["signup_fields"] == ["city"]
    assert "deleted" in alice("group", "delete", group).out
    assert "NotFound" in alice("group", "show", group, status=1).err


def test_people_are_invited_added_and_removed(alice: Globus, bob: Globus, bob_name: str, group: str) -> None:
    assert "NotFound" in bob("group", "show", group, status=1).err
    assert bob_name in alice("group", "member", "invite", group, bob_name).out
    assert "Declined" in bob("group", "invite", "decline", group).out
    alice("group", "member", "invite", group, bob_name, "--role", "manager")
    assert "Accepted" in bob("group", "invite", "accept", group).out
    assert group in bob("group", "list").out
    listed = alice("group", "member", "list", group).out
    assert bob_name in listed
    assert "manager" in listed
    assert "already" in alice("group", "member", "add", group, bob_name, status=1).err
    assert bob_name in alice("group", "member", "remove", group, bob_name).out
    assert group not in bob("group", "list").out
    alice("group", "member", "add", group, bob_name)
    assert bob_name in bob("group", "leave", group).out
    assert "last admin" in alice("group", "leave", group, status=1).err


def test_people_ask_to_join(alice: Globus, bob: Globus, bob_name: str, group: str) -> None:
    alice("group", "set-policies", group, "--visibility", "authenticated")
    assert "request" in bob("group", "join", group, "--request", status=1).err
    alice("group", "set-policies", group, "--join-requests")
    assert bob_name in bob("group", "join", group, "--request").out
    assert bob_name in alice("group", "member", "reject", group, bob_name).out
    bob("group", "join", group, "--request")
    assert bob_name in alice("group", "member", "approve", group, bob_name).out
    assert "PermissionDenied" in bob("group", "member", "list", group, status=1).err
    assert "PermissionDenied" in bob("group", "update", group, "--name", "mine", status=1).err
    alice("group", "set-policies", group, "--members-visibility", "members")
    assert bob_name in bob("group", "member", "list", group).out


LINK = """
import os, sys, time
from deploy.stack.embedded import use_embedded_stack
use_embedded_stack()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
import django
django.setup()
from identity import users
from identity import linked_identities
from identity.proven_identities import Proven
name, linked = sys.argv[1:]
proven = Proven.of("saml:https://idp.example.edu", linked, linked, time.time())
print(linked_identities.link(users.named(name), proven, time.time()).pk)
"""


@pytest.fixture(scope="module")
def linked_name(service: Api, bob_name: str) -> str:
    """The name of an identity of bob's at a university."""
    name = f"bob-{uuid.uuid4().hex[:8]}@uni.example.edu"
    environ = os.environ | {"WAYBILL_HOME": str(service.home)}
    subprocess.run([sys.executable, "-c", LINK, bob_name, name], env=environ, check=True, timeout=60)
    return name


@pytest.mark.parametrize("program", ["cli", *OLDER_COMMANDS])
def test_a_person_is_added_and_removed_by_a_linked_identity(
    alice: Globus, bob: Globus, bob_name: str, linked_name: str, group: str, program: str
) -> None:
    """The command looks the name up, and then names the identity by its id."""
    alice = replace(alice, program=program)
    [found] = alice.json("get-identities", linked_name)["identities"]
    assert found["username"] == linked_name
    assert found["id"] != bob.json("whoami")["sub"]
    assert bob_name in alice("group", "member", "add", group, linked_name).out
    assert group in bob("group", "list").out
    assert bob_name in alice("group", "member", "remove", group, found["id"]).out
    assert group not in bob("group", "list").out
    alice("group", "member", "invite", group, linked_name)
    bob("group", "invite", "accept", group, "--identity", found["id"])
    assert bob_name in alice("group", "member", "list", group).out


def test_there_are_no_subscriptions_and_no_groups_in_groups(alice: Globus, group: str) -> None:
    some = str(uuid.uuid4())
    assert "NotFound" in alice("group", "get-by-subscription", some, status=1).err
    assert "NotFound" in alice("group", "set-subscription-admin-verified", group, some, status=1).err
    assert "NotSupported" in alice("group", "create", "child", "--parent-id", group, status=1).err


SDK_GROUPS = """
import globus_sdk
client = globus_sdk.GroupsClient(authorizer=globus_sdk.AccessTokenAuthorizer(TOKEN))
manager = globus_sdk.GroupsManager(client)
group = manager.create_group("by the sdk", "description")["id"]
manager.set_group_policies(group, is_high_assurance=False, group_visibility="private",
    group_members_visibility="members", join_requests=False, signup_fields=["address1"])
answer = manager.invite_member(group, BOB)
again = manager.accept_invite(group, BOB)
batch = globus_sdk.BatchMembershipActions().remove_members([BOB])
removed = client.batch_membership_action(group, batch)
preferences = client.set_identity_preferences({"allow_add": True})
mine = client.get_my_groups(statuses=["active", "invited"])
shown = client.get_group(group, include=["memberships", "allowed_actions"])
try:
    client.get_group(BOB)
except globus_sdk.GroupsAPIError as error:
    refused = [error.http_status, error.code, error.message]
client.delete_group(group)
print(json.dumps([answer["invite"][0]["status"], again["errors"]["accept"][0]["code"], removed["remove"][0]["status"],
    list(preferences.data.values()), group in [one["id"] for one in mine], len(shown["memberships"]), refused]))
"""


def test_the_sdk_manages_groups(service: Api, bob: Globus, tmp_path: Path) -> None:
    someone = bob.json("whoami")["sub"]
    told = run_python(
        "sdk4", SDK_GROUPS, url=service.url, home=tmp_path, token=service.connection["token"], bob=someone
    )
    invited, refused, removed, preferences, listed, members, error = json.loads(told.out)
    assert (invited, refused, removed, listed, members) == ("invited", "FORBIDDEN", "removed", True, 2)
    assert preferences == [{"allow_add": True}]
    assert error == [404, "ClientError.NotFound", f"No such group '{someone}'"]


# ---- bookmarks


def test_bookmarks_by_the_command(alice: Globus, service: Api) -> None:
    name = f"place {uuid.uuid4()}"
    endpoint = service.connection["endpoints"]["go#ep1"]
    made = alice("bookmark", "create", f"{endpoint}:/share/godata/", name)
    bookmark = made.out.split()[-1]
    assert alice("bookmark", "show", name).out.strip() == f"{endpoint}:/share/godata/"
    assert "Exists" in alice("bookmark", "create", f"{endpoint}:/share/", name, status=1).err
    alice("bookmark", "rename", bookmark, f"{name} new")
    gone = service.call("POST", "/endpoint", {"display_name": "soon gone"})["id"]
    alice("bookmark", "create", f"{gone}:/", f"{name} gone")
    alice("endpoint", "delete", gone)
    listed = alice("bookmark", "list").out
    assert f"{name} new" in listed
    assert "[DELETED ENDPOINT]" in listed
    for word in (f"{name} new", f"{name} gone"):
        assert "deleted" in alice("bookmark", "delete", word).out
    assert "No bookmark found" in alice("bookmark", "show", bookmark, status=1).err


# ---- timers


def test_timers_by_the_command(alice: Globus, service: Api) -> None:
    one, two = (service.connection["endpoints"][name] for name in ("go#ep1", "go#ep2"))
    paths = [f"{one}:/share/godata/file1.txt", f"{two}:/~/timed-{uuid.uuid4()}.txt"]
    made = alice(
        "timer", "create", "transfer", *paths, "--name", "nightly", "--interval", "1d", "--stop-after-runs", "3"
    )
    assert "every 86400 seconds" in made.out
    assert "3 iterations" in made.out
    timer = next(line.split()[-1] for line in made.out.splitlines() if line.startswith("Timer ID"))
    assert "nightly" in alice("timer", "list").out
    assert "paused" in alice("timer", "pause", timer).out
    assert "Paused, awaiting user action" in alice("timer", "show", timer).out
    assert "resumed" in alice("timer", "resume", timer).out
    assert "nightly" in alice("timer", "delete", timer).out
    assert "NotFound" in alice("timer", "show", timer, status=1).err


SDK_TIMERS = """
import time
import globus_sdk
authorizer = globus_sdk.AccessTokenAuthorizer(TOKEN)
timers, transfer = globus_sdk.TimersClient(authorizer=authorizer), globus_sdk.TransferClient(authorizer=authorizer)
data = globus_sdk.TransferData(source_endpoint=ONE, destination_endpoint=TWO)
data.add_item("/share/godata/file2.txt", TARGET)
timer = globus_sdk.TransferTimer(name="now", schedule=globus_sdk.OnceTimerSchedule(), body=data)
job = timers.create_timer(timer)["timer"]["job_id"]
until = time.monotonic() + 60
while timers.get_job(job)["status"] != "ended" and time.monotonic() < until:
    time.sleep(0.5)
told = timers.get_job(job)
done = transfer.task_wait(told["last_task_id"], timeout=60, polling_interval=1)
task = transfer.get_task(told["last_task_id"])
end = {"condition": "iterations", "iterations": 2}
start = globus_sdk.RecurringTimerSchedule(3600, start="2036-01-01T00:00:00Z", end=end)
later = timers.create_timer(globus_sdk.TransferTimer(schedule=start, body=data))["timer"]
timers.update_job(later["job_id"], {"name": "renamed"})
names = [one["name"] for one in timers.list_jobs()["jobs"]]
for one in (job, later["job_id"]):
    timers.delete_job(one)
try:
    timers.get_job(job)
except globus_sdk.TimersAPIError as error:
    refused = [error.http_status, error.code]
runs = [told["status"], told["number_of_runs"]]
print(json.dumps([*runs, done, task["status"], task["label"], "renamed" in names, refused]))
"""


def test_the_sdk_runs_a_timer(service: Api, tmp_path: Path) -> None:
    endpoints = service.connection["endpoints"]
    told = run_python(
        "sdk4",
        SDK_TIMERS,
        url=service.url,
        home=tmp_path,
        token=service.connection["token"],
        one=endpoints["go#ep1"],
        two=endpoints["go#ep2"],
        target=f"/~/timed-{uuid.uuid4()}.txt",
        seconds=180,
    )
    assert json.loads(told.out) == [
        "ended", 1, True, "SUCCEEDED", "now, run 1", True, [404, "ClientError.NotFound"],
    ]  # fmt: skip


SDK_V2 = """
import globus_sdk
from globus_sdk.experimental import transfer_v2
client = transfer_v2.TransferClientV2(authorizer=globus_sdk.AccessTokenAuthorizer(TOKEN))
made = client.create_bookmark(transfer_v2.BookmarkCreateDocument(ONE, NAME, "/share/"))
bookmark = made["data"]["id"]
client.update_bookmark(bookmark, transfer_v2.BookmarkUpdateDocument(NAME + " new", "/share/godata/"))
shown = client.get_bookmark(bookmark)["data"]["attributes"]
listed = bookmark in [one["id"] for one in client.list_bookmarks()]
client.delete_bookmark(bookmark)
refused = []
for call in (lambda: client.get_bookmark(bookmark), lambda: client.list_tunnels()):
    try:
        call()
    except globus_sdk.TransferAPIError as error:
        refused.append([error.http_status, error.code, error.message])
print(json.dumps([shown, listed, refused]))
"""


def test_the_experimental_client_of_the_sdk(service: Api, tmp_path: Path) -> None:
    name, one = f"v2 {uuid.uuid4()}", service.connection["endpoints"]["go#ep1"]
    token = service.connection["token"]
    told = run_python("sdk4", SDK_V2, url=service.url, home=tmp_path, token=token, one=one, name=name)
    shown, listed, refused = json.loads(told.out)
    assert shown == {"name": f"{name} new", "path": "/share/godata/", "pinned": False}
    assert listed
    assert [one[:2] for one in refused] == [[404, "BookmarkNotFound"], [501, "ServiceError.NotSupported"]]
