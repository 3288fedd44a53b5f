"""Limits of the load of a task on an endpoint: set by REST, shown by REST, and passed to the engine."""

from __future__ import annotations

from typing import Any

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit, take
from tests.integration.rest import Api, assert_error

pytestmark = pytest.mark.django_db

NUMBERS = ("max_concurrency", "preferred_concurrency", "max_parallelism", "preferred_parallelism")


def numbers(*values: int | None) -> dict[str, Any]:
    return dict(zip(NUMBERS, values, strict=True))


CUSTOM = {"network_use": "custom", **numbers(16, 4, 8, 2)}
NORMAL = {"network_use": "normal", **numbers(None, None, None, None)}
MINIMAL = {"network_use": "minimal", **numbers(1, 1, 1, 1)}


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


def shown(api: Api, reference: object = "ep1") -> dict[str, Any]:
    document = api.get(f"/endpoint/{reference}").body
    return {name: document[name] for name in ("network_use", *NUMBERS)}


def test_an_endpoint_that_nobody_spoke_of_restricts_nothing(api: Api, ep1: Endpoint) -> None:
    assert shown(api) == NORMAL


def test_an_endpoint_is_made_with_its_limits(api: Api) -> None:
    assert api.post("/endpoint", {"name": "tape", **CUSTOM}).status == 201
    assert shown(api, "tape") == CUSTOM
    assert api.post("/endpoint", {"name": "disk", "network_use": "minimal"}).status == 201
    assert shown(api, "disk") == MINIMAL


def test_limits_change_only_where_the_request_names_them(api: Api, ep1: Endpoint) -> None:
    assert api.put("/endpoint/ep1", CUSTOM).status == 200
    assert api.put("/endpoint/ep1", {"preferred_concurrency": 6, "max_parallelism": None}).status == 200
    assert shown(api) == {**CUSTOM, "preferred_concurrency": 6}
    assert api.put("/endpoint/ep1", {"description": "the same as before"}).status == 200
    assert shown(api) == {**CUSTOM, "preferred_concurrency": 6}


def test_a_word_takes_the_place_of_numbers(api: Api, ep1: Endpoint) -> None:
    for word, expected in (("minimal", MINIMAL), ("normal", NORMAL)):
        api.put("/endpoint/ep1", CUSTOM)
        assert api.put("/endpoint/ep1", {"network_use": word}).status == 200
        assert shown(api) == expected
    assert Endpoint.objects.get(pk=ep1.pk).max_concurrency is None


@pytest.mark.parametrize("limits", [CUSTOM, NORMAL, MINIMAL, {"network_use": "aggressive"}])
def test_a_document_that_was_read_can_be_written_back(api: Api, ep1: Endpoint, limits: dict[str, Any]) -> None:
    assert api.put("/endpoint/ep1", limits).status == 200
    document = api.get("/endpoint/ep1").body
    assert api.put("/endpoint/ep1", document).status == 200
    assert api.get("/endpoint/ep1").body == document


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"network_use": "gentle"}, "network_use"), ({"network_use": 1}, "network_use"),
        ({"network_use": ["custom"]}, "network_use"),
        ({"network_use": "custom"}, "max_concurrency"),
        ({"network_use": "custom", **numbers(4, 2, 8, None)}, "preferred_parallelism"),
        ({"network_use": "custom", **numbers(0, 1, 8, 4)}, "max_concurrency"),
        ({"network_use": "custom", **numbers(65, 1, 8, 4)}, "max_concurrency"),
        ({"network_use": "custom", **numbers(4, 2, 8, True)}, "preferred_parallelism"),
        ({**CUSTOM, "max_parallelism": "8"}, "max_parallelism"),
        ({**CUSTOM, "max_parallelism": 8.0}, "max_parallelism"),
        ({**CUSTOM, "preferred_concurrency": 17}, "preferred_concurrency"),
        ({**CUSTOM, "preferred_parallelism": 9}, "preferred_parallelism"),
        ({"max_concurrency": 4}, "max_concurrency"),
        ({"network_use": "normal", "max_parallelism": 4}, "max_parallelism"),
        ({"network_use": "minimal", "max_concurrency": 2}, "max_concurrency"),
    ],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused_by_their_name(
    api: Api, ep1: Endpoint, limits: dict[str, Any], field: str
) -> None:
    for answer in (api.post("/endpoint", limits), api.put("/endpoint/ep1", limits)):
        assert_error(answer, 400, "ClientError.BadRequest")
        assert answer.body["message"].startswith(f"{field}: ")
    assert shown(api) == NORMAL


def test_a_preference_stays_within_the_limit_that_comes_later(api: Api, ep1: Endpoint) -> None:
    api.put("/endpoint/ep1", CUSTOM)
    assert_error(api.put("/endpoint/ep1", {"max_concurrency": 3}), 400, "ClientError.BadRequest")
    assert shown(api) == CUSTOM


def test_only_the_owner_sets_limits_and_only_who_sees_the_endpoint_sees_them(
    api: Api, bob: User, charlie: User, ep1: Endpoint
) -> None:
    assert_error(Api(charlie).put("/endpoint/alice%23ep1", CUSTOM), 404, "EndpointNotFound")
    api.put("/endpoint/ep1", {"public": True, **CUSTOM})
    assert_error(Api(bob).put("/endpoint/alice%23ep1", {"network_use": "minimal"}), 403, "PermissionDenied")
    assert shown(Api(bob), "alice%23ep1") == CUSTOM


def test_the_engine_gets_the_limits_of_both_ends(alice: User, api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    api.put("/endpoint/ep1", CUSTOM)
    api.put("/endpoint/ep2", {"network_use": "minimal"})
    spec = take(submit(alice, ep1, ep2)).spec
    assert spec.destination is not None
    for end, expected in ((spec.source, CUSTOM), (spec.destination, MINIMAL)):
        assert {name: getattr(end, name) for name in NUMBERS} == {name: expected[name] for name in NUMBERS}


def test_a_normal_endpoint_leaves_the_engine_free(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    spec = take(submit(alice, ep1, ep2)).spec
    assert {getattr(spec.source, name) for name in NUMBERS} == {None}
