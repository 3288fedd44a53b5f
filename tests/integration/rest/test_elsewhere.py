"""Services of Globus that are not here, and addresses with doubled slashes."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from identity import ssh_keys
from identity.models import User
from identity.provider import scopes
from tests.integration.provider import CALLBACK, get, make
from tests.integration.rest import Api, read

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("method", "path", "read_error"),
    [
        ("GET", "/flows", lambda body: (body["error"]["code"], body["error"]["detail"])),
        ("POST", "/flows/1/run", lambda body: (body["error"]["code"], body["error"]["detail"])),
        ("GET", "/runs", lambda body: (body["error"]["code"], body["error"]["detail"])),
        ("GET", "/v1/index_list", lambda body: (body["code"], body["message"])),
        ("GET", "/v1/index/1/search", lambda body: (body["code"], body["message"])),
        ("POST", "/v1/index/1/ingest", lambda body: (body["code"], body["message"])),
        ("GET", "/v2/version", lambda body: (body["code"], body["reason"])),
        ("POST", "/v3/endpoints/1/submit", lambda body: (body["code"], body["reason"])),
        ("GET", "/api/collections", lambda body: (body["code"], body["message"])),
    ],
)
def test_a_service_that_is_not_here_is_named_in_a_sentence(method: str, path: str, read_error: Any) -> None:
    answer = read(Client().generic(method, path, b"{}", "application/json", headers={"Accept": "application/json"}))
    assert answer.status == 501, "clients try 404 no more than 501, and 503 again"
    code, sentence = read_error(answer.body)
    assert code == "ServiceNotHere"
    assert sentence.endswith("is not here")
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "path", ["/flow", "/flowsx", "/v1/indexes", "/v2/versions", "/v3/", "/apix", "/v2/oauth2/flows"]
)
def test_other_unknown_addresses_are_unknown_as_before(path: str) -> None:
    assert get(path).status == 404


@pytest.mark.parametrize(
    "path",
    ["//.well-known/openid-configuration", "/.well-known//openid-configuration", "///jwk.json", "//v0.10//openapi"],
)
def test_doubled_slashes_answer_as_single_ones(path: str) -> None:
    single = path.replace("///", "/").replace("//", "/")
    answer = Client().get(f"http://testserver{path}")
    assert answer.status_code == 200
    assert answer.content == Client().get(single).content
    assert answer.headers["Content-Security-Policy"] == Client().get(single).headers["Content-Security-Policy"]


def test_doubled_slashes_lead_to_the_same_checks(alice: User, bob: User) -> None:
    portal = make(bob, CALLBACK)
    token = portal.tokens(alice, scopes.TRANSFER_ALL)["access_token"]
    for path, status in (("/v0.10//task_list", 200), ("//v2//groups/my_groups", 403), ("/v2/api//tokens", 403)):
        found = Client().get(f"http://testserver{path}", headers={"Authorization": f"Bearer {token}"})
        assert found.status_code == status, path
        assert Client().get(f"http://testserver{path}").status_code == 401, path


def test_nobody_is_sent_to_a_host_that_an_address_names() -> None:
    for path in (
        "//evil.example/",
        "//evil.example/v2/oauth2/authorize",
        "///evil.example",
        "/\\/evil.example",
        "//signin",
    ):
        answer = Client().get(f"http://testserver{path}", headers={"Accept": "text/html"})
        assert "evil.example" not in answer.headers.get("Location", ""), path
        assert answer.status_code in (200, 404), path


def test_a_route_whose_argument_has_doubled_slashes_keeps_them(alice: User) -> None:
    answer = Api(alice, root="").delete("/v2/api/ssh_keys/SHA256:a//b")
    assert (answer.status, "SHA256:a//b" in answer.body["message"]) == (404, True)
    assert ssh_keys.list_of(alice) == []
