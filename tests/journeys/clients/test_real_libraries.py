"""Libraries of others that sign a user in, unmodified: UserApp in two processes, fair-research-login, authlib."""

from __future__ import annotations

import urllib.error
import uuid
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.instance import Api
from tests.journeys.conftest import waybill
from tests.real_programs import Program, allow, application, is_good

pytestmark = pytest.mark.real_clients
TRANSFER_ALL = "urn:globus:auth:scope:transfer.api.globus.org:all"


# ---- globus-sdk: UserApp, whose file of tokens two processes share


USER_APP = """
import pathlib, globus_sdk
config = globus_sdk.GlobusAppConfig(
    token_storage=globus_sdk.token_storage.JSONTokenStorage(pathlib.Path("tokens.json").resolve()),
    request_refresh_tokens=True,
)
app = globus_sdk.UserApp("shared", client_id=CLIENT_ID, config=config)
transfer = globus_sdk.TransferClient(app=app)
if LOGIN:
    app.login()
storage = app._token_storage if hasattr(app, "_token_storage") else app.token_storage
def data():
    stored = json.loads(pathlib.Path("tokens.json").read_text())
    return next(iter(stored["data"].values()))["transfer.api.globus.org"]
print(json.dumps({"ready": True}))
for line in sys.stdin:
    told = {}
    try:
        if line.strip() == "list":
            told = {"tasks": len(transfer.task_list(limit=1)["DATA"])}
        elif line.strip() == "leave":
            app.logout()
        told["file"] = data() if line.strip() != "leave" else {}
    except Exception as error:
        told["error"] = repr(error)
    print(json.dumps(told))
"""


def expire(file: Path, tokens: dict[str, object]) -> None:
    """The access token of the file has expired, as far as the programs know."""
    text = file.read_text()
    old = str(tokens["expires_at_seconds"])
    assert old in text
    file.write_text(text.replace(old, "1"))


def test_two_processes_share_a_file_of_tokens(service: Api, tmp_path: Path) -> None:
    """Each renews by the refresh token that it has read from the file; neither ends the sign-in of the other."""
    client, _ = application(service, "UserApp", public=True)
    file = tmp_path / "tokens.json"

    def program(login: str) -> Program:
        return Program("sdk4", USER_APP, service, tmp_path, {"client_id": client, "login": login})

    with program("yes") as first:
        first.write(allow(first.address(), service).inputs["code"])
        assert first.json() == {"ready": True}
        first.write("list")
        tokens = first.json()["file"]
        expire(file, tokens)
        with program("") as second, program("") as third:
            assert second.json() == third.json() == {"ready": True}
            # Both have read the same refresh token, and an access token that has expired. They renew one after the
            # other, for the SDK truncates the file before it writes it, and another that reads it then fails.
            for sharing in (second, third):
                sharing.write("list")
                one = sharing.json()
                assert one.get("tasks") == 1, one
                assert one["file"]["access_token"] != tokens["access_token"]
                assert one["file"]["refresh_token"] == tokens["refresh_token"]
            # The first has its own access token still.
            first.write("list")
            renewed = first.json()["file"]["access_token"]
            assert is_good(service, renewed)
            # It signs out for all of them.
            first.write("leave")
            assert "error" not in first.json()
            assert not is_good(service, renewed)
            second.write("list")
            assert "error" in second.json()


# ---- globus-sdk, with a client id that is compiled into a program


COMPILED_IN = """
import globus_sdk
client = globus_sdk.NativeAppAuthClient(CLIENT_ID)
client.oauth2_start_flow(
    requested_scopes=["openid", "urn:globus:auth:scope:transfer.api.globus.org:all"], redirect_uri=PAGE,
    refresh_tokens=True,
)
print(client.oauth2_get_authorize_url())
tokens = client.oauth2_exchange_code_for_tokens(sys.stdin.readline().strip())
mine = tokens.by_resource_server["transfer.api.globus.org"]
old = mine["access_token"]
authorizer = globus_sdk.RefreshTokenAuthorizer(mine["refresh_token"], client, access_token=old, expires_at=1)
globus_sdk.TransferClient(authorizer=authorizer).task_list(limit=1)
print(json.dumps({"first": old, "renewed": authorizer.access_token}))
"""
GLOBUS_PAGE = "https://auth.globus.org/v2/web/auth-code"


@pytest.mark.parametrize("sdk", ["sdk4", "sdk3"])
def test_a_program_with_a_client_id_compiled_in_comes_back_by_the_page_of_globus(
    service: Api, tmp_path: Path, sdk: str
) -> None:
    """The user copies the code from that page, to which the browser of the test does not go."""
    client = str(uuid.uuid4())
    with Program(sdk, COMPILED_IN, service, tmp_path, {"client_id": client, "page": GLOBUS_PAGE}) as program:
        address = program.address()
        with pytest.raises(urllib.error.HTTPError, match="400"):
            allow(address, service)
        waybill(service, "client", "add", "--id", client, "--label", "A program of others")
        end = urlsplit(allow(address, service).address)
        assert f"{end.scheme}://{end.netloc}{end.path}" == GLOBUS_PAGE
        program.write(parse_qs(end.query)["code"][0])
        found = program.json()
    assert found["renewed"] != found["first"]
    assert is_good(service, found["renewed"])
    waybill(service, "client", "remove", "--id", client)
    assert not is_good(service, found["renewed"])


# ---- fair-research-login


FAIR = """
import globus_sdk
from fair_research_login import NativeClient, JSONTokenStorage
client = NativeClient(client_id=CLIENT_ID, app_name="fair", token_storage=JSONTokenStorage("fair.json"))
scopes = ["openid", "profile", "urn:globus:auth:scope:transfer.api.globus.org:all"]
tokens = client.login(requested_scopes=scopes, refresh_tokens=True, no_browser=True)
mine = tokens["transfer.api.globus.org"]
def tasks():
    authorizer = client.get_authorizers()["transfer.api.globus.org"]
    return globus_sdk.TransferClient(authorizer=authorizer).task_list(limit=1)["DATA"]
tasks()
stored = json.load(open("fair.json"))
for one in stored.values():
    one["expires_at_seconds"] = 1
json.dump(stored, open("fair.json", "w"))
tasks()
renewed = client.load_tokens()["transfer.api.globus.org"]
client.logout()
print(json.dumps({"servers": sorted(tokens), "first": mine, "renewed": renewed, "left": client._load_raw_tokens()}))
"""


def test_fair_research_login_uses_a_server_of_its_own(service: Api, tmp_path: Path) -> None:
    """It comes back to `http://localhost:PORT`, with a port that nobody has registered."""
    client, _ = application(service, "fair-research-login", public=True)
    with Program("fair", FAIR, service, tmp_path, {"client_id": client}) as program:
        end = allow(program.address(), service)
        assert "Login Successful" in end.text
        found = program.json()
    assert found["servers"] == ["auth.globus.org", "transfer.api.globus.org"]
    assert found["renewed"]["access_token"] != found["first"]["access_token"]
    assert found["renewed"]["refresh_token"] == found["first"]["refresh_token"]
    assert found["left"] == {}
    assert not is_good(service, found["renewed"]["access_token"])


# ---- authlib


AUTHLIB = """
import requests
from authlib.integrations.requests_client import OAuth2Session
from joserfc import jwt
from joserfc.jwk import KeySet
facts = requests.get(URL + "/.well-known/openid-configuration").json()
session = OAuth2Session(
    CLIENT_ID, CLIENT_SECRET, scope="openid profile " + SCOPE, redirect_uri=REDIRECT_URI,
    code_challenge_method="S256", token_endpoint=facts["token_endpoint"],
)
verifier = "v" * 64
address, state = session.create_authorization_url(
    facts["authorization_endpoint"], code_verifier=verifier, access_type="offline", nonce="n-1"
)
print(address)
answer = sys.stdin.readline().strip()
token = session.fetch_token(facts["token_endpoint"], authorization_response=answer, code_verifier=verifier, state=state)
keys = KeySet.import_key_set(requests.get(facts["jwks_uri"]).json())
claims = jwt.decode(token["id_token"], keys, algorithms=facts["id_token_signing_alg_values_supported"]).claims
who = session.get(facts["userinfo_endpoint"]).json()
transfer = next(one for one in token["other_tokens"] if one["resource_server"] == "transfer.api.globus.org")
user = OAuth2Session(CLIENT_ID, CLIENT_SECRET, token=transfer, token_endpoint=facts["token_endpoint"])
tasks = user.get(URL + "/v0.10/task_list?limit=1")
renewed = user.refresh_token(facts["token_endpoint"], refresh_token=transfer["refresh_token"])
again = user.get(URL + "/v0.10/task_list?limit=1")
left = user.revoke_token(facts["revocation_endpoint"], token=renewed["access_token"], token_type_hint="access_token")
print(json.dumps({
    "issuer": claims["iss"], "same": claims["sub"] == who["sub"], "audience": claims["aud"], "nonce": claims["nonce"],
    "statuses": [tasks.status_code, again.status_code, left.status_code], "renewed": renewed["access_token"],
    "changed": renewed["access_token"] != transfer["access_token"], "first": token["resource_server"],
}))
"""


def test_authlib_signs_in_by_discovery_and_checks_the_identity(service: Api, tmp_path: Path) -> None:
    # The test reads the answer from the address of the last page: the program itself listens nowhere.
    page = f"{service.url}/v2/web/auth-code"
    client, secret = application(service, "authlib", page)
    given = {"client_id": client, "client_secret": secret, "redirect_uri": page, "scope": TRANSFER_ALL}
    with Program("authlib", AUTHLIB, service, tmp_path, given) as program:
        program.write(allow(program.address(), service).address)
        found = program.json()
    assert not is_good(service, found.pop("renewed"))
    assert found == {
        "issuer": service.url, "same": True, "audience": client, "nonce": "n-1",
        "statuses": [200, 200, 200], "changed": True, "first": "auth.globus.org",
    }  # fmt: skip
