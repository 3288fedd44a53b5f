"""Texts of users that lists are filtered by: any of them is an answer or a refusal, and no failure of the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit
from tests.integration.rest import Api, assert_error
from transferapi.rest.transfer.filters import MAX_PATTERNS
from transferapi.tasks.options import MAX_FILTER_CHARACTERS

pytestmark = pytest.mark.django_db

TEXTS = {
    "stars": "*" * 4000, "stars and letters": "*a" * 2000, "questions": "?" * 4000, "letters": "a" * 4000,
    "percents": "%" * 4000, "underscores": "_" * 4000, "brackets": "[" * 2000 + "(" * 2000, "open": "*[!", "empty": "",
    "NUL": "*\0*", "backslash": "*\\", "backslashes": "\\" * 4001, "beyond": "\U0001f600*\U0001f600",
    "controls": "\x01\x7f\x85", "quotes": "'\";--$$", "regex": "(?:(a+)+)+$", "number": "9" * 4000,
}  # fmt: skip
LS = "/operation/endpoint/ep1/ls"
KINDS = ("{}", "~{}", "!~{}", "={}", "!{}", "~{},~{}")


def queries(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for field in ("label", "task_id", "type", "status", "request_time", "completion_time", "colour"):
        for kind in KINDS if field == "label" else KINDS[:2]:
            yield "/task_list", {"filter": f"{field}:{kind.format(text, text)}"}
    yield "/task_list", {"orderby": text}
    for field in ("name", "size", "last_modified", "user", "type"):
        yield LS, {"path": "/", "filter": f"{field}:~{text}"}
    yield LS, {"path": "/", "orderby": text}
    for name in ("status", "task_id", "owner_id", "endpoint", "completion_time", "min_faults", "local_user"):
        beside = {} if name in ("endpoint", "task_id") else {"filter_endpoint": "ep1"}
        yield "/endpoint_manager/task_list", {**beside, f"filter_{name}": text}
    yield "/endpoint_manager/task_list", {"filter_endpoint": "ep1", "last_key": text}
    yield "/endpoint_manager/pause_rule_list", {"filter_endpoint": text}
    for name in ("fulltext", "host_endpoint", "owner_id", "entity_type", "scope"):
        yield "/endpoint_search", {f"filter_{name}": text}


@pytest.mark.parametrize("form", ["json", "xml"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_text_makes_a_list_fail(alice: User, ep1: Endpoint, ep2: Endpoint, text: str, form: str) -> None:
    submit(alice, ep1, ep2, label="a" * 128)
    api = Api(alice)
    for path, query in queries(text):
        answer = api.get(path, **query, format=form)
        # Nobody listens at ep1, and the gate lets nobody there: a listing that is well asked for gets as far as that.
        wanted = (200, 400, 404, 502) if path.endswith("/ls") else (200, 400, 404)
        assert answer.status in wanted, (path, query, answer.body)


def test_stars_of_a_label_are_one_and_too_long_a_pattern_is_refused(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2, label="Night run")
    api = Api(alice)
    rows = api.get("/task_list", filter="label:~" + "*" * 2000 + "RUN").body["DATA"]
    assert [row["task_id"] for row in rows] == [str(task.pk)]
    refused = api.get("/task_list", filter="label:~" + "*n" * 2000)
    assert_error(refused, 400, "ClientError.BadRequest")
    assert refused.body["message"] == "filter: A pattern has at most 255 characters."


@pytest.mark.parametrize(
    ("path", "key"),
    [("/task_list", "label"), (LS, "name"), (LS, "user")],
)
def test_a_condition_has_a_number_of_patterns(alice: User, ep1: Endpoint, path: str, key: str) -> None:
    many = ",".join(f"~*{number}*" for number in range(MAX_PATTERNS + 1))
    answer = Api(alice).get(path, filter=f"{key}:{many}", path="/")
    assert_error(answer, 400, "ClientError.BadRequest")
    assert str(MAX_PATTERNS) in answer.body["message"]


@pytest.mark.parametrize(
    "filters", [["type:dir"] * 21, ["size:" + ",".join([">1"] * 11)]], ids=["alternatives", "sizes"]
)
def test_the_conditions_of_a_listing_have_a_number(alice: User, ep1: Endpoint, filters: list[str]) -> None:
    answer = Api(alice).get(LS, path="/", filter=filters)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert "at most" in answer.body["message"]


def test_the_rules_of_a_task_have_a_number_of_characters_together(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    api = Api(alice)
    rule = {"method": "exclude", "name": "x" * 128}
    number = MAX_FILTER_CHARACTERS // 128
    ends = {"source_endpoint": "ep1", "destination_endpoint": "ep2"}
    item = {"source_path": "/a/", "destination_path": "/b/", "recursive": True}
    for rules, status in ((number, 202), (number + 1, 400)):
        id_ = api.get("/submission_id").body["value"]
        document = {**ends, "submission_id": id_, "DATA": [item], "filter_rules": [rule] * rules}
        assert api.post("/transfer", document).status == status


@pytest.mark.parametrize(
    ("path", "status"),
    [("/a/" + "*" * 255, 202), ("/*" * 16, 202), ("/*" * 17, 400), ("/" + "x" * 255 + "/?" * 10, 202)],
)
def test_a_path_to_delete_has_a_number_of_patterns(alice: User, ep1: Endpoint, path: str, status: int) -> None:
    api = Api(alice)
    id_ = api.get("/submission_id").body["value"]
    item = {"DATA_TYPE": "delete_item", "path": path}
    document = {"submission_id": id_, "endpoint": "ep1", "DATA": [item], "interpret_globs": True}
    assert api.post("/delete", document).status == status
    # Without interpret_globs nothing is expanded.
    plain = {**document, "submission_id": api.get("/submission_id").body["value"], "interpret_globs": False}
    assert api.post("/delete", plain).status == 202
