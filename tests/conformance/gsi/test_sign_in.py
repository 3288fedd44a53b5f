"""GSI against the toolkit's server: who logs in, what is protected, and what each refusal is called."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.endpoint.authority import CertificateFiles, openssl
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.login import GsiLogin
from identity.gsi.proxies import make_proxy
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import X509Credential
from tests import hostile_certificates as certificates
from tests.gridftp.authority import Authority
from tests.gridftp.features import without
from tests.gridftp.grid import credential_of, login_of, open_session
from tests.gridftp.toolkit import ToolkitServer

pytestmark = pytest.mark.toolkit

Servers = Callable[..., ToolkitServer]
Identities = Callable[..., CertificateFiles]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    served = tmp_path / "served"
    served.mkdir()
    (served / "byte").write_bytes(b"x")
    return served


@asynccontextmanager
async def opened(server: ToolkitServer, login: GsiLogin) -> AsyncIterator[GridFTPSession]:
    session = await open_session(server.port, login)
    try:
        yield session
    finally:
        await session.close()


async def refusal(server: ToolkitServer, login: GsiLogin) -> Fault:
    with pytest.raises(FaultError) as caught:
        await open_session(server.port, login)
    assert caught.value.fault.advice
    assert caught.value.fault.scope is FaultScope.ENDPOINT
    return caught.value.fault


@pytest.fixture
def alice(identity_of: Identities, authority: Authority) -> GsiLogin:
    return login_of(identity_of("alice"), authority)


# ---- logging in


@pytest.mark.parametrize("version", ["TLS1_2_VERSION", "TLS1_3_VERSION", None])
@pytest.mark.parametrize("delegate", [False, True])
async def test_a_user_logs_in_with_either_tls_and_delegates_only_on_request(
    gsi_server_factory: Servers,
    folder: Path,
    alice: GsiLogin,
    monkeypatch: pytest.MonkeyPatch,
    version: str | None,
    delegate: bool,
) -> None:
    if version:
        monkeypatch.setenv("GLOBUS_GSSAPI_MIN_TLS_PROTOCOL", version)
        monkeypatch.setenv("GLOBUS_GSSAPI_MAX_TLS_PROTOCOL", version)
    server = gsi_server_factory(folder)

    async with opened(server, replace(alice, delegate=delegate)) as session:
        assert session.connection.channel.protected
        assert (await session.stat(f"{folder}/byte")).size == 1
        await session.make_directory(f"{folder}/made")

    assert (folder / "made").is_dir()


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("delegate", [False, True])
async def test_a_proxy_serves_as_its_owner(
    gsi_server_factory: Servers, folder: Path, alice: GsiLogin, depth: int, delegate: bool
) -> None:
    credential = alice.credential
    for _ in range(depth):
        credential = make_proxy(credential, lifetime=timedelta(hours=1), now=datetime.now(UTC))

    async with opened(gsi_server_factory(folder), replace(alice, credential=credential, delegate=delegate)) as session:
        assert (await session.stat(f"{folder}/byte")).size == 1


async def test_an_elliptic_credential_logs_in_and_is_not_delegated(
    gsi_server_factory: Servers, folder: Path, tmp_path: Path, grid_home: Path
) -> None:
    """Servers make an RSA key with as many bits for the proxy, which would be no key."""
    now = datetime.now(UTC)
    root = certificates.authority("CN=Elliptic Root", begins=now - timedelta(days=1), ends=now + timedelta(days=1))
    alice = certificates.person(
        root, key=certificates.ec_key(), begins=now - timedelta(hours=1), ends=now + timedelta(hours=1)
    )
    issuer = Authority(grid_home / f"elliptic-{time.time_ns()}", name="For Elliptic Users")
    certificates.trust(issuer.certificates, root)
    write_hashed(issuer.certificates, root)
    server = gsi_server_factory(folder, issuer=issuer, subjects=[alice.credential.identity])

    login = GsiLogin(alice.credential, TrustFolder(issuer.certificates), "localhost", delegate=True)
    async with opened(server, login) as session:
        assert (await session.stat(f"{folder}/byte")).size == 1


def write_hashed(trusted: Path, root: certificates.Holder) -> None:
    """The toolkit finds authorities by OpenSSL's hash."""
    pem = trusted / f"{certificates.stem(root)}.0"
    name = openssl(["x509", "-noout", "-subject_hash", "-in", str(pem)]).decode().strip()
    (trusted / f"{name}.0").write_bytes(pem.read_bytes())
    (trusted / f"{name}.signing_policy").write_bytes(pem.with_suffix(".signing_policy").read_bytes())


async def test_two_credentials_never_share_a_key_of_warm_sessions(
    identity_of: Identities, authority: Authority, alice: GsiLogin
) -> None:
    bob = login_of(identity_of("bob"), authority)
    proxy = make_proxy(alice.credential, lifetime=timedelta(hours=1), now=datetime.now(UTC))
    others = [
        bob,
        replace(alice, delegate=True),
        replace(alice, host_name="elsewhere.example.org"),
        replace(alice, subject="/CN=somebody"),
        replace(alice, credential=proxy),
    ]

    assert len({login.key for login in (alice, *others)}) == 6
    assert login_of(identity_of("alice"), authority).key == alice.key
    assert "PRIVATE" not in repr(alice)


# ---- names and listings


async def test_names_beyond_ascii_survive(gsi_server_factory: Servers, folder: Path, alice: GsiLogin) -> None:
    names = ["zażółć", "日本語 file", "emoji 🚚", "é;a=b", "ends with blank "]

    async with opened(gsi_server_factory(folder), alice) as session:
        assert session.eight_bit_clean
        await session.make_directories([f"{folder}/{name}" for name in names])
        seen = [entry.name async for batch in session.listing(str(folder)) for entry in batch]
        await session.rename(f"{folder}/{names[0]}", f"{folder}/żaba")
        assert (await session.stat(f"{folder}/żaba")).is_directory

    assert sorted(seen) == sorted([*names, "byte"])
    assert (folder / "żaba").is_dir()


async def test_a_large_listing_comes_whole_over_the_protected_channel(
    gsi_server_factory: Servers, folder: Path, alice: GsiLogin
) -> None:
    for number in range(20_000):
        (folder / f"file-{number:05}").touch()

    async with opened(gsi_server_factory(folder), alice) as session:
        names = [entry.name async for batch in session.listing(str(folder)) for entry in batch]

    assert len(names) == 20_001
    assert len(set(names)) == 20_001


async def test_many_commands_may_be_under_way_at_once(
    gsi_server_factory: Servers, folder: Path, alice: GsiLogin
) -> None:
    async with opened(gsi_server_factory(folder), alice) as session:
        replies = await asyncio.gather(
            *(
                session.connection.request("MLST", f"{folder}/{'byte' if n % 3 else 'none'}".encode())
                for n in range(600)
            )
        )

    assert [reply.is_error for reply in replies] == [n % 3 == 0 for n in range(600)]


async def test_a_listing_on_a_data_connection_is_bare_or_refused(
    gsi_server_factory: Servers, folder: Path, alice: GsiLogin
) -> None:
    async with opened(gsi_server_factory(folder), alice) as session:
        session.features = without(session.features, "MLSC")

        assert [entry.name async for batch in session.listing(str(folder)) for entry in batch] == ["byte"]
        assert session.data_security.dcau == b"N"

        session.demands_encryption = True
        with pytest.raises(FaultError) as caught:
            [entry async for entry in session.listing(str(folder))]
        assert caught.value.fault.kind is Kind.UNSUPPORTED
        assert not caught.value.fault.retryable


# ---- refusals of the user


async def test_a_user_whom_the_server_does_not_know_is_refused(
    gsi_server_factory: Servers, folder: Path, identity_of: Identities, authority: Authority
) -> None:
    fault = await refusal(gsi_server_factory(folder), login_of(identity_of("mallory"), authority))

    assert fault.kind is Kind.AUTH
    assert "/CN=mallory" in fault.raw


async def test_a_user_of_an_authority_that_the_server_does_not_trust_is_refused(
    gsi_server_factory: Servers,
    folder: Path,
    identity_of: Identities,
    authority: Authority,
    other_authority: Authority,
) -> None:
    stranger = replace(
        login_of(identity_of("alice"), authority), credential=credential_of(identity_of("alice", other_authority))
    )

    assert (await refusal(gsi_server_factory(folder), stranger)).kind is Kind.AUTH


async def test_an_expired_credential_of_ours_goes_nowhere(alice: GsiLogin, folder: Path) -> None:
    past = datetime.now(UTC) - timedelta(hours=2)
    expired = make_proxy(alice.credential, lifetime=timedelta(hours=1), now=past)

    with pytest.raises(FaultError) as caught:
        await open_session(1, replace(alice, credential=expired))

    assert caught.value.fault.kind is Kind.NO_CREDENTIALS


async def test_a_credential_that_only_the_servers_clock_finds_expired_is_to_be_renewed(
    gsi_server_factory: Servers, folder: Path, alice: GsiLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = datetime.now(UTC) - timedelta(hours=2)
    expired = make_proxy(alice.credential, lifetime=timedelta(hours=1), now=past)
    monkeypatch.setattr(X509Credential, "expires_at", datetime.now(UTC) + timedelta(hours=1))

    assert (await refusal(gsi_server_factory(folder), replace(alice, credential=expired))).kind is Kind.NO_CREDENTIALS


# ---- refusals of the server


async def test_a_certificate_for_another_host_is_refused_unless_its_subject_is_registered(
    gsi_server_factory: Servers, folder: Path, alice: GsiLogin, authority: Authority
) -> None:
    elsewhere = authority.issue_host(["elsewhere.example.org"])
    server = gsi_server_factory(folder, host=elsewhere)

    assert (await refusal(server, alice)).kind is Kind.GSI_DN_MISMATCH
    async with opened(server, replace(alice, subject=elsewhere.subject)) as session:
        assert session.usable
    async with opened(server, replace(alice, host_name="elsewhere.example.org")) as session:
        assert session.usable


async def test_a_server_of_an_authority_that_we_do_not_trust_is_refused(
    gsi_server_factory: Servers, folder: Path, alice: GsiLogin, other_authority: Authority
) -> None:
    fault = await refusal(gsi_server_factory(folder, issuer=other_authority), alice)

    assert fault.kind is Kind.INVALID_SERVICE_CREDENTIAL
    assert fault.retryable


async def test_a_revoked_server_is_refused(
    gsi_server_factory: Servers, tmp_path: Path, folder: Path, grid_home: Path
) -> None:
    authority = Authority(grid_home / f"revoking-{time.time_ns()}", name="Revoking")
    host, user = authority.issue_host(["localhost"]), authority.issue_user("alice")
    server = gsi_server_factory(folder, issuer=authority, host=host, subjects=[user.subject])
    login = login_of(user, authority)
    async with opened(server, login) as session:
        assert session.usable

    authority.revoke([host])

    fault = await refusal(server, login)
    assert fault.kind is Kind.INVALID_SERVICE_CREDENTIAL
    assert "revoked" in fault.raw


async def test_an_anonymous_server_is_not_taken_for_one_with_gsi(
    toolkit_server_factory: Servers, folder: Path, alice: GsiLogin
) -> None:
    fault = await refusal(toolkit_server_factory(folder), alice)

    assert fault.kind in (Kind.INSECURE_SERVER, Kind.INVALID_SERVICE_CREDENTIAL)


async def test_a_session_ends_with_its_server(gsi_server_factory: Servers, folder: Path, alice: GsiLogin) -> None:
    server = gsi_server_factory(folder)
    session = await open_session(server.port, alice)
    server.stop()

    with pytest.raises(FaultError) as caught:
        await session.stat(f"{folder}/byte")

    assert caught.value.fault.kind in (Kind.CONNECTION_BROKEN, Kind.CONNECTION_RESET)
    assert not session.usable
