"""A folder that is listed as its entries arrive, on real servers of both kinds, and on some that fail."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client

from endpoints import concurrency_limits, listing_limits
from identity import tokens
from identity.models import User
from tests.conformance.rest.test_operations import Place, Register, alice, loopback, place, register
from tests.integration.rest import Answer, Api, assert_error

pytestmark = pytest.mark.django_db

__all__ = ["alice", "loopback", "place", "register"]

MANY = 3000


@pytest.fixture(autouse=True)
def no_slot_stays() -> Iterator[None]:
    """Each request gives back what it held."""
    yield
    assert not concurrency_limits._waiting
    assert not concurrency_limits._reserved


def lines(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.body.splitlines()]


def stream(place: Place, name: str = "", **query: str) -> Answer:
    return place.api.get("/operation/endpoint/place/listing", path=place.path(name), **query)


def fill(place: Place) -> None:
    (place.folder / "many").mkdir(0o755)
    for number in range(MANY):
        (place.folder / "many" / f"{number:05}").touch()


def test_it_has_the_folder_then_each_entry_then_the_end(place: Place) -> None:
    first, *rows, end = lines(stream(place))
    assert (first["DATA_TYPE"], first["path"]) == ("listing", f"{place.root}/")
    whole = place.ls(orderby="name").body
    assert sorted(rows, key=lambda row: row["name"]) == whole["DATA"]
    assert {name: first[name] for name in ("absolute_path", "endpoint", "symlink_supported")} == {
        name: whole[name] for name in ("absolute_path", "endpoint", "symlink_supported")
    }
    assert end == {"DATA_TYPE": "listing_end", "total": len(rows)}


def test_fields_leave_the_rest_out(place: Place) -> None:
    rows = lines(stream(place, fields="name,size"))[1:-1]
    assert {"DATA_TYPE": "file", "name": "file", "size": 5} in rows


def test_refusals_have_their_status_as_in_ls(place: Place) -> None:
    assert_error(stream(place, "nothing"), 404, "ClientError.NotFound")
    assert_error(stream(place, "file"), 502, "ExternalError.DirListingFailed.NotDirectory")
    assert lines(stream(place, "folder"))[1:] == [{"DATA_TYPE": "listing_end", "total": 0}]


def test_a_long_folder_comes_whole_in_many_parts(place: Place) -> None:
    fill(place)
    assert sorted(row["name"] for row in lines(stream(place, "many"))[1:-1]) == [f"{n:05}" for n in range(MANY)]


def test_a_folder_of_too_many_files_ends_with_the_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(place)
    defaults = (2000,)
    monkeypatch.setattr(listing_limits.ListingAllowance.__init__, "__defaults__", defaults)
    *_, last = lines(stream(place, "many"))
    assert (last["DATA_TYPE"], last["code"]) == ("error", "ExternalError.DirListingFailed.SizeLimit")
    assert last["request_id"]


def test_a_client_that_leaves_gives_its_slot_back(place: Place, alice: User) -> None:
    fill(place)
    headers = {"Authorization": f"Bearer {tokens.issue(alice)}"}
    query = {"path": place.path("many")}
    answer = Client().get("/v0.10/operation/endpoint/place/listing", query_params=query, headers=headers)
    assert isinstance(answer, StreamingHttpResponse)
    assert b"listing" in next(iter(answer))
    assert concurrency_limits._waiting
    answer.close()


def test_a_server_that_hangs_is_given_up(alice: User, register: Register, settings: Any) -> None:
    settings.OPERATION_SECONDS = 0.3
    with socket.create_server(("127.0.0.1", 0)) as silent:
        register(silent.getsockname()[1])
        answer = Api(alice).get("/operation/endpoint/place/listing", path="/")
        assert_error(answer, 502, "ExternalError.DirListingFailed.Timeout")
