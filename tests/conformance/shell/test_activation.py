"""endpoint-activate and endpoint-deactivate of the shell, with real MyProxy, OAuth and GridFTP servers."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client as WebClient

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.free_ports import free_port
from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.models import User
from identity.vault import store as vault
from tests.gridftp.authority import Authority
from tests.gridftp.myproxy import MyProxyServer
from tests.gridftp.toolkit import ToolkitServer
from tests.identity_providers.oauth_server import OAuthSite
from tests.integration.activated import proxy_of, push
from tests.integration.cast import make_user
from tests.integration.rest import Api
from tests.integration.shared import give, make_share
from tests.shell_context import Shell

pytestmark = [pytest.mark.django_db, pytest.mark.toolkit]

PASSPHRASE = "correct horse battery"


@pytest.fixture(autouse=True)
def _places(settings: Any, authority: Authority) -> None:
    settings.CERTIFICATES = authority.certificates
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")


@pytest.fixture
def alice(db: None) -> User:
    return make_user("alice")


@pytest.fixture
def shell(alice: User) -> Shell:
    """With a person at a terminal."""
    return Shell(alice, interactive=True)


@pytest.fixture
def script(alice: User) -> Shell:
    return Shell(alice)


@pytest.fixture
def myproxy(myproxy_server: MyProxyServer, alices: CertificateFiles) -> MyProxyServer:
    """It keeps a credential of alice's under the name "al"."""
    myproxy_server.keep("al", PASSPHRASE, alices)
    return myproxy_server


def make(owner: User, name: str, **fields: object) -> Endpoint:
    """No server of it is asked."""
    return registry.create(owner, {"name": name, **fields}, [ServerSpec("127.0.0.1", free_port())])


def status(shell: Shell, name: str) -> str:
    return shell.ok(f"endpoint-details {name} -f credential_status -O csv").strip()


def test_a_passphrase_is_asked_for_without_echo_and_the_credential_serves(
    shell: Shell, script: Shell, folder: Path, gsi_server_factory: Callable[..., ToolkitServer], myproxy: MyProxyServer,
    alices: CertificateFiles,
) -> None:  # fmt: skip
    (folder / "file").write_bytes(b"12345")
    server = ServerSpec("127.0.0.1", gsi_server_factory(folder).port)
    registry.create(shell.user, {"name": "place", "myproxy_server": f"127.0.0.1:{myproxy.port}"}, [server])
    assert "endpoint-activate alice#place" in script.fails(f"ls place{folder}")
    shell.answers = ["al", PASSPHRASE]
    out = shell.ok("endpoint-activate place")
    assert out.startswith(f"Username at 127.0.0.1:{myproxy.port}: al\nPassphrase: \n")
    assert f"you are {alices.subject}" in out
    assert PASSPHRASE not in out
    assert script.ok(f"ls place{folder}") == "file\n"
    for line in ("endpoint-activate place", "endpoint-activate -g place", "endpoint-activate alice#* place"):
        assert shell.ok(line) == script.ok(line) == ""


def test_options_name_the_server_the_user_and_the_lifetime(shell: Shell, myproxy: MyProxyServer) -> None:
    make(shell.user, "place")
    shell.answers = [PASSPHRASE]
    shell.ok(f"endpoint-activate -m 127.0.0.1:{myproxy.port} -U al --myproxy-lifetime 2 place")
    left = shell.ok("endpoint-list place").split()[1]
    assert left[:3] == "01:"
    make(shell.user, "second")
    shell.answers = [PASSPHRASE]
    wrong = shell.run(f"endpoint-activate -m 127.0.0.1:{myproxy.port} -U al --dn /CN=another second")
    assert (wrong.status, status(shell, "second")) == (1, "n/a")


def test_one_passphrase_serves_all_endpoints_of_a_server(shell: Shell, myproxy: MyProxyServer) -> None:
    for name in ("x1", "x2", "other"):
        make(shell.user, name, myproxy_server=f"127.0.0.1:{myproxy.port}")
    shell.answers = ["al", PASSPHRASE]
    shell.ok("endpoint-activate x* other")
    assert [status(shell, name) for name in ("x1", "x2", "other")] == ["ACTIVE"] * 3


def test_a_short_credential_is_renewed_only_where_a_person_can_be_asked(
    shell: Shell, script: Shell, alices: CertificateFiles, myproxy: MyProxyServer
) -> None:
    make(shell.user, "place", myproxy_server=f"127.0.0.1:{myproxy.port}")
    push(Api(shell.user), "place", proxy_of(alices, hours=0.3))
    assert script.ok("endpoint-activate place") == ""
    assert shell.ok("endpoint-activate -g place") == ""
    shell.answers = ["al", PASSPHRASE]
    assert "Passphrase: " in shell.ok("endpoint-activate place")
    assert shell.ok("endpoint-list place").split()[1] > "01:00:00"


def test_without_a_terminal_nothing_is_asked_and_one_line_names_the_way(
    script: Shell, shell: Shell, settings: Any, myproxy: MyProxyServer
) -> None:
    place = make(script.user, "place", myproxy_server=f"127.0.0.1:{myproxy.port}")
    for line in ("endpoint-activate place", "endpoint-activate place -U al", "endpoint-activate -g place"):
        error = script.fails(line)
        assert error.count("\n") == 1
        assert "ssh -t" in error
        assert f"{settings.PUBLIC_URL}/endpoints/{place.pk}/activate" in error
    assert "no credential of gsissh" in shell.fails("endpoint-activate -g place")


def test_what_goes_wrong_is_said_and_no_passphrase_is_shown(
    shell: Shell, myproxy: MyProxyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    make(shell.user, "place", myproxy_server=f"127.0.0.1:{myproxy.port}")
    shell.answers = ["al", "wrong passphrase of a person"]
    found = shell.run("endpoint-activate place")
    assert (found.status, found.err.count("\n")) == (1, 1)
    assert "passphrase" in found.err
    assert "wrong passphrase of a person" not in f"{found}{caplog.text}"
    shell.answers = ["al", ""]
    assert "The passphrase is empty" in shell.run("endpoint-activate place").err
    shell.answers = ["al"]
    assert shell.run("endpoint-activate place").status == 130
    assert "leave out -P" in shell.fails("endpoint-activate -P secret-word place")
    assert "S3" in shell.fails("endpoint-activate --s3 place")
    assert "No endpoint fits 'nix*'" in shell.fails("endpoint-activate nix*")
    assert "takes a number from 1 to 8760" in shell.fails("endpoint-activate --myproxy-lifetime 0 place")
    assert status(shell, "place") == "n/a"


def test_of_several_endpoints_each_failure_is_reported(shell: Shell, script: Shell) -> None:
    make(shell.user, "bare")
    registry.create(shell.user, {"name": "open"}, [ServerSpec("127.0.0.1", 21, "ftp")])
    found = script.run("endpoint-activate nix open bare")
    assert (found.status, found.out) == (1, "")
    assert [line.split(": ")[1] for line in found.err.splitlines()] == ["nix", "bare"]
    assert "names no server that issues credentials" in shell.fails("endpoint-activate bare")


def test_an_oauth_server_signs_in_by_its_page(shell: Shell, script: Shell, oauth_site: OAuthSite) -> None:
    make(shell.user, "place", oauth_server=oauth_site.url)
    found = script.run("endpoint-activate place")
    assert found.status == 1
    [address] = re.findall(r"^Sign in at (https://\S+)$", found.out, re.MULTILINE)
    assert found.err.count("\n") == 1
    landed = urlsplit(oauth_site.consent(address))
    page = WebClient().get(f"{landed.path}?{landed.query}").content.decode()
    line = re.search(r"<pre>(.*)</pre>", page)
    assert line
    shell.answers = [unescape(line[1])]
    out = shell.ok("endpoint-activate place")
    assert unescape(line[1]) not in out
    assert (status(shell, "place"), script.ok("endpoint-activate place")) == ("ACTIVE", "")


def test_an_oauth_server_that_is_away_leaves_the_other_ways(shell: Shell) -> None:
    make(shell.user, "place", oauth_server=f"https://127.0.0.1:{free_port()}/oauth2")
    error = shell.fails("endpoint-activate place")
    assert "cannot be reached now" in error
    assert "/activate" in error


def test_deactivation_takes_the_credential_back(shell: Shell, alices: CertificateFiles) -> None:
    make(shell.user, "place")
    push(Api(shell.user), "place", proxy_of(alices))
    assert status(shell, "place") == "ACTIVE"
    assert shell.ok("endpoint-deactivate place") == "The endpoint was deactivated\n"
    assert status(shell, "place") == "n/a"
    assert shell.ok("endpoint-deactivate place") == "The endpoint was not activated\n"
    push(Api(shell.user), "place", proxy_of(alices))
    vault.expire(datetime.now(UTC) + timedelta(days=1))
    assert status(shell, "place") == "EXPIRED"


def test_activation_as_json_is_the_document_of_rest(shell: Shell, alices: CertificateFiles) -> None:
    make(shell.user, "place")
    push(Api(shell.user), "place", proxy_of(alices))
    of_rest = Api(shell.user).post("/endpoint/place/autoactivate").body
    shown = shell.run("endpoint-activate place -O json").json
    for name in ("request_id", "expires_in"):
        of_rest.pop(name)
        shown.pop(name)
    assert {**shown, "resource": of_rest["resource"]} == of_rest


def test_a_share_is_activated_by_its_owner_only(shell: Shell, alice: User) -> None:
    bob, charlie = make_user("bob"), make_user("charlie")
    host = make(alice, "host")
    give(make_share(host, "share"), bob)
    error = Shell(bob, interactive=True).fails("endpoint-activate alice#share")
    assert "Its owner has to activate" in error
    assert "alice#host" not in error
    assert "endpoint-activate alice#host" in shell.fails("endpoint-activate share")
    for name in ("alice#share", "alice#host"):
        assert Shell(charlie).fails(f"endpoint-activate {name}") == f"Error: No such endpoint '{name}'\n"
        assert "No such endpoint" in Shell(charlie).fails(f"endpoint-deactivate {name}")
    assert "No endpoint fits" in Shell(charlie).fails("endpoint-activate alice#*")
