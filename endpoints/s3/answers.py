"""The documents of an object store, and the faults of its refusals (Amazon S3 API Reference, "Error responses"). Pure.

A store may answer 200 and put an error into the body (CompleteMultipartUpload, CopyObject): whoever reads such a body
names the element that it must have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import unquote_to_bytes

from lxml import etree

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, make_fault
from identity.gsi.printable import error_text, quoted

_MAX_SIZE = 2**63 - 1
#: Codes of errors whose status says too little.
_CODES: dict[str, Kind] = {
    "AccessDenied": Kind.PERMISSION_DENIED,
    "AllAccessDisabled": Kind.PERMISSION_DENIED,
    "AccountProblem": Kind.AUTH,
    "BadDigest": Kind.VERIFY_CHECKSUM,
    "EntityTooLarge": Kind.UNSUPPORTED,
    "ExpiredToken": Kind.NO_CREDENTIALS,
    "InternalError": Kind.ENDPOINT_ERROR,
    "InvalidAccessKeyId": Kind.AUTH,
    "InvalidBucketName": Kind.INVALID_PATH_NAME,
    "InvalidObjectName": Kind.INVALID_PATH_NAME,
    "InvalidObjectState": Kind.UNSUPPORTED,
    "InvalidToken": Kind.AUTH,
    "KeyTooLongError": Kind.INVALID_PATH_NAME,
    "NoSuchBucket": Kind.FILE_NOT_FOUND,
    "NoSuchKey": Kind.FILE_NOT_FOUND,
    "NoSuchUpload": Kind.FILE_NOT_FOUND,
    "NotImplemented": Kind.UNSUPPORTED,
    "PreconditionFailed": Kind.FILE_SIZE_CHANGED,
    "QuotaExceeded": Kind.QUOTA_EXCEEDED,
    "RequestTimeout": Kind.TIMEOUT,
    "ServiceUnavailable": Kind.ENDPOINT_TOO_BUSY,
    "SignatureDoesNotMatch": Kind.AUTH,
    "SlowDown": Kind.ENDPOINT_TOO_BUSY,
    "SlowDownRead": Kind.ENDPOINT_TOO_BUSY,
    "SlowDownWrite": Kind.ENDPOINT_TOO_BUSY,
    "TooManyRequests": Kind.ENDPOINT_TOO_BUSY,
    "XAdminUserNotFound": Kind.AUTH,
    "XMinioAdminBucketQuotaExceeded": Kind.QUOTA_EXCEEDED,
    "XMinioInvalidObjectName": Kind.INVALID_PATH_NAME,
    "XMinioStorageFull": Kind.NO_SPACE_LEFT,
}
_STATUSES: dict[int, Kind] = {
    401: Kind.AUTH,
    403: Kind.PERMISSION_DENIED,
    404: Kind.FILE_NOT_FOUND,
    405: Kind.PERMISSION_DENIED,
    408: Kind.TIMEOUT,
    412: Kind.FILE_SIZE_CHANGED,
    429: Kind.ENDPOINT_TOO_BUSY,
    501: Kind.UNSUPPORTED,
    503: Kind.ENDPOINT_TOO_BUSY,
    507: Kind.NO_SPACE_LEFT,
}
_ADVICE = {
    "InvalidObjectState": "The object is in an archive of the store: restore it there, then try again.",
    "EntityTooLarge": "The store takes no object of this size.",
    "RequestTimeTooSkewed": "The clocks of the store and of this service differ by too much: one of them is wrong.",
}
REDIRECTED = (
    "The store sends its clients to another address, which the service does not follow: register the address that the "
    "bucket has, such as that of its region."
)
_REGION = re.compile(r"[a-z0-9-]{1,64}")


class StoreError(FaultError):
    """A refusal of the store. code: of its error document, "" where there was none."""

    def __init__(self, fault: Fault, status: int, code: str, region: str = "") -> None:
        super().__init__(fault)
        self.status = status
        self.code = code
        #: The region for which requests must be signed; "" where the store names none.
        self.region = region


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> StoreError:
    """The error of an answer that is no success."""
    document = None
    with suppress(FaultError):  # it may be the page of a proxy
        document = parsed(body)
    return _error(status, document, headers.get("x-amz-bucket-region", ""))


def parsed(body: bytes, expected: str = "") -> etree._Element:
    """The root of a document, without entities and namespaces. expected: its name.

    Raises StoreError for an error in its place, and FaultError for everything else.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"not a document of a store: {error_text(error)}")) from None
    if root.getroottree().docinfo.doctype:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "a document of a store has no DOCTYPE"))
    for element in root.iter(etree.Element):
        element.tag = etree.QName(element).localname
    if expected and root.tag == "Error":
        raise _error(200, root, "")
    if expected and root.tag != expected:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"{quoted(str(root.tag))} in place of {expected}"))
    return root


def text_of(element: etree._Element, name: str) -> str:
    """The text of a child; "" where there is none."""
    return element.findtext(name) or ""


def _error(status: int, document: etree._Element | None, region: str) -> StoreError:
    code, said = "", ""
    if document is not None and document.tag == "Error":
        code, said = text_of(document, "Code"), text_of(document, "Message")
        region = text_of(document, "Region") or region
    raw = f"S3: {status} {code} {said}".rstrip()
    # A code of its own says more than the status: 404 may be about an account, and is no absence of an object then.
    kind = _CODES.get(code) or (
        Kind.ENDPOINT_ERROR if code and status == 404 else _STATUSES.get(status, Kind.ENDPOINT_ERROR)
    )
    fault = make_fault(kind, raw, retryable=kind is not Kind.INVALID_PATH_NAME)
    if code in _ADVICE:
        fault = replace(fault, advice=_ADVICE[code])
    if code == "RequestTimeTooSkewed":
        fault = replace(fault, kind=Kind.ENDPOINT_ERROR, scope=FaultScope.ENDPOINT)
    if 300 <= status < 400 and status != 304:
        fault = replace(fault, kind=Kind.ENDPOINT_ERROR, scope=FaultScope.ENDPOINT, advice=REDIRECTED)
    return StoreError(fault, status, code, region if _REGION.fullmatch(region) else "")


# ---- listings


@dataclass(frozen=True, slots=True)
class ListedObject:
    key: str
    size: int
    modified: datetime | None
    etag: str


@dataclass(frozen=True, slots=True)
class ListPage:
    """One answer to ListObjectsV2. prefixes: those that stand for several keys. token: of the next page, "" at the end.

    unreadable: why some of its keys are not among them.
    """

    objects: tuple[ListedObject, ...]
    prefixes: tuple[str, ...]
    token: str
    unreadable: tuple[str, ...] = ()


def list_page(body: bytes, prefix: str) -> ListPage:
    """Read a page of the keys that begin with `prefix`, asked for with encoding-type=url. Raises FaultError."""
    root = parsed(body, "ListBucketResult")
    encoded = text_of(root, "EncodingType") == "url"
    unreadable: list[str] = []
    objects = tuple(_objects(root, prefix, encoded, unreadable))
    prefixes = tuple(
        _keys((text_of(one, "Prefix") for one in root.findall("CommonPrefixes")), prefix, encoded, unreadable)
    )
    truncated, token = text_of(root, "IsTruncated").strip().lower(), text_of(root, "NextContinuationToken")
    if truncated not in ("true", "false"):
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "a listing does not say whether it is complete"))
    if truncated == "true" and not token:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "a listing is not complete, and names no next page"))
    return ListPage(objects, prefixes, token if truncated == "true" else "", tuple(unreadable))


def _objects(root: etree._Element, prefix: str, encoded: bool, unreadable: list[str]) -> Iterator[ListedObject]:
    for one in root.findall("Contents"):
        size = text_of(one, "Size")
        if not (size.isascii() and size.isdecimal()) or int(size[:20]) > _MAX_SIZE or len(size) > 19:
            unreadable.append(f"the size of {quoted(text_of(one, 'Key'))} is not known")
            continue
        for key in _keys((text_of(one, "Key"),), prefix, encoded, unreadable):
            yield ListedObject(key, int(size), moment_of(text_of(one, "LastModified")), text_of(one, "ETag"))


def _keys(texts: Iterable[str], prefix: str, encoded: bool, unreadable: list[str]) -> Iterator[str]:
    """The keys of these texts, decoded. Raises FaultError for one that does not begin with the prefix."""
    for text in texts:
        try:
            # AWS and others write "+" for a blank, and "%2B" for "+".
            key = unquote_to_bytes(text.replace("+", " ")).decode() if encoded else text
        except UnicodeDecodeError:
            unreadable.append(f"the key {quoted(text)} is not UTF-8")
            continue
        if not key.startswith(prefix):
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"a listing of {quoted(prefix)} has {quoted(key)}"))
        yield key


def bucket_names(body: bytes) -> list[tuple[str, datetime | None]]:
    """The names of an answer to ListBuckets, with the times of creation. Raises FaultError."""
    root = parsed(body, "ListAllMyBucketsResult")
    return [(text_of(one, "Name"), moment_of(text_of(one, "CreationDate"))) for one in root.iterfind("Buckets/Bucket")]


def moment_of(text: str) -> datetime | None:
    """A time of a document (RFC 3339); None where there is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
