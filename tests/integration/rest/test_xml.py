"""XML on the same routes as JSON, chosen by Accept, Content-Type and `?format=`."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from endpoints.gridftp.facts import Entry
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.rest import Answer, Api, assert_error
from tests.references import inlined
from transferapi.rest.http import json_documents, xml_documents
from transferapi.rest.openapi import components
from transferapi.rest.openapi.components import RESPONSES
from transferapi.rest.transfer.operation_documents import FILE
from transferapi.tasks.models import Item, Task

pytestmark = pytest.mark.django_db

XML = {"Accept": "application/xml"}


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


def _read(answer: Answer, name: str) -> Any:
    assert answer.headers["Content-Type"] == "application/xml; charset=utf-8"
    return xml_documents.loads(answer.body, inlined(RESPONSES[name]))


@pytest.mark.parametrize(
    ("headers", "query", "kind"),
    [
        ({}, "", "application/json"),
        ({"Accept": "*/*"}, "", "application/json"),
        ({"Accept": "application/json, application/xml"}, "", "application/json"),
        (XML, "", "application/xml; charset=utf-8"),
        ({"Accept": "text/xml"}, "", "text/xml; charset=utf-8"),
        ({}, "format=xml", "application/xml; charset=utf-8"),
        (XML, "format=json", "application/json"),
        (XML, "format=xml", "application/xml; charset=utf-8"),
    ],
)
def test_the_form_is_chosen_by_accept_or_by_format(api: Api, headers: Any, query: str, kind: str) -> None:
    if query == "format=json":
        headers = {}
    answer = api.call("GET", f"/submission_id?{query}", headers=headers)
    assert (answer.status, answer.headers["Content-Type"]) == (200, kind)


def test_a_document_is_the_same_in_both_forms(api: Api, ep1: Endpoint) -> None:
    for path, name in ((f"/endpoint/{ep1.pk}", "endpoint"), ("/task_list", "task_list")):
        assert _read(api.call("GET", path, headers=XML), name) == api.get(path).body


def test_a_task_is_submitted_in_xml(api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    document = {
        **components.REQUEST_EXAMPLES["transfer"], "source_endpoint": "alice#ep1", "destination_endpoint": str(ep2.pk),
        "verify_checksum": True, "sync_level": 2, "label": None,
        "filter_rules": [{"DATA_TYPE": "filter_rule", "method": "exclude", "name": "*.tmp"}],
        "DATA": [
            {"DATA_TYPE": "transfer_item", "source_path": "/a/\udcff\\u0041 ", "destination_path": "/b/\udcff"},
            {"DATA_TYPE": "transfer_symlink_item", "source_path": "/l", "destination_path": "/m"},
            {"DATA_TYPE": "transfer_item", "source_path": "/c/", "destination_path": "/d/", "recursive": True},
        ],
    }  # fmt: skip
    data = xml_documents.dumps(document)
    answer = api.call("POST", "/transfer", raw=data, content_type="text/xml; charset=utf-8", headers=XML)
    found = _read(answer, "transfer_result")
    assert (answer.status, found["code"]) == (202, "Accepted")
    task = Task.objects.get(pk=found["task_id"])
    assert (task.label, task.options["sync_level"], task.options["verify_checksum"]) == (None, 2, True)
    assert task.options["filter_rules"] == [{"method": "exclude", "name": "*.tmp", "type": None}]
    rows = Item.objects.filter(task=task).order_by("position").values_list("source_path", "recursive")
    stored: list[Any] = list(rows)
    assert stored == [
        ("/a/\udcff\\u0041 ", None), ("/l", rows[1][1]), ("/c/", True),
    ]  # fmt: skip
    again = api.call("POST", "/transfer", document)
    assert (again.status, again.code) == (202, "Duplicate")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [("/endpoint/nothing", 404, "EndpointNotFound"), ("/nothing", 404, "ClientError.NotFound")],
)
def test_errors_come_in_xml_too(api: Api, path: str, status: int, code: str) -> None:
    answer = api.call("GET", path, headers=XML)
    assert (answer.status, answer.headers["X-Transfer-API-Error"]) == (status, code)
    assert answer.body.startswith(b'<?xml version="1.0" encoding="utf-8"?>\n<error ')
    assert set(_read(answer, "error")) == {"code", "message", "request_id", "resource"}


def test_without_a_token_too() -> None:
    assert _read(Api().call("GET", "/task_list", headers=XML), "error")["code"] == "ClientError.AuthenticationFailed"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<transfer>", "XML parse error: no element found"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><transfer>&b;</transfer>", "a DTD is not allowed"),
        (b"<?a b?><transfer/>", "a processing instruction is not allowed"),
        (b"<delete/>", "DATA_TYPE: expected transfer"),
        (b"<transfer/>", "submission_id: is missing"),
        (b"<a/>" * 10, "XML parse error: junk after document element"),
        (b"<transfer xmlns='x'>\xff</transfer>", "XML parse error: not well-formed"),
    ],
)
def test_what_is_no_document_is_refused_by_what_is_wrong_with_it(api: Api, body: bytes, words: str) -> None:
    answer = api.call("POST", "/transfer", raw=body, content_type="application/xml")
    assert_error(answer, 400, "ClientError.BadRequest")
    assert words in answer.body["message"]


def test_a_value_of_the_wrong_type_is_refused_by_the_name_of_its_field(api: Api, ep1: Endpoint) -> None:
    data = b"<server><port>many</port></server>"
    answer = api.call("POST", "/endpoint/ep1/server", raw=data, content_type="application/xml")
    assert answer.body["message"] == "port: expected a whole number"


def test_xml_is_bounded_as_json_is(api: Api) -> None:
    many = b"<transfer>" + b"<a/>" * 10_000_001 + b"</transfer>"
    answer = api.call("POST", "/transfer", raw=many, content_type="application/xml")
    assert_error(answer, 413, "ClientError.RequestTooLarge")
    long = b"<endpoint>" + b" " * (1 << 20) + b"</endpoint>"
    assert_error(api.call("POST", "/endpoint", raw=long, content_type="text/xml"), 413, "ClientError.RequestTooLarge")


@pytest.mark.parametrize("kind", ["application/yaml", "text/plain", "application/xhtml+xml", "multipart/form-data"])
def test_other_forms_are_refused(api: Api, kind: str) -> None:
    answer = api.call("POST", "/transfer", raw=b"{}", content_type=kind)
    assert_error(answer, 415, "ClientError.UnsupportedMediaType")
    assert "application/xml" in answer.body["message"]


def _peak(dumps: Any, count: int) -> tuple[int, int]:
    entries = [Entry(f"file{number}.dat", "file", number) for number in range(count)]
    body = {"DATA_TYPE": "file_list", "path": "/", "DATA": json_documents.Rows(entries, FILE.document)}
    tracemalloc.start()
    try:
        size = len(dumps(body))
        return tracemalloc.get_traced_memory()[1], size
    finally:
        tracemalloc.stop()


def test_a_long_list_takes_as_much_memory_as_it_is_long() -> None:
    for dumps in (json_documents.dumps, xml_documents.dumps):
        peak, size = _peak(dumps, 30_000)
        assert peak < 2.5 * size + (4 << 20)


@pytest.mark.parametrize("path", ["/v0.10/task_list", "/v0.10/nothing"])
def test_a_browser_gets_json(alice: User, path: str) -> None:
    """It names XML among what it takes, and shows it without any form."""
    accepts = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
    answer = Api(alice, root="").call("GET", path, headers={"Accept": accepts})
    assert answer.headers["Content-Type"] == "application/json"
