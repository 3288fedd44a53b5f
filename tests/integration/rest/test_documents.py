"""Every document that goes out: field by field as clients know it, and never other than OpenAPI describes it."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema
from pytest_django import DjangoAssertNumQueries

from endpoints import bookmarks, pause_rules
from endpoints.connect import setup_keys
from endpoints.models import Endpoint, Role
from endpoints.sharing import access_rules, roles, shares
from endpoints.sharing.access_rules import RuleSpec
from identity.models import User
from tests.integration.cast import make_endpoint, submit, submit_delete
from tests.integration.described import assert_described, description, operation, path_of
from tests.integration.rest import Answer, Api, assert_error, plain_routes, routes
from transferapi.rest.openapi import components
from transferapi.rest.openapi.description import PATHS as PLAIN
from transferapi.tasks.managers import actions
from transferapi.tasks.models import Event, File, Item, Task
from transferapi.tasks.notify import webhooks
from transferapi.tasks.states import FileKind, FileState

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 1, 15, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    """A canceled task of three files: one was moved, one was given up after a fault, and one is pending."""
    made = submit(alice, ep1, ep2, label="golden")
    item = Item.objects.get(task=made)
    common: dict[str, Any] = {"task": made, "item": item, "size": 7}
    names = {FileState.DONE: "moved", FileState.FAILED: "lost", FileState.PENDING: "waits"}
    for number, (state, name) in enumerate(names.items()):
        File.objects.create(
            **common, source_path=f"/from/{name}", destination_path=f"/to/{name}", state=state,
            key=bytes([number]) * 16,
            settled_at=None if name == "waits" else NOON,
            error_code="PERMISSION_DENIED" if name == "lost" else None, error_time=NOON if name == "lost" else None,
        )  # fmt: skip
    Event.objects.filter(task=made).update(time=NOON)
    Event.objects.create(
        task=made, time=NOON, code="PERMISSION_DENIED", is_error=True, description="The account may not.", details="550"
    )
    Task.objects.filter(pk=made.pk).update(
        status="FAILED", phase="done", request_time=NOON, deadline=NOON + timedelta(days=1), faults=1, files=3,
        completion_time=NOON + timedelta(seconds=2), files_transferred=1, files_failed=1, bytes_transferred=7,
        directories=2, items_scanned=1, items_total=1, fatal_error_code="CANCELED", fatal_error_description="By alice.",
        last_progress_at=NOON + timedelta(seconds=1),
    )  # fmt: skip
    return Task.objects.get(pk=made.pk)


# ---- golden documents


def test_the_document_of_a_task(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint, task: Task) -> None:
    expected = {
        "DATA_TYPE": "task",
        "task_id": str(task.pk),
        "type": "TRANSFER",
        "status": "FAILED",
        "label": "golden",
        "owner_id": str(alice.pk),
        "username": "alice",
        "request_time": "2026-01-15T12:00:00+00:00",
        "completion_time": "2026-01-15T12:00:02+00:00",
        "deadline": "2026-01-16T12:00:00+00:00",
        "key": "complete,2026-01-15T12:00:02+00:00",
        "source_endpoint": "alice#ep1",
        "source_endpoint_id": str(ep1.pk),
        "source_endpoint_display_name": "ep1",
        "destination_endpoint": "alice#ep2",
        "destination_endpoint_id": str(ep2.pk),
        "destination_endpoint_display_name": "ep2",
        "source_base_path": None,
        "destination_base_path": None,
        "source_local_user": None,
        "source_local_user_status": "NO_PERMISSION",
        "destination_local_user": None,
        "destination_local_user_status": "NO_PERMISSION",
        "sync_level": None,
        "encrypt_data": False,
        "verify_checksum": False,
        "delete_destination_extra": False,
        "confirm_deletion_above": None,
        "bandwidth_limit": None,
        "present_bandwidth_limit": None,
        "priority": "normal",
        "preserve_timestamp": False,
        "skip_source_errors": False,
        "fail_on_quota_errors": False,
        "recursive_symlinks": "ignore",
        "filter_rules": None,
        "command": "API 0.10",
        "history_deleted": False,
        "faults": 1,
        "files": 3,
        "directories": 2,
        "symlinks": 0,
        "files_skipped": 0,
        "files_transferred": 1,
        "subtasks_total": 4,
        "subtasks_pending": 0,
        "subtasks_retrying": 0,
        "subtasks_succeeded": 2,
        "subtasks_expired": 0,
        "subtasks_canceled": 1,
        "subtasks_failed": 1,
        "subtasks_skipped_errors": 0,
        "bytes_transferred": 7,
        "bytes_checksummed": 0,
        "effective_bytes_per_second": 3,
        "forecast_seconds_left": None,
        "forecast_bytes_per_second": None,
        "forecast_completion_time": None,
        "forecast_basis": None,
        "nice_status": None,
        "nice_status_details": None,
        "nice_status_short_description": None,
        "nice_status_expires_in": None,
        "is_ok": None,
        "is_paused": False,
        "data_protection": None,
        "data_way": None,
        "fatal_error": {"code": "CANCELED", "description": "By alice."},
        "canceled_by_admin": None,
        "canceled_by_admin_message": None,
    }
    assert api.get(f"/task/{task.pk}").body == expected
    assert api.get("/task_list").body == {
        "DATA_TYPE": "task_list", "length": 1, "limit": 10, "offset": 0, "total": 1, "DATA": [expected],
    }  # fmt: skip


def test_a_queued_task_says_so_and_a_delete_has_no_destination(api: Api, alice: User, ep1: Endpoint) -> None:
    row = submit_delete(alice, ep1, "/old")
    document = api.get(f"/task/{row.pk}").body
    assert (document["type"], document["status"], document["nice_status"]) == ("DELETE", "ACTIVE", "Queued")
    assert document["key"] == f"active,{document['request_time']}"
    assert document["is_ok"] is True
    assert document["completion_time"] is None
    for name in document:
        if name.startswith("destination_"):
            assert document[name] is None, name
    assert (document["subtasks_total"], document["subtasks_pending"]) == (1, 1)
    Task.objects.filter(pk=row.pk).update(nice_status="CONNECT_FAILED", nice_status_details="connection refused")
    document = api.get(f"/task/{row.pk}").body
    assert (document["nice_status"], document["is_ok"]) == ("CONNECT_FAILED", False)
    assert document["nice_status_short_description"] == "connect failed"
    assert document["nice_status_details"] == "connection refused"


def test_the_documents_of_a_tasks_history(api: Api, task: Task) -> None:
    assert api.get(f"/task/{task.pk}/event_list").body == {
        "DATA_TYPE": "event_list", "length": 2, "limit": 10, "offset": 0, "total": 2,
        "DATA": [
            {
                "DATA_TYPE": "event", "code": "PERMISSION_DENIED", "is_error": True,
                "time": "2026-01-15T12:00:00+00:00", "description": "The account may not.", "details": "550",
            },
            {
                "DATA_TYPE": "event", "code": "SUBMITTED", "is_error": False, "time": "2026-01-15T12:00:00+00:00",
                "description": "The task was accepted, with 1 item(s).", "details": "",
            },
        ],
    }  # fmt: skip
    assert api.get(f"/task/{task.pk}/successful_transfers").body == {
        "DATA_TYPE": "successful_transfers", "marker": None, "next_marker": None,
        "DATA": [
            {
                "DATA_TYPE": "successful_transfer", "source_path": "/from/moved", "destination_path": "/to/moved",
                "size": 7, "checksum": None, "checksum_algorithm": None,
            }
        ],
    }  # fmt: skip
    lost = api.get(f"/task/{task.pk}/skipped_errors").body
    assert lost == {
        "DATA_TYPE": "skipped_errors", "marker": None, "next_marker": None,
        "DATA": [
            {
                "DATA_TYPE": "skipped_error", "source_path": "/from/lost", "destination_path": "/to/lost",
                "error_code": "PERMISSION_DENIED", "error_details": None, "error_time": "2026-01-15T12:00:00+00:00",
                "checksum_algorithm": None, "external_checksum": None, "is_directory": False, "is_symlink": False,
                "is_delete_destination_extra": False,
            }
        ],
    }  # fmt: skip
    File.objects.filter(task=task, state=FileState.FAILED).update(kind=FileKind.DIRECTORY)
    assert api.get(f"/task/{task.pk}/skipped_errors").body["DATA"][0]["is_directory"] is True


def test_names_that_are_no_utf_8_are_lone_surrogates_in_a_history(api: Api, task: Task) -> None:
    File.objects.filter(task=task, state=FileState.DONE).update(
        source_path="/from/\udcff", destination_path="/to/ü\udc80"
    )
    row = api.get(f"/task/{task.pk}/successful_transfers").body["DATA"][0]
    assert (row["source_path"], row["destination_path"]) == ("/from/\udcff", "/to/ü\udc80")


def test_the_document_of_an_endpoint_has_all_that_clients_read(api: Api, alice: User, ep1: Endpoint) -> None:
    document = api.get("/endpoint/alice%23ep1").body
    server = ep1.servers.get()
    set_by_us = {
        "DATA_TYPE": "endpoint", "id": str(ep1.pk), "name": "ep1", "canonical_name": "alice#ep1", "display_name": "ep1",
        "owner_id": str(alice.pk), "owner_string": "alice@127.0.0.1", "username": "alice", "default_directory": "/~/",
        "public": False, "activated": True, "expires_in": -1, "entity_type": "GCP_mapped_collection",
        "is_globus_connect": False, "non_functional": False, "my_effective_roles": ["administrator"],
        "tlsftp_server": None, "gcs_manager_url": None, "https_server": None, "description": None,
        "expire_time": None, "myproxy_server": None, "myproxy_dn": None, "oauth_server": None,
        "DATA": [
            {
                "DATA_TYPE": "server", "id": server.pk, "hostname": "ep1.example.org", "port": 2811, "scheme": "ftp",
                "uri": "ftp://ep1.example.org:2811", "subject": None, "shown_host_key": None,
                "host_key_confirmed": None,
                "is_connected": True, "is_paused": False,
                "incoming_data_port_start": None, "incoming_data_port_end": None,
                "outgoing_data_port_start": None, "outgoing_data_port_end": None,
            }
        ],
    }  # fmt: skip
    assert {name: document[name] for name in set_by_us} == set_by_us
    assert api.get(f"/endpoint/{ep1.pk}").body == api.get("/endpoint/ep1").body == document
    assert api.get("/endpoint_search", filter_fulltext="ep1").body["DATA"] == [document]


def test_fields_leave_the_rest_out(api: Api, ep1: Endpoint, task: Task) -> None:
    assert api.get("/endpoint/ep1", fields="id,name").body == {
        "DATA_TYPE": "endpoint", "id": str(ep1.pk), "name": "ep1",
    }  # fmt: skip
    row = {"DATA_TYPE": "task", "task_id": str(task.pk)}
    assert api.get(f"/task/{task.pk}", fields="task_id").body == row
    assert api.get("/task_list", fields=" task_id , nothing").body["DATA"] == [row]


# ---- what OpenAPI says

_E, _T = "endpoint/<str:endpoint>", "task/<str:task>"
_OPERATIONS = {
    ("GET", f"operation/{_E}/ls"): "?path=/",
    ("GET", f"operation/{_E}/listing"): "?path=/",
    ("GET", f"operation/{_E}/destination"): "?path=/a",
    ("GET", f"operation/{_E}/stat"): "?path=/",
    ("POST", f"operation/{_E}/mkdir"): "",
    ("POST", f"operation/{_E}/rename"): "",
    ("POST", f"operation/{_E}/symlink"): "",
    ("GET", f"operation/{_E}/file"): "?path=/a",
    ("GET", f"operation/{_E}/archive"): "?path=/a",
    ("PUT", f"operation/{_E}/file"): "?path=/a",
    ("DELETE", f"operation/{_E}/upload"): "?path=/a",
    ("GET", f"{_E}/ls"): "?path=/",
    ("POST", f"{_E}/mkdir"): "",
}
#: Operations that this service does not have, and those that a running task refuses.
_NOT_HERE = {
    ("PUT", f"{_E}/subscription"): 501,
    ("PUT", f"{_E}/subscription_admin_verified"): 501,
    ("POST", f"{_T}/remove"): 409,
    ("POST", f"{_T}/confirm_deletion"): 409,
    ("POST", f"{_T}/refuse_deletion"): 409,
    ("POST", f"{_T}/retry"): 409,
    ("POST", f"{_T}/run_again"): 400,
    # Its servers are no ssh accounts.
    ("DELETE", f"{_E}/ssh_program"): 400,
}
#: Its body is a file, not a document.
_TAKES_OCTETS = ("PUT", f"operation/{_E}/file")
#: Which example each route is sent; those that read have a query.
_BODIES: dict[tuple[str, str], str] = {
    ("POST", "endpoint"): "endpoint",
    ("PUT", _E): "endpoint_change",
    ("POST", f"{_E}/server"): "server",
    ("PUT", f"{_E}/server/<str:server>"): "server",
    ("POST", f"{_E}/activate"): "activation_requirements",
    ("POST", f"operation/{_E}/mkdir"): "mkdir",
    ("POST", f"operation/{_E}/rename"): "rename",
    ("POST", f"operation/{_E}/symlink"): "symlink",
    ("POST", "shared_endpoint"): "shared_endpoint",
    ("POST", f"{_E}/role"): "role",
    ("POST", f"{_E}/access"): "access",
    ("PUT", f"{_E}/access/<str:access>"): "access_change",
    ("POST", "transfer"): "transfer",
    ("POST", "delete"): "delete",
    ("POST", "transfer/check"): "transfer",
    ("POST", "delete/check"): "delete",
    ("PUT", _T): "task",
    ("POST", _T): "task",
    ("POST", f"{_T}/retry"): "retry",
    ("POST", f"{_T}/run_again"): "run_again",
    ("POST", f"{_E}/mkdir"): "mkdir",
    ("POST", "bookmark"): "bookmark",
    ("PUT", "bookmark/<str:bookmark>"): "bookmark_change",
    ("PUT", "mail_preference"): "mail_preference",
    ("POST", "webhook"): "webhook",
    ("PUT", "webhook/<str:webhook>"): "webhook_change",
    ("POST", "endpoint_manager/pause_rule"): "pause_rule",
    ("PUT", "endpoint_manager/pause_rule/<str:pause_rule>"): "pause_rule_change",
    ("POST", "endpoint_manager/admin_pause"): "admin_pause",
    ("POST", "endpoint_manager/admin_resume"): "admin_resume",
    ("POST", "endpoint_manager/admin_cancel"): "admin_cancel",
}
_QUERIES = {
    ("GET", "endpoint_search"): "?filter_fulltext=e",
    ("GET", f"operation/{_E}/upload"): "?path=/a",
    ("GET", "endpoint_manager/task_list"): "?filter_status=ACTIVE",
    ("GET", "forecast"): "?source_endpoint=mine&destination_endpoint=go%23ep1&bytes=1000",
    **_OPERATIONS,
}


#: For browsers, for servers in front, and for agents: no part of the API, and so of its description.
_NOT_DESCRIBED = {"", "v0.10/openapi", "v0.10/long_body", "connect/tunnel"}


def _described_routes() -> list[tuple[str, str]]:
    return [(method, route) for method, route in routes("v0.10/") if f"v0.10/{route}" not in _NOT_DESCRIBED]


#: These are about a shared endpoint.
_OF_SHARES = re.compile(r"/(access|role)")
#: These are about a personal one.
_OF_AGENTS = re.compile(r"/(agent|setup_key)$")
#: Its example is a user's name and passphrase: there has to be a server that takes them (test_rest_activation).
_SHOWN_ELSEWHERE = ("POST", f"{_E}/activate")


def _the_task_of_examples(like: Task) -> Task:
    """One with the id that examples name."""
    [task_id] = components.REQUEST_EXAMPLES["admin_pause"]["task_id_list"]
    made = Task.objects.get(pk=like.pk)
    made.pk, made.submission_id = uuid.UUID(task_id), uuid.uuid4()
    made.save(force_insert=True)
    return made


@pytest.fixture
def world(api: Api, alice: User, task: Task) -> Callable[[tuple[str, str]], Answer]:
    """Sends a route the example that the description shows for it, as alice, who has all that it names."""
    go = User.objects.create(username="go")
    for name in ("ep1", "ep2"):
        make_endpoint(go, name, public=True)
    server = make_endpoint(alice, "mine").servers.get()
    running = submit(alice, Endpoint.objects.get(owner=alice, name="ep1"), Endpoint.objects.get(name="mine"))
    bookmark = bookmarks.create(alice, name="a place", endpoint="mine", path="/~/")
    webhook, _ = webhooks.create(alice, "https://1.1.1.1/")
    Role.objects.create(
        endpoint=Endpoint.objects.get(name="ep1", owner=go),
        principal_type="identity",
        principal=alice.pk,
        role="administrator",
    )
    User.objects.create(pk=components.REQUEST_EXAMPLES["role"]["principal"], username="bob")
    shares.create(alice, "mine", "/results/", {"name": "share"})
    setup_keys.create_endpoint(alice, {"name": "laptop", "is_globus_connect": True})
    given = RuleSpec("all_authenticated_users", None, "/public/", "r")
    things = {
        "bookmark": bookmark.pk,
        "webhook": webhook.pk,
        "server": server.pk,
        "pause_rule": pause_rules.create(alice, "mine", {"start_time": datetime.now(UTC) + timedelta(days=1)}).pk,
        "admin_cancel": actions.cancel(alice, [_the_task_of_examples(running).pk], "").pk,
        "access": access_rules.create(alice, "share", given).pk,
        "role": roles.create(alice, "share", "identity", str(go.pk), "activity_monitor").pk,
    }

    def send(key: tuple[str, str]) -> Answer:
        method, route = key
        subject = running if method != "GET" else task
        endpoint = "laptop" if _OF_AGENTS.search(route) else "share" if _OF_SHARES.search(route) else "mine"
        named = {**things, "endpoint": endpoint, "task": subject.pk}
        path = re.sub(r"<str:(\w+)>", lambda part: str(named[part[1]]), route)
        body = components.REQUEST_EXAMPLES[_BODIES[key]] if key in _BODIES else None
        return api.call(method, f"/{path}{_QUERIES.get(key, '')}", body)

    return send


@pytest.mark.parametrize(
    "key", [key for key in _described_routes() if key != _SHOWN_ELSEWHERE], ids=lambda key: " ".join(key)
)
def test_every_route_answers_as_it_is_described_and_takes_the_example_that_is_shown(
    world: Callable[[tuple[str, str]], Answer], key: tuple[str, str]
) -> None:
    answer = world(key)
    # The gate goes to no server of these endpoints: there the tests with real servers look.
    allowed = 502 if key in _OPERATIONS else _NOT_HERE.get(key)
    assert answer.status < 300 or answer.status == allowed, answer.body
    assert_described(key[0], "v0.10/" + key[1], answer)


@pytest.mark.parametrize("key", _described_routes(), ids=lambda key: " ".join(key))
def test_every_route_refuses_as_it_is_described(key: tuple[str, str]) -> None:
    path = re.sub("<str:[a-z]+>", "1", key[1])
    assert_described(key[0], "v0.10/" + key[1], Api().call(key[0], f"/{path}"))


def test_the_description_is_sound_and_describes_every_route(api: Api) -> None:
    GENERATOR_STATS.reset()
    described = api.get("/openapi").body
    validate_schema(described)
    assert not GENERATOR_STATS
    assert described == description()
    views = {path: methods for path, methods in described["paths"].items() if path not in PLAIN}
    found = {(method.upper(), path) for path, methods in views.items() for method in methods}
    assert found == {(method, path_of(route)) for method, route in routes() if route not in _NOT_DESCRIBED}
    ids = [one["operationId"] for methods in described["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("kind", ["application/json", "application/vnd.oai.openapi+json"])
def test_the_description_is_rendered_once_and_not_sent_to_who_has_it(kind: str) -> None:
    first, second = (Client().get("/v0.10/openapi", headers={"Accept": kind}) for _ in range(2))
    assert first.headers["Content-Type"] == kind
    # The same object: all answers together take the memory of one.
    assert first.content is second.content
    assert first.headers["ETag"] == second.headers["ETag"]
    same, other = (
        Client().get("/v0.10/openapi", headers={"Accept": kind, "If-None-Match": tag})
        for tag in (f'"other", W/{first.headers["ETag"]}', '"other"')
    )
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert (other.status_code, other.content) == (200, first.content)


def test_each_format_of_the_description_has_a_tag_of_its_own() -> None:
    kinds = ("application/json", "application/vnd.oai.openapi+json")
    found = [Client().get("/v0.10/openapi", headers={"Accept": kind}) for kind in kinds]
    assert found[0].json() == json.loads(found[1].content)
    assert found[0].headers["ETag"] != found[1].headers["ETag"]


@pytest.mark.parametrize("key", _described_routes(), ids=lambda key: " ".join(key))
def test_every_operation_has_a_summary_and_its_documents_an_example(key: tuple[str, str]) -> None:
    described = operation(key[0], "v0.10/" + key[1])
    assert described["summary"]
    assert set(described["responses"]) >= {"4XX", "5XX"}
    assert described["security"] == [{"bearer": []}, {"session": []}]
    assert ("requestBody" in described) == (key in (*_BODIES, _TAKES_OCTETS))
    if key in _BODIES:
        content = described["requestBody"]["content"]["application/json"]
        assert [one["value"] for one in content["examples"].values()] == [components.REQUEST_EXAMPLES[_BODIES[key]]]
    for parameter in described.get("parameters", ()):
        assert parameter["description"]


# ---- how much the database is asked


def test_a_list_costs_the_same_however_long_it_is(
    api: Api, alice: User, ep1: Endpoint, ep2: Endpoint, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    api.get("/submission_id")  # writes when the token was used last
    for number in range(3):
        submit(alice, ep1, ep2, label=str(number))
        make_endpoint(alice, f"more{number}")
        with django_assert_num_queries(3):  # the token, the tasks, their endpoints with owners
            assert len(api.get("/task_list").body["DATA"]) == number + 1
        # The token, the endpoints, their servers and agents, their tasks, the primary identities of their owners.
        with django_assert_num_queries(6):
            assert len(api.get("/endpoint_search", filter_scope="my-endpoints").body["DATA"]) == number + 3


def test_a_task_and_an_endpoint_are_one_look_each(
    api: Api, ep1: Endpoint, task: Task, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    api.get("/submission_id")
    with django_assert_num_queries(2):
        api.get(f"/task/{task.pk}")
    # And its servers and agent, whether a task uses it, and the primary identity of its owner.
    with django_assert_num_queries(6):
        api.get("/endpoint/ep1")
    with django_assert_num_queries(1):
        api.get("/submission_id")


# ---- the front door


def test_the_front_door_says_what_this_is_and_where_to_go() -> None:
    answer = Client().get("/")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    document = answer.json()
    assert document["service"] == "Waybill"
    for link in document["links"].values():
        assert Client().get(link).status_code in (200, 401, 405), link


@pytest.mark.parametrize(
    ("method", "path", "status"), [("POST", "/", 405), ("GET", "/nothing", 404), ("PUT", "/x", 404)]
)
def test_outside_of_the_api_errors_are_documents_too(method: str, path: str, status: int) -> None:
    answer = Client().generic(method, path)
    assert answer.status_code == status
    assert answer.json()["code"] == answer.headers["X-Transfer-API-Error"]
    assert answer.json()["resource"] == path


def test_a_missing_task_is_reported_with_the_id_that_was_asked_for(api: Api) -> None:
    unknown = uuid.uuid4()
    answer = api.get(f"/task/{unknown}")
    assert_error(answer, 404, "ClientError.NotFound")
    assert str(unknown) in answer.body["message"]


def test_what_is_no_view_is_described_by_hand() -> None:
    """Except the callback page, to which OAuth servers of endpoints redirect browsers."""
    paths = {path_of(route) for route in plain_routes() if "oauth/callback" not in route}
    assert paths == set(PLAIN)
    assert {"bearer", "session", "oauth2", "client"} <= set(description()["components"]["securitySchemes"])
