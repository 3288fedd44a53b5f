"""ECDSA over the curve P-256 with SHA-256, in plain Python (FIPS 186-5, RFC 6979): the agent can rely on no library.

A signature takes some milliseconds. Every multiplication does the same steps for every scalar; Python's integers do not
take the same time for every value, so this is for signatures that happen rarely (one for each connection), with a
random part in each nonce, and not for a server that signs what others send at will.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import NamedTuple

P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
A = -3
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
#: Octets of a coordinate, of a scalar, and of a digest.
SIZE = 32


class _Point(NamedTuple):
    """Projective coordinates: (x/z, y/z); z = 0 is the neutral point."""

    x: int
    y: int
    z: int


_G = _Point(
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
    1,
)
_NEUTRAL = _Point(0, 1, 0)


def new_scalar() -> int:
    """A private key: a random number from 1 to N - 1."""
    return 1 + secrets.randbelow(N - 1)


def public_point(scalar: int) -> tuple[int, int]:
    """The public key of a private key."""
    return _affine(_times(scalar, _G))


def sign(scalar: int, message: bytes, extra: bytes = b"") -> tuple[int, int]:
    """The signature (r, s) of a message.

    extra: random octets for the nonce (RFC 6979, 3.6), so that a fault in the arithmetic does not give away the key.
    """
    digest = hashlib.sha256(message).digest()
    nonces = _Nonces(scalar, digest, extra)
    while True:
        nonce = nonces.next()
        r = public_point(nonce)[0] % N
        s = pow(nonce, N - 2, N) * (int.from_bytes(digest, "big") + r * scalar) % N
        if r and s:
            return r, s


class _Nonces:
    """The nonces of RFC 6979, 3.2, for one message."""

    def __init__(self, scalar: int, digest: bytes, extra: bytes) -> None:
        reduced = int.from_bytes(digest, "big") % N
        seed = scalar.to_bytes(SIZE, "big") + reduced.to_bytes(SIZE, "big") + extra
        self._key, self._value = bytes(SIZE), b"\x01" * SIZE
        self._step(b"\x00" + seed)
        self._step(b"\x01" + seed)

    def next(self) -> int:
        while True:
            self._value = self._mac(self._value)
            nonce = int.from_bytes(self._value, "big")
            self._step(b"\x00")
            if 1 <= nonce < N:
                return nonce

    def _step(self, more: bytes) -> None:
        self._key = self._mac(self._value + more)
        self._value = self._mac(self._value)

    def _mac(self, text: bytes) -> bytes:
        return hmac.new(self._key, text, hashlib.sha256).digest()


def _times(scalar: int, point: _Point) -> _Point:
    """A point `scalar` times, by doubling and adding at each of 257 bits: the length of the scalar does not show."""
    fixed = scalar + N if (scalar + N) >> 256 else scalar + 2 * N
    sums = [_NEUTRAL, _NEUTRAL]
    for at in range(256, -1, -1):
        doubled = _add(sums[0], sums[0])
        sums = [doubled, _add(doubled, point)]
        bit = fixed >> at & 1
        sums[0] = sums[bit]
    return sums[0]


def _add(one: _Point, other: _Point) -> _Point:
    """The sum of any two points, also equal ones (Renes, Costello, Batina 2015, algorithm 1)."""
    (x1, y1, z1), (x2, y2, z2) = one, other
    xx, yy, zz = x1 * x2 % P, y1 * y2 % P, z1 * z2 % P
    xy, xz, yz = (x1 * y2 + x2 * y1) % P, (x1 * z2 + x2 * z1) % P, (y1 * z2 + y2 * z1) % P
    shift = (3 * B * zz + A * xz) % P
    low, high = yy - shift, yy + shift
    slope, rest = 3 * xx + A * zz, (3 * B * xz + A * (xx - A * zz)) % P
    return _Point((xy * low - yz * rest) % P, (low * high + slope * rest) % P, (yz * high + xy * slope) % P)


def _affine(point: _Point) -> tuple[int, int]:
    inverse = pow(point.z, P - 2, P)
    return point.x * inverse % P, point.y * inverse % P
