"""Checksums that this service computes itself, piece by piece, of what it reads."""

from __future__ import annotations

import hashlib
import zlib

from endpoints.gridftp.faults import FaultError, Kind, make_fault
from identity.gsi.printable import quoted

#: By their names in FEAT (CKSM), the preferred one first.
ALGORITHMS = ("SHA256", "MD5", "SHA1", "SHA512", "ADLER32")


class Digest:
    """A checksum that is computed piece by piece. algorithm: one of ALGORITHMS. Raises FaultError."""

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm.upper()
        if self.algorithm not in ALGORITHMS:
            raise FaultError(make_fault(Kind.UNSUPPORTED, f"no checksum {quoted(algorithm)}", retryable=False))
        self._hash = None if self.algorithm == "ADLER32" else hashlib.new(self.algorithm, usedforsecurity=False)
        self._adler = 1

    def update(self, data: bytes) -> None:
        """The next octets."""
        if self._hash:
            self._hash.update(data)
        else:
            self._adler = zlib.adler32(data, self._adler)

    def hexdigest(self) -> str:
        """Hexadecimal, lower case."""
        return self._hash.hexdigest() if self._hash else f"{self._adler:08x}"
