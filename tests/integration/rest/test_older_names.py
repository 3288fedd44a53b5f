"""Older names of routes, tasks that are removed, and what other products have and this service has not."""

from __future__ import annotations

import pytest

from endpoints import bookmarks
from endpoints.models import Bookmark, Endpoint
from identity.models import User
from tests.integration.cast import make_endpoint, submit
from tests.integration.rest import Answer, Api, assert_error
from transferapi.rest.openapi import components
from transferapi.tasks import queries
from transferapi.tasks.models import Task

pytestmark = pytest.mark.django_db

JSON_API = "application/vnd.api+json"


def assert_json_api_error(answer: Answer, status: int, code: str) -> None:
    assert answer.status == status
    assert answer.headers["Content-Type"] == JSON_API
    assert answer.headers["X-Transfer-API-Error"] == code
    [error] = answer.body["errors"]
    assert (error["status"], error["code"]) == (str(status), code)
    assert error["detail"]
    assert answer.body["meta"]["request_id"]


# ---- older names


def test_the_oldest_list_of_endpoints_is_of_ones_own(alice: User, bob: User, ep1: Endpoint, ep2: Endpoint) -> None:
    make_endpoint(bob, "public", public=True)
    api = Api(alice)
    whole = api.get("/endpoint_list").body
    assert [row["name"] for row in whole["DATA"]] == ["ep1", "ep2"]
    page = api.get("/endpoint_list", limit=1, offset=1, fields="name").body
    assert page["DATA"] == [{"DATA_TYPE": "endpoint", "name": "ep2"}]
    assert (page["limit"], page["offset"], page["has_next_page"]) == (1, 1, False)


def test_operations_answer_to_their_older_names(alice: User, ep1: Endpoint) -> None:
    """The gate goes to no server of this endpoint; with real servers the newer names are tried."""
    api = Api(alice)
    for answer in (api.get("/endpoint/ep1/ls", path="/"), api.post("/endpoint/ep1/mkdir", {"path": "/new"})):
        assert_error(answer, 502)
    assert_error(api.post("/endpoint/ep1/mkdir", {}), 400, "ClientError.BadRequest")


def test_a_task_is_changed_by_post_too(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    api = Api(alice)
    assert api.post(f"/task/{task.pk}", {"DATA_TYPE": "task", "label": "older"}).code == "Updated"
    assert api.get(f"/task/{task.pk}").body["label"] == "older"


# ---- removed tasks


def test_a_removed_task_is_gone_for_its_owner(alice: User, bob: User, ep1: Endpoint, ep2: Endpoint) -> None:
    api = Api(alice)
    kept, removed = submit(alice, ep1, ep2), submit(alice, ep1, ep2)
    where = f"/task/{removed.pk}"
    assert_error(api.post(f"{where}/remove"), 409, "TaskNotComplete")
    api.post(f"{where}/cancel")
    assert_error(Api(bob).post(f"{where}/remove"), 404, "ClientError.NotFound")
    assert api.post(f"{where}/remove").code == "Removed"
    listed = api.get("/task_list").body
    assert ([row["task_id"] for row in listed["DATA"]], listed["total"]) == ([str(kept.pk)], 1)
    for path in (where, f"{where}/event_list", f"{where}/successful_transfers", f"{where}/skipped_errors"):
        assert_error(api.get(path), 404, "ClientError.NotFound")
    assert_error(api.post(f"{where}/remove"), 404, "ClientError.NotFound")
    assert queries.list_tasks(alice, queries.TaskFilter(task_ids=[removed.pk])).rows == []


def test_the_row_of_a_removed_task_stays(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    """A repeated submission returns the removed task, and creates no other one."""
    task = submit(alice, ep1, ep2)
    api = Api(alice)
    api.post(f"/task/{task.pk}/cancel")
    api.post(f"/task/{task.pk}/remove")
    again = api.post(
        "/transfer",
        {
            "submission_id": str(task.submission_id), "source_endpoint": "ep1", "destination_endpoint": "ep2",
            "DATA": [{"source_path": "/from", "destination_path": "/to"}],
        },
    )  # fmt: skip
    assert (again.body["code"], again.body["task_id"]) == ("Duplicate", str(task.pk))
    assert Task.objects.filter(pk=task.pk).exists()


# ---- bookmarks as JSON:API


def test_bookmarks_as_json_api(alice: User, ep1: Endpoint) -> None:
    api = Api(alice, root="")
    collection = {"data": {"type": "Collection", "id": str(ep1.pk)}}
    asked = {
        "data": {
            "type": "Bookmark",
            "attributes": {"name": "place", "path": "/data"},
            "relationships": {"collection": collection},
        }
    }
    made = api.call("POST", "/v2/bookmarks", asked, content_type=JSON_API, headers={"Accept": "application/json"})
    assert (made.status, made.headers["Content-Type"]) == (201, JSON_API)
    resource = {
        "type": "Bookmark", "id": made.body["data"]["id"],
        "attributes": {"name": "place", "path": "/data/", "pinned": False}, "relationships": {"collection": collection},
    }  # fmt: skip
    assert made.body["data"] == resource
    where = f"/v2/bookmarks/{resource['id']}"
    assert api.get(where).body["data"] == resource
    assert api.get("/v2/bookmarks").body["data"] == [resource]
    changed = api.call("PATCH", where, {"data": {"attributes": {"name": "new", "pinned": True}}}).body["data"]
    assert changed["attributes"] == {"name": "new", "path": "/data/", "pinned": True}
    assert bookmarks.all_of(alice)[0].name == "new"
    assert set(api.delete(where).body) == {"meta"}
    assert not Bookmark.objects.exists()
    assert_json_api_error(api.get(where), 404, "BookmarkNotFound")
    assert_json_api_error(Api(root="").get("/v2/bookmarks"), 401, "ClientError.AuthenticationFailed")


@pytest.mark.parametrize(
    "document",
    [
        {}, {"data": []}, {"data": {"attributes": {"name": "x", "path": "/"}}},
        {"data": {"attributes": {"name": "x"}, "relationships": {"collection": {"data": {"id": "ep1"}}}}},
        {"data": {"attributes": {"name": "", "path": "/"}, "relationships": {"collection": {"data": {"id": "ep1"}}}}},
    ],
)  # fmt: skip
def test_what_is_no_bookmark_is_refused_as_json_api(alice: User, ep1: Endpoint, document: object) -> None:
    answer = Api(alice, root="").post("/v2/bookmarks", document)
    assert_json_api_error(answer, 400, "ClientError.BadRequest")


def test_the_examples_that_are_shown_are_taken(alice: User) -> None:
    make_endpoint(User.objects.create(username="go"), "ep1", public=True)
    api = Api(alice, root="")
    made = api.post("/v2/bookmarks", components.REQUEST_EXAMPLES["bookmark_resource"])
    assert made.status == 201
    where = f"/v2/bookmarks/{made.body['data']['id']}"
    assert api.call("PATCH", where, components.REQUEST_EXAMPLES["bookmark_resource_change"]).status == 200


# ---- what is not here


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "tunnels"), ("POST", "tunnels"), ("GET", "tunnels/x"), ("PATCH", "tunnels/x"), ("DELETE", "tunnels/x"),
        ("GET", "tunnels/x/events"), ("GET", "stream_access_points"), ("GET", "stream_access_points/x"),
    ],
)  # fmt: skip
def test_tunnels_and_streams_say_that_they_are_not_here(alice: User, method: str, path: str) -> None:
    assert_json_api_error(Api(alice, root="").call(method, f"/v2/{path}"), 501, "ServiceError.NotSupported")


def test_subscriptions_say_so_to_who_runs_the_endpoint(alice: User, bob: User, charlie: User, ep1: Endpoint) -> None:
    for path in ("subscription", "subscription_admin_verified"):
        where = f"/endpoint/{ep1.pk}/{path}"
        assert_error(Api(alice).put(where, {"subscription_id": None}), 501, "ServiceError.NotSupported")
        assert_error(Api(charlie).put(where, {"subscription_id": None}), 404, "EndpointNotFound")


@pytest.mark.parametrize("path", ["/v2/runs", "/v1/sketch", "/flowsheets"])
def test_other_paths_of_other_products_are_no_routes(alice: User, path: str) -> None:
    assert_error(Api(alice, root="").get(path), 404, "ClientError.NotFound")
