"""A user's ssh keys over REST: `/v2/api/ssh_keys`."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from endpoints.models import Endpoint
from identity import ssh_keys
from identity.models import SshPublicKey, User
from identity.provider import scopes
from tests.integration.identity.test_ssh_keys import new_line
from tests.integration.provider import make
from tests.integration.rest import Api, assert_error, read

pytestmark = pytest.mark.django_db
KEYS = "/v2/api/ssh_keys"


@pytest.fixture
def api(alice: User) -> Api:
    """By a session of hers that has just begun."""
    return Api(alice, root="", age=0)


def test_a_key_is_added_listed_and_removed(alice: User, bob: User, api: Api) -> None:
    line = new_line()
    made = api.post(KEYS, {"public_key": f"{line} laptop", "expire_time": "2099-01-31T00:00:00+00:00"})
    assert made.status == 201
    [key] = ssh_keys.list_of(alice)
    assert made.body == {
        "DATA_TYPE": "ssh_key",
        "id": str(key.id),
        "label": "laptop",
        "algorithm": "ssh-ed25519",
        "fingerprint": key.fingerprint,
        "public_key": line,
        "created_time": made.body["created_time"],
        "last_used_time": None,
        "expire_time": "2099-01-31T00:00:00+00:00",
        "commands": None,
        "endpoints": None,
    }
    assert api.get(KEYS).body["DATA"] == [made.body]
    assert Api(bob, root="").get(KEYS).body["DATA"] == []
    assert_error(Api(bob, root="").delete(f"{KEYS}/{key.id}"), 404)
    assert api.delete(f"{KEYS}/{key.id}").code == "Deleted"
    assert_error(api.delete(f"{KEYS}/{key.id}"), 404, "ClientError.NotFound")
    assert ssh_keys.find("alice", key.blob) is None


def test_a_key_is_removed_by_its_fingerprint_too(alice: User, api: Api) -> None:
    for _ in range(20):
        key = ssh_keys.add(alice, new_line())
        if "/" in key.fingerprint:
            break
    assert api.delete(f"{KEYS}/{quote(key.fingerprint, safe='')}").status == 200
    assert key not in ssh_keys.list_of(alice)


def test_restrictions_name_commands_and_endpoints(alice: User, api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    given = {"public_key": new_line(), "commands": ["transfer", "ls"], "endpoints": ["ep1", str(ep2.pk)]}
    made = api.post(KEYS, given).body
    assert (made["commands"], made["endpoints"]) == (["ls", "transfer"], sorted([str(ep1.pk), str(ep2.pk)]))
    [key] = ssh_keys.list_of(alice)
    assert key.restrictions.endpoints == frozenset({ep1.pk, ep2.pk})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "public_key: is missing"),
        ({"public_key": 5}, "public_key: expected a string"),
        ({"public_key": "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n"}, "public_key: This is a private key"),
        ({"public_key": "ssh-ed25519 " + "A" * 1_000_000}, "public_key: A public key has at most 8192 octets"),
        ({"public_key": None, "label": "x"}, "public_key: is missing"),
        ({"label": "two\nlines"}, "label: A label is one line"),
        ({"expire_time": "2001-01-01"}, "expires: The key would have expired already"),
        ({"expire_time": "soon"}, "expire_time: expected a time"),
        ({"commands": []}, "commands: Give 1 to 64"),
        ({"commands": "ls"}, "commands: expected a list"),
        ({"commands": ["ls -l"]}, "commands: A command is a name"),
        ({"endpoints": []}, "endpoints: Give 1 to 100"),
        ({"endpoints": [7]}, "endpoints: expected a list"),
    ],
)
def test_a_key_that_cannot_be_is_refused(api: Api, given: dict[str, Any], words: str) -> None:
    body = given if not given or "public_key" in given else {"public_key": new_line(), **given}
    answer = api.post(KEYS, body)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(words)
    assert "c2VjcmV0" not in str(answer.body)
    assert not SshPublicKey.objects.exists()


def test_an_endpoint_of_another_user_does_not_exist(api: Api, bob: User) -> None:
    answer = api.post(KEYS, {"public_key": new_line(), "endpoints": ["bob#private"]})
    assert_error(answer, 404, "EndpointNotFound")


def test_a_key_is_added_once_and_only_so_many(alice: User, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"public_key": new_line()}
    assert api.post(KEYS, given).status == 201
    assert_error(api.post(KEYS, given), 409, "Exists")
    monkeypatch.setattr(ssh_keys, "MOST", 1)
    assert_error(api.post(KEYS, {"public_key": new_line()}), 409, "ClientError.LimitExceeded")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_application_can_give_itself_no_key(alice: User, method: str) -> None:
    """The key would be valid after the user has withdrawn the consent."""
    token = make(alice).own(scopes.TRANSFER_ALL).body["access_token"]
    client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {token}"})
    body = f'{{"public_key": "{new_line()}"}}'.encode()
    assert_error(read(client.generic(method, KEYS, body, "application/json")), 403, "PermissionDenied")
    assert not SshPublicKey.objects.exists()


def test_without_a_token_there_is_nothing() -> None:
    assert_error(Api(root="").get(KEYS), 401)
