"""Ranges of octets in headers: Range, If-Range and Content-Range (RFC 9110 sections 13 and 14). Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.utils.http import http_date

from endpoints.files.uploads import UploadPart
from endpoints.gridftp.facts import Entry
from transferapi.rest.http.errors import BadRequest

_RANGE = re.compile(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", re.ASCII)
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
#: A file that has just changed may change again within the same second: its tag is weak (RFC 9110 section 8.8.1).
SETTLED = timedelta(seconds=2)


class ByteRange(NamedTuple):
    """`length` octets of a file from `first` on."""

    first: int
    length: int


class UnsatisfiableError(ValueError):
    """The file has no octet of this range (416)."""


def tag_of(entry: Entry) -> str:
    """The entity tag, of size and modification time. It is weak where the file may change without a new one."""
    if entry.modified is None:
        return f'W/"{entry.size:x}"'
    is_settled = datetime.now(UTC) - entry.modified >= SETTLED
    return f'{"" if is_settled else "W/"}"{entry.size:x}-{entry.modified.timestamp():.0f}"'


def asked_span(value: str | None, if_range: str | None, entry: Entry) -> ByteRange | None:
    """The one range that is asked for; None: the whole file, as also for several ranges and for a malformed header.

    Raises UnsatisfiableError.
    """
    match = _RANGE.fullmatch(value or "")
    if match is None or not any(match.groups()) or not _holds(if_range, entry):
        return None
    first, last = match.groups()
    if not first:
        length = min(int(last), entry.size)
        if not length:
            raise UnsatisfiableError
        return ByteRange(entry.size - length, length)
    if last and int(last) < int(first):
        return None
    if int(first) >= entry.size:
        raise UnsatisfiableError
    end = min(int(last) + 1, entry.size) if last else entry.size
    return ByteRange(int(first), end - int(first))


def _holds(if_range: str | None, entry: Entry) -> bool:
    """Whether the file is the one that the client has a part of. Only strong tags can say so."""
    if not if_range:
        return True
    tag = tag_of(entry)
    if if_range.startswith(('"', "W/")):
        return if_range == tag and not tag.startswith("W/")
    return entry.modified is not None and if_range == http_date(entry.modified.timestamp()) and tag.startswith('"')


def sent_part(content_range: str | None, length: int) -> UploadPart:
    """The part of a file that a body of this length is; without Content-Range the whole file. Raises BadRequest."""
    if content_range is None:
        return UploadPart(0, length, length)
    match = _CONTENT_RANGE.fullmatch(content_range.strip())
    if match is None:
        raise BadRequest("Content-Range: expected bytes first-last/total")
    first, last, total = map(int, match.groups())
    if last < first or last >= total or last - first + 1 != length:
        raise BadRequest("Content-Range: does not fit to the length of the body, or to the total")
    return UploadPart(first, length, total)
