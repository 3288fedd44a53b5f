"""Limits of the service, and its answers beyond them."""

from __future__ import annotations

import logging
import tracemalloc
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection

from endpoints.gridftp.facts import Entry
from identity.models import User
from tests.integration.rest import Api, assert_error
from tests.memory import forget_peak, resident
from transferapi.rest.http import json_documents
from transferapi.rest.transfer import filters
from transferapi.rest.transfer.operation_documents import FILE

MB = 1 << 20


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


@pytest.mark.parametrize(
    "bomb", [b"[" + b"[]," * 6_000_000 + b"[]]", b"[" + b"1," * 10_000_001 + b"1]"], ids=["lists", "numbers"]
)
def test_a_small_body_that_becomes_large_in_memory_is_refused(api: Api, bomb: bytes) -> None:
    forget_peak()
    before = resident("VmRSS")
    answer = api.call("POST", "/transfer", raw=bomb)
    peak = resident("VmHWM") - before
    assert_error(answer, 413, "ClientError.RequestTooLarge")
    assert peak < 6 * len(bomb)


class Hangup:
    """The body of a client that went away in the middle of it."""

    def read(self, size: int = -1) -> bytes:
        raise ConnectionResetError(104, "Connection reset by peer")

    readline = read


def test_a_client_that_goes_away_in_its_body_is_no_failure_of_the_service(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"wsgi.input": Hangup(), "CONTENT_LENGTH": "100"}
    answer = api.call("POST", "/transfer", raw=b"{", environ=environ)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_who_sends_a_form_is_asked_to_send_json(api: Api) -> None:
    answer = api.call("POST", "/transfer", raw=b"a=1", content_type="application/x-www-form-urlencoded")
    assert_error(answer, 415, "ClientError.UnsupportedMediaType")
    assert "Content-Type: application/json" in answer.body["message"]


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_said_to_be_and_clients_may_ask_again(
    api: Api, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: Any) -> None:
        raise error("the secret name of the server")

    with connection.execute_wrapper(away):
        answer = api.get("/task_list")
    assert_error(answer, 503, "ServiceUnavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert "secret" not in answer.body["message"]
    assert any(answer.body["request_id"] in record.getMessage() for record in caplog.records)
    assert api.get("/task_list").status == 200


def test_a_failure_of_the_service_reveals_nothing_of_its_insides(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("the secret of line 7")

    with connection.execute_wrapper(broken):
        answer = api.get("/task_list")
    assert_error(answer, 500, "InternalError")
    assert "secret" not in str(answer.body)
    logged = [record for record in caplog.records if answer.body["request_id"] in record.getMessage()]
    assert [record.levelno for record in logged] == [logging.ERROR]
    assert logged[0].exc_info


def test_a_refusal_is_one_line_of_the_log_whatever_was_asked(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="transferapi.rest.http.errors")
    answer = api.get("/task/%0AERROR%20forged")
    assert_error(answer, 404)
    lines = [record.getMessage() for record in caplog.records if record.name == "transferapi.rest.http.errors"]
    assert len(lines) == 1
    assert answer.body["request_id"] in lines[0]
    assert "\n" not in lines[0]


def entries(number: int) -> list[Entry]:
    return [Entry(f"file {index:06}.dat", "file", index, None, "0644", "alice", "users") for index in range(number)]


def test_a_listing_is_written_without_a_document_for_each_of_its_entries() -> None:
    found = entries(30_000)
    body = {"DATA_TYPE": "file_list", "length": len(found)}
    tracemalloc.start()
    try:
        written = json_documents.dumps({**body, "DATA": json_documents.Rows(found, FILE.document)})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * len(written) + MB
    assert written == json_documents.dumps({**body, "DATA": [FILE.document(entry) for entry in found]})


@pytest.mark.parametrize(
    "number", [0, 1, json_documents.PART - 1, json_documents.PART, json_documents.PART + 1, 3 * json_documents.PART]
)
def test_rows_are_written_like_a_list(number: int) -> None:
    found = entries(number)
    rows = json_documents.Rows(found, filters.picked(FILE.document, "name,size"))
    expected = [{"DATA_TYPE": "file", "name": entry.name, "size": entry.size} for entry in found]
    assert json_documents.dumps({"length": number, "DATA": rows}) == json_documents.dumps(
        {"length": number, "DATA": expected}
    )
