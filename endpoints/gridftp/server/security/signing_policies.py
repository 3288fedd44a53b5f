"""The names that authorities may certify (`HASH.signing_policy`), which OpenSSL does not know of.

As in the toolkit: an authority without a policy certifies nobody. Before Python 3.10 only the certificate that the
client shows is checked, and no authority between it and a trusted one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from identity.gsi.name_spelling import modern
from identity.gsi.signing_policy import PolicyEntry, matches, parse_policy

from .authority_folder import AuthorityFolder, Kept, has_authority
from .certificates import Certificate, CertificateError

_POLICY = re.compile(r"[0-9a-f]{8}\.signing_policy")


class SigningPolicies:
    """The policies of a folder of authorities. Used by threads of sessions."""

    def __init__(self, folder: AuthorityFolder) -> None:
        self._folder = folder
        self._policies: dict[str, Kept[list[PolicyEntry]]] = {}

    def check(self, chain: Sequence[Certificate]) -> None:
        """Check a verified chain, leaf first, against the policies of its authorities. Proxies are in no policy.

        Raises CertificateError where an authority has signed a name that its policy does not allow, or has no policy.
        """
        try:
            names = self._folder.names()
            for certificate in chain:
                if not (certificate.is_proxy or certificate.signs_itself):
                    self._check(certificate, names)
        except OSError as error:
            raise CertificateError("the signing policies cannot be read") from error

    def _check(self, certificate: Certificate, names: Sequence[str]) -> None:
        issuer, subject = modern(certificate.issuer), modern(certificate.subject)
        own = [entry for entry in self._entries(certificate, names) if entry.authority == issuer]
        if not own:
            raise CertificateError(f"there is no signing policy for {certificate.issuer}")
        if not any(matches(pattern, subject) for entry in own for pattern in entry.patterns):
            raise CertificateError(f"the signing policy of {certificate.issuer} does not allow {certificate.subject}")

    def _entries(self, certificate: Certificate, names: Sequence[str]) -> list[PolicyEntry]:
        """The entries that count for the issuer.

        They are in the policy that has the hash of the issuer's own file. The folder has no file of an intermediate
        authority that the client sends: then the policies count whose hash belongs to no authority of the folder.
        """
        _, hashes = self._folder.issuers(certificate, names)
        found: list[PolicyEntry] = []
        for name in filter(_POLICY.fullmatch, names):
            if name[:8] in hashes or (not hashes and not has_authority(names, name[:8])):
                entries = self._folder.read(self._policies, name, _read)
                found += entries or []
        return found


def _read(content: bytes) -> list[PolicyEntry]:
    return parse_policy(content.decode())
