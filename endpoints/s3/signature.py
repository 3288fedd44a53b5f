"""Signature Version 4 of requests to an object store (AWS General Reference, "Create a signed AWS API request"). Pure.

The path is encoded once, and not normalized, as S3 has it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

#: SHA-256 of nothing, and the word for a body that TLS alone protects.
EMPTY = hashlib.sha256().hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"
_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class AccessKey:
    """token: of temporary credentials, "" for others."""

    id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)

    def pack(self) -> bytes:
        """As one secret for the vault."""
        return "\0".join((self.id, self.secret, self.token)).encode()

    @classmethod
    def unpack(cls, secret: bytes) -> AccessKey:
        """The key that `pack` made."""
        return cls(*secret.decode().split("\0"))


def encoded_path(path: str) -> str:
    """The path of a request: everything but unreserved characters (RFC 3986 section 2.3) and "/" is encoded."""
    return quote(path, safe="/-_.~")


def encoded_query(query: Mapping[str, str]) -> str:
    """The query of a request, in the order in which it is signed."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def signed(
    key: AccessKey,
    region: str,
    moment: datetime,
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    payload: str,
) -> dict[str, str]:
    """The headers with those that sign the request; all of them are signed.

    path: not encoded. headers: with lower-case names, and with "host". payload: the SHA-256 of the body, or UNSIGNED.
    """
    stamp = moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    sent = {**headers, "x-amz-content-sha256": payload, "x-amz-date": stamp}
    if key.token:
        sent["x-amz-security-token"] = key.token
    names = sorted(sent)
    canonical = "\n".join(
        (
            method,
            encoded_path(path),
            encoded_query(query),
            *(f"{name}:{' '.join(sent[name].split())}" for name in names),
            "",
            ";".join(names),
            payload,
        )
    )
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    text = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    found = hmac.new(_signing_key(key.secret, (stamp[:8], region, "s3", "aws4_request")), text.encode(), "sha256")
    sent["authorization"] = (
        f"{_ALGORITHM} Credential={key.id}/{scope},SignedHeaders={';'.join(names)},Signature={found.hexdigest()}"
    )
    return sent


def _signing_key(secret: str, words: Sequence[str]) -> bytes:
    """The key of one day, region and service."""
    found = b"AWS4" + secret.encode()
    for word in words:
        found = hmac.digest(found, word.encode(), "sha256")
    return found
