"""Bookmarks: places by name, each user's own."""

from __future__ import annotations

import uuid
from functools import partial

import pytest

from endpoints import bookmarks, registry
from endpoints.errors import BOOKMARK_EXISTS, TOO_MANY_BOOKMARKS, BookmarkNotFoundError, EndpointNotFoundError
from endpoints.models import Bookmark, Endpoint
from identity.error_categories import InvalidFieldError
from identity.models import User
from tests.integration.cast import all_at_once
from tests.integration.described import assert_described
from tests.integration.rest import Api, assert_error
from tests.refusals import kind_of, raises_refusal


def _create(user: User, name: str = "place", endpoint: str = "ep1", path: str = "/data/") -> Bookmark:
    return bookmarks.create(user, name=name, endpoint=endpoint, path=path)


# ---- the service


def test_a_bookmark_is_kept_with_its_folder(alice: User, ep1: Endpoint) -> None:
    made = _create(alice, "place", "alice#ep1", "/data")
    assert (made.name, made.endpoint, made.path, made.pinned) == ("place", ep1, "/data/", False)
    assert bookmarks.get(alice, made.pk) == made
    assert bookmarks.all_of(alice) == [made]


@pytest.mark.parametrize(
    ("given", "kept"), [("/", "/"), ("/~/", "/~/"), ("~", "/~/"), ("~/data", "/~/data/"), ("/a//", "/a/")]
)
def test_a_path_is_a_folder(alice: User, ep1: Endpoint, given: str, kept: str) -> None:
    assert _create(alice, path=given).path == kept


@pytest.mark.parametrize("path", ["", "data", "/a/../b", "/a\n/", "/\udcff/", "/" + "ä" * 2048])
def test_what_is_no_path_is_refused(alice: User, ep1: Endpoint, path: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        _create(alice, path=path)
    assert caught.value.field == "path"


@pytest.mark.parametrize("name", ["", " ", " x", "x ", "a\nb", "a\0", "\ud800", "x" * 129])
def test_what_is_no_name_is_refused(alice: User, ep1: Endpoint, name: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        _create(alice, name)
    assert caught.value.field == "name"


def test_a_name_is_once_for_each_user_and_its_case_counts(alice: User, bob: User, public: Endpoint) -> None:
    for user, name in ((alice, "x" * 128), (alice, "X" * 128), (bob, "x" * 128)):
        _create(user, name, "bob#public")
    with raises_refusal(BOOKMARK_EXISTS):
        _create(alice, "x" * 128, "bob#public")
    assert [row.name[0] for row in bookmarks.all_of(alice)] == ["X", "x"]


def test_a_bookmark_changes_by_what_is_said(alice: User, ep1: Endpoint) -> None:
    made, other = _create(alice), _create(alice, "other")
    assert bookmarks.update(alice, made.pk).name == "place"
    bookmarks.update(alice, made.pk, name="new", path="/new", pinned=True)
    changed = bookmarks.get(alice, made.pk)
    assert (changed.name, changed.path, changed.pinned) == ("new", "/new/", True)
    with raises_refusal(BOOKMARK_EXISTS):
        bookmarks.update(alice, made.pk, name="other")
    with pytest.raises(InvalidFieldError):
        bookmarks.update(alice, other.pk, name="")
    with pytest.raises(InvalidFieldError):
        bookmarks.update(alice, other.pk, path="")


def test_a_bookmark_of_another_does_not_exist(alice: User, bob: User, ep1: Endpoint) -> None:
    made = _create(alice)
    for call in (bookmarks.get, bookmarks.update, bookmarks.delete):
        with pytest.raises(BookmarkNotFoundError):
            call(bob, made.pk)
    bookmarks.delete(alice, made.pk)
    with pytest.raises(BookmarkNotFoundError):
        bookmarks.delete(alice, made.pk)


def test_what_one_may_not_see_cannot_be_remembered(charlie: User, ep1: Endpoint) -> None:
    for ref in (str(ep1.pk), "alice#ep1", str(uuid.uuid4())):
        with pytest.raises(EndpointNotFoundError):
            _create(charlie, endpoint=ref)


@pytest.mark.django_db(transaction=True)
def test_there_are_only_so_many_also_when_two_come_at_once(
    alice: User, ep1: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bookmarks, "MAX_BOOKMARKS", 3)
    found = all_at_once([partial(_create, alice, str(number)) for number in range(6)])
    refused = [one for one in found if isinstance(one, Exception)]
    assert len(bookmarks.all_of(alice)) == 3
    assert [kind_of(one) for one in refused] == [TOO_MANY_BOOKMARKS] * 3


# ---- the routes


def test_the_routes_of_a_bookmark(alice: User, ep1: Endpoint) -> None:
    api = Api(alice)
    made = api.post("/bookmark", {"name": "place", "endpoint_id": str(ep1.pk), "path": "/~/data", "pinned": None})
    assert made.status == 201
    assert made.body == {
        "DATA_TYPE": "bookmark", "id": made.body["id"], "name": "place", "endpoint_id": str(ep1.pk),
        "path": "/~/data/", "pinned": False,
    }  # fmt: skip
    where = f"/bookmark/{made.body['id']}"
    assert api.get(where).body == made.body
    changed = api.put(where, {"name": "new", "pinned": True})
    assert changed.body == {**made.body, "name": "new", "pinned": True}
    listed = api.get("/bookmark_list")
    assert listed.body == {"DATA_TYPE": "bookmark_list", "length": 1, "DATA": [changed.body]}
    gone = api.delete(where)
    assert (gone.status, gone.code) == (200, "Deleted")
    assert_error(api.get(where), 404, "BookmarkNotFound")
    assert_error(api.get("/bookmark/no-id"), 404, "BookmarkNotFound")


def test_refusals_say_what_is_wrong(alice: User, ep1: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(alice)
    document = {"name": "place", "endpoint_id": "ep1", "path": "/"}
    assert api.post("/bookmark", document).status == 201
    assert_error(api.post("/bookmark", document), 409, "Exists")
    for field in document:
        assert_error(api.post("/bookmark", {**document, field: None}), 400, "ClientError.BadRequest")
    assert_error(api.post("/bookmark", {**document, "name": "x" * 129}), 400, "ClientError.BadRequest")
    assert_error(api.post("/bookmark", {**document, "endpoint_id": "nothing"}), 404, "EndpointNotFound")
    assert_error(api.post("/bookmark", {**document, "DATA_TYPE": "endpoint"}), 400, "ClientError.BadRequest")
    monkeypatch.setattr(bookmarks, "MAX_BOOKMARKS", 1)
    assert_error(api.post("/bookmark", {**document, "name": "two"}), 409, "ClientError.LimitExceeded")


def test_a_bookmark_outlives_what_its_user_may_see(alice: User, bob: User, charlie: User, public: Endpoint) -> None:
    """The CLI lists bookmarks by looking at each endpoint, and goes on after the code EndpointDeleted alone."""
    _create(alice, "was public", "bob#public")
    registry.update(bob, "public", {"public": False})
    api = Api(alice)
    [row] = api.get("/bookmark_list").body["DATA"]
    answer = api.get(f"/endpoint/{row['endpoint_id']}")
    assert_error(answer, 404, "EndpointDeleted")
    assert_described("GET", "endpoint/<str:endpoint>", answer)
    assert_error(api.get("/endpoint/bob%23public"), 404, "EndpointNotFound")
    assert_error(api.get(f"/operation/endpoint/{public.pk}/ls"), 404, "EndpointNotFound")
    assert_error(Api(charlie).get(f"/endpoint/{public.pk}"), 404, "EndpointNotFound")
    registry.delete(bob, "public")
    assert_error(api.get(f"/endpoint/{public.pk}"), 404, "EndpointDeleted")
    assert_error(Api(bob).get(f"/endpoint/{public.pk}"), 404, "EndpointNotFound")
