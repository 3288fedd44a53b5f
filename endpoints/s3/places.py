"""Paths of an endpoint, as buckets and keys: `/bucket/folder/name` is the key `folder/name`. Pure."""

from __future__ import annotations

from typing import NamedTuple

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from identity.gsi.printable import quoted

from .signature import encoded_path

#: Octets of a key.
MAX_KEY = 1024


class ObjectPath(NamedTuple):
    """bucket: "" for the list of buckets. key: without a slash at its end, "" for the bucket itself."""

    bucket: str
    key: str

    @property
    def prefix(self) -> str:
        """The beginning of the keys in this folder."""
        return f"{self.key}/" if self.key else ""

    @property
    def name(self) -> str:
        return (self.key or self.bucket).rpartition("/")[2] or "/"

    @property
    def path(self) -> str:
        return "/" + "/".join(part for part in self if part)

    @property
    def quoted(self) -> str:
        """The path in a header."""
        return encoded_path(self.path)


def place_of(path: str) -> ObjectPath:
    """The place of a path; slashes at its end have no meaning. Raises FaultError for one that no key can have."""
    if path == "/~" or path.startswith("/~/"):
        path = path[2:] or "/"
    if not path.startswith("/"):
        raise _no_key(path, "The path does not begin with a slash.")
    parts = path.strip("/").split("/") if path.strip("/") else []
    if any(part in ("", ".", "..") for part in parts):
        raise _no_key(path, "A name is empty, or is a dot or two: an object of such a key cannot be reached here.")
    if "\0" in path:
        raise _no_key(path, "A name has the character NUL.")
    bucket, key = (parts or [""])[0], "/".join(parts[1:])
    try:
        octets = len(f"{bucket}/{key}".encode()) - len(bucket.encode()) - 1
    except UnicodeEncodeError:
        raise _no_key(path, "The name is not UTF-8, which the keys of an object store are.") from None
    if octets > MAX_KEY:
        raise _no_key(path, f"The key has {octets} octets, and an object store allows {MAX_KEY}.")
    return ObjectPath(bucket, key)


def _no_key(path: str, why: str) -> FaultError:
    raw = f"not the path of an object: {quoted(path)}"
    return FaultError(Fault(Kind.INVALID_PATH_NAME, retryable=False, scope=FaultScope.FILE, advice=why, raw=raw))
