"""Long bodies, about which a server in front asks before it keeps them; and bodies without a length."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from django.test import Client

from identity import tokens
from identity.models import User

pytestmark = pytest.mark.django_db
FILE = "/v0.10/operation/endpoint/go%23ep1/file"


def ask(client: Client, user: User | None, query: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
    """Status, and the status and the document of the refusal."""
    headers = {"Authorization": f"Bearer {tokens.issue(user)}"} if user else {}
    answer = client.get("/v0.10/long_body", query, headers=headers)
    document = json.loads(answer.headers.get("X-Waybill-Refusal", "{}"))
    return answer.status_code, answer.headers.get("X-Waybill-Refusal-Status", ""), document


@pytest.mark.parametrize(
    ("resource", "length"),
    [("/v0.10/transfer", 48 << 20), ("/v0.10/delete/check", 48 << 20), (FILE, 256 << 20), ("/v0.10/bookmark", 1 << 20)],
)
def test_a_user_may_send_as_much_as_the_view_takes(client: Client, alice: User, resource: str, length: int) -> None:
    assert ask(client, alice, {"resource": resource, "length": str(length)}) == (204, "", {})
    status, told, document = ask(client, alice, {"resource": resource, "length": str(length + 1)})
    assert (status, told, document["code"]) == (403, "413", "ClientError.RequestTooLarge")
    assert document["resource"] == resource.replace("%23", "#").removeprefix("/v0.10")
    status, told, document = ask(client, None, {"resource": resource, "length": str(length)})
    assert (status, told, document["code"]) == (401, "401", "ClientError.AuthenticationFailed")


@pytest.mark.parametrize("length", ["", "-1", "+5", "1e3", "\u0665", "9" * 400])
def test_a_length_that_is_none_is_refused(client: Client, alice: User, length: str) -> None:
    status, told, _ = ask(client, alice, {"resource": "/v0.10/transfer", "length": length})
    assert (status, told) == (403, "413" if length.startswith("9") else "411")


@pytest.mark.parametrize("resource", ["", "/", "/signin", "/v0.10/none", "/static/x", "//v0.10/transfer", "\n"])
def test_a_path_that_is_none_of_the_api_takes_no_long_body(client: Client, alice: User, resource: str) -> None:
    assert ask(client, alice, {"resource": resource, "length": "2000000"})[0] == 403


def test_a_wrong_token_is_refused(client: Client) -> None:
    answer = client.get("/v0.10/long_body", headers={"Authorization": "Bearer wrong"})
    assert (answer.status_code, answer.headers["X-Waybill-Refusal-Status"]) == (401, "401")


def test_a_body_without_a_length_is_refused_and_not_taken_for_an_empty_one(client: Client, alice: User) -> None:
    headers = {"Authorization": f"Bearer {tokens.issue(alice)}", "Transfer-Encoding": "chunked"}
    answer = client.post("/v0.10/bookmark", b"{}", content_type="application/json", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (411, "ClientError.LengthRequired")
