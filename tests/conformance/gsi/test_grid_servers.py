"""The servers with security that other tests build on, seen with the toolkit's own clients."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.endpoint.authority import CertificateFiles
from deploy.endpoint.toolkit import clean_environment
from deploy.stack.errors import StartError
from tests.gridftp.authority import Authority
from tests.gridftp.myproxy import MyProxyServer
from tests.gridftp.toolkit import CLIENT, ToolkitServer

pytestmark = pytest.mark.toolkit


@pytest.fixture
def copy(
    tmp_path: Path, grid_home: Path, authority: Authority, gsi_server_factory: Callable[..., ToolkitServer]
) -> Callable[..., str]:
    """Copies a file between two servers with GSI: "" or what the toolkit's client complained about."""
    # Not in tmp_path: another pytest of the same user closes the folder above it to the server's account.
    folder = Path(tempfile.mkdtemp(prefix="data-", dir=grid_home))
    (folder / "file").write_bytes(b"something" * 1000)

    def run(certificate: Path, key: Path, issuer: Authority = authority) -> str:
        urls = [gsi_server_factory(folder, issuer=issuer).url + f"{folder}/{name}" for name in ("file", "copy")]
        environment = clean_environment() | {"X509_CERT_DIR": str(issuer.certificates)}
        environment |= {"X509_USER_CERT": str(certificate), "X509_USER_KEY": str(key)}
        environment["X509_USER_PROXY"] = str(certificate if certificate == key else tmp_path / "proxy")
        if certificate != key:
            subprocess.run(["grid-proxy-init", "-q"], env=environment, check=True, timeout=30)
        done = subprocess.run([CLIENT, "-dcpriv", *urls], env=environment, capture_output=True, text=True, timeout=30)
        if done.returncode == 0:
            assert (folder / "copy").read_bytes() == (folder / "file").read_bytes()
        return done.stderr if done.returncode else ""

    return run


def test_a_user_of_the_gridmap_logs_in_and_data_channels_are_protected(
    copy: Callable[..., str], identity_of: Callable[..., CertificateFiles]
) -> None:
    alice = identity_of("alice")

    assert copy(alice.certificate, alice.key) == ""


def test_who_is_not_in_the_gridmap_is_refused(
    copy: Callable[..., str], identity_of: Callable[..., CertificateFiles]
) -> None:
    mallory = identity_of("mallory")

    assert "Could not map /O=Grid/OU=Waybill Test/CN=mallory" in copy(mallory.certificate, mallory.key)


def test_servers_of_another_authority_take_its_users_only(
    copy: Callable[..., str], identity_of: Callable[..., CertificateFiles], other_authority: Authority
) -> None:
    theirs, ours = identity_of("alice", other_authority), identity_of("alice")

    assert copy(theirs.certificate, theirs.key, other_authority) == ""
    assert copy(ours.certificate, ours.key, other_authority) != ""


def test_a_revoked_certificate_is_refused(tmp_path: Path, copy: Callable[..., str]) -> None:
    issuer = Authority(tmp_path / "third", namespace="/O=Third")
    bob = issuer.issue_user("bob")
    issuer.revoke([bob])

    assert "has been revoked" in copy(bob.certificate, bob.key, issuer)


def test_a_credential_left_with_myproxy_logs_in(
    tmp_path: Path,
    copy: Callable[..., str],
    identity_of: Callable[..., CertificateFiles],
    myproxy_server: MyProxyServer,
) -> None:
    myproxy_server.keep("alice2", "alice's passphrase", identity_of("alice"))
    proxy = myproxy_server.logon("alice2", "alice's passphrase", tmp_path / "fetched")

    assert copy(proxy, proxy) == ""


def test_a_certificate_from_the_online_authority_logs_in(
    tmp_path: Path, copy: Callable[..., str], myproxy_server_factory: Callable[..., MyProxyServer]
) -> None:
    server = myproxy_server_factory(accounts={"carol": "carol's passphrase"})
    issued = server.logon("carol", "carol's passphrase", tmp_path / "issued")

    assert copy(issued, issued) == ""
    with pytest.raises(StartError, match="invalid password"):
        server.logon("carol", "another passphrase", tmp_path / "never")


def test_nothing_of_a_server_is_left_when_it_is_stopped(myproxy_server_factory: Callable[..., MyProxyServer]) -> None:
    server = myproxy_server_factory(accounts={"carol": "carol's passphrase"})
    pid = int(server.pid_file.read_text())
    assert Path(f"/proc/{pid}").exists()
    server.stop()

    assert not Path(f"/proc/{pid}").exists()
