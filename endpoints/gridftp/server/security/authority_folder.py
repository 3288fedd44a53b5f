"""A folder of authorities as OpenSSL hashes it: the files `HASH.N`, and others of the same hash beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Optional, Tuple, TypeVar

from .certificates import Certificate, pem_blocks, read

_AUTHORITY = re.compile(r"[0-9a-f]{8}\.\d+")
#: Octets of one file; the longest published revocation lists have some millions.
_MOST_OCTETS = 32 << 20

Read = TypeVar("Read")
#: A file that was read: its state then, and its content; None where that is not readable.
Kept = Tuple[Tuple[int, int, int], Optional[Read]]


class AuthorityFolder:
    """Its files are read again when they have changed. Used by threads of sessions."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._authorities: dict[str, Kept[list[Certificate]]] = {}

    def names(self) -> list[str]:
        """The names of all files. Raises OSError."""
        return os.listdir(self._folder)

    def issuers(self, certificate: Certificate, names: Sequence[str]) -> tuple[list[Certificate], set[str]]:
        """The authorities of the name that issued the certificate, and the hashes in the names of their files."""
        authorities: list[Certificate] = []
        hashes = set()
        for name in filter(_AUTHORITY.fullmatch, names):
            held = self.read(self._authorities, name, _read_authorities) or []
            if found := [one for one in held if one.subject == certificate.issuer]:
                authorities += found
                hashes.add(name[:8])
        return authorities, hashes

    def read(self, kept: dict[str, Kept[Read]], name: str, parse: Callable[[bytes], Read]) -> Read | None:
        """A file as `parse` reads it; None where that raises ValueError, IndexError or StopIteration.

        Raises OSError.
        """
        path = self._folder / name
        found = path.stat()
        state = (found.st_mtime_ns, found.st_size, found.st_ino)
        if name not in kept or kept[name][0] != state:
            kept[name] = state, _parsed(path, parse)
        return kept[name][1]


def has_authority(names: Sequence[str], stem: str) -> bool:
    """Whether the folder has an authority of this hash."""
    return any(_AUTHORITY.fullmatch(name) and name[:8] == stem for name in names)


def _parsed(path: Path, parse: Callable[[bytes], Read]) -> Read | None:
    with path.open("rb") as file:
        content = file.read(_MOST_OCTETS + 1)
    try:
        return parse(content) if len(content) <= _MOST_OCTETS else None
    except (ValueError, IndexError, StopIteration):  # DerError and CertificateError too
        return None


def _read_authorities(content: bytes) -> list[Certificate]:
    return [read(octets) for octets in pem_blocks(content, b"CERTIFICATE")]
