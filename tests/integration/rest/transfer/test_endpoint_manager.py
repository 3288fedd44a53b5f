"""Managers of endpoints see and control the tasks of other users: over REST."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import AccessRule, Endpoint, PauseRule
from endpoints.sharing import roles
from identity.models import User
from tests.integration.cast import all_at_once, make_endpoint, make_user, submit, submit_delete, take
from tests.integration.rest import Answer, Api, assert_error
from tests.integration.shared import give, make_share
from transferapi.rest.openapi.types import wire_time
from transferapi.tasks import moves, queries
from transferapi.tasks.events import NewEvent
from transferapi.tasks.managers import actions, managed_tasks, pauses
from transferapi.tasks.managers.managed_tasks import MAX_TASKS
from transferapi.tasks.models import AdminCancel, Event, File, Item, Mail, Task
from transferapi.tasks.upkeep import retention
from transferapi.tasks.worker import leases, measurements, settling, slice_end

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)
M = "/endpoint_manager"


@pytest.fixture
def alices(alice: User) -> Api:
    return Api(alice)


@pytest.fixture
def bobs(bob: User) -> Api:
    """bob runs `public`."""
    return Api(bob)


@pytest.fixture
def task(alice: User, ep1: Endpoint, public: Endpoint) -> Task:
    """alice's, to bob's endpoint."""
    return submit(alice, ep1, public, label="to bob")


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [row["task_id"] for row in answer.body["DATA"]]


def listed(api: Api, **query: Any) -> list[str]:
    return ids(api.get(f"{M}/task_list", **query))


def said(*tasks: Task, message: str | None = "Enough.") -> dict[str, Any]:
    return {"message": message, "task_id_list": [str(task.pk) for task in tasks]}


def done(task: Task, seconds_ago: float = 0, **changes: Any) -> Task:
    """Past the table of states: it succeeded then."""
    usual = {"status": "SUCCEEDED", "phase": "done", "completion_time": NOW - timedelta(seconds=seconds_ago)}
    Task.objects.filter(pk=task.pk).update(**(usual | changes))
    return task


# ---- lists of tasks


def test_the_tasks_of_all_users_at_an_endpoint_are_seen_by_who_runs_it_and_by_nobody_else(
    alices: Api, bobs: Api, charlie: User, ep1: Endpoint, ep2: Endpoint, public: Endpoint, task: Task
) -> None:
    alice, bob = ep1.owner, public.owner
    submit(alice, ep1, ep2)
    from_bob = submit(charlie, public, make_endpoint(charlie, "charlies"))
    deletion = submit_delete(alice, public)
    found = {str(from_bob.pk), str(deletion.pk), str(task.pk)}
    assert set(listed(bobs, filter_status="ACTIVE")) == found
    assert set(listed(bobs, filter_endpoint="public")) == found
    assert listed(bobs, filter_endpoint="public", filter_endpoint_use="destination") == [str(task.pk)]
    assert len(listed(alices, filter_status="ACTIVE")) == 2
    dave = make_user("dave")
    assert listed(Api(dave), filter_status="ACTIVE") == []
    assert_error(Api(dave).get(f"{M}/task_list", filter_endpoint=str(public.pk)), 403, "PermissionDenied")
    roles.create(bob, str(public.pk), "identity", str(dave.pk), "activity_monitor")
    assert set(listed(Api(dave), filter_status="ACTIVE")) == found


def test_filters_keep_what_they_name(bobs: Api, alice: User, charlie: User, ep1: Endpoint, public: Endpoint) -> None:
    tasks = [submit(alice, ep1, public) for _ in range(4)] + [submit(charlie, public, public, ("/a", "/b"))]
    done(tasks[0], 100, faults=3)
    done(tasks[1], 200, status="FAILED", fatal_error_code="EXPIRED", fatal_error_description="late")
    Task.objects.filter(pk=tasks[2].pk).update(status="INACTIVE", phase="suspended")
    actions.pause(public.owner, [tasks[3].pk], "wait")

    def kept(**query: Any) -> set[int]:
        found = listed(bobs, filter_endpoint="public", **query)
        return {number for number, task in enumerate(tasks) if str(task.pk) in found}

    def around(seconds: float) -> str:
        return wire_time(NOW - timedelta(seconds=seconds)) or ""

    assert kept() == {0, 1, 2, 3, 4}
    assert kept(filter_status="SUCCEEDED,FAILED") == {0, 1}
    assert kept(filter_status="INACTIVE") == {2}
    assert kept(filter_status="ACTIVE,INACTIVE", filter_is_paused="1") == {3}
    assert kept(filter_status="ACTIVE", filter_is_paused="False") == {4}
    assert kept(filter_owner_id=str(charlie.pk)) == {4}
    assert kept(filter_min_faults="3") == {0}
    assert kept(filter_min_faults="4") == set()
    assert kept(filter_completion_time=f"{around(150)},{around(50)}") == {0}
    assert kept(filter_completion_time=f",{around(150)}") == {1}
    assert kept(filter_completion_time=f"{around(150)},") == {0, 2, 3, 4}
    assert kept(filter_local_user="somebody") == set()
    assert set(listed(bobs, filter_task_id=f"{tasks[4].pk},{tasks[0].pk}")) == {str(tasks[0].pk), str(tasks[4].pk)}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({}, "filter_endpoint"),
        ({"filter_status": "SUCCEEDED"}, "filter_endpoint"),
        ({"filter_status": "ACTIVE,DONE"}, "filter_status"),
        ({"filter_endpoint_use": "source", "filter_status": "ACTIVE"}, "filter_endpoint_use"),
        ({"filter_endpoint": "public", "filter_endpoint_use": "both"}, "filter_endpoint_use"),
        ({"filter_local_user": "x", "filter_status": "ACTIVE"}, "filter_local_user"),
        ({"filter_endpoint": "public", "filter_is_paused": "1"}, "filter_is_paused"),
        ({"filter_status": "ACTIVE", "filter_is_paused": "maybe"}, "filter_is_paused"),
        ({"filter_task_id": str(uuid.uuid4()), "filter_status": "ACTIVE"}, "filter_task_id"),
        ({"filter_task_id": "x"}, "filter_task_id"),
        ({"filter_task_id": ",".join(str(uuid.uuid4()) for _ in range(MAX_TASKS + 1))}, "filter_task_id"),
        ({"filter_endpoint": "public", "filter_completion_time": ","}, "filter_completion_time"),
        ({"filter_endpoint": "public", "filter_completion_time": "noon"}, "filter_completion_time"),
        ({"filter_endpoint": "public", "filter_min_faults": "-1"}, "filter_min_faults"),
        ({"filter_endpoint": "public", "last_key": "active,x"}, "last_key"),
        ({"filter_endpoint": "public", "last_key": f"complete,2026-01-01,{uuid.UUID(int=1)}"}, "last_key"),
        ({"filter_endpoint": "public", "last_key": "x"}, "last_key"),
    ],
)
def test_a_question_that_makes_no_sense_or_would_cost_too_much_is_refused(
    bobs: Api, public: Endpoint, query: dict[str, str], name: str
) -> None:
    answer = bobs.get(f"{M}/task_list", **query)
    assert_error(answer, 400)
    assert name in answer.body["message"]


def test_ids_that_there_are_not_and_ids_of_others_are_refused_alike(
    bobs: Api, alice: User, ep1: Endpoint, ep2: Endpoint, task: Task
) -> None:
    foreign = submit(alice, ep1, ep2)
    answers = [bobs.get(f"{M}/task_list", filter_task_id=f"{task.pk},{other}") for other in (foreign.pk, uuid.uuid4())]
    for answer in answers:
        assert_error(answer, 403, "PermissionDenied")
    assert answers[0].body["message"] == answers[1].body["message"]


@pytest.mark.parametrize("owner", [str(uuid.UUID(int=1)), "x"])
def test_an_owner_that_does_not_exist_is_reported(bobs: Api, public: Endpoint, owner: str) -> None:
    answer = bobs.get(f"{M}/task_list", filter_endpoint="public", filter_owner_id=owner)
    assert_error(answer, 404, "UserNotFound")


def test_pages_go_on_from_the_last_key_and_hold_every_task_once(
    bobs: Api, alice: User, ep1: Endpoint, public: Endpoint
) -> None:
    tasks = [submit(alice, ep1, public) for _ in range(4)] + [submit(alice, public, public, ("/a", "/b"))]
    for number, seconds in enumerate((10, 10, 30)):
        done(tasks[number], seconds)
    Task.objects.filter(pk__in=[tasks[0].pk, tasks[1].pk]).update(request_time=NOW)
    found: list[str] = []
    query: dict[str, Any] = {"filter_endpoint": "public", "limit": 2}
    pages = 0
    while not pages or query["last_key"]:
        answer, pages = bobs.get(f"{M}/task_list", **query), pages + 1
        found += ids(answer)
        query["last_key"] = answer.body["last_key"]
        assert answer.body["has_next_page"] is bool(query["last_key"])
        if query["last_key"]:
            assert answer.body["DATA"][-1]["key"].partition(",")[0] == query["last_key"].partition(",")[0]
    assert (pages, len(found), len(set(found))) == (3, 5, 5)
    assert set(found[:2]) == {str(tasks[3].pk), str(tasks[4].pk)}, "what is not done comes first"
    assert found[:2] == [str(tasks[4].pk), str(tasks[3].pk)], "the newest first"
    assert found[4] == str(tasks[2].pk), "what was done first comes last"


def test_a_page_reads_the_index_and_not_the_history(alice: User, public: Endpoint, ep1: Endpoint) -> None:
    submit(alice, ep1, public)
    wanted = managed_tasks.ManagedTaskFilter(endpoint="public", min_faults=1)
    conditions, parameters = managed_tasks._conditions(wanted, None)
    parts = [managed_tasks._ONE_SIDE.format(side=side, conditions=conditions) for side in managed_tasks.SIDES]
    query = managed_tasks._PAGE.format(parts=" UNION ALL ".join(parts))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan TO off; SET LOCAL enable_sort TO off")
        cursor.execute("EXPLAIN " + query, {**parameters, "places": [public.pk], "limit": 10})
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "task_of_source" in plan
    assert "task_of_destination" in plan


def test_a_list_that_takes_too_long_is_given_up_with_an_error_that_nobody_tries_again(
    bobs: Api, alice: User, ep1: Endpoint, public: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(alice, ep1, public)
    monkeypatch.setattr(managed_tasks, "STATEMENT_TIMEOUT", 50)
    monkeypatch.setitem(managed_tasks._CONDITIONS, "faults", "pg_sleep(1) IS NOT NULL")
    assert_error(bobs.get(f"{M}/task_list", filter_endpoint="public", filter_min_faults=1), 400)
    assert listed(bobs, filter_endpoint="public", filter_status="ACTIVE") != [], "and the connection is fine"


def test_what_is_shared_is_found_by_the_host_and_shown_with_it(
    alice: User, bobs: Api, charlie: User, public: Endpoint
) -> None:
    share = make_share(public, "share", owner=charlie)
    give(share, alice)
    task = submit(alice, share, make_endpoint(alice, "mine"))
    assert listed(bobs, filter_endpoint="public") == [str(task.pk)]
    [row] = bobs.get(f"{M}/task_list", filter_status="ACTIVE").body["DATA"]
    assert row["source_endpoint"] == "charlie#share"
    assert (row["source_host_endpoint"], row["source_host_endpoint_id"]) == ("bob#public", str(public.pk))
    assert (row["source_host_path"], row["owner_string"]) == ("/shared/", "alice@127.0.0.1")
    assert row["destination_host_endpoint_id"] is None
    assert listed(Api(charlie), filter_status="ACTIVE") == [str(task.pk)]


# ---- one task


def test_one_side_is_shown_without_the_paths_and_the_texts_of_the_other(
    alices: Api, bobs: Api, ep1: Endpoint, task: Task
) -> None:
    item = Item.objects.get(task=task)
    common: dict[str, Any] = {"task": task, "item": item, "source_path": "/secret/a", "destination_path": "/open/a"}
    File.objects.create(**common, key=b"a" * 16, state=1, settled_at=NOW)
    wrong = {"error_code": "PERMISSION_DENIED", "error_details": "550 /secret/a", "error_time": NOW}
    File.objects.create(**common, key=b"b" * 16, state=3, settled_at=NOW, **wrong)
    event: dict[str, Any] = {"task": task, "time": NOW, "description": "A fault."}
    Event.objects.create(**event, code="PERMISSION_DENIED", is_error=True, details="File: /secret/a")
    Event.objects.create(**event, code="STARTED", details="{}")
    Task.objects.filter(pk=task.pk).update(
        source_base_path="/secret/", destination_base_path="/open/", nice_status="PERMISSION_DENIED",
        nice_status_details="550 /secret/a",
    )  # fmt: skip
    url = f"{M}/task/{task.pk}"
    parts = ("", "/event_list", "/successful_transfers", "/skipped_errors")
    for api, hidden, shown in ((bobs, "/secret/", "/open/"), (alices, "/open/", "/secret/")):
        told = [api.get(f"{url}{more}").body for more in parts]
        text = str(told)
        assert hidden not in text
        assert "550" not in text
        assert shown in text
    codes = {row["code"]: row["details"] for row in bobs.get(f"{url}/event_list").body["DATA"]}
    assert (codes["STARTED"], codes["PERMISSION_DENIED"]) == ("{}", "")
    both = make_user("both")
    for endpoint in filter(None, (ep1, task.destination)):
        roles.create(endpoint.owner, str(endpoint.pk), "identity", str(both.pk), "activity_monitor")
    told = [Api(both).get(f"{url}{more}").body for more in parts]
    assert "/secret/" in str(told[0])
    assert "File: /secret/a" in str(told[1])
    assert told[2]["DATA"][0]["source_path"] == "/secret/a"
    assert told[3]["DATA"][0]["error_details"] == "550 /secret/a"


def test_no_event_of_one_side_names_a_path_of_the_other(
    alice: User, alices: Api, bobs: Api, ep1: Endpoint, public: Endpoint
) -> None:
    """Paths deleted at a destination, paths left out of a source, and the path that ended a task."""
    task = submit(alice, ep1, public)
    grant = take(task)
    for code, details in (
        ("PROGRESS", {"files": 1, "paths": ["/secret/old"]}),
        ("PROGRESS", "1 thing under /secret/a"),
    ):
        measurements.add_event(task.pk, grant.epoch, NewEvent(code, "Some things.", details))
    said = "No access rule of the shared endpoint bob#share covers /secret/b any more"
    measurements.add_event(task.pk, grant.epoch, NewEvent("TIMEOUT", f"{said}.", "", is_error=True))
    slice_end.fail(task.pk, grant.epoch, "ACL_CHANGED", f"{said}.")
    url = f"{M}/task/{task.pk}"
    for api in (alices, bobs):
        told = [api.get(f"{url}{more}").body for more in ("", "/event_list")]
        assert "/secret" not in str(told)
    assert [row["description"] for row in told[1]["DATA"]][:2] == ["Acl changed.", "Timeout."]
    assert "/secret/b" in str(Api(alice).get(f"/task/{task.pk}/event_list").body), "the owner is told all of it"


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("fate", [NOW, "given up", "passed over"])
def test_one_side_reads_how_many_files_met_a_fault(bobs: Api, task: Task, side: Side, fate: Any) -> None:
    fault = Fault(Kind.PERMISSION_DENIED, side, advice="Change /secret.", raw="550 /secret/a")
    settling._report(task.pk, [("/secret/a", fault, fate), ("/secret/b", fault, fate)], NOW)
    [row, _] = bobs.get(f"{M}/task/{task.pk}/event_list").body["DATA"]
    assert " on 2 files: " in row["description"]
    assert row["details"] == ""


def test_events_are_filtered_and_files_are_paged(alice: User, bobs: Api, task: Task) -> None:
    item = Item.objects.get(task=task)
    for number in range(3):
        File.objects.create(
            task=task, item=item, source_path="/a", destination_path=f"/{number}", key=bytes([number]) * 16, state=1,
            settled_at=NOW,
        )  # fmt: skip
    Event.objects.create(task=task, time=NOW, code="TIMEOUT", is_error=True, description="It is slow.", details="")
    url = f"{M}/task/{task.pk}"
    assert [row["code"] for row in bobs.get(f"{url}/event_list", filter_is_error=1).body["DATA"]] == ["TIMEOUT"]
    assert [row["code"] for row in bobs.get(f"{url}/event_list", filter_is_error=0).body["DATA"]] == ["SUBMITTED"]
    assert bobs.get(f"{url}/event_list", limit=1).body["total"] == 2
    first = bobs.get(f"{url}/successful_transfers", limit=2).body
    second = bobs.get(f"{url}/successful_transfers", limit=2, marker=first["next_marker"]).body
    assert [row["destination_path"] for row in first["DATA"] + second["DATA"]] == ["/0", "/1", "/2"]
    assert second["next_marker"] is None


def test_a_deletion_has_one_side_and_who_runs_it_sees_all(alice: User, bobs: Api, public: Endpoint) -> None:
    task = submit_delete(alice, public)
    File.objects.create(
        task=task, item=Item.objects.get(task=task), source_path="/old/a", key=b"a" * 16, state=1, settled_at=NOW
    )
    [row] = bobs.get(f"{M}/task/{task.pk}/successful_transfers").body["DATA"]
    assert (row["source_path"], row["destination_path"]) == ("/old/a", None)


# ---- pause rules and pauses


def test_a_rule_over_rest_pauses_and_the_owner_of_the_task_sees_why(
    alices: Api, bobs: Api, alice: User, ep1: Endpoint, public: Endpoint, task: Task
) -> None:
    body = {"endpoint_id": "public", "identity_id": str(alice.pk), "message": "Until noon.", "pause_ls": False}
    made = bobs.post(f"{M}/pause_rule", body)
    assert made.status == 201
    assert (made.body["editable"], made.body["pause_ls"], made.body["pause_mkdir"]) == (True, False, True)
    pauses.settle()
    told = alices.get(f"/task/{task.pk}").body
    assert (told["status"], told["is_paused"], told["nice_status"], told["is_ok"]) == ("ACTIVE", True, "PAUSED", False)
    assert "Until noon." in told["nice_status_details"]
    info = alices.get(f"/task/{task.pk}/pause_info").body
    assert [rule["id"] for rule in info["pause_rules"]] == [made.body["id"]]
    assert (info["pause_rules"][0]["message"], info["source_pause_message"]) == ("Until noon.", None)
    assert "modified_by_id" not in info["pause_rules"][0], "who did it is no business of users"
    [rule] = bobs.get(f"{M}/task/{task.pk}/pause_info").body["pause_rules"]
    assert rule == made.body
    assert alices.get(f"{M}/task/{task.pk}/pause_info").body["pause_rules"] == [], "the other side's rules"
    [effective] = alices.get(f"/endpoint/{public.pk}/my_effective_pause_rule_list").body["DATA"]
    assert effective == info["pause_rules"][0]
    assert bobs.get(f"/endpoint/{public.pk}/my_effective_pause_rule_list").body["DATA"] == []
    [row] = bobs.get(f"{M}/pause_rule_list", filter_endpoint="public").body["DATA"]
    assert row == bobs.get(f"{M}/pause_rule/{made.body['id']}").body == made.body
    changed = bobs.put(f"{M}/pause_rule/{made.body['id']}", {"message": "Until two.", "endpoint_id": "ignored"})
    assert (changed.status, changed.body["message"]) == (200, "Until two.")
    answer = alices.post(f"/operation/endpoint/{public.pk}/mkdir", {"path": "/new"})
    assert_error(answer, 409, "ExternalError.MkdirFailed.GCPaused")
    assert "Until two." in answer.body["message"]
    assert bobs.delete(f"{M}/pause_rule/{made.body['id']}").body["code"] == "Deleted"
    pauses.settle()
    assert alices.get(f"/task/{task.pk}").body["nice_status"] == "Queued"
    assert alices.get(f"/task/{task.pk}/pause_info").body["pause_rules"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"endpoint_id": "public", "identity_id": "x"},
        {"endpoint_id": "public", "identity_id": str(uuid.uuid4())},
        {"endpoint_id": "public", "message": 5},
        {"endpoint_id": "public", "pause_ls": "yes"},
        {"endpoint_id": "public", "start_time": "soon"},
        {"endpoint_id": "public", "message": "x" * 3000},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(bobs: Api, public: Endpoint, body: dict[str, Any]) -> None:
    assert_error(bobs.post(f"{M}/pause_rule", body), 400, "ClientError.BadRequest")
    assert not PauseRule.objects.exists()


def test_a_rule_of_the_host_is_reported_as_such_on_a_share(
    alices: Api, alice: User, bobs: Api, public: Endpoint
) -> None:
    share = make_share(public, "share", owner=alice)
    bobs.post(f"{M}/pause_rule", {"endpoint_id": "public"})
    [rule] = alices.get(f"/endpoint/{share.pk}/my_effective_pause_rule_list").body["DATA"]
    assert (rule["created_by_host_manager"], rule["endpoint_id"]) == (True, str(public.pk))
    [rule] = alices.get(f"/endpoint/{public.pk}/my_effective_pause_rule_list").body["DATA"]
    assert rule["created_by_host_manager"] is False


def test_a_task_is_paused_by_its_id_and_resumed(alices: Api, bobs: Api, alice: User, task: Task) -> None:
    assert bobs.post(f"{M}/admin_pause", said(task, message="One moment.")).body["code"] == "Accepted"
    told = alices.get(f"/task/{task.pk}").body
    assert (told["is_paused"], told["nice_status"]) == (True, "PAUSED_BY_ADMIN")
    assert told["nice_status_details"] == "A manager of bob#public has paused this task: One moment."
    info = alices.get(f"/task/{task.pk}/pause_info").body
    assert (info["destination_pause_message"], info["source_pause_message"]) == ("One moment.", None)
    assert bobs.post(f"{M}/admin_resume", {"task_id_list": [str(task.pk)]}).body["code"] == "Accepted"
    assert alices.get(f"/task/{task.pk}").body["is_paused"] is False
    assert alices.get(f"/task/{task.pk}/pause_info").body["destination_pause_message"] is None
    codes = [event.code for event in queries.events(alice, task.pk).rows]
    assert codes == ["UNPAUSED", "PAUSED", "SUBMITTED"]


def test_a_running_task_that_is_paused_by_its_id_learns_of_it_by_its_heartbeat(bobs: Api, task: Task) -> None:
    grant = take(task)
    bobs.post(f"{M}/admin_pause", said(task))
    assert leases.heartbeat(task.pk, grant.epoch).pause_requested
    slice_end.release(task.pk, grant.epoch, datetime.now(UTC))
    assert Task.objects.get(pk=task.pk).phase == "paused"
    bobs.post(f"{M}/admin_resume", said(task))
    assert not leases.heartbeat(task.pk, take(task).epoch).pause_requested


def test_a_task_that_both_sides_paused_goes_on_when_both_have_let_it(alices: Api, bobs: Api, task: Task) -> None:
    for api in (alices, bobs):
        api.post(f"{M}/admin_pause", said(task))
    alices.post(f"{M}/admin_resume", said(task))
    assert alices.get(f"/task/{task.pk}").body["is_paused"] is True
    bobs.post(f"{M}/admin_resume", said(task))
    assert alices.get(f"/task/{task.pk}").body["is_paused"] is False


def test_a_rule_keeps_paused_what_was_resumed_and_says_so(alices: Api, bobs: Api, task: Task) -> None:
    bobs.post(f"{M}/admin_pause", said(task))
    bobs.post(f"{M}/pause_rule", {"endpoint_id": "public", "message": "By the rule."})
    bobs.post(f"{M}/admin_resume", said(task))
    told = alices.get(f"/task/{task.pk}").body
    assert (told["is_paused"], told["nice_status"]) == (True, "PAUSED")
    assert "By the rule." in told["nice_status_details"]


def test_who_shares_cannot_take_back_what_the_host_has_paused(
    alice: User, alices: Api, bobs: Api, charlie: User, public: Endpoint
) -> None:
    share = make_share(public, "share", owner=charlie)
    give(share, alice)
    task = submit(alice, share, make_endpoint(alice, "mine"))
    charlies = Api(charlie)
    charlies.post(f"{M}/admin_pause", said(task, message="by the sharer"))
    bobs.post(f"{M}/admin_pause", said(task, message="by the host"))
    info = alices.get(f"/task/{task.pk}/pause_info").body
    told = (info["source_pause_message"], info["source_pause_message_share"])
    assert told == ("by the host", "by the sharer")
    charlies.post(f"{M}/admin_resume", said(task))
    assert alices.get(f"/task/{task.pk}").body["is_paused"] is True
    charlies.post(f"{M}/admin_pause", said(task))
    bobs.post(f"{M}/admin_resume", said(task))
    assert alices.get(f"/task/{task.pk}").body["is_paused"] is False, "who runs the host runs the share"


# ---- cancels


def test_a_manager_ends_a_task_and_its_owner_learns_by_whom_and_why(
    alices: Api, bobs: Api, alice: User, bob: User, task: Task
) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.org")
    answer = bobs.post(f"{M}/admin_cancel", said(task, message="This fills the disks."))
    assert (answer.status, answer.body["done"]) == (200, True)
    told = alices.get(f"/task/{task.pk}").body
    assert (told["status"], told["fatal_error"]["code"]) == ("FAILED", "CANCELED")
    words = "A manager of bob#public canceled the task: This fills the disks."
    assert told["fatal_error"]["description"] == words
    assert (told["canceled_by_admin"], told["canceled_by_admin_message"]) == ("DESTINATION", "This fills the disks.")
    assert queries.events(alice, task.pk).rows[0].description == words
    assert words in Mail.objects.get(task=task).body
    assert bobs.get(f"{M}/admin_cancel/{answer.body['id']}").body == answer.body
    for other in (alices, Api()):
        assert other.get(f"{M}/admin_cancel/{answer.body['id']}").status in (401, 404)
    assert_error(bobs.get(f"{M}/admin_cancel/x"), 404, "ClientError.NotFound")


def test_a_running_task_ends_with_its_workers_next_word(alices: Api, bobs: Api, task: Task) -> None:
    grant = take(task)
    asked = bobs.post(f"{M}/admin_cancel", said(task)).body
    assert asked["done"] is False
    assert alices.get(f"/task/{task.pk}").body["canceled_by_admin"] is None, "not yet"
    assert leases.heartbeat(task.pk, grant.epoch).cancel_requested
    slice_end.fail(task.pk, grant.epoch, "CANCELED", "Canceled by the user.")
    told = alices.get(f"/task/{task.pk}").body
    assert told["fatal_error"]["description"] == "A manager of bob#public canceled the task: Enough."
    assert bobs.get(f"{M}/admin_cancel/{asked['id']}").body["done"] is True


def test_who_asked_first_has_ended_it(alices: Api, alice: User, bobs: Api, task: Task) -> None:
    grant = take(task)
    moves.cancel(alice, task.pk)
    bobs.post(f"{M}/admin_cancel", said(task))
    slice_end.release(task.pk, grant.epoch, datetime.now(UTC))
    told = alices.get(f"/task/{task.pk}").body
    assert (told["canceled_by_admin"], told["fatal_error"]["description"]) == (None, moves.CANCELED_TEXT)


def test_a_task_that_ends_before_the_cancel_is_not_called_canceled(alices: Api, bobs: Api, task: Task) -> None:
    take(task)
    bobs.post(f"{M}/admin_cancel", said(task))
    done(task)
    assert alices.get(f"/task/{task.pk}").body["canceled_by_admin"] is None


def test_both_sides_of_a_task_are_shown_to_a_manager_of_both(alices: Api, task: Task, bob: User) -> None:
    roles.create(bob, str(task.destination_id), "identity", str(task.owner_id), "activity_manager")
    alices.post(f"{M}/admin_cancel", said(task, message=None))
    told = alices.get(f"/task/{task.pk}").body
    assert (told["canceled_by_admin"], told["canceled_by_admin_message"]) == ("BOTH", "")
    assert told["fatal_error"]["description"] == "A manager of alice#ep1 and bob#public canceled the task."


@pytest.mark.parametrize("action", ["admin_pause", "admin_resume", "admin_cancel"])
def test_of_a_list_all_is_done_or_nothing(
    alice: User, bobs: Api, bob: User, ep1: Endpoint, ep2: Endpoint, task: Task, action: str
) -> None:
    foreign = submit(alice, ep1, ep2)
    for other in (foreign.pk, uuid.uuid4()):
        body = {"message": "x", "task_id_list": [str(task.pk), str(other)]}
        answer = bobs.post(f"{M}/{action}", body)
        assert_error(answer, 404, "ClientError.NotFound")
        assert answer.body["message"] == f"No such task '{other}'"
    roles.create(alice, str(ep1.pk), "identity", str(bob.pk), "activity_monitor")
    assert_error(bobs.post(f"{M}/{action}", said(task, foreign)), 403, "PermissionDenied")
    assert set(Task.objects.values_list("phase", "cancel_requested_at")) == {("queued", None)}
    assert not AdminCancel.objects.exists()


@pytest.mark.parametrize("action", ["admin_pause", "admin_resume", "admin_cancel"])
def test_a_list_is_bounded_and_has_ids(bobs: Api, task: Task, action: str) -> None:
    many = [str(uuid.uuid4()) for _ in range(MAX_TASKS + 1)]
    for wrong in (None, [], "x", [5], many):
        assert_error(bobs.post(f"{M}/{action}", {"message": "x", "task_id_list": wrong}), 400)
    assert_error(bobs.post(f"{M}/{action}", {"message": "x", "task_id_list": ["x"]}), 404)
    if action != "admin_resume":
        assert_error(bobs.post(f"{M}/{action}", said(task, message="x" * 3000)), 400, "ClientError.BadRequest")


def test_tasks_that_are_done_are_passed_over(bobs: Api, task: Task) -> None:
    done(task)
    for action in ("admin_pause", "admin_resume", "admin_cancel"):
        assert bobs.post(f"{M}/{action}", said(task)).status == 200
    assert Task.objects.get(pk=task.pk).admin_pauses == {}


@pytest.mark.django_db(transaction=True)
def test_managers_and_the_owner_at_once_leave_one_end(alice: User, bob: User, ep1: Endpoint, public: Endpoint) -> None:
    for _ in range(5):
        tasks = [submit(alice, ep1, public) for _ in range(3)]
        one, two = [task.pk for task in tasks], [task.pk for task in reversed(tasks)]
        results = all_at_once([
            partial(actions.cancel, bob, one, "by bob"),
            partial(actions.cancel, alice, two, "by alice"),
            partial(actions.pause, bob, two, "paused"),
            partial(moves.cancel, alice, one[1]),
            pauses.settle,
        ])  # fmt: skip
        assert not [result for result in results if isinstance(result, Exception)], results
        found = Task.objects.filter(pk__in=one)
        assert {row.fatal_error_code for row in found} == {"CANCELED"}
        assert Event.objects.filter(task__in=one, code="CANCELED").count() == 3


# ---- endpoints


def test_the_endpoints_that_somebody_runs_and_what_is_shared_of_them(
    alice: User, bob: User, bobs: Api, charlie: User, public: Endpoint, ep1: Endpoint
) -> None:
    share = make_share(public, "share", owner=charlie)
    rule = give(share, alice, "/a/")
    roles.create(alice, str(ep1.pk), "identity", str(bob.pk), "activity_monitor")
    answer = bobs.get(f"{M}/monitored_endpoints")
    assert [row["id"] for row in answer.body["DATA"]] == [str(row.pk) for row in (ep1, public, share)]
    assert bobs.get(f"{M}/endpoint/{ep1.pk}").body["my_effective_roles"] == ["activity_monitor"]
    assert [row["id"] for row in bobs.get(f"{M}/endpoint/public/hosted_endpoint_list").body["DATA"]] == [str(share.pk)]
    found = bobs.get(f"{M}/endpoint/{share.pk}/access_list").body["DATA"]
    assert [row["id"] for row in found if row["id"]] == [str(rule.pk)]
    AccessRule.objects.update(notify_email="alice@example.org", notify_message="Only for you.")
    told = str(bobs.get(f"{M}/endpoint/{share.pk}/access_list").body)
    assert "alice@example.org" not in told, "what charlie writes to alice is no business of his"
    assert "Only for you" not in told
    assert "Only for you" in str(Api(charlie).get(f"/endpoint/{share.pk}/access_list").body)
    assert_error(bobs.get(f"{M}/endpoint/public/access_list"), 400)
    assert Api(make_user("dave")).get(f"{M}/monitored_endpoints").body["DATA"] == []


# ---- what is forgotten


def test_the_history_of_a_task_is_forgotten_after_thirty_days(alices: Api, alice: User, task: Task) -> None:
    item = Item.objects.get(task=task)
    for number in range(5):
        File.objects.create(task=task, item=item, source_path="/a", key=bytes([number]) * 16, state=1, settled_at=NOW)
    day = 86400
    done(task, 29 * day)
    assert retention.forget_old() == 0
    done(task, 31 * day)
    assert retention.forget_old(rows=3) == 0, "in parts"
    assert File.objects.filter(task=task).count() == 2
    assert retention.forget_old() == 1
    assert not File.objects.filter(task=task).exists()
    assert not Event.objects.filter(task=task).exists()
    told = alices.get(f"/task/{task.pk}").body
    assert (told["history_deleted"], told["status"]) == (True, "SUCCEEDED")
    assert alices.get(f"/task/{task.pk}/successful_transfers").body["DATA"] == []
    assert retention.forget_old() == 0
    alive = submit(alice, task.source, make_endpoint(alice, "ep9"))
    assert retention.forget_old(NOW + timedelta(days=80)) == 0
    assert Event.objects.filter(task=alive).exists()


def test_of_a_managers_cancels_the_last_ones_are_kept(bobs: Api, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MAX_CANCELS", 2)
    ids = [bobs.post(f"{M}/admin_cancel", said(task)).body["id"] for _ in range(4)]
    assert {str(pk) for pk in AdminCancel.objects.values_list("pk", flat=True)} == set(ids[2:])


def test_cancels_of_long_ago_are_forgotten(bobs: Api, bob: User, task: Task) -> None:
    bobs.post(f"{M}/admin_cancel", said(task))
    retention.forget_old()
    assert AdminCancel.objects.count() == 1
    retention.forget_old(NOW + timedelta(days=31))
    assert not AdminCancel.objects.exists()
