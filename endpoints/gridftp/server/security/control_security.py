"""The files of a server with GSI: its certificate, the authorities that it trusts, and the users that it serves."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from pathlib import Path

from identity.gsi.name_spelling import modern

from .authority_folder import AuthorityFolder
from .certificates import Certificate
from .contexts import CertificateWithKey, tls_context
from .delegation import DelegationKey
from .revocation import RevocationLists
from .signing_policies import SigningPolicies

_LINE = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^"\s]\S*))\s+([^\s,]+)')
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)")


class ControlSecurity:
    """The certificate, authorities and gridmap of this server's control channels.

    The files are read at each login: a renewed certificate and a changed list count at once.

    certificate, key: PEM. trust: a folder of authorities, as OpenSSL hashes it, with their policies and lists. gridmap:
    lines of `"/O=Grid/CN=Alice" account`; whoever is not in it is not served. Raises CertificateError where the
    certificate cannot be used, OSError.
    """

    def __init__(
        self,
        certificate: str | os.PathLike[str],
        key: str | os.PathLike[str],
        trust: str | os.PathLike[str],
        gridmap: str | os.PathLike[str],
    ) -> None:
        self._files = (Path(certificate), Path(key))
        self._gridmap = Path(gridmap)
        self.trust = os.fspath(trust)
        self.delegation = DelegationKey()
        folder = AuthorityFolder(self.trust)
        self._policies, self._revocation = SigningPolicies(folder), RevocationLists(folder)
        self.context()
        self._gridmap.read_bytes()

    def context(self) -> ssl.SSLContext:
        """The context of TLS for one control channel, as the server. Raises CertificateError, OSError."""
        pem = self._files[0].read_bytes()
        if self._files[0] != self._files[1]:
            pem += b"\n" + self._files[1].read_bytes()
        return tls_context(CertificateWithKey.parse(pem), server_side=True, trust=self.trust)

    def check(self, chain: Sequence[Certificate]) -> None:
        """Check the policies and the revocation of a chain, leaf first: OpenSSL does not. Raises CertificateError."""
        self._policies.check(chain)
        self._revocation.check(chain)

    def account(self, identity: str) -> str:
        """The account of this name in the gridmap; "" if it is not served. Raises OSError."""
        wanted = _usual(identity)
        for line in self._gridmap.read_text("utf-8", "replace").splitlines():
            match = None if line.lstrip().startswith("#") else _LINE.match(line)
            if match and _usual(_unescaped(match[1] or match[2] or "")) == wanted:
                return match[3]
        return ""


def _unescaped(name: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], name)


def _usual(name: str) -> str:
    """The name with the present names of its attributes. EMAILADDRESS occurs in grid-mapfiles only, not in policies."""
    return modern(name.replace("/EMAILADDRESS=", "/emailAddress="))
