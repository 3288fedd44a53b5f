"""Errors name the way that works, for a person who writes a first request by hand."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.rest import Api, assert_error


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


def words(answer: Any) -> str:
    return str(answer.body["message"])


# ---- 401


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer x y", "Bearer wrong", "Basic YWxpY2U6c2VjcmV0", "agt_s3cret", "Token agt_s3cret"]
)
def test_an_answer_of_401_names_the_header(db: None, header: str) -> None:
    answer = Api().call("GET", "/task_list", headers={"Authorization": header} if header else {})
    assert_error(answer, 401, "ClientError.AuthenticationFailed")
    assert "Authorization: Bearer TOKEN" in words(answer)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "s3cret" not in words(answer)
    assert "YWxp" not in words(answer)


# ---- 404


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v0.10/task_list/", "/v0.10/task_list"),
        ("/v0.9/task_list", "/v0.10/task_list"),
        ("/v0.10.1/endpoint/go%23ep1", "/v0.10/endpoint/go%23ep1"),
        ("/transfer/v0.10/submission_id", "/v0.10/submission_id"),
        ("/task_list", "/v0.10/task_list"),
        ("/operation/endpoint/go%23ep1/ls", "/v0.10/operation/endpoint/go%23ep1/ls"),
    ],
)
def test_an_address_that_is_nearly_right_is_answered_with_the_right_one(alice: User, path: str, meant: str) -> None:
    answer = Api(alice, root="").get(path)
    assert_error(answer, 404, "ClientError.NotFound")
    assert words(answer) == f"There is no such resource in this API; did you mean {meant}?"


@pytest.mark.parametrize("path", ["/v0.10/nothing", "/v0.9/nothing", "/v0.10/%FF", "/v7", "/v0.10/" + "x" * 9000])
def test_an_address_of_nothing_is_answered_with_the_one_that_describes_all(alice: User, path: str) -> None:
    answer = Api(alice, root="").get(path)
    assert_error(answer, 404, "ClientError.NotFound")
    assert words(answer) == "There is no such resource in this API; GET /v0.10/openapi describes all"


def test_a_name_whose_sign_was_not_encoded_is_refused_with_the_encoding(api: Api, ep1: Endpoint) -> None:
    """Of http://host/v0.10/endpoint/alice#ep1 a client asks for /v0.10/endpoint/alice."""
    answer = api.get("/endpoint/alice")
    assert_error(answer, 404, "EndpointNotFound")
    assert words(answer).endswith("In an address, write %23 for the # of a name: /endpoint/alice%23NAME")
    assert "encoded twice" in words(api.get("/endpoint/alice%2523ep1"))
    for path in ("/endpoint/alice%23ep9", f"/endpoint/{uuid.uuid4()}"):
        assert "%23" not in words(api.get(path))
    assert api.get("/endpoint/alice%23ep1").status == 200


# ---- 405


def test_a_wrong_method_is_answered_with_the_right_ones(api: Api, ep1: Endpoint) -> None:
    answer = api.call("PATCH", f"/endpoint/{ep1.pk}", {})
    assert_error(answer, 405, "ClientError.MethodNotAllowed")
    assert words(answer) == "PATCH is not possible here; this resource has GET, PUT, DELETE"
    assert words(api.post("/task_list", {})) == "POST is not possible here; this resource has GET"


# ---- 400


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/task_list?limit=ten", "limit: expected a whole number from 1 to 1000"),
        ("/task_list?limit=-1", "limit: expected a whole number from 1 to 1000"),
        ("/task_list?offset=1.5", "offset: expected a whole number from 0 to 1000000000"),
    ],
)
def test_a_wrong_number_is_answered_with_its_range(api: Api, path: str, said: str) -> None:
    answer = api.get(path)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert words(answer) == said


def test_numbers_beyond_the_range_are_its_ends(api: Api) -> None:
    assert api.get("/task_list?limit=0").body["limit"] == 1
    assert api.get("/task_list?limit=999999").body["limit"] == 1000


@pytest.mark.parametrize("route", ["/transfer", "/bookmark"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{\n  "a": 1,\n  b: 2\n}', "Expecting property name enclosed in double quotes: line 3 column 3"),
        (b"{'a': 1}", "Expecting property name enclosed in double quotes: line 1 column 2"),
        (b'{"a": 1}\n{"b": 2}', "Extra data: line 2 column 1"),
        (b'{\n"label": "x",\n"DATA": [\n  {"path": }\n]}', "Expecting value: line 4 column 12"),
    ],
)
def test_an_error_in_json_names_the_line_and_the_column(api: Api, route: str, text: bytes, said: str) -> None:
    answer = api.call("POST", route, raw=text)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert words(answer).startswith("JSON parse error: ")
    assert said.rpartition(": ")[2] in words(answer)
    assert route == "/transfer" or said in words(answer)


# ---- unknown fields


def transfer(**more: Any) -> dict[str, Any]:
    item = {"DATA_TYPE": "transfer_item", "source_path": "/a", "destination_path": "/b"}
    ends = {"source_endpoint": "alice#ep1", "destination_endpoint": "alice#ep2"}
    return {"DATA_TYPE": "transfer", "submission_id": str(uuid.uuid4()), **ends, "DATA": [item], **more}


@pytest.mark.parametrize("route", ["/transfer", "/transfer/check"])
def test_unknown_fields_of_a_transfer_are_named(api: Api, ep1: Endpoint, ep2: Endpoint, route: str) -> None:
    assert api.post(route, transfer()).body["warning"] is None
    wrong = transfer(synclevel=3, recursive=True, colour="red")
    wrong["DATA"] = [{**wrong["DATA"][0], "recursiv": True, "sync_level": 1}]
    answer = api.post(route, wrong)
    assert answer.status < 300
    assert answer.body["warning"].startswith(
        "Unknown fields were ignored: 'synclevel' (did you mean sync_level?), "
        "'recursive' (a field of each item in DATA), 'colour', DATA: 'recursiv' (did you mean recursive?), "
        "DATA: 'sync_level' (a field of the whole task)."
    )


def test_unknown_fields_of_a_delete_are_named(api: Api, ep1: Endpoint) -> None:
    body = {"DATA_TYPE": "delete", "submission_id": str(uuid.uuid4()), "endpoint": "alice#ep1", "recursiv": True}
    answer = api.post("/delete", {**body, "DATA": [{"DATA_TYPE": "delete_item", "path": "/a"}]})
    assert answer.body["warning"] == "Unknown fields were ignored: 'recursiv' (did you mean recursive?)."


def test_what_programs_of_the_transfer_api_send_is_known(api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    options = {"notify_on_succeeded": False, "skip_activation_check": True, "store_base_path_info": False,
               "source_local_user": None, "destination_local_user": None, "recursive_symlinks": "ignore",
               "deadline": None, "filter_rules": None, "fail_on_quota_errors": False}  # fmt: skip
    assert api.post("/transfer", transfer(**options)).body["warning"] is None


def test_a_thousand_unknown_fields_are_a_short_warning(api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    asked = transfer(**{f"{number}" + "x" * 500: 1 for number in range(1000)})
    asked["DATA"] = [{**asked["DATA"][0], "destination_path": f"/{n}", f"y{n}\n" + "z" * 999: 2} for n in range(1000)]
    warning = api.post("/transfer", asked).body["warning"]
    assert len(warning) < 600
    assert warning.endswith(" more.")
    assert "\n" not in warning
