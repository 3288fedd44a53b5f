"""A bucket as an endpoint: registered, activated by an access key, listed and changed through REST."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from endpoints import registry
from endpoints.activation import status as activation
from endpoints.addresses.openings import parse_openings
from endpoints.models import Endpoint, Server
from endpoints.permissions import Permission
from endpoints.registry import ServerSpec
from identity.models import User
from tests.integration.activated import activate
from tests.integration.rest import Api, assert_error
from tests.servers.s3_server import KEY, NEEDS_S3_SERVER, S3Server

pytestmark = [NEEDS_S3_SERVER, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def _places(settings: Any, tmp_path: Path) -> None:
    settings.CERTIFICATES = tmp_path / "certificates"
    settings.ALLOW_TARGETS = parse_openings("127.0.0.0/8,::1/128")


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create(username="alice")


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


@pytest.fixture
def name(server: S3Server, pin: str) -> str:
    made = f"bucket-{uuid.uuid4().hex[:8]}"
    asyncio.run(server.make_bucket(made, pin))
    return made


@pytest.fixture
def store(api: Api, alice: User, server: S3Server) -> Endpoint:
    """Registered through REST; the service reads the key of its certificate."""
    rows = [{"DATA_TYPE": "server", "uri": f"s3://localhost:{server.port}"}]
    answer = api.post("/endpoint", {"DATA_TYPE": "endpoint", "display_name": "store", "name": "store", "DATA": rows})
    assert answer.status == 201, answer.body
    return registry.resolve(alice, "store", Permission.VIEW)


def names(api: Api, path: str) -> dict[str, str]:
    answer = api.get("/operation/endpoint/store/ls", path=path)
    assert answer.status == 200, answer.body
    return {row["name"]: row["type"] for row in answer.body["DATA"]}


def give_key(api: Api, **more: str) -> Any:
    values = {"access_key_id": KEY.id, "secret_access_key": KEY.secret, **more}
    return activate(api, "store", "access_key", **values)


def test_a_bucket_is_listed_and_changed_by_the_key_of_a_user(
    api: Api, store: Endpoint, server: S3Server, pin: str, name: str
) -> None:
    assert Server.objects.get(endpoint=store).subject == pin
    answer = give_key(api)
    assert (answer.status, answer.code, answer.body["subject"]) == (200, "Activated.AccessKeyCredential", KEY.id)
    assert KEY.secret not in str(answer.body)
    assert name in names(api, "/")
    assert api.post("/operation/endpoint/store/mkdir", {"DATA_TYPE": "mkdir", "path": f"/{name}/new"}).status == 202
    again = api.post("/operation/endpoint/store/mkdir", {"DATA_TYPE": "mkdir", "path": f"/{name}/new"})
    assert_error(again, 502, "ExternalError.MkdirFailed.Exists")
    (server.data / name / "new" / "file").write_bytes(b"12345")
    assert (names(api, f"/{name}"), names(api, f"/{name}/new/")) == ({"new": "dir"}, {"file": "file"})
    answer = api.get("/operation/endpoint/store/stat", path=f"/{name}/new/file")
    assert (answer.body["type"], answer.body["size"]) == ("file", 5)
    missing = api.get("/operation/endpoint/store/ls", path=f"/{name}/none")
    assert_error(missing, 404, "ClientError.NotFound")
    body = {"DATA_TYPE": "rename", "old_path": f"/{name}/new/file", "new_path": f"/{name}/b"}
    assert api.post("/operation/endpoint/store/rename", body).status == 502


def test_without_a_key_or_with_a_wrong_one_nothing_is_listed(api: Api, store: Endpoint, name: str) -> None:
    unsigned = api.get("/operation/endpoint/store/ls", path=f"/{name}")
    assert_error(unsigned, 502, "ExternalError.DirListingFailed.PermissionDenied")
    give_key(api, secret_access_key="Wrong0secret")
    refused = api.get("/operation/endpoint/store/ls", path=f"/{name}")
    assert_error(refused, 502, "ExternalError.DirListingFailed.LoginFailed")
    assert "Wrong0secret" not in str(refused.body)


def test_a_key_of_an_object_store_is_no_password(api: Api, alice: User, store: Endpoint) -> None:
    """An owner who changes the address of the endpoint to a server without TLS does not get the keys of its users."""
    give_key(api)
    [server] = registry.servers(store)
    registry.update_server(alice, "store", server.pk, ServerSpec("127.0.0.1", 21, "ftp"))
    changed = Endpoint.objects.get(pk=store.pk)
    login = activation.logins(alice.pk, changed).at("127.0.0.1", 21, "")
    assert login.user == b"anonymous"


@pytest.mark.parametrize("wrong", ["two words", "ümlaut"])
def test_a_key_has_no_blanks(api: Api, store: Endpoint, wrong: str) -> None:
    assert_error(give_key(api, access_key_id=wrong), 400, "ClientError.BadRequest")
    assert_error(give_key(api, session_token=wrong), 400, "ClientError.BadRequest")
