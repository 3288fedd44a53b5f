"""The files of a folder of authorities (X509_CERT_DIR), read into memory: hash.0, hash.signing_policy and hash.r0.

The hash in a file's name only links an authority with its policy and its lists. It may be of the new or of the old form
(MD5): authorities are found by their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509

from .distinguished_names import Canonical, canonical, openssl_hash, spellings
from .errors import CredentialError
from .name_spelling import modern
from .signing_policy import MAX_POLICY, PolicyEntry, SigningPolicyFormatError, parse_policy
from .x509 import MAX_PEM, UNREADABLE, read_certificates

#: Maximum of files that are read of a folder: the distribution of IGTF has some 400.
MAX_FILES = 5000
#: Maximum of octets of a revocation list; the longest published ones have some millions.
MAX_REVOCATION_LIST = 32 * 1024 * 1024

#: The kinds of files, by their names.
_NAME = re.compile(
    r"[0-9a-f]{8}\.(?:(?P<authority>[0-9]+)|(?P<list>r[0-9]+))|(?P<policy>.+\.signing_policy)", re.DOTALL
)

#: The version of a file: name, time of change in ns, size in octets, inode.
Stamp = tuple[str, int, int, int]


@dataclass
class AuthorityFiles:
    """The content of a folder at one time, immutable once read. Implements certificate_path.TrustAnchors."""

    certificates: dict[Canonical, list[x509.Certificate]] = field(default_factory=dict)
    stems: dict[x509.Certificate, set[str]] = field(default_factory=dict)
    policies: dict[str, list[PolicyEntry]] = field(default_factory=dict)
    lists: dict[Canonical, list[x509.CertificateRevocationList]] = field(default_factory=dict)
    broken_lists: set[str] = field(default_factory=set)
    _findable: set[x509.Certificate] = field(default_factory=set)
    #: Files that could not be read, for the operator: sentences with their names.
    problems: list[str] = field(default_factory=list)

    def authorities(self, name: Canonical) -> list[x509.Certificate]:
        return self.certificates.get(name, [])

    def all_authorities(self) -> list[x509.Certificate]:
        return list(self.stems)

    def misnamed(self) -> list[x509.Certificate]:
        """The authorities that OpenSSL would not find in the folder by itself."""
        return [one for one in self.stems if one not in self._findable]

    def patterns(self, issuer: x509.Certificate) -> tuple[str, ...] | None:
        """The patterns in the policy of the issuer's own hash, and in files whose hash is that of no authority of the
        folder: they may be for an intermediate authority that the other side sends."""
        names = {modern(name) for name in spellings(issuer.subject)}
        own = self.stems.get(issuer)
        if own is None:
            own = set(self.policies) - {stem for stems in self.stems.values() for stem in stems}
        found = [entry for stem in own for entry in self.policies.get(stem, ()) if entry.authority in names]
        return tuple(pattern for entry in found for pattern in entry.patterns) if found else None

    def revocation_lists(self, name: Canonical) -> list[x509.CertificateRevocationList]:
        return self.lists.get(name, [])

    def has_broken_list(self, name: Canonical) -> bool:
        return any(self.stems[authority] & self.broken_lists for authority in self.authorities(name))


def stamps(folder: Path) -> tuple[Stamp, ...]:
    """The versions of all files of interest, in the order of their names. Raises OSError."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if _kind(entry.name) is not None:
                try:
                    about = entry.stat()
                except OSError:
                    found.append((entry.name, 0, -1, 0))  # a dangling link: reported as a problem when it is read
                    continue
                found.append((entry.name, about.st_mtime_ns, about.st_size, about.st_ino))
                if len(found) > MAX_FILES:
                    break
    return tuple(sorted(found))


def read(folder: Path, found: Iterable[Stamp]) -> AuthorityFiles:
    """Read these files. Unreadable ones are left out and reported in `problems`. The certificates of an authority with
    an unreadable list or policy are refused."""
    store = AuthorityFiles()
    for name, *_ in list(found)[:MAX_FILES]:
        stem, _, kind = name.rpartition(".")
        try:
            _READERS[_kind(name) or ""](store, stem, folder / name)
        except (CredentialError, SigningPolicyFormatError) as error:
            store.problems.append(f"{name} is left out: {error.reason}")
        except (OSError, *UNREADABLE):
            store.problems.append(f"{name} is left out: it cannot be read.")
        else:
            continue
        if kind.startswith("r"):
            store.broken_lists.add(stem)
    return store


def _kind(name: str) -> str | None:
    found = _NAME.fullmatch(name)
    return found.lastgroup if found else None


def _read_authority(store: AuthorityFiles, stem: str, path: Path) -> None:
    for certificate in read_certificates(_content(path, MAX_PEM)):
        if certificate not in store.stems:
            store.certificates.setdefault(canonical(certificate.subject), []).append(certificate)
        store.stems.setdefault(certificate, set()).add(stem)
        if path.suffix == ".0" and stem == openssl_hash(certificate.subject):
            store._findable.add(certificate)


def _read_policy(store: AuthorityFiles, stem: str, path: Path) -> None:
    store.policies[stem] = parse_policy(_content(path, MAX_POLICY).decode())


def _read_list(store: AuthorityFiles, stem: str, path: Path) -> None:
    content = _content(path, MAX_REVOCATION_LIST)
    is_pem = content.lstrip().startswith(b"-----BEGIN")
    revoked = x509.load_pem_x509_crl(content) if is_pem else x509.load_der_x509_crl(content)
    list(revoked.extensions)
    known = store.lists.setdefault(canonical(revoked.issuer), [])
    if revoked not in known:
        known.append(revoked)


_READERS = {"authority": _read_authority, "policy": _read_policy, "list": _read_list}


def _content(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError("too long")
    return content
