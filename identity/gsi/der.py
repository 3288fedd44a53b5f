"""The part of DER (X.690) that names and proxyCertInfo need: definite lengths and tags of one octet."""

from __future__ import annotations

from collections.abc import Iterator

INTEGER, OCTET_STRING, OID, SEQUENCE, SET = 0x02, 0x04, 0x06, 0x30, 0x31
UTF8_STRING = 0x0C

#: The bit of a constructed tag, whose content is elements.
CONSTRUCTED = 0x20


class DerError(ValueError):
    """Octets that are no DER, or not of the expected form."""


def elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The successive (tag, content) pairs in `data`. Raises DerError."""
    at = 0
    while at < len(data):
        tag, start, end = header(data, at)
        yield tag, data[start:end]
        at = end


def only(data: bytes, tag: int) -> bytes:
    """The content of `data`, which is exactly one element. Raises DerError."""
    found = list(elements(data))
    if len(found) != 1 or found[0][0] != tag:
        raise DerError("another element was expected")
    return found[0][1]


def header(data: bytes, at: int) -> tuple[int, int, int]:
    """The tag at this offset, and the start and end of its content. Raises DerError."""
    if len(data) - at < 2 or data[at] & 0x1F == 0x1F:
        raise DerError("cut short, or a long tag")
    size, start = data[at + 1], at + 2
    if size >= 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4 or len(data) - start < count:
            raise DerError("a length that cannot be")
        size = int.from_bytes(data[start : start + count])
        start += count
    if size > len(data) - start:
        raise DerError("cut short")
    return data[at], start, start + size


def element(tag: int, content: bytes) -> bytes:
    """One element, encoded."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def oid_text(content: bytes) -> str:
    """The dotted form of an object identifier's content. Raises DerError."""
    if not content or content[-1] & 0x80 or len(content) > 128:
        raise DerError("not an object identifier")
    arcs, value = [], 0
    for octet in content:
        value = value << 7 | octet & 0x7F
        if not octet & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))
