"""Logging on to MyProxy's own server: credentials that were left with it, and its online authority."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.login import GsiLogin
from identity.gsi.errors import RevokedError
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import X509Credential
from identity.issuers import myproxy
from tests.gridftp.authority import Authority
from tests.gridftp.myproxy import MyProxyServer
from tests.gridftp.toolkit import ToolkitServer
from tests.refusals import raises_refusal

pytestmark = pytest.mark.toolkit

HOUR = timedelta(hours=1)


class Limited(TrustFolder):
    """A client that speaks one version of TLS only."""

    tls_version = ssl.TLSVersion.TLSv1_3

    def client_context(self, credential: X509Credential | None) -> ssl.SSLContext:
        context = super().client_context(credential)
        context.minimum_version = context.maximum_version = self.tls_version
        return context


def logon(server: MyProxyServer, username: str, passphrase: str, **more: Any) -> X509Credential:
    more.setdefault("trust", TrustFolder(server.authority.certificates))
    more.setdefault("server_name", "localhost")
    more.setdefault("lifetime", HOUR)
    return myproxy.logon(["127.0.0.1"], server.port, username=username, passphrase=passphrase, **more)


@pytest.fixture
def left(myproxy_server: MyProxyServer, identity_of: Callable[..., CertificateFiles]) -> MyProxyServer:
    """A server that keeps a proxy of alice's."""
    myproxy_server.keep("alice", "correct horse", identity_of("alice"), hours=3)
    return myproxy_server


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_credential_that_was_left_there_is_delegated_to_a_key_of_ours(
    left: MyProxyServer, authority: Authority, version: ssl.TLSVersion
) -> None:
    trust = Limited(authority.certificates)
    trust.tls_version = version
    got = [logon(left, "alice", "correct horse", trust=trust) for _ in range(2)]
    for credential in got:
        assert credential.identity == authority.user_subject("alice")
        assert credential.is_proxy
        assert len(credential.chain) >= 2
        trust.admit(credential, now=datetime.now(UTC))
    assert got[0].fingerprint != got[1].fingerprint


def test_it_lives_as_long_as_was_asked_but_no_longer_than_what_was_left(left: MyProxyServer) -> None:
    now = datetime.now(UTC)
    assert logon(left, "alice", "correct horse", lifetime=HOUR).expires_at <= now + timedelta(hours=1, minutes=1)
    longest = logon(left, "alice", "correct horse", lifetime=timedelta(days=365)).expires_at
    assert now + 2 * HOUR < longest <= now + 3 * HOUR + timedelta(minutes=1)


def test_the_online_authority_certifies_a_key_of_ours(
    myproxy_server_factory: Callable[..., MyProxyServer], authority: Authority
) -> None:
    server = myproxy_server_factory(accounts={"carol": "her = passphrase=é"})
    credential = logon(server, "carol", "her = passphrase=é")
    assert credential.identity == authority.user_subject("carol")
    assert not credential.is_proxy
    with raises_refusal(myproxy.BAD_PASSPHRASE, match="does not accept this passphrase"):
        logon(server, "carol", "not her passphrase")
    with raises_refusal(myproxy.UNKNOWN_USER, match='"dave"'):
        logon(server, "dave", "her = passphrase=é")


async def test_what_was_got_logs_in(
    left: MyProxyServer, gsi_server_factory: Callable[..., ToolkitServer], tmp_path: Path, authority: Authority
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    server = gsi_server_factory(folder)
    trust = TrustFolder(authority.certificates)
    login = GsiLogin(logon(left, "alice", "correct horse", trust=trust), trust, "localhost")
    session = await GridFTPSession.open("127.0.0.1", server.port, login=login, timeout=20)
    await session.close()


@pytest.mark.parametrize("passphrase", ["wrong horse", "x", "c" * 1000, "correct horse\t", "PASSPHRASE=correct horse"])
def test_a_wrong_passphrase_is_reported_as_such(left: MyProxyServer, passphrase: str) -> None:
    with raises_refusal(myproxy.BAD_PASSPHRASE) as refused:
        logon(left, "alice", passphrase)
    assert refused.value.message == "The MyProxy server does not accept this passphrase."


def test_an_unknown_user_is_reported_as_such(left: MyProxyServer) -> None:
    with raises_refusal(myproxy.UNKNOWN_USER, match='no credential for the user "nobody"'):
        logon(left, "nobody", "correct horse")


def test_a_server_with_another_name_gets_nothing(left: MyProxyServer, authority: Authority) -> None:
    with raises_refusal(myproxy.WRONG_SERVER, match=r"not that of myproxy\.example\.org"):
        logon(left, "alice", "correct horse", server_name="myproxy.example.org")
    with raises_refusal(myproxy.WRONG_SERVER):
        logon(left, "alice", "correct horse", subject=authority.user_subject("localhoax"))
    named = logon(left, "alice", "correct horse", server_name="myproxy.example.org", subject=left.host.subject)
    assert named.identity == authority.user_subject("alice")


def test_a_server_of_an_authority_that_is_not_trusted_gets_nothing(
    left: MyProxyServer, other_authority: Authority
) -> None:
    with raises_refusal(myproxy.UNTRUSTED_SERVER, match="not trusted here"):
        logon(left, "alice", "correct horse", trust=TrustFolder(other_authority.certificates))


def test_a_server_whose_own_certificate_has_expired_is_reported_as_such(
    myproxy_server_factory: Callable[..., MyProxyServer], authority: Authority
) -> None:
    """It ends while the server runs: with one that has expired it does not start."""
    host = authority.issue_host(["localhost"])
    server = myproxy_server_factory(host=host)
    expired = authority.issue_host(["localhost"], days=-1)
    shutil.copy(expired.certificate, host.certificate)
    shutil.copy(expired.key, host.key)
    for _ in range(3):
        with raises_refusal(myproxy.SERVER_FAILED, match=r"authentication failed.*its administrator") as failed:
            logon(server, "alice", "correct horse")
        assert failed.value.facts["text"] == "authentication failed"


def test_a_user_who_was_revoked_gets_nothing(
    tmp_path: Path, myproxy_server_factory: Callable[..., MyProxyServer]
) -> None:
    tmp_path.chmod(0o755)
    issuer = Authority(tmp_path / "issuer", namespace="/O=Third")
    server = myproxy_server_factory(issuer=issuer, host=issuer.issue_host(["localhost"]))
    bob = issuer.issue_user("bob")
    server.keep("bob", "bob's horse", bob)
    trust = TrustFolder(Path(shutil.copytree(issuer.certificates, tmp_path / "trust")))
    assert logon(server, "bob", "bob's horse", trust=trust).identity == "/O=Third/CN=bob"
    issuer.revoke([bob])
    with pytest.raises(myproxy.LogonRefusedError):
        logon(server, "bob", "bob's horse")
    for revoked in issuer.certificates.glob("*.r0"):
        # The server has not heard of it; we have.
        revoked.rename(trust.path / revoked.name)
    with raises_refusal(myproxy.BAD_CREDENTIAL, match="revoked") as refused:
        logon(server, "bob", "bob's horse", trust=trust)
    assert isinstance(refused.value.facts["refused"], RevokedError)
