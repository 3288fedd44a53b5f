"""Checksums that this service computes itself, piece by piece, of what it reads."""

from __future__ import annotations

import hashlib
import re
import zlib

from endpoints.gridftp.faults import FaultError, Kind, make_fault
from identity.gsi.printable import quoted

#: By their names in FEAT (CKSM), the preferred one first.
ALGORITHMS = ("SHA256", "MD5", "SHA1", "SHA512", "ADLER32")
#: Hexadecimal digits of the checksums that files can be compared with.
DIGITS = {
    "MD5": 32, "SHA1": 40, "SHA224": 56, "SHA256": 64, "SHA384": 96, "SHA512": 128,
    "ADLER32": 8, "CRC32": 8, "CRC32C": 8,
}  # fmt: skip
#: Those that are numbers: some servers leave out the zeros in front.
_NUMBERS = frozenset({"ADLER32", "CRC32", "CRC32C"})
_HEXADECIMAL = re.compile(r"(?:0x)?([0-9a-f]+)")


def normal_checksum(words: str, algorithm: str) -> str | None:
    """The checksum among the words of a server: hexadecimal, lower case, with all its digits; None if there is none."""
    found = [one[1] for word in words.lower().split() if (one := _HEXADECIMAL.fullmatch(word.strip("\"'")))]
    digits = DIGITS.get(algorithm.upper())
    if digits and algorithm.upper() in _NUMBERS:
        longest = max(found, key=len, default="")
        return longest.zfill(digits) if 0 < len(longest) <= digits else None
    return next((value for value in reversed(found) if digits is None or len(value) == digits), None)


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
