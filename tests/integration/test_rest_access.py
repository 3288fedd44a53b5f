"""Who may do what, route by route: alice owns, bob sees what is public, charlie's are others, nobody has no token."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from endpoints import bookmarks, registry
from endpoints.models import Bookmark, Endpoint
from endpoints.registry import ServerSpec
from identity.models import User
from tests.integration.cast import submit
from tests.integration.rest import Answer, Api, assert_error, routes
from transferapi.tasks.models import Task

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Row:
    """What the owner gets, and another user where the endpoint is public. None: there it makes no difference.

    502 means that it was allowed: the address gate refuses to go where these endpoints say they are.
    """

    owner: int
    public: int | None = None
    body: dict[str, Any] | None = None
    query: str = ""


_ITEM = {"source_path": "/a", "destination_path": "/b"}
_TRANSFER = {
    "submission_id": str(uuid.UUID(int=1)),
    "source_endpoint": "{endpoint}",
    "destination_endpoint": "{endpoint}",
    "DATA": [_ITEM],
}
_DELETE = {"submission_id": str(uuid.UUID(int=1)), "endpoint": "{endpoint}", "DATA": [{"path": "/a"}]}
_FORECAST = "?source_endpoint={endpoint}&destination_endpoint={endpoint}&files=2&bytes=1000"
_SERVER = {"hostname": "dtn9.example.org"}
_E = "endpoint/<str:endpoint>"
_T = "task/<str:task>"

#: Routes that are about one endpoint, named in the path or in the document.
ENDPOINT: dict[tuple[str, str], Row] = {
    ("GET", _E): Row(200, 200),
    ("PUT", _E): Row(200, 403, {"description": "changed"}),
    ("DELETE", _E): Row(200, 403),
    ("GET", f"{_E}/server_list"): Row(200, 200),
    ("POST", f"{_E}/server"): Row(201, 403, _SERVER),
    ("GET", f"{_E}/server/<str:server>"): Row(200, 200),
    ("PUT", f"{_E}/server/<str:server>"): Row(200, 403, _SERVER),
    ("DELETE", f"{_E}/server/<str:server>"): Row(200, 403),
    ("GET", f"{_E}/activation_requirements"): Row(200, 200),
    ("POST", f"{_E}/autoactivate"): Row(200, 200),
    ("POST", f"{_E}/activate"): Row(200, 200, {"DATA": []}),
    ("POST", f"{_E}/deactivate"): Row(200, 200),
    ("GET", f"operation/{_E}/ls"): Row(502, 502),
    ("GET", f"operation/{_E}/stat"): Row(502, 502, query="?path=/a"),
    ("POST", f"operation/{_E}/mkdir"): Row(502, 502, {"path": "/a"}),
    ("POST", f"operation/{_E}/rename"): Row(502, 502, {"old_path": "/a", "new_path": "/b"}),
    ("POST", "transfer"): Row(202, 202, _TRANSFER),
    ("POST", "delete"): Row(202, 202, _DELETE),
    ("GET", "forecast"): Row(200, 200, query=_FORECAST),
    ("POST", "bookmark"): Row(201, 201, {"name": "new", "endpoint_id": "{endpoint}", "path": "/"}),
}
#: Routes that are about one task: its owner's alone.
TASK: dict[tuple[str, str], Row] = {
    ("GET", _T): Row(200),
    ("PUT", _T): Row(200, body={"label": "changed"}),
    ("POST", f"{_T}/cancel"): Row(200),
    ("GET", f"{_T}/event_list"): Row(200),
    ("GET", f"{_T}/successful_transfers"): Row(200),
    ("GET", f"{_T}/skipped_errors"): Row(200),
}
#: Routes that are about one bookmark: its owner's alone.
_B = "bookmark/<str:bookmark>"
BOOKMARK: dict[tuple[str, str], Row] = {
    ("GET", _B): Row(200),
    ("PUT", _B): Row(200, body={"name": "changed"}),
    ("DELETE", _B): Row(200),
}
#: Routes that are about the caller's own things.
OWN: dict[tuple[str, str], Row] = {
    ("GET", "bookmark_list"): Row(200),
    ("POST", "endpoint"): Row(201, body={"display_name": "new"}),
    ("GET", "endpoint_search"): Row(200, query="?filter_scope=my-endpoints"),
    ("GET", "submission_id"): Row(200),
    ("GET", "task_list"): Row(200),
}
#: Routes that need no token.
OPEN: dict[tuple[str, str], Row] = {("GET", "openapi"): Row(200)}

ALL = {**ENDPOINT, **TASK, **BOOKMARK, **OWN, **OPEN}


@dataclass
class Stage:
    """alice's endpoints, her task and her bookmark; clients of everybody."""

    private: Endpoint
    public: Endpoint
    task: Task
    bookmark: Bookmark
    api: dict[str, Api]

    def call(
        self, who: str, key: tuple[str, str], endpoint: object = "-", task: object = "-", bookmark: object = None
    ) -> Answer:
        method, route = key
        server = self.private.servers.get() if endpoint == self.private.pk else self.public.servers.get()
        path = route.replace("<str:endpoint>", str(endpoint)).replace("<str:task>", str(task))
        path = path.replace("<str:server>", str(server.pk)).replace("<str:bookmark>", str(bookmark or self.bookmark.pk))
        body = {
            name: str(endpoint) if value == "{endpoint}" else value for name, value in (ALL[key].body or {}).items()
        }
        if route == "transfer":
            # From the endpoint to one of the caller's own, or to itself where the caller owns it.
            body["DATA"] = [{"source_path": "/a", "destination_path": "/elsewhere"}]
        query = ALL[key].query.replace("{endpoint}", str(endpoint))
        return self.api[who].call(method, f"/{path}{query}", body or None)


@pytest.fixture
def stage(alice: User, bob: User, charlie: User) -> Stage:
    def endpoint(name: str, *, public: bool) -> Endpoint:
        fields = {"name": name, "display_name": name, "public": public}
        return registry.create(alice, fields, [ServerSpec.parse("ftp://127.0.0.1:1")])

    private, public = endpoint("private", public=False), endpoint("public", public=True)
    api = {"alice": Api(alice), "bob": Api(bob), "charlie": Api(charlie), "nobody": Api()}
    bookmark = bookmarks.create(alice, name="alice's place", endpoint=str(public.pk), path="/")
    return Stage(private, public, submit(alice, private, public), bookmark, api)


def _named(rows: dict[tuple[str, str], Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("key", list(rows), ids=lambda key: " ".join(key))


def test_every_route_has_its_row_here() -> None:
    assert set(routes("v0.10/")) == set(ALL)
    assert len(ENDPOINT) + len(TASK) + len(BOOKMARK) + len(OWN) + len(OPEN) == len(ALL)


@_named({**ENDPOINT, **TASK, **BOOKMARK, **OWN})
def test_without_a_token_nothing_is_told(stage: Stage, key: tuple[str, str]) -> None:
    for endpoint in (stage.private.pk, stage.public.pk, uuid.uuid4()):
        answer = stage.call("nobody", key, endpoint, stage.task.pk)
        assert_error(answer, 401, "ClientError.AuthenticationFailed")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@_named(OPEN)
def test_what_is_open_is_open_to_everybody(stage: Stage, key: tuple[str, str]) -> None:
    for who in stage.api:
        assert stage.call(who, key).status == ALL[key].owner


@_named(OWN)
def test_everybody_may_ask_for_what_is_their_own(stage: Stage, key: tuple[str, str]) -> None:
    for who in ("alice", "bob", "charlie"):
        assert stage.call(who, key).status == ALL[key].owner


@_named(ENDPOINT)
def test_the_owner_may_do_all_with_a_private_endpoint(stage: Stage, key: tuple[str, str]) -> None:
    assert stage.call("alice", key, stage.private.pk).status == ALL[key].owner


@_named(ENDPOINT)
def test_the_owner_may_do_all_with_a_public_endpoint(stage: Stage, key: tuple[str, str]) -> None:
    assert stage.call("alice", key, stage.public.pk).status == ALL[key].owner


@_named(ENDPOINT)
@pytest.mark.parametrize("who", ["bob", "charlie"])
def test_a_public_endpoint_is_used_by_all_and_managed_by_its_owner(
    stage: Stage, key: tuple[str, str], who: str
) -> None:
    before = _state(stage.public)
    answer = stage.call(who, key, stage.public.pk)
    assert answer.status == ALL[key].public
    if answer.status == 403:
        assert_error(answer, 403, "PermissionDenied")
    assert _state(stage.public) == before


@_named(ENDPOINT)
@pytest.mark.parametrize("who", ["bob", "charlie"])
@pytest.mark.parametrize("form", ["id", "name"])
def test_a_private_endpoint_of_another_does_not_exist(stage: Stage, key: tuple[str, str], who: str, form: str) -> None:
    unknown: object = uuid.uuid4() if form == "id" else "alice%23nothing"
    foreign: object = stage.private.pk if form == "id" else "alice%23private"
    if key[1] in ("transfer", "delete", "bookmark") and form == "name":
        unknown, foreign = "alice#nothing", "alice#private"
    before = _state(stage.private)
    answer = stage.call(who, key, foreign)
    assert_error(answer, 404, "EndpointNotFound")
    assert _without_names(answer, foreign) == _without_names(stage.call(who, key, unknown), unknown)
    assert _state(stage.private) == before


@_named(TASK)
def test_the_owner_may_do_all_with_a_task(stage: Stage, key: tuple[str, str]) -> None:
    assert stage.call("alice", key, task=stage.task.pk).status == ALL[key].owner


@_named(TASK)
@pytest.mark.parametrize("who", ["bob", "charlie"])
def test_a_task_of_another_does_not_exist(stage: Stage, key: tuple[str, str], who: str) -> None:
    unknown = uuid.uuid4()
    answer = stage.call(who, key, task=stage.task.pk)
    assert_error(answer, 404, "ClientError.NotFound")
    assert _without_names(answer, stage.task.pk) == _without_names(stage.call(who, key, task=unknown), unknown)
    assert Task.objects.values("label", "phase", "cancel_requested_at").get(pk=stage.task.pk) == {
        "label": None,
        "phase": "queued",
        "cancel_requested_at": None,
    }


@_named(BOOKMARK)
def test_the_owner_may_do_all_with_a_bookmark(stage: Stage, key: tuple[str, str]) -> None:
    assert stage.call("alice", key).status == ALL[key].owner


@_named(BOOKMARK)
@pytest.mark.parametrize("who", ["bob", "charlie"])
def test_a_bookmark_of_another_does_not_exist(stage: Stage, key: tuple[str, str], who: str) -> None:
    unknown = uuid.uuid4()
    answer = stage.call(who, key)
    assert_error(answer, 404, "BookmarkNotFound")
    assert _without_names(answer, stage.bookmark.pk) == _without_names(stage.call(who, key, bookmark=unknown), unknown)
    assert Bookmark.objects.get(pk=stage.bookmark.pk).name == "alice's place"


def test_a_transfer_needs_both_of_its_endpoints(stage: Stage, bob: User) -> None:
    mine = registry.create(bob, {"name": "mine"})
    for source, destination in ((mine.pk, stage.private.pk), (stage.private.pk, mine.pk)):
        document = {**_TRANSFER, "source_endpoint": str(source), "destination_endpoint": str(destination)}
        assert_error(stage.api["bob"].post("/transfer", document), 404, "EndpointNotFound")


def test_lists_and_searches_hold_nothing_of_others(stage: Stage) -> None:
    assert [row["task_id"] for row in stage.api["alice"].get("/task_list").body["DATA"]] == [str(stage.task.pk)]
    for who in ("bob", "charlie"):
        assert stage.api[who].get("/task_list").body["DATA"] == []
        found = stage.api[who].get("/endpoint_search", filter_fulltext="p").body["DATA"]
        assert [row["id"] for row in found] == [str(stage.public.pk)]


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer wrong", "Basic YWxpY2U6eA==", "Bearer wb_" + "x" * 10_000, "wb_x", "\xfc"]
)
def test_a_wrong_token_is_refused_with_a_document(stage: Stage, header: str) -> None:
    answer = Api().call("GET", "/task_list", headers={"Authorization": header})
    assert_error(answer, 401, "ClientError.AuthenticationFailed")


def test_the_token_of_a_user_who_was_shut_out_is_refused(stage: Stage, bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert_error(stage.api["bob"].get("/task_list"), 401, "ClientError.AuthenticationFailed")


def _without_names(answer: Answer, name: object) -> tuple[int, str, str]:
    """All of an error that could tell one missing thing from another."""
    shown = str(name).replace("%23", "#")
    assert not set(answer.body) - {"code", "message", "request_id", "resource"}
    return answer.status, answer.code, answer.body["message"].replace(shown, "NAME")


def _state(endpoint: Endpoint) -> tuple[Any, ...]:
    row = Endpoint.objects.get(pk=endpoint.pk)
    return row.description, row.deleted_at, list(row.servers.values_list("pk", "hostname"))
