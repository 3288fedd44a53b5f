"""The parts of benchmarks over GSI: an authority, a user with a proxy, and servers that trust both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deploy.endpoint.toolkit import clean_environment
from identity.gsi.proxies import make_proxy
from identity.gsi.x509 import X509Credential
from tests.gridftp.authority import Authority, write_gridmap
from tests.gridftp.toolkit import GsiFiles, session_account
from tests.instance import Api

LIFETIME = timedelta(hours=12)


class Grid:
    """Created in `folder`, which everybody may enter; the servers' certificate is for all of `names`."""

    def __init__(self, folder: Path, names: Sequence[str] = ("localhost", "127.0.0.1")) -> None:
        self.authority = Authority(folder / "authority")
        alice = self.authority.issue_user("alice")
        gridmap = write_gridmap(folder / "gridmap", {alice.subject: session_account()})
        self.files = GsiFiles(self.authority.certificates, self.authority.issue_host(names), gridmap)
        issuer = X509Credential.parse(alice.certificate.read_bytes() + alice.key.read_bytes())
        self._proxy = make_proxy(issuer, lifetime=LIFETIME, now=datetime.now(UTC)).to_pem()
        self.proxy = folder / "proxy"
        self.proxy.touch(mode=0o600)
        self.proxy.write_bytes(self._proxy)

    def client_environment(self) -> dict[str, str]:
        """For the toolkit's clients."""
        certificates = str(self.authority.certificates)
        return clean_environment() | {"X509_CERT_DIR": certificates, "X509_USER_PROXY": str(self.proxy)}

    def endpoint(self, api: Api, name: str, port: int, host: str = "127.0.0.1") -> str:
        """Register a server and activate it with the proxy; the endpoint's id."""
        endpoint = api.endpoint(name, port, host, scheme="gsiftp")
        row = {"DATA_TYPE": "activation_requirement", "type": "proxy", "name": "proxy", "value": self._proxy.decode()}
        document = {"DATA_TYPE": "activation_requirements", "DATA": [row]}
        api.call("POST", f"/endpoint/{endpoint}/activate", document)
        return endpoint
