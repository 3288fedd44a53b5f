"""Activation against real servers: a credential by each form, and then a listing that only its owner gets."""

from __future__ import annotations

import logging
import re
import socket
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_public_key
from django.core import mail
from django.db import connection
from django.test import Client as WebClient

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.free_ports import free_port
from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from endpoints.registry import ServerSpec
from identity.gsi.proxies import sign_proxy
from identity.models import User
from tests.gridftp import sshd
from tests.gridftp.authority import Authority
from tests.gridftp.myproxy import MyProxyServer
from tests.gridftp.sshd import SshServer
from tests.gridftp.toolkit import ToolkitServer, hand_over
from tests.identity_providers.oauth_server import OAuthSite
from tests.integration.activated import activate, filled, proxy_of, push
from tests.integration.rest import Answer, Api, assert_error

pytestmark = [pytest.mark.django_db, pytest.mark.toolkit]

PASSPHRASE = "correct horse battery"


@pytest.fixture(autouse=True)
def _places(settings: Any, authority: Authority) -> None:
    settings.CERTIFICATES = authority.certificates
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create(username="alice")


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create(username="bob")


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


@pytest.fixture
def place(alice: User, folder: Path, gsi_server_factory: Callable[..., ToolkitServer]) -> Callable[..., Endpoint]:
    """Makes endpoints of alice's, each with a GSI server of its own over `folder`."""
    (folder / "file").write_bytes(b"12345")

    def make(name: str = "place", **fields: object) -> Endpoint:
        server = gsi_server_factory(folder)
        return registry.create(alice, {"name": name, **fields}, [ServerSpec("127.0.0.1", server.port)])

    return make


def ls(api: Api, folder: Path, name: str = "place") -> list[str]:
    answer = api.get(f"/operation/endpoint/{name}/ls", path=str(folder))
    assert answer.status == 200, answer.body
    return [row["name"] for row in answer.body["DATA"]]


def _sees_the_files(api: Api, folder: Path, answer: Answer, code: str) -> None:
    assert (answer.status, answer.code) == (200, code), answer.body
    assert ls(api, folder) == ["file"]
    place = "/operation/endpoint/place"
    assert api.get(f"{place}/stat", path=f"{folder}/file").body["size"] == 5
    assert api.post(f"{place}/mkdir", {"path": f"{folder}/new"}).status == 202
    assert api.post(f"{place}/rename", {"old_path": f"{folder}/new", "new_path": f"{folder}/newer"}).status == 200
    assert (folder / "newer").is_dir()


# ---- by each form


def test_a_proxy_that_was_pushed_logs_in(
    api: Api, folder: Path, place: Callable[..., Endpoint], alices: CertificateFiles
) -> None:
    place()
    assert_error(api.get("/operation/endpoint/place/ls", path=str(folder)), 400, "ClientError.ActivationRequired")
    _sees_the_files(api, folder, push(api, "place", proxy_of(alices)), "Activated.ClientProxyCredential")


def test_a_delegated_proxy_logs_in(
    api: Api, folder: Path, place: Callable[..., Endpoint], alices: CertificateFiles
) -> None:
    """Two proxies deep: what the user signs with is a proxy itself."""
    place()
    wanted = api.get("/endpoint/place/activation_requirements").body
    [key] = [row["value"] for row in wanted["DATA"] if row["name"] == "public_key"]
    issuer = proxy_of(alices, hours=3)
    public = load_pem_public_key(key.encode())
    proxy = sign_proxy(issuer, public, lifetime=timedelta(hours=1), now=datetime.now(UTC))  # type: ignore[arg-type]
    certificates = (proxy, issuer.certificate, *issuer.chain)
    chain = "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)
    answer = api.post("/endpoint/place/activate", filled(wanted, "delegate_proxy", proxy_chain=chain))
    _sees_the_files(api, folder, answer, "Activated.ClientProxyCredential")


def test_a_credential_from_myproxy_logs_in(
    api: Api, folder: Path, place: Callable[..., Endpoint], alices: CertificateFiles, myproxy_server: MyProxyServer
) -> None:
    myproxy_server.keep("al", PASSPHRASE, alices)
    place(myproxy_server=f"127.0.0.1:{myproxy_server.port}")
    wanted = api.get("/endpoint/place/activation_requirements").body
    given = filled(wanted, "myproxy", username="al", passphrase=PASSPHRASE, lifetime_in_hours=2)
    answer = api.post("/endpoint/place/activate", given)
    assert 7000 < answer.body["expires_in"] <= 7200
    assert answer.body["subject"] == alices.subject
    _sees_the_files(api, folder, answer, "Activated.MyProxyCredential")


def test_a_certificate_of_an_online_authority_logs_in(
    api: Api, folder: Path, place: Callable[..., Endpoint], myproxy_server_factory: Callable[..., MyProxyServer]
) -> None:
    server = myproxy_server_factory(accounts={"carol": PASSPHRASE})
    place(myproxy_server=f"localhost:{server.port}", myproxy_dn=server.host.subject)
    answer = activate(api, "place", "myproxy", username="carol", passphrase=PASSPHRASE)
    _sees_the_files(api, folder, answer, "Activated.MyProxyCredential")


def test_a_user_may_name_another_myproxy_server_and_it_serves_that_endpoint_only(
    api: Api, folder: Path, place: Callable[..., Endpoint], alices: CertificateFiles, myproxy_server: MyProxyServer
) -> None:
    myproxy_server.keep("al", PASSPHRASE, alices)
    place()
    place("other")
    values = {"username": "al", "passphrase": PASSPHRASE, "hostname": f"127.0.0.1:{myproxy_server.port}"}
    answer = activate(api, "place", "myproxy", **values)
    _sees_the_files(api, folder, answer, "Activated.MyProxyCredential")
    assert not api.get("/endpoint/other").body["activated"]


def test_a_certificate_from_an_oauth_server_logs_in(
    api: Api, folder: Path, place: Callable[..., Endpoint], oauth_site: OAuthSite
) -> None:
    place(oauth_server=oauth_site.url)
    wanted = api.get("/endpoint/place/activation_requirements").body
    assert wanted["oauth_server"] == oauth_site.url
    values = {row["name"]: row["value"] for row in wanted["DATA"] if row["type"] == "oauth"}
    landed = urlsplit(oauth_site.consent(values["authorization_url"]))
    page = WebClient().get(f"{landed.path}?{landed.query}").content.decode()
    line = re.search(r"<pre>(.*)</pre>", page)
    assert line
    given = filled(wanted, "oauth", code=unescape(line[1]), lifetime_in_hours="1")
    answer = api.post("/endpoint/place/activate", given)
    _sees_the_files(api, folder, answer, "Activated.OAuthCredential")
    assert_error(api.post("/endpoint/place/activate", given), 400, "ClientError.ActivationExpired")


def test_a_sign_in_that_another_user_began_is_none_of_mine(
    api: Api, bob: User, place: Callable[..., Endpoint], oauth_site: OAuthSite
) -> None:
    """Otherwise a user could be made to use another user's credential."""
    place(oauth_server=oauth_site.url, public=True)
    mine = api.get("/endpoint/place/activation_requirements").body
    [url] = [row["value"] for row in mine["DATA"] if row["name"] == "authorization_url"]
    answer = urlsplit(oauth_site.consent(url)).query
    assert_error(activate(Api(bob), "alice%23place", "oauth", code=answer), 400, "ClientError.ActivationExpired")


def test_an_ssh_key_logs_in(api: Api, alice: User, folder: Path, tmp_path: Path, ssh_server: SshServer) -> None:
    key = sshd.make_key(tmp_path / "key", "ed25519", PASSPHRASE)
    ssh_server.authorize(key)
    hand_over(folder, stop_at=Path(tempfile.gettempdir()))
    (folder / "file").write_bytes(b"12345")
    spec = ServerSpec("127.0.0.1", ssh_server.port, "sshftp", ssh_server.fingerprint())
    registry.create(alice, {"name": "place"}, [spec])
    values = {"username": ssh_server.username, "private_key": key.read_text(), "passphrase": PASSPHRASE}
    answer = activate(api, "place", "ssh_key", **values)
    assert sshd.fingerprint(key) in answer.body["subject"]
    _sees_the_files(api, folder, answer, "Activated.SshKeyCredential")
    for wrong in ("", "SHA256:" + "A" * 43):
        server = registry.servers(registry.resolve(alice, "place", Permission.VIEW))[0]
        registry.update_server(alice, "place", server.pk, replace(spec, subject=wrong))
        answer = api.get("/operation/endpoint/place/ls", path=str(folder))
        assert_error(answer, 502, "ExternalError.DirListingFailed.ServerMismatch")


# ---- one passphrase for all endpoints of a server


def test_two_endpoints_of_one_myproxy_server_are_activated_by_one_passphrase(
    api: Api, folder: Path, place: Callable[..., Endpoint], alices: CertificateFiles, myproxy_server: MyProxyServer
) -> None:
    myproxy_server.keep("al", PASSPHRASE, alices)
    for name in ("place", "other"):
        place(name, myproxy_server=f"127.0.0.1:{myproxy_server.port}")
    activate(api, "place", "myproxy", username="al", passphrase=PASSPHRASE)
    assert api.post("/endpoint/place/autoactivate?if_expires_in=600").code == "AlreadyActivated"
    answer = api.post("/endpoint/other/autoactivate?if_expires_in=600")
    assert (answer.code, answer.body["subject"]) == ("AutoActivated.CachedCredential", alices.subject)
    assert ls(api, folder, "other") == ["file"]


# ---- what goes wrong


def _refused(api: Api, status: int, code: str, **values: object) -> Answer:
    answer = activate(api, "place", "myproxy", **{"username": "al", "passphrase": PASSPHRASE, **values})
    assert_error(answer, status, f"ExternalError.MyProxy.{code}")
    assert PASSPHRASE not in str(answer.body)
    assert not api.get("/endpoint/place").body["activated"]
    return answer


def test_what_myproxy_refuses_is_distinguished(
    api: Api, place: Callable[..., Endpoint], alices: CertificateFiles, myproxy_server: MyProxyServer
) -> None:
    myproxy_server.keep("al", PASSPHRASE, alices)
    place(myproxy_server=f"127.0.0.1:{myproxy_server.port}")
    wrong = _refused(api, 400, "BadPassphrase", passphrase="wrong passphrase")
    assert "wrong passphrase" not in str(wrong.body)
    assert "passphrase" in wrong.body["message"]
    _refused(api, 400, "UnknownUser", username="nobody")
    _refused(api, 502, "WrongServer", server_dn="/O=Grid/CN=another")
    myproxy_server.stop()
    _refused(api, 502, "Unreachable")


def test_a_server_that_is_no_myproxy_server_is_no_failure_of_ours(
    api: Api, place: Callable[..., Endpoint], gsi_server_factory: Callable[..., ToolkitServer], folder: Path
) -> None:
    place(myproxy_server=f"127.0.0.1:{gsi_server_factory(folder).port}")
    answer = activate(api, "place", "myproxy", username="al", passphrase=PASSPHRASE)
    assert_error(answer, 502)
    assert answer.code.startswith("ExternalError.MyProxy.")
    answer = activate(api, "place", "myproxy", username="al", passphrase=PASSPHRASE, hostname="10.0.0.1")
    assert_error(answer, 502, "ExternalError.ConnectFailed")


def test_a_myproxy_server_without_an_address_is_distinguished_from_a_forbidden_one(
    api: Api, place: Callable[..., Endpoint]
) -> None:
    place(myproxy_server="myproxy.example.invalid")
    for more in ({}, {"hostname": "other.example.invalid:7513"}):
        answer = activate(api, "place", "myproxy", username="al", passphrase=PASSPHRASE, **more)
        assert_error(answer, 502, "ExternalError.LookupFailed")
        assert "has no address" in answer.body["message"]


def test_how_long_a_myproxy_server_may_take_is_the_operators_choice(
    api: Api, place: Callable[..., Endpoint], settings: Any
) -> None:
    settings.MYPROXY_SECONDS = 1
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place(myproxy_server=f"127.0.0.1:{silent.getsockname()[1]}")
        answer = activate(api, "place", "myproxy", username="al", passphrase=PASSPHRASE)
    assert_error(answer, 502, "ExternalError.MyProxy.Timeout")
    assert "within 1 s" in answer.body["message"]


def test_an_oauth_server_that_is_away_leaves_the_other_forms(
    api: Api, place: Callable[..., Endpoint], alices: CertificateFiles
) -> None:
    place(oauth_server=f"https://127.0.0.1:{free_port()}/oauth2")
    wanted = api.get("/endpoint/place/activation_requirements")
    assert wanted.status == 200
    rows = {(row["type"], row["name"]): row["value"] for row in wanted.body["DATA"]}
    assert rows["oauth", "authorization_url"] is None
    assert push(api, "place", proxy_of(alices)).status == 200


def test_a_user_whom_the_server_does_not_know_is_refused_by_it(
    api: Api, folder: Path, place: Callable[..., Endpoint], identity_of: Callable[..., CertificateFiles]
) -> None:
    place()
    assert push(api, "place", proxy_of(identity_of("stranger"))).status == 200
    answer = api.get("/operation/endpoint/place/ls", path=str(folder))
    assert_error(answer, 502, "ExternalError.DirListingFailed.LoginFailed")


def test_a_server_with_another_name_is_not_logged_in_to(
    api: Api, alice: User, folder: Path, place: Callable[..., Endpoint], alices: CertificateFiles
) -> None:
    endpoint = place()
    push(api, "place", proxy_of(alices))
    server = endpoint.servers.get()
    registry.update_server(alice, "place", server.pk, ServerSpec("127.0.0.1", server.port, subject="/O=Grid/CN=x"))
    answer = api.get("/operation/endpoint/place/ls", path=str(folder))
    assert_error(answer, 502, "ExternalError.DirListingFailed.ServerMismatch")


# ---- secrets


def test_no_secret_is_left_anywhere(
    api: Api, folder: Path, place: Callable[..., Endpoint], alices: CertificateFiles, myproxy_server: MyProxyServer,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Neither in an answer, nor in a log, a mail or a row of the database."""
    caplog.set_level(logging.DEBUG)
    myproxy_server.keep("al", PASSPHRASE, alices)
    place(myproxy_server=f"127.0.0.1:{myproxy_server.port}")
    shown = [
        activate(api, "place", "myproxy", username="al", passphrase=PASSPHRASE).body,
        activate(api, "place", "myproxy", username="al", passphrase="wrong " + PASSPHRASE).body,
        activate(api, "place", "myproxy", username="al", passphrase=PASSPHRASE, lifetime_in_hours="x").body,
        ls(api, folder),
    ]
    proxy = proxy_of(alices)
    shown += [push(api, "place", proxy).body, ls(api, folder), api.get("/endpoint/place").body]
    shown += [api.get("/endpoint/place/activation_requirements").body]
    key = proxy.to_pem().decode().partition("PRIVATE KEY-----\n")[2].split("\n")[1]
    everything = f"{shown}{caplog.text}{[one.message() for one in mail.outbox]}{_database()}"
    assert PASSPHRASE not in everything
    assert key not in everything
    assert "PRIVATE KEY" not in everything


def _database() -> str:
    """Every row of every table."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        found = []
        for table in tables:
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            found.append(str(cursor.fetchall()))
    assert "identity_credential" in tables
    return "".join(found)


# ---- scripts


def test_a_proxy_of_the_toolkits_own_is_pushed_by_a_script(
    api: Api,
    folder: Path,
    tmp_path: Path,
    place: Callable[..., Endpoint],
    alices: CertificateFiles,
    authority: Authority,
) -> None:
    path = tmp_path / "x509up"
    words = ["grid-proxy-init", "-q", "-cert", str(alices.certificate), "-key", str(alices.key), "-out", str(path)]
    environment = {"PATH": "/usr/bin:/bin", "X509_CERT_DIR": str(authority.certificates)}
    subprocess.run(words, env=environment, check=True, timeout=30)
    place()
    answer = activate(api, "place", "proxy", proxy=path.read_text())
    _sees_the_files(api, folder, answer, "Activated.ClientProxyCredential")
