"""A browser gets a page where there is no page, no permission, or a failure; programs get documents."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import psycopg2
import pytest
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from rest_framework.decorators import api_view, authentication_classes, permission_classes
from rest_framework.request import Request
from rest_framework.response import Response

from identity.models import User
from tests.integration.pages import Browser
from transferapi import urls as ours
from transferapi.outages import outage
from transferapi.outages.log_filter import OutageFilter

pytestmark = pytest.mark.django_db

HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
RAISED = {"fault": RuntimeError("the secret of it"), "away": OperationalError("gone"), "denied": PermissionDenied()}


def an_outage() -> OperationalError:
    error = OperationalError("gone")
    error.__cause__ = psycopg2.OperationalError("server closed the connection unexpectedly")
    return error


RAISED["gone"] = an_outage()


def fails(request: HttpRequest, how: str) -> HttpResponse:
    raise RAISED[how]


def slow(request: HttpRequest) -> HttpResponse:
    """PostgreSQL works, and ends a statement that takes too long (57014)."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(60)")
    return HttpResponse()


@api_view(["GET"])
@authentication_classes([])
@permission_classes([])
def api_is_slow(request: Request) -> Response:
    slow(request._request)
    return Response()


#: The routes of this service, and some that fail.
urlpatterns = [path("fails/<str:how>", fails), path("slow", slow), path("api-is-slow", api_is_slow), *ours.urlpatterns]
handler400, handler403, handler404, handler500 = ours.handler400, ours.handler403, ours.handler404, ours.handler500


@pytest.mark.parametrize("where", ["/nothing", "/activity/nothing", "/endpoints//x"])
def test_an_unknown_path_is_a_page_for_a_browser_and_a_document_for_a_program(where: str) -> None:
    browser = Browser(HTTP_ACCEPT=HTML)
    assert browser.get(where).status_code == 404
    assert "There is no such page" in browser.text
    answer = Browser(HTTP_ACCEPT="application/json").client.get(where)
    assert (answer.status_code, json.loads(answer.content)["code"]) == (404, "ClientError.NotFound")


def test_it_speaks_the_language_of_the_reader_and_knows_who_is_signed_in(alice: User) -> None:
    browser = Browser(HTTP_ACCEPT=HTML, HTTP_ACCEPT_LANGUAGE="de")
    browser.client.force_login(alice)
    browser.get("/nothing")
    assert "Diese Seite gibt es nicht" in browser.text
    assert "Abmelden" in browser.text
    assert b"No such task" in browser.client.get("/v0.10/task/x", HTTP_ACCEPT="application/json").content


def test_routes_of_the_api_stay_documents_for_a_browser() -> None:
    answer = Browser(HTTP_ACCEPT=HTML).client.get("/v0.10/nothing")
    assert json.loads(answer.content)["code"] == "ClientError.NotFound"


@pytest.mark.urls(__name__)
@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("fault", 500, "give the operator of this service the request id"),
        ("away", 503, "It is busy, or it restarts."),
        ("denied", 403, "You do not have permission to see this page."),
    ],
)
def test_failures_are_pages_that_show_nothing_of_the_cause(alice: User, how: str, status: int, words: str) -> None:
    browser = Browser(HTTP_ACCEPT=HTML)
    browser.client.force_login(alice)
    answer = browser.get(f"/fails/{how}")
    assert answer.status_code == status
    assert words in browser.text
    assert "secret" not in browser.page
    assert ("Retry-After" in answer.headers) is (status == 503)
    told = Browser(HTTP_ACCEPT="application/json").client.get(f"/fails/{how}")
    assert told.headers["Content-Type"] == "application/json"
    assert told.status_code in (status, 500)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[logging.LogRecord]]:
    """The lines of the log of a process that watches outages."""
    monkeypatch.setattr(outage, "_watching", True)
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign, assignment]
    handler.addFilter(OutageFilter())
    logging.getLogger().addHandler(handler)
    yield records
    logging.getLogger().removeHandler(handler)


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("accept", [HTML, "application/json"])
def test_the_log_has_the_cause_of_a_503_that_is_no_outage(written: list[logging.LogRecord], accept: str) -> None:
    answer = Browser(HTTP_ACCEPT=accept).client.get("/slow")
    assert answer.status_code == 503
    causes = [str(record.exc_info[1]) for record in written if record.exc_info]
    assert len(causes) == 1
    assert "statement timeout" in causes[0]


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("accept", [HTML, "application/json"])
def test_the_log_has_no_line_for_each_request_of_an_outage(written: list[logging.LogRecord], accept: str) -> None:
    """Which has two lines of its own."""
    assert Browser(HTTP_ACCEPT=accept).client.get("/fails/gone").status_code == 503
    assert [record.name for record in written] == ["waybill.access"]


@pytest.mark.urls(__name__)
def test_a_503_of_the_api_has_one_line_with_the_cause(written: list[logging.LogRecord]) -> None:
    assert Browser().client.get("/api-is-slow").status_code == 503
    [record] = [one for one in written if one.levelno >= logging.ERROR]
    assert record.exc_info
    assert "statement timeout" in str(record.exc_info[1])
