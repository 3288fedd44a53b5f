"""Credentials and logins for tests, from the certificates of an authority."""

from __future__ import annotations

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.login import GsiLogin, Login
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import X509Credential
from tests.gridftp.authority import Authority

#: Seconds for one login; only a hung server ever takes them.
TIMEOUT = 20.0


def credential_of(identity: CertificateFiles) -> X509Credential:
    return X509Credential.parse(identity.certificate.read_bytes() + identity.key.read_bytes())


def login_of(
    identity: CertificateFiles, issuer: Authority, host_name: str = "localhost", *, delegate: bool = False
) -> GsiLogin:
    """Login as this user to a server of this authority, the only trusted one."""
    trust = TrustFolder(issuer.certificates)
    return GsiLogin(credential_of(identity), trust, host_name, delegate=delegate)


async def open_session(port: int, login: Login, *, timeout: float = TIMEOUT) -> GridFTPSession:
    return await GridFTPSession.open("127.0.0.1", port, login=login, timeout=timeout)
