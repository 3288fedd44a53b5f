"""Browsers that come upon a document of the API show nothing active, keep nothing, and let no page show it within."""

from __future__ import annotations

import pytest
from django.test import Client

from identity.models import User
from tests.integration.rest import Api
from transferapi.rest.http.security_headers import POLICY
from webui.assets import address

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/task_list", "/nothing", "/endpoint_search", "/openapi.json"])
def test_documents_and_errors_load_nothing_and_are_kept_by_nobody(alice: User, path: str) -> None:
    for api in (Api(alice), Api(None)):
        headers = api.get(path).headers
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"


def test_pages_and_their_files_keep_their_own_rules() -> None:
    page, file = Client().get("/signin"), Client().get(address("waybill.css"))
    assert "style-src 'self'" in page["Content-Security-Policy"]
    assert page["Cache-Control"] == "no-store"
    assert "immutable" in file["Cache-Control"]
