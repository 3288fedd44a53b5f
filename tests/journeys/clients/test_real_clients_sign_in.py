"""The real clients, unmodified, against a running service: signing in, and asking who they are."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.browsers.real_browser import Browser
from tests.instance import Api
from tests.real_clients import FOLDER, GLOBUS, SDKS, Globus, environment, run_python

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


def test_a_wrong_secret_is_reported(globus: Globus) -> None:
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


# ---- as a user


PASSWORD = "correct horse battery staple"
SET_PASSWORD = """
import os, sys
from deploy.stack.embedded import use_embedded_stack
use_embedded_stack()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
import django
django.setup()
from identity.models import User
user, _ = User.objects.get_or_create(username="carol", email="carol@example.org")
user.set_password(sys.stdin.read())
user.save()
"""


@pytest.fixture(scope="module")
def carol(service: Api) -> str:
    """Somebody with a password."""
    environ = os.environ | {"WAYBILL_HOME": str(service.home)}
    subprocess.run([sys.executable, "-c", SET_PASSWORD], input=PASSWORD, text=True, env=environ, check=True, timeout=60)
    return "carol"


def code_from(address: str, name: str) -> str:
    """Open the address in a browser, sign in and allow the access. Return the code on the last page."""
    browser = Browser()
    browser.open(address)
    browser.press("Sign in", username=name, password=PASSWORD)
    browser.press("Allow")
    return browser.inputs["code"]


def globus_login(globus: Globus, name: str, *words: str) -> tuple[int | None, str]:
    """`globus login --no-local-server`, or other words, with the code pasted back: how it ended, and what it said."""
    process = subprocess.Popen(
        [str(GLOBUS), *(words or ("login",)), "--no-local-server"],
        env=globus.environment(), cwd=globus.home, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = next(word for line in process.stdout for word in line.split() if word.startswith("http"))
        told, _ = process.communicate(code_from(address, name) + "\n", timeout=60)
        return process.returncode, told
    finally:
        process.kill()
        process.wait()


def stored_tokens(globus: Globus) -> dict[str, dict[str, Any]]:
    """Return the tokens that the command has stored, by resource server."""
    with closing(sqlite3.connect(globus.home / ".globus" / "cli" / "storage.db")) as storage:
        rows = storage.execute("SELECT resource_server, token_data_json FROM token_storage").fetchall()
    return {server: json.loads(text) for server, text in rows}


def test_the_command_signs_a_user_in_and_out(service: Api, carol: str, tmp_path: Path) -> None:
    globus = Globus(service.url, tmp_path)
    status, told = globus_login(globus, carol)
    assert status == 0, told
    assert globus("whoami").out.strip() == f"{carol}@127.0.0.1"
    assert "carol@example.org" in globus("whoami", "--linked-identities", "-v").out
    session = globus.json("session", "show")
    assert len(session["authentications"]) == 1
    assert "already logged in" in globus("login", "--no-local-server").out
    tokens = stored_tokens(globus)
    assert set(tokens) >= {"auth.globus.org", "transfer.api.globus.org", "groups.api.globus.org"}
    globus("logout", "--yes")
    for one in tokens.values():
        for path in ("/v0.10/submission_id", "/v2/oauth2/userinfo"):
            assert _status(service.url + path, one["access_token"]) == 401


def test_what_is_not_here_ends_in_a_sentence(service: Api, carol: str, tmp_path: Path) -> None:
    """Flows, Search and the manager of a collection; a sign-in for one of these, and a new session."""
    globus = Globus(service.url, tmp_path)
    status, told = globus_login(globus, carol)
    assert status == 0, told
    for words in (
        ("flows", "list"),
        ("flows", "run", "list"),
        ("search", "index", "list"),
        ("search", "query", str(uuid.uuid4()), "-q", "x"),
    ):
        ran = globus(*words, status=1)
        assert "is not here" in ran.err, (words, ran.err)
        assert "Traceback" not in ran.err
    for words in (("login", "--gcs", str(uuid.uuid4())), ("session", "update", f"{carol}@127.0.0.1")):
        status, told = globus_login(globus, carol, *words)
        assert (status, "Traceback" in told) == (0, False), told
    assert "carol@127.0.0.1" in globus("session", "show").out
    endpoint = service.connection["endpoints"]["go#ep1"]
    ran = globus("gcs", "collection", "list", endpoint, status=None)
    assert ran.status != 0
    assert "Traceback" not in ran.err
    found = globus.json("get-identities", "carol@127.0.0.1", "demo@127.0.0.1", "go@127.0.0.1")
    names = [one["username"] for one in found["identities"]]
    assert names == ["carol@127.0.0.1", "demo@127.0.0.1", "go@127.0.0.1"]


def test_the_command_renews_what_has_expired(service: Api, carol: str, tmp_path: Path) -> None:
    globus = Globus(service.url, tmp_path)
    status, told = globus_login(globus, carol)
    assert status == 0, told
    before = stored_tokens(globus)["transfer.api.globus.org"]
    with closing(sqlite3.connect(tmp_path / ".globus" / "cli" / "storage.db")) as storage, storage:
        for server, one in stored_tokens(globus).items():
            old = json.dumps({**one, "expires_at_seconds": 1})
            storage.execute("UPDATE token_storage SET token_data_json = ? WHERE resource_server = ?", [old, server])
    globus("endpoint", "search", "sample")
    after = stored_tokens(globus)["transfer.api.globus.org"]
    assert after["access_token"] != before["access_token"]
    assert after["refresh_token"] == before["refresh_token"]


def test_an_application_signs_out_too(globus: Globus) -> None:
    assert globus("whoami").out.strip() == "demo@127.0.0.1"
    assert globus.json("session", "show")["authentications"] == {}
    globus("logout", "--yes")
    assert globus("whoami").out.strip() == "demo@127.0.0.1", "it gets a new token by its secret"


START_FLOW = """
import globus_sdk
OLD = globus_sdk.__version__.startswith("1.")
there = {"base_url": URL + "/"} if OLD else {}
if CLIENT_SECRET:
    client = globus_sdk.ConfidentialAppAuthClient(CLIENT_ID, CLIENT_SECRET, **there)
else:
    client = globus_sdk.NativeAppAuthClient(CLIENT_ID, **there)
scopes = "openid profile urn:globus:auth:scope:transfer.api.globus.org:all"
uri = URL + "/v2/web/auth-code" if not CLIENT_SECRET else REDIRECT_URI
options = {"verifier": VERIFIER} if not CLIENT_SECRET else {}
client.oauth2_start_flow(requested_scopes=scopes, redirect_uri=uri, refresh_tokens=True, **options)
"""
ADDRESS = START_FLOW + "print(client.oauth2_get_authorize_url())"
FINISH = (
    START_FLOW
    + """
found = client.oauth2_exchange_code_for_tokens(PASTED)
tokens = found.by_resource_server["transfer.api.globus.org"]
seen = []
authorizer = globus_sdk.RefreshTokenAuthorizer(
    tokens["refresh_token"], client, access_token=tokens["access_token"], expires_at=1, on_refresh=seen.append
)
transfer = globus_sdk.TransferClient(authorizer=authorizer, base_url=URL)
ids = [transfer.get_submission_id()["value"]]
authorizer.expires_at = 1
ids.append(transfer.get_submission_id()["value"])
kept = authorizer.refresh_token
client.oauth2_revoke_token(kept)
renewed = True
try:
    client.oauth2_refresh_token(kept)
except globus_sdk.AuthAPIError as error:
    renewed = error.http_status
print(json.dumps({
    "servers": sorted(found.by_resource_server), "ids": ids, "renewals": len(seen),
    "stayed": kept == tokens["refresh_token"], "renewed": renewed,
    "who": found.decode_id_token()["preferred_username"],
}))
"""
)


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("kind", ["public", "confidential"])
def test_a_user_lets_an_application_in_by_every_generation_of_the_sdk(
    service: Api, carol: str, tmp_path: Path, sdk: str, kind: str
) -> None:
    page = f"{service.url}/v2/web/auth-code"
    wanted = {"name": f"{kind} of {sdk}", "public_client": kind == "public", "redirect_uris": []}
    if kind == "confidential":
        # No server listens at this address: the test reads the code from the address of the redirect.
        wanted["redirect_uris"] = [page]
    made = service.call_as_signed_in("/v2/api/clients", {"client": wanted})
    secret = made["included"]["client_credential"]["secret"] if kind == "confidential" else ""
    given = {
        "client_id": made["client"]["id"], "client_secret": secret, "redirect_uri": page, "verifier": "v" * 60,
        "url": service.url, "home": tmp_path,
    }  # fmt: skip
    address = run_python(sdk, ADDRESS, **given).out.strip()
    told = run_python(sdk, FINISH, **given, pasted=code_from(address, carol)).json
    assert len(set(told.pop("ids"))) == 2
    assert told == {
        "servers": ["auth.globus.org", "transfer.api.globus.org"],
        "renewals": 2,
        "stayed": True,
        "renewed": 400,
        "who": f"{carol}@127.0.0.1",
    }


USER_APP = """
import globus_sdk
from globus_sdk.token_storage import JSONTokenStorage
config = globus_sdk.GlobusAppConfig(
    token_storage=JSONTokenStorage(FILE), request_refresh_tokens=True, login_flow_manager="command-line"
)
app = globus_sdk.UserApp("shared", client_id=CLIENT_ID, config=config)
transfer = globus_sdk.TransferClient(app=app, base_url=URL)
"""
USER_APP_LOGIN = (
    USER_APP
    + """
from globus_sdk.login_flows import CommandLineLoginFlowManager
class Pasting(CommandLineLoginFlowManager):
    def print_authorize_url(self, url):
        print(url, flush=True)
    def prompt_for_code(self):
        return given.readline().strip()
given = open(PIPE)
app._login_flow_manager = Pasting(app._login_client, request_refresh_tokens=True)
app.login()
"""
)
SHARED_BY_TWO = (
    USER_APP
    + """
import multiprocessing, pathlib
file = pathlib.Path(FILE)
def expire():
    whole = json.loads(file.read_text())
    for one in whole["data"]["DEFAULT"].values():
        one["expires_at_seconds"] = 1
    file.write_text(json.dumps(whole))
def work(barrier, lock, told):
    from globus_sdk.authorizers import RefreshTokenAuthorizer
    own = globus_sdk.UserApp("shared", client_id=CLIENT_ID, config=config)
    client = globus_sdk.TransferClient(app=own, base_url=URL)
    for authorizer in own._authorizer_factory._authorizer_cache.values():
        assert isinstance(authorizer, RefreshTokenAuthorizer)
    own.get_authorizer("transfer.api.globus.org")
    # Both have read the file now: the second renews with what the first has used.
    barrier.wait(30)
    # One after another: the SDK writes its file without a lock.
    with lock:
        told.put(client.get_submission_id()["value"])
expire()
context = multiprocessing.get_context("fork")
barrier, lock, told = context.Barrier(2), context.Lock(), context.Queue()
workers = [context.Process(target=work, args=(barrier, lock, told)) for _ in range(2)]
for one in workers:
    one.start()
ids = [told.get(timeout=50) for _ in workers]
for one in workers:
    one.join(50)
expire()
ids.append(transfer.get_submission_id()["value"])
print(json.dumps([ids, [one.exitcode for one in workers]]))
"""
)


def test_two_processes_share_the_tokens_of_one_file(service: Api, carol: str, tmp_path: Path) -> None:
    """globus-sdk's UserApp, a native application: each process renews with the refresh token of the same file."""
    made = service.call_as_signed_in("/v2/api/clients", {"client": {"name": "shared", "public_client": True}})
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given = {"client_id": made["client"]["id"], "file": str(tmp_path / "tokens.json"), "pipe": str(pipe)}
    names = {"URL": service.url, **{name.upper(): value for name, value in given.items()}}
    start = "import json, sys\nglobals().update(json.load(sys.stdin))\n"
    login = subprocess.Popen(
        [str(FOLDER / "sdk4" / "bin" / "python"), "-W", "ignore", "-c", start + USER_APP_LOGIN],
        env=environment(service.url, tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert login.stdin is not None
        assert login.stdout is not None
        login.stdin.write(json.dumps(names))
        login.stdin.close()
        # For reading too, so that this does not wait for a program that has failed.
        with os.fdopen(os.open(pipe, os.O_RDWR), "w") as answer:
            answer.write(code_from(login.stdout.readline().strip(), carol) + "\n")
        assert login.wait(60) == 0
    finally:
        login.kill()
        login.wait()
        assert login.stdout is not None
        login.stdout.close()
    ids, statuses = run_python("sdk4", SHARED_BY_TWO, url=service.url, home=tmp_path, **given).json
    assert (len(set(ids)), statuses) == (3, [0, 0])


CLIENT_APP = """
import globus_sdk
config = globus_sdk.GlobusAppConfig(token_storage="memory")
app = globus_sdk.ClientApp("gateway", client_id=CLIENT_ID, client_secret=CLIENT_SECRET, config=config)
transfer = globus_sdk.TransferClient(app=app, base_url=URL)
auth = globus_sdk.AuthClient(app=app)
print(json.dumps([transfer.get_submission_id()["value"], auth.userinfo()["preferred_username"],
    globus_sdk.IdentityMap(auth, ["carol@127.0.0.1", "go@127.0.0.1"])["carol@127.0.0.1"]["id"]]))
"""


def test_the_apps_of_the_newest_sdk(service: Api, carol: str, tmp_path: Path) -> None:
    client = service.connection["client"]
    given = {"client_id": client["id"], "client_secret": client["secret"]}
    found = run_python("sdk4", CLIENT_APP, url=service.url, home=tmp_path, **given).json
    assert found[1] == "demo@127.0.0.1"
    assert all(uuid.UUID(one) for one in (found[0], found[2]))


def _status(address: str, token: str) -> int:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


# Demands a new sign-in at the sample endpoint, and makes all sign-ins two hours old; with "none" takes the demand back.
DEMAND = """
import os, sys
from deploy.stack.embedded import use_embedded_stack
use_embedded_stack()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
import django
django.setup()
from datetime import timedelta
from django.db.models import F
from endpoints.models import Endpoint
from identity.models import SignIn
minutes = None if sys.stdin.read() == "none" else 60
Endpoint.objects.filter(name="ep1", owner__username="go").update(authentication_timeout_mins=minutes)
if minutes:
    SignIn.objects.update(authenticated_at=F("authenticated_at") - timedelta(hours=2))
"""


def test_the_command_says_how_to_meet_a_demand_and_does_it(service: Api, carol: str, tmp_path: Path) -> None:
    def demand(words: str) -> None:
        environ = os.environ | {"WAYBILL_HOME": str(service.home)}
        subprocess.run([sys.executable, "-c", DEMAND], input=words, text=True, env=environ, check=True, timeout=60)

    globus = Globus(service.url, tmp_path)
    status, told = globus_login(globus, carol)
    assert status == 0, told
    place = f"{service.connection['endpoints']['go#ep1']}:/share/godata/"
    demand("yes")
    try:
        refused = globus("ls", place, status=None)
        assert refused.status == 4, refused.out + refused.err
        shown = re.search(r"globus (session update \S+)", refused.out + refused.err)
        assert shown is not None, refused.out + refused.err
        status, told = globus_login(globus, carol, *shown[1].split())
        assert status == 0, told
        after = globus("ls", place, status=None)
        assert "session update" not in after.out + after.err
        assert after.status != 4
    finally:
        demand("none")
