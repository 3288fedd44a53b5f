"""Servers whose certificate is not what it should be: none is logged in to, none is given a proxy."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.login import GsiLogin
from identity.gsi.trust import TrustFolder
from tests.gridftp.acceptor import Acceptor, Conversation
from tests.gridftp.grid import open_session
from tests.hostile_certificates import (
    Holder,
    authority,
    certificate_pem,
    host,
    key_pem,
    person,
    proxy,
    publish,
    revocation_list,
    trust,
    with_wrong_signature,
)

DAY = timedelta(days=1)
NOW = datetime.now(UTC)
LONG = {"begins": NOW - 30 * DAY, "ends": NOW + 30 * DAY}
LOCALHOST = x509.DNSName("localhost")


class Site:
    """An authority that is trusted here, and one that is not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "trusted").mkdir()
        self.root = authority("CN=Root", begins=NOW - 30 * DAY, ends=NOW + 30 * DAY)
        self.stranger = authority("CN=Stranger", begins=NOW - 30 * DAY, ends=NOW + 30 * DAY)
        self.trusted = trust(folder / "trusted", self.root)
        self.alice = person(self.root, **LONG)  # type: ignore[arg-type]

    def host(self, issuer: Holder | None = None, *names: x509.GeneralName, **others: object) -> Holder:
        return host(issuer or self.root, *(names or (LOCALHOST,)), **(LONG | others))  # type: ignore[arg-type]

    def login(self, *, delegate: bool = False) -> GsiLogin:
        return GsiLogin(self.alice.credential, TrustFolder(self.trusted), "localhost", delegate=delegate)

    def identity(self, holder: Holder) -> CertificateFiles:
        identity = CertificateFiles(self.folder / "host.pem", self.folder / "host.key")
        identity.certificate.write_bytes(b"".join(map(certificate_pem, holder.chain)))
        identity.key.write_bytes(key_pem(holder.key))
        return identity

    async def meet(self, holder: Holder, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Fault | None:
        """Log in to a server with this certificate, with delegation. Return the fault; None if the login accepts it."""
        flags: list[bytes] = []

        async def script(c: Conversation) -> None:
            await c.greet()
            await c.shake_hands()
            flags.append(await c.hear_flag())

        async with Acceptor(script, self.identity(holder), least=version, most=version) as acceptor:
            with pytest.raises(FaultError) as caught:
                await open_session(acceptor.port, self.login(delegate=True), timeout=1.0)
        if flags:
            assert caught.value.fault.kind is Kind.TIMEOUT
            return None
        return caught.value.fault


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def revoked(site: Site) -> Holder:
    holder = site.host()
    publish(site.trusted, site.root, revocation_list(site.root, [holder], begins=NOW - DAY, ends=NOW + DAY))
    return holder


def with_a_stale_list(site: Site) -> Holder:
    publish(site.trusted, site.root, revocation_list(site.root, begins=NOW - 9 * DAY, ends=NOW - 2 * DAY))
    return site.host()


def outside_the_policy(site: Site) -> Holder:
    trust(site.trusted, site.root, "/O=Grid/OU=Elsewhere/*")
    return site.host()


def without_a_policy(site: Site) -> Holder:
    for path in site.trusted.glob("*.signing_policy"):
        path.unlink()
    return site.host()


def of_a_user_who_plays_authority(site: Site) -> Holder:
    return site.host(site.alice)


BAD: dict[str, Callable[[Site], Holder]] = {
    "expired": lambda site: site.host(ends=NOW - DAY),
    "not yet valid": lambda site: site.host(begins=NOW + DAY),
    "self-signed": lambda site: person(None, "CN=localhost", **LONG),  # type: ignore[arg-type]
    "of a stranger": lambda site: site.host(site.stranger),
    "wrong signature": lambda site: with_wrong_signature(site.host()),
    "revoked": revoked,
    "stale revocation list": with_a_stale_list,
    "outside the policy": outside_the_policy,
    "without a policy": without_a_policy,
    "of a user": of_a_user_who_plays_authority,
}
OTHER_NAMES: dict[str, Callable[[Site], Holder]] = {
    "another host": lambda site: site.host(None, x509.DNSName("elsewhere.example.org")),
    "a name that begins alike": lambda site: site.host(None, x509.DNSName("localhost.example.org")),
    "the address only": lambda site: site.host(None, x509.IPAddress(ip_address("127.0.0.1"))),
    "a user's certificate": lambda site: site.alice,
    "a user's proxy": lambda site: proxy(site.alice, begins=NOW - DAY, ends=NOW + DAY),
}
BOTH = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@BOTH
async def test_a_good_certificate_is_believed(site: Site, version: ssl.TLSVersion) -> None:
    assert await site.meet(site.host(), version=version) is None


@BOTH
@pytest.mark.parametrize("name", BAD)
async def test_a_bad_certificate_ends_the_login(site: Site, name: str, version: ssl.TLSVersion) -> None:
    fault = await site.meet(BAD[name](site), version=version)

    assert fault is not None
    assert (fault.kind, fault.scope, fault.retryable) == (Kind.INVALID_SERVICE_CREDENTIAL, FaultScope.ENDPOINT, True)
    assert fault.raw


@BOTH
@pytest.mark.parametrize("name", OTHER_NAMES)
async def test_a_certificate_of_somebody_else_ends_the_login(site: Site, name: str, version: ssl.TLSVersion) -> None:
    fault = await site.meet(OTHER_NAMES[name](site), version=version)

    assert fault is not None
    assert fault.kind is Kind.GSI_DN_MISMATCH
    assert fault.raw


async def test_a_folder_of_authorities_that_is_not_there_trusts_nobody(site: Site) -> None:
    site.trusted = site.folder / "none"

    fault = await site.meet(site.host())

    assert fault is not None
    assert fault.kind is Kind.INVALID_SERVICE_CREDENTIAL
