"""A browser gets a page where there is no page, no permission, or a failure; programs get documents."""

from __future__ import annotations

import json

import pytest
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.urls import path

from identity.models import User
from tests.integration.pages import Browser
from transferapi import urls as ours

pytestmark = pytest.mark.django_db

HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
RAISED = {"fault": RuntimeError("the secret of it"), "away": OperationalError("gone"), "denied": PermissionDenied()}


def fails(request: HttpRequest, how: str) -> HttpResponse:
    raise RAISED[how]


#: The routes of this service, and one that fails.
urlpatterns = [path("fails/<str:how>", fails), *ours.urlpatterns]
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
