"""An authority that certifies users, too: for tests and benchmarks. That of a box certifies servers only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deploy.endpoint import authority
from deploy.endpoint.authority import LEAF, CertificateFiles, replace_file
from tests import kept_keys

USER_DAYS = 365


class Authority(authority.Authority):
    """Its keys are `kept_keys`."""

    def __init__(self, folder: Path, *, name: str = "Authority", namespace: str = "/O=Grid/OU=Waybill Test") -> None:
        super().__init__(folder, name=name, namespace=namespace)

    def _new_key(self, path: Path) -> None:
        self._keep(path, kept_keys.rsa_pem(), 0o600)

    def trust(self, other: Authority) -> None:
        """Users of this folder trust the other authority from now on."""
        for path in other.certificates.glob("[!.]*"):
            self._keep(self.certificates / path.name, path.read_bytes())

    def user_subject(self, common_name: str) -> str:
        return f"{self.namespace}/CN={common_name}"

    def issue_user(self, common_name: str, *, days: int = USER_DAYS) -> CertificateFiles:
        return self.issue(f"user-{common_name}", common_name, f"{LEAF}extendedKeyUsage=clientAuth\n", days=days)


def write_gridmap(path: Path, accounts: Mapping[str, str]) -> Path:
    """Write subjects in slash form -> the local account of their sessions."""
    replace_file(path, "".join(f'"{subject}" {account}\n' for subject, account in accounts.items()).encode())
    return path
