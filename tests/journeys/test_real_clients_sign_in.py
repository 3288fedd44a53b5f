"""The real clients, unmodified, against a running service: signing in, and asking who they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.instance import Api
from tests.real_clients import SDKS, Globus, run_python

pytestmark = pytest.mark.real_clients


@pytest.fixture
def globus(service: Api, tmp_path: Path) -> Globus:
    """Signed in as the sample user's application."""
    client = service.connection["client"]
    return Globus(service.url, tmp_path, (client["id"], client["secret"]))


def test_the_command_signs_in_by_id_and_secret(globus: Globus, service: Api) -> None:
    found = globus.json("endpoint", "search", "sample")
    assert {row["canonical_name"] for row in found["DATA"]} == {"go#ep1", "go#ep2"}
    listing = globus("ls", f"{service.connection['endpoints']['go#ep1']}:/share/godata/")
    assert listing.out.split() == ["file1.txt", "file2.txt", "file3.txt"]


def test_the_command_keeps_its_token(globus: Globus, service: Api) -> None:
    """It would ask for a new one each time if the answer's scopes were not those that it had asked for."""
    globus("endpoint", "search", "sample")
    log = service.home / "logs" / "web.log"
    asked = log.read_text().count("/v2/oauth2/token: 200")
    globus("endpoint", "search", "sample")
    assert log.read_text().count("/v2/oauth2/token: 200") == asked


def test_a_wrong_secret_is_told(globus: Globus) -> None:
    wrong = Globus(globus.url, globus.home, ((globus.client or ("", ""))[0], "wrong"))
    assert "invalid_client" in wrong("endpoint", "search", "sample", status=1).err


CLIENT_CREDENTIALS = """
import globus_sdk
# The oldest does not look for the address in its environment.
OLD = globus_sdk.__version__.startswith("1.")
client = globus_sdk.ConfidentialAppAuthClient(CLIENT_ID, CLIENT_SECRET, **({"base_url": URL + "/"} if OLD else {}))
scope = "urn:globus:auth:scope:transfer.api.globus.org:all"
tokens = client.oauth2_client_credentials_tokens(requested_scopes=scope).by_resource_server
token = tokens["transfer.api.globus.org"]
transfer = globus_sdk.TransferClient(
    authorizer=globus_sdk.AccessTokenAuthorizer(token["access_token"]), base_url=URL
)
found = [row["canonical_name"] for row in transfer.endpoint_search("sample")]
print(json.dumps([sorted(tokens), token["scope"], token["expires_at_seconds"], sorted(found)]))
"""


@pytest.mark.parametrize("sdk", SDKS)
def test_an_application_gets_a_token_by_every_generation_of_the_sdk(service: Api, tmp_path: Path, sdk: str) -> None:
    client = service.connection["client"]
    told = run_python(
        sdk,
        CLIENT_CREDENTIALS,
        url=service.url,
        home=tmp_path,
        client_id=client["id"],
        client_secret=client["secret"],
    )
    servers, scope, _, found = json.loads(told.out)
    assert servers == ["transfer.api.globus.org"]
    assert scope == "urn:globus:auth:scope:transfer.api.globus.org:all"
    assert found == ["go#ep1", "go#ep2"]
