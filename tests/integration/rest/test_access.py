"""Access to each route of the router: alice owns, bob is shared with, charlie must see nothing, and "nobody" has no
token."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from endpoints import registry
from endpoints.models import Endpoint
from identity.models import User
from tests.integration import expectations
from tests.integration.expectations import EXPECTED, Stage, Things, World
from tests.integration.rest import Answer, Api, assert_error, routes

pytestmark = pytest.mark.django_db

Key = tuple[str, str]

ABOUT_ENDPOINTS = [key for key, row in EXPECTED.items() if row.public is not None]
ABOUT_OTHERS = [
    key for key, row in EXPECTED.items() if row.public is None and expectations.parts_of(key) and not row.directory
]
DIRECTORY = [key for key, row in EXPECTED.items() if row.directory]
OWN = [key for key, row in EXPECTED.items() if not expectations.parts_of(key)]
CLOSED = [key for key, row in EXPECTED.items() if row.anonymous == 401]


@pytest.fixture
def alice(world: World, db: None) -> User:
    return world.users["alice"]


@pytest.fixture
def bob(world: World, db: None) -> User:
    return world.users["bob"]


@pytest.fixture
def charlie(world: World, db: None) -> User:
    return world.users["charlie"]


@pytest.fixture
def stage(world: World, db: None) -> Stage:
    return world.stage


@pytest.fixture
def call(world: World, db: None) -> Callable[[str, Key, Things], Answer]:
    """Ask a route as somebody, about these things."""

    def ask(who: str, key: Key, things: Things) -> Answer:
        body = expectations.filled(EXPECTED[key].body, things)
        return world.apis[who].call(key[0], expectations.path_of(key, things), body)

    return ask


Call = Callable[[str, Key, Things], Answer]


def _each(keys: list[Key]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("key", keys, ids=" ".join)


def test_every_route_of_the_router_has_its_row() -> None:
    assert set(routes()) == set(EXPECTED)


# ---- alice


@_each(list(EXPECTED))
def test_the_owner_may_do_all(stage: Stage, call: Call, key: Key) -> None:
    assert call("alice", key, stage.private).status == EXPECTED[key].alice


@_each(ABOUT_ENDPOINTS)
def test_the_owner_may_do_all_with_a_public_endpoint(stage: Stage, call: Call, key: Key) -> None:
    assert call("alice", key, stage.public).status == EXPECTED[key].alice


# ---- bob


@_each(ABOUT_ENDPOINTS)
def test_a_shared_folder_is_used_by_those_whom_a_rule_names_and_managed_by_its_owner(
    stage: Stage, call: Call, key: Key
) -> None:
    _refused_or_not(call, "bob", key, stage.shared, EXPECTED[key].bob)


@_each(ABOUT_OTHERS)
def test_what_is_shared_is_shared_as_far_as_the_table_says(stage: Stage, call: Call, key: Key) -> None:
    _refused_or_not(call, "bob", key, stage.private, EXPECTED[key].bob or 404)


@_each(ABOUT_ENDPOINTS)
@pytest.mark.parametrize("who", ["bob", "charlie"])
def test_a_public_endpoint_is_used_by_all_and_managed_by_its_owner(
    stage: Stage, call: Call, key: Key, who: str
) -> None:
    _refused_or_not(call, who, key, stage.public, EXPECTED[key].public)


@_each(OWN)
@pytest.mark.parametrize("who", ["bob", "charlie"])
def test_everybody_may_ask_for_what_is_their_own(stage: Stage, call: Call, key: Key, who: str) -> None:
    assert call(who, key, stage.private).status == (EXPECTED[key].bob or EXPECTED[key].alice)


@_each(DIRECTORY)
@pytest.mark.parametrize("who", ["bob", "charlie"])
def test_a_directory_shows_the_same_to_all_who_are_signed_in(stage: Stage, call: Call, key: Key, who: str) -> None:
    assert call(who, key, stage.private).status == EXPECTED[key].alice


# ---- charlie


@_each(ABOUT_ENDPOINTS + ABOUT_OTHERS)
@pytest.mark.parametrize("which", ["private", "shared"])
def test_what_is_not_shared_with_a_user_does_not_exist(stage: Stage, call: Call, key: Key, which: str) -> None:
    _not_told_from_nothing(call, "charlie", key, getattr(stage, which))


@_each(ABOUT_ENDPOINTS)
@pytest.mark.parametrize("who", ["bob", "charlie"])
def test_nor_does_a_private_endpoint_by_its_name(stage: Stage, call: Call, key: Key, who: str) -> None:
    sign = "%23" if "<str:endpoint>" in key[1] or EXPECTED[key].query else "#"
    things, others = ({**stage.private, "endpoint": f"alice{sign}{name}"} for name in ("private", "nothing"))
    _not_told_from_nothing(call, who, key, things, others)


@_each([key for key in ABOUT_ENDPOINTS if len(set(expectations.parts_of(key))) > 1])
def test_things_of_another_are_not_found_below_an_endpoint_of_ones_own(
    stage: Stage, call: Call, charlie: User, key: Key
) -> None:
    things = expectations.elsewhere(charlie, stage.private)
    _not_told_from_nothing(
        call, "charlie", key, things, {**expectations.unknown(things), "endpoint": things["endpoint"]}
    )


# ---- nobody


@_each(CLOSED)
def test_without_a_token_nothing_is_revealed(stage: Stage, call: Call, key: Key) -> None:
    before = _all_rows()
    for things in (stage.private, stage.public, stage.shared, expectations.unknown(stage.private)):
        answer = call("nobody", key, things)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        if key[1].startswith("v0.10"):
            assert_error(answer, 401, "ClientError.AuthenticationFailed")
    assert _all_rows() == before


@_each([key for key in EXPECTED if key not in CLOSED])
def test_what_is_open_is_open_to_everybody(stage: Stage, call: Call, key: Key) -> None:
    assert call("nobody", key, stage.private).status == EXPECTED[key].anonymous


# ---- beside the table


def test_a_transfer_needs_both_of_its_endpoints(stage: Stage, call: Call, bob: User) -> None:
    key = ("POST", "v0.10/transfer")
    mine = str(registry.create(bob, {"name": "mine"}).pk)
    document = expectations.filled(EXPECTED[key].body, stage.private)
    for name in ("source_endpoint", "destination_endpoint"):
        assert_error(Api(bob).post("/transfer", {**document, name: mine}), 404, "EndpointNotFound")


def test_lists_and_searches_hold_nothing_of_others(stage: Stage, alice: User, bob: User, charlie: User) -> None:
    assert [row["task_id"] for row in Api(alice).get("/task_list").body["DATA"]] == [stage.private["task"]]
    for user in (bob, charlie):
        for path in ("/task_list", "/bookmark_list"):
            assert Api(user).get(path).body["DATA"] == []
        found = Api(user).get("/endpoint_search", filter_fulltext="p").body["DATA"]
        assert [row["id"] for row in found] == [stage.public["endpoint"]]


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer wrong", "Basic YWxpY2U6eA==", "Bearer wb_" + "x" * 10_000, "wb_x", "\xfc"]
)
def test_a_wrong_token_is_refused_with_a_document(stage: Stage, header: str) -> None:
    answer = Api().call("GET", "/task_list", headers={"Authorization": header})
    assert_error(answer, 401, "ClientError.AuthenticationFailed")


def test_the_token_of_a_user_who_was_shut_out_is_refused(stage: Stage, bob: User) -> None:
    api = Api(bob)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert_error(api.get("/task_list"), 401, "ClientError.AuthenticationFailed")


def _refused_or_not(call: Call, who: str, key: Key, things: Things, status: int | None) -> None:
    """The status is this one, and what is refused changes nothing."""
    before = _all_rows()
    answer = call(who, key, things)
    assert answer.status == status, answer.body
    if answer.status in (401, 403, 404):
        assert _all_rows() == before


def _not_told_from_nothing(call: Call, who: str, key: Key, things: Things, others: Things | None = None) -> None:
    """The answer is a 404, word by word the one about things that there are not, and changes nothing."""
    before = _all_rows()
    others = others or expectations.unknown(things)
    found, nothing = call(who, key, things), call(who, key, others)
    assert found.status == nothing.status == 404, found.body
    assert _without_names(found, things) == _without_names(nothing, others)
    assert set(found.headers) == set(nothing.headers)
    assert _all_rows() == before


def _without_names(answer: Answer, things: Things) -> str:
    """All of an error but its own id, with what was named by the caller blotted out."""
    text = re.sub(r'"request_id": "[^"]*"', "", json.dumps(answer.body, sort_keys=True))
    for name, value in sorted(things.items(), key=lambda thing: -len(thing[1])):
        text = text.replace(value.replace("%23", "#"), f"<{name}>")
    return text


def _all_rows() -> list[Any]:
    """All rows of all tables of ours, without the time when a token was used."""
    with connection.cursor() as cursor:
        cursor.execute(_statement_of_all_rows())
        return list(cursor.fetchall())


@cache
def _statement_of_all_rows() -> str:
    ours = ("endpoints", "identity", "tasks", "timers")
    tables = sorted(model._meta.db_table for model in apps.get_models() if model._meta.app_label in ours)
    return (
        " UNION ALL ".join(
            f"SELECT '{table}', (to_jsonb(one) - 'last_used_at')::text FROM \"{table}\" one" for table in tables
        )
        + " ORDER BY 1, 2"
    )


def test_that_nothing_changed_is_seen_where_something_did(stage: Stage) -> None:
    before = _all_rows()
    Endpoint.objects.filter(pk=stage.private["endpoint"]).update(description="changed")
    assert _all_rows() != before
