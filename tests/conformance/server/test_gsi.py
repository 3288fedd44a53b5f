"""Our server as a full gsiftp:// server: the toolkit's client and server, and our own client, in every direction."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.endpoint.authority import CertificateFiles, openssl
from deploy.endpoint.toolkit import clean_environment
from endpoints.gridftp.faults import FaultError
from endpoints.gridftp.server import ControlSecurity, GridFtpServer, ServerLimits
from endpoints.gridftp.server.security import revocation
from endpoints.gridftp.server.security.authority_folder import AuthorityFolder
from endpoints.gridftp.server.security.certificates import CertificateError, read
from endpoints.gridftp.server.security.signing_policies import SigningPolicies
from identity.gsi.proxies import make_proxy
from tests.gridftp.authority import Authority, write_gridmap
from tests.gridftp.ftp_dialogue import Dialogue
from tests.gridftp.grid import credential_of, login_of, open_session

CLIENT = "globus-url-copy"
LARGE = 5 * 2**20 + 12345
WAYS = {
    "default": [],
    "fast": ["-fast"],
    "in clear": ["-nodcau", "-fast"],
    "encrypted": ["-dcpriv"],
    "encrypted, parallel, pipelined": ["-dcpriv", "-pp", "-p", "4", "-cc", "2"],
}


@pytest.fixture
def security(authority: Authority, host_of: Callable[[Authority], CertificateFiles], tmp_path: Path) -> ControlSecurity:
    gridmap = tmp_path / "gridmap"
    write_gridmap(gridmap, {authority.user_subject("alice"): "alice", authority.user_subject("bob"): "bob"})
    host = host_of(authority)
    return ControlSecurity(host.certificate, host.key, authority.certificates, gridmap)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


@pytest.fixture
def copy(authority, identity_of, tmp_path) -> Callable[..., None]:
    """The toolkit's client with alice's proxy."""
    proxy = tmp_path / "proxy"
    alice = credential_of(identity_of("alice"))
    proxy.write_bytes(make_proxy(alice, lifetime=timedelta(hours=1), now=datetime.now(UTC)).to_pem())
    proxy.chmod(0o600)
    environment = clean_environment() | {"X509_CERT_DIR": str(authority.certificates), "X509_USER_PROXY": str(proxy)}

    def run(*words: str | Path) -> None:
        done = subprocess.run([CLIENT, *map(str, words)], capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def url(server: GridFtpServer) -> str:
    return f"gsiftp://127.0.0.1:{server.port}"


@pytest.mark.toolkit
@pytest.mark.parametrize("way", WAYS)
def test_the_toolkits_client_brings_files_up_and_down(serve, security, folder, other, copy, way):
    server = serve(security=security)
    (other / "f").write_bytes(os.urandom(LARGE))
    copy(*WAYS[way], f"file://{other}/f", f"{url(server)}/up")
    copy(*WAYS[way], f"{url(server)}/up", f"file://{other}/down")
    assert (folder / "up").read_bytes() == (other / "down").read_bytes() == (other / "f").read_bytes()


@pytest.mark.toolkit
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ours", ["source", "destination", "both"])
def test_third_party_transfers_with_the_toolkits_server(
    serve, security, folder, other, copy, gsi_server_factory, way, ours
):
    contents = {str(number): os.urandom(size) for number, size in enumerate((0, 100, 70_000, LARGE))}
    (folder / "tree").mkdir()
    for name, content in contents.items():
        (folder / "tree" / name).write_bytes(content)
    (other / "into").mkdir()
    source, destination = url(serve(security=security)), url(serve(other, security=security))
    if ours == "source":
        destination = f"{gsi_server_factory(other).url}{other}"
    elif ours == "destination":
        source = f"{gsi_server_factory(folder).url}{folder}"
    copy(*WAYS[way], "-r", "-cd", f"{source}/tree/", f"{destination}/into/")
    assert {path.name: path.read_bytes() for path in (other / "into").iterdir()} == contents


@pytest.mark.parametrize("delegate", [False, True])
async def test_our_client_logs_in_and_lists(serve, security, folder, authority, identity_of, delegate):
    (folder / "xéy").write_text("hello")
    login = login_of(identity_of("alice"), authority, delegate=delegate)
    session = await open_session(serve(security=security).port, login)
    try:
        entries = [entry async for block in session.listing("/") for entry in block]
        assert [entry.name for entry in entries] == ["xéy"]
        assert (await session.connection.request("SITE", b"WHOAMI")).text == "alice"
        assert "DCSC" in session.features
    finally:
        await session.close()


@pytest.mark.parametrize("name", ["carol", "stranger"])
async def test_who_is_not_in_the_gridmap_is_refused(serve, security, authority, identity_of, name):
    with pytest.raises(FaultError):
        await open_session(serve(security=security).port, login_of(identity_of(name), authority))


async def test_a_foreign_authority_is_refused(serve, security, authority, other_authority, identity_of):
    login = login_of(identity_of("alice", other_authority), authority)
    with pytest.raises(FaultError):
        await open_session(serve(security=security).port, login)


@pytest.mark.parametrize("spelling", ["emailAddress", "E", "Email", "EMAILADDRESS"])
def test_the_gridmap_may_have_older_spellings_of_attributes(security, spelling, tmp_path):
    (tmp_path / "gridmap").write_text(f'"/O=Grid/USERID=7/{spelling}=a@example.org" alice\n')
    assert security.account("/O=Grid/UID=7/emailAddress=a@example.org") == "alice"


async def test_the_gridmap_is_read_at_each_login(serve, security, authority, identity_of, tmp_path):
    server = serve(security=security)
    login = login_of(identity_of("alice"), authority)
    await (await open_session(server.port, login)).close()
    (tmp_path / "gridmap").write_text("# nobody\n")
    with pytest.raises(FaultError):
        await open_session(server.port, login)


def test_nobody_logs_in_without_a_certificate(serve, security):
    with Dialogue(serve(security=security).port, login=False) as client:
        assert client.ask("USER anonymous").code == 331
        assert client.ask("PASS x").code == 530
        assert client.ask("SIZE /f").code == 530
        assert client.ask("AUTH KERBEROS_V4").code == 504
        assert client.ask("ADAT AAAA").code == 503
        assert client.ask("AUTH GSSAPI").code == 334
        assert client.ask("ADAT !!!").code == 535
        for garbage in (b"", b"GET / HTTP/1.0", os.urandom(300), b"\x16\x03\x01\xff\xff" + bytes(100)):
            assert client.ask("AUTH GSSAPI").code == 334
            outcome = client.ask(b"ADAT " + base64.b64encode(garbage))
            assert outcome.code in (335, 535)
        assert client.ask("USER anonymous").code == 331


def test_a_server_without_a_certificate_knows_no_auth(serve):
    with Dialogue(serve().port, login=False) as client:
        assert client.ask("AUTH TLS").code == client.ask("AUTH GSSAPI").code == 502


def test_a_dialogue_that_stands_still_ends(serve, security):
    with Dialogue(serve(security=security, limits=ServerLimits(login_seconds=0.5)).port, login=False) as client:
        assert client.ask("AUTH GSSAPI").code == 334
        assert client.is_closed()
    with Dialogue(serve(security=security, limits=ServerLimits(login_seconds=0.5)).port, login=False) as client:
        assert client.ask("AUTH TLS").code == 234
        assert client.is_closed()


# ---- signing policies and revocation lists


@pytest.fixture
def issuer(tmp_path: Path) -> Authority:
    """An authority of this test alone, which may revoke."""
    return Authority(tmp_path / "issuer", namespace="/O=Third")


@pytest.fixture
def port(serve: Callable[..., GridFtpServer], issuer: Authority, tmp_path: Path) -> int:
    """A server that knows alice and bob."""
    gridmap = write_gridmap(tmp_path / "gridmap", {issuer.user_subject(name): name for name in ("alice", "bob")})
    host = issuer.issue_host(["localhost", "127.0.0.1"])
    return serve(security=ControlSecurity(host.certificate, host.key, issuer.certificates, gridmap)).port


def lists_of(issuer: Authority) -> list[Path]:
    return [issuer.certificates / f"{name}.r0" for name in issuer.hashes()]


async def why_refused(port: int, identity: CertificateFiles, issuer: Authority) -> str:
    """The words of the server at a login by GSSAPI; "" where it succeeds. By TLS it must decide the same."""
    why = ""
    try:
        await (await open_session(port, login_of(identity, issuer))).close()
    except FaultError as error:
        why = str(error)
    try:
        with TlsDialogue(port, tls_of(identity, issuer)) as client:
            client.demand("USER :globus-mapping:", "PASS x")
        assert not why
    except (OSError, EOFError):
        assert why
    return why


def policies_of(issuer: Authority) -> list[Path]:
    return [issuer.certificates / f"{name}.signing_policy" for name in issuer.hashes()]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("/O=Third/*", "/O=Third/CN=b*"), "does not allow /O=Third/"),
        (lambda text: text.replace("CA:sign", "CA:other"), "does not allow"),
        (lambda text: text.replace("access_id_CA", "access_id_ca"), "there is no signing policy"),
        (lambda text: text + "'", "there is no signing policy"),
        (lambda text: text.replace("/O=Third", "/O=Other"), "there is no signing policy"),
        (lambda text: "", "there is no signing policy"),
        (None, "there is no signing policy"),
    ],
    ids=["other names", "no right to sign", "no statement", "not closed", "of another", "empty", "missing"],
)
def test_an_authority_certifies_whom_its_signing_policy_allows(port, issuer, change, why):
    """As in the toolkit. This client looks at no policy: ours would refuse the server's certificate."""
    alice = issuer.issue_user("alice")
    with TlsDialogue(port, tls_of(alice, issuer)) as client:
        client.demand("USER :globus-mapping:", "PASS x")
    for path in policies_of(issuer):
        if change is None:
            path.unlink()
        else:
            path.write_text(change(path.read_text()))
    with pytest.raises((OSError, EOFError)), TlsDialogue(port, tls_of(alice, issuer)) as client:
        client.demand("USER :globus-mapping:", "PASS x")
    policies = SigningPolicies(AuthorityFolder(str(issuer.certificates)))
    with pytest.raises(CertificateError, match=why):
        policies.check([read(ssl.PEM_cert_to_DER_cert(alice.certificate.read_text()))])


async def test_a_user_whose_certificate_was_revoked_is_refused_and_others_are_not(port, issuer, tmp_path):
    alice, bob = issuer.issue_user("alice"), issuer.issue_user("bob")
    for publish in (lambda: None, issuer.revoke):
        publish()
        assert [await why_refused(port, one, issuer) for one in (alice, bob)] == ["", ""]
    issuer.revoke([alice])
    assert "has been revoked by its authority" in await why_refused(port, alice, issuer)
    assert await why_refused(port, bob, issuer) == ""
    assert await why_refused(port, issuer.issue_user("alice"), issuer) == "", "the list has numbers, not names"


def test_a_proxy_of_a_revoked_user_is_refused(port, issuer, tmp_path):
    alice, file = issuer.issue_user("alice"), tmp_path / "proxy"
    proxy = make_proxy(credential_of(alice), lifetime=timedelta(hours=1), now=datetime.now(UTC))
    file.write_bytes(proxy.to_pem())
    login = tls_of(CertificateFiles(file, file), issuer)
    with TlsDialogue(port, login) as client:
        client.demand("USER :globus-mapping:", "PASS x")
    issuer.revoke([alice])
    with pytest.raises((OSError, EOFError)), TlsDialogue(port, login) as client:
        client.demand("USER :globus-mapping:", "PASS x")


@pytest.mark.parametrize("form", ["PEM", "DER"])
async def test_a_list_in_either_form_counts(port, issuer, form):
    alice = issuer.issue_user("alice")
    issuer.revoke([alice])
    for path in lists_of(issuer):
        path.write_bytes(openssl(["crl", "-in", str(path), "-outform", form]))
    assert "revoked" in await why_refused(port, alice, issuer)


@pytest.mark.parametrize("fault", ["expired", "cut", "garbage", "forged", "of the future"])
async def test_an_authority_whose_list_cannot_be_used_vouches_for_nobody(port, issuer, fault, monkeypatch):
    """As in the toolkit: else whoever can damage the list takes back a revocation."""
    alice = issuer.issue_user("alice")
    issuer.revoke([], days=30)
    assert await why_refused(port, alice, issuer) == ""
    shift = {"expired": timedelta(days=31), "of the future": -timedelta(days=1)}.get(fault, timedelta())
    if shift:

        class Clock(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + shift

        monkeypatch.setattr(revocation, "datetime", Clock)
    for path in () if shift else lists_of(issuer):
        content = openssl(["crl", "-in", str(path), "-outform", "DER"])
        forged = content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes({"cut": content[:-20], "garbage": b"-----BEGIN X509 CRL-----\n!", "forged": forged}[fault])
    # Our client would refuse the server's certificate for the same reason: this one looks at no list.
    with pytest.raises((OSError, EOFError)), TlsDialogue(port, tls_of(alice, issuer)) as client:
        client.demand("USER :globus-mapping:", "PASS x")


async def test_the_list_of_another_authority_does_not_matter(port, issuer, tmp_path):
    alice = issuer.issue_user("alice")
    other = Authority(tmp_path / "other-issuer", namespace="/O=Fourth")
    other.revoke([other.issue_user("alice")])
    for path in other.certificates.iterdir():
        shutil.copy(path, issuer.certificates)
    for path in lists_of(other):
        shutil.copy(path, issuer.certificates / f"{issuer.hashes()[0]}.r7")
    assert await why_refused(port, alice, issuer) == ""


# ---- AUTH TLS


def tls_of(identity: CertificateFiles | None, authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(capath=str(authority.certificates))
    if identity:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


class TlsDialogue(Dialogue):
    """A control channel of RFC 4217."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port, login=False)
        assert self.ask("AUTH TLS").code == 234
        self.sock = context.wrap_socket(self.sock, server_hostname="localhost")


def test_a_client_with_a_certificate_logs_in_by_tls(serve, security, folder, authority, identity_of):
    (folder / "f").write_bytes(b"hello")
    with TlsDialogue(serve(security=security).port, tls_of(identity_of("alice"), authority)) as client:
        client.demand("USER :globus-mapping:", "PASS x", "TYPE I")
        assert client.ask("SIZE /f").text == "5"
        assert client.ask("SITE WHOAMI").text == "alice"
        assert client.ask("AUTH GSSAPI").code == 503
        client.demand("QUIT")


def test_another_user_name_than_the_mapped_one_is_refused(serve, security, authority, identity_of):
    with TlsDialogue(serve(security=security).port, tls_of(identity_of("alice"), authority)) as client:
        client.demand("USER bob")
        assert client.ask("PASS x").code == 530


def test_commands_that_were_sent_in_clear_behind_auth_tls_are_not_executed(serve, security, folder, authority):
    """The hole of STARTTLS: octets of an attacker before the handshake must not count as the client's."""
    with Dialogue(serve(security=security).port, login=False) as client:
        client.send("AUTH TLS", "NOOP", "NOOP")
        assert client.next_reply().code == 234
        assert client.is_closed()


def test_a_client_without_a_certificate_is_refused(serve, security, authority):
    with (
        pytest.raises((OSError, EOFError)),
        TlsDialogue(serve(security=security).port, tls_of(None, authority)) as client,
    ):
        client.demand("USER :globus-mapping:", "PASS x")


async def test_a_line_in_clear_ends_a_protected_session(serve, security, authority, identity_of):
    session = await open_session(serve(security=security).port, login_of(identity_of("alice"), authority))
    assert session.connection._transport
    session.connection._transport.write(b"NOOP\r\n")
    assert (await session.connection.request("NOOP")).code == 533
    with pytest.raises(FaultError):
        await session.connection.request("NOOP")
    await session.close()


def test_a_server_whose_certificate_is_unusable_does_not_start(authority, identity_of, tmp_path):
    (tmp_path / "gridmap").write_text("")
    alice, bob = identity_of("alice"), identity_of("bob")
    with pytest.raises(ValueError, match="key"):
        ControlSecurity(alice.certificate, bob.key, authority.certificates, tmp_path / "gridmap")


def test_a_port_of_the_server_takes_no_data_without_a_login(serve, security):
    with Dialogue(serve(security=security).port, login=False) as client:
        assert client.ask("PASV").code == 530
        assert isinstance(client.sock, socket.socket)
