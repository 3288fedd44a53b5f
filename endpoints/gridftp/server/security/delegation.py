"""The key for proxies that users delegate to this server (RFC 3820 section 2.4), and its signing request (RFC 2986).

Python's standard library makes no keys. An RSA key of our own arithmetic takes half a second, once in the life of a
server; the proxies that are signed for it are of different users and live as long as their session.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import threading

from . import der
from .certificates import pem_text

_BITS, _EXPONENT = 2048, 65537
_ROUNDS = 16
_SMALL = math.prod(n for n in range(3, 2000, 2) if all(n % m for m in range(3, math.isqrt(n) + 1, 2)))
_RSA = der.encode(der.OBJECT, bytes.fromhex("2a864886f70d010101"))
_SHA256_WITH_RSA = der.encode(der.OBJECT, bytes.fromhex("2a864886f70d01010b"))
_COMMON_NAME = der.encode(der.OBJECT, bytes.fromhex("550403"))
#: DigestInfo of SHA-256 (RFC 8017 section 9.2).
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")
#: The same as the toolkit's server writes; the signer names the proxy.
_SUBJECT = b"NULL SUBJECT NAME ENTRY"


class DelegationKey:
    """The RSA key to which clients delegate proxies, made when it is first needed. Used by threads of sessions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: tuple[int, int, int] | None = None

    def request(self) -> bytes:
        """A signing request in DER."""
        prime, other, private = self._key()
        modulus = prime * other
        name = der.encode(der.SEQUENCE, _COMMON_NAME, der.encode(der.UTF8_STRING, _SUBJECT))
        public = der.encode(der.SEQUENCE, der.integer(modulus), der.integer(_EXPONENT))
        body = der.encode(
            der.SEQUENCE,
            der.integer(0),
            der.encode(der.SEQUENCE, der.encode(der.SET, name)),
            der.encode(der.SEQUENCE, _algorithm(_RSA), der.encode(der.BIT_STRING, b"\0", public)),
            der.encode(0xA0),
        )
        signature = der.encode(der.BIT_STRING, b"\0", _sign(body, modulus, private))
        return der.encode(der.SEQUENCE, body, _algorithm(_SHA256_WITH_RSA), signature)

    def pem(self) -> bytes:
        """The private key (RFC 8017 appendix A.1.2)."""
        prime, other, private = self._key()
        numbers = (0, prime * other, _EXPONENT, private, prime, other)
        inverse = pow(other, prime - 2, prime)
        derived = (private % (prime - 1), private % (other - 1), inverse)
        octets = der.encode(der.SEQUENCE, *map(der.integer, numbers + derived))
        return pem_text("RSA PRIVATE KEY", octets).encode("ascii")

    def _key(self) -> tuple[int, int, int]:
        with self._lock:
            if self._numbers is None:
                self._numbers = _new_key()
            return self._numbers


def _new_key() -> tuple[int, int, int]:
    """Two primes, and the private exponent."""
    while True:
        prime, other = _prime(_BITS // 2), _prime(_BITS // 2)
        common = (prime - 1) * (other - 1) // math.gcd(prime - 1, other - 1)
        if prime != other and math.gcd(_EXPONENT, common) == 1:
            return prime, other, pow(_EXPONENT, -1, common)


def _prime(bits: int) -> int:
    """A random prime whose two highest bits are set."""
    while True:
        number = secrets.randbits(bits) | 3 << (bits - 2) | 1
        if math.gcd(number, _SMALL) == 1 and all(_passes(number) for _ in range(_ROUNDS)):
            return number


def _passes(number: int) -> bool:
    """One round of the test of Miller and Rabin (FIPS 186-5 appendix B.3.1)."""
    odd, twos = number - 1, 0
    while not odd & 1:
        odd, twos = odd >> 1, twos + 1
    power = pow(secrets.randbelow(number - 3) + 2, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def _sign(octets: bytes, modulus: int, private: int) -> bytes:
    """RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 8.2.1)."""
    digest = _SHA256 + hashlib.sha256(octets).digest()
    size = _BITS // 8
    padded = b"\0\1" + b"\xff" * (size - len(digest) - 3) + b"\0" + digest
    return pow(int.from_bytes(padded, "big"), private, modulus).to_bytes(size, "big")


def _algorithm(name: bytes) -> bytes:
    return der.encode(der.SEQUENCE, name, der.encode(der.NULL))
