"""Certificates that are revoked after the activation: each new session checks the revocation lists again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.login import REVOKED, GsiLogin
from identity.gsi.proxies import make_proxy
from identity.gsi.trust import TrustFolder
from tests.gridftp.authority import Authority
from tests.gridftp.grid import credential_of, open_session
from tests.gridftp.toolkit import ToolkitServer

pytestmark = pytest.mark.toolkit


@dataclass
class Place:
    """A server that never hears of revocations, and our own folder of authorities, where lists arrive."""

    issuer: Authority
    host: CertificateFiles
    alice: CertificateFiles
    server: ToolkitServer
    trust: TrustFolder

    def login(self, who: CertificateFiles | None = None) -> GsiLogin:
        proxy = make_proxy(credential_of(who or self.alice), lifetime=timedelta(hours=1), now=datetime.now(UTC))
        return GsiLogin(proxy, self.trust, "localhost")

    def revoke(self, *identities: CertificateFiles, days: int = 30) -> None:
        """The new list is with us, and with nobody else."""
        self.issuer.revoke(identities, days=days)
        for path in self.issuer.certificates.glob("*.r0"):
            path.rename(self.trust.path / path.name)

    async def refusal(self, login: GsiLogin) -> Fault:
        with pytest.raises(FaultError) as caught:
            await open_session(self.server.port, login)
        return caught.value.fault


@pytest.fixture
def place(tmp_path: Path, gsi_server_factory: Callable[..., ToolkitServer]) -> Place:
    tmp_path.chmod(0o755)
    issuer = Authority(tmp_path / "issuer", namespace="/O=Third")
    host, alice = issuer.issue_host(["localhost"]), issuer.issue_user("alice")
    (tmp_path / "data").mkdir()
    subjects = [alice.subject, issuer.user_subject("bob")]
    server = gsi_server_factory(tmp_path / "data", issuer=issuer, host=host, subjects=subjects)
    trust = TrustFolder(Path(shutil.copytree(issuer.certificates, tmp_path / "trust")))
    return Place(issuer, host, alice, server, trust)


async def test_a_user_who_was_revoked_meanwhile_opens_no_session(place: Place) -> None:
    login, before = place.login(), place.trust.stamp
    await (await open_session(place.server.port, login)).close()
    place.revoke(place.alice)
    assert place.trust.stamp != before, "sessions that are kept warm are told by it"
    fault = await place.refusal(login)
    assert (fault.kind, fault.scope, fault.advice) == (Kind.NO_CREDENTIALS, FaultScope.ENDPOINT, REVOKED)
    assert place.alice.subject in fault.raw
    assert place.alice.subject not in fault.advice, "it may be read by those with whom an endpoint is shared"
    await (await open_session(place.server.port, place.login(place.issuer.issue_user("bob")))).close()


async def test_a_list_that_cannot_be_used_is_the_operators_matter(place: Place) -> None:
    login = place.login()
    # The list is of another authority than the server's: else the server's own certificate would be refused first.
    other = Authority(place.issuer.folder.parent / "other", namespace="/O=Fourth")
    for path in other.certificates.iterdir():
        shutil.copy(path, place.trust.path)
    (place.trust.path / f"{other.hashes()[0]}.r0").write_text("cut short on its way")
    await (await open_session(place.server.port, login)).close()
    fault = await place.refusal(place.login(other.issue_user("alice")))
    assert (fault.kind, fault.retryable) == (Kind.INTERNAL_ERROR, True)
    assert "operator" in fault.advice


async def test_a_server_that_was_revoked_meanwhile_is_not_believed(place: Place) -> None:
    login = place.login()
    await (await open_session(place.server.port, login)).close()
    place.revoke(place.host)
    fault = await place.refusal(login)
    assert fault.kind is Kind.INVALID_SERVICE_CREDENTIAL
    assert "revoked" in fault.raw
