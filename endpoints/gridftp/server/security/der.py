"""DER (X.690), as far as certificates and signing requests need it: reading and writing of tagged values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

INTEGER, BIT_STRING, OCTET_STRING, NULL, OBJECT, SEQUENCE, SET = 0x02, 0x03, 0x04, 0x05, 0x06, 0x30, 0x31
UTF8_STRING, BMP_STRING, UNIVERSAL_STRING = 0x0C, 0x1E, 0x1C


class NotDerError(ValueError):
    """Octets that are not DER."""


class Value(NamedTuple):
    """A tagged value. whole: with its tag and length."""

    tag: int
    content: bytes
    whole: bytes


def values(octets: bytes) -> Iterator[Value]:
    """The values that lie one after another. Raises NotDerError."""
    at = 0
    while at < len(octets):
        value = _value(octets, at)
        yield value
        at += len(value.whole)


def one(octets: bytes) -> Value:
    """The first value. Raises NotDerError."""
    return _value(octets, 0)


def _value(octets: bytes, at: int) -> Value:
    header = octets[at : at + 2]
    if len(header) < 2:
        raise NotDerError("a value without a length")
    start, length = at + 2, header[1]
    if length & 0x80:
        count = length & 0x7F
        if not 0 < count <= 4:
            raise NotDerError("a length that is not of DER")
        length = int.from_bytes(octets[start : start + count], "big")
        start += count
    if start + length > len(octets):
        raise NotDerError("a value that is longer than its surroundings")
    return Value(header[0], octets[start : start + length], octets[at : start + length])


def encode(tag: int, *contents: bytes) -> bytes:
    """One value around these octets."""
    content = b"".join(contents)
    if len(content) < 0x80:
        return bytes((tag, len(content))) + content
    size = (len(content).bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + len(content).to_bytes(size, "big") + content


def integer(number: int) -> bytes:
    """A number that is not negative."""
    return encode(INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def object_name(content: bytes) -> str:
    """An object identifier in dots. Raises NotDerError."""
    if not content or content[-1] & 0x80:
        raise NotDerError("an object identifier without end")
    numbers, number = [], 0
    for octet in content:
        number = number << 7 | octet & 0x7F
        if not octet & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
