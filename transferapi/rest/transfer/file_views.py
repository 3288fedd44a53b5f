"""Files through the service: GET and HEAD read one with ranges, PUT writes one whole or in parts; a folder is read as
a zip archive.

A file of an endpoint is never active in our origin: it goes out as an attachment of no known type, with a policy that
lets nothing run (`http.security_headers`).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from typing import Any

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header, http_date
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints.error_meanings import ApiError
from endpoints.errors import TargetExistsError
from endpoints.files import archives, downloads
from endpoints.files.downloads import Download
from endpoints.files.uploads import Upload
from endpoints.gridftp.faults import FaultError
from identity.error_categories import RefusedError
from identity.gsi.printable import readable
from transferapi.config.limits import MAX_BODY
from transferapi.rest.http.base import View, result
from transferapi.rest.http.content_negotiation import FirstRenderer
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.http.parsing import query_paths, receiving
from transferapi.rest.openapi import description

from .operation_views import refused, required_path
from .ranges import ByteRange, UnsatisfiableError, asked_span, sent_part, tag_of

PIECE = 256 * 1024
_UPLOAD_ID = re.compile(r"[A-Za-z0-9_-]{0,64}")


def _file_path(request: Request) -> str:
    path = required_path(request)
    if path.endswith("/"):
        raise BadRequest("path: expected the path of a file, without a slash at its end")
    return path


def _upload(request: Request, view: View, endpoint: str) -> Upload:
    upload_id = request.query_params.get("upload_id", "")
    if not _UPLOAD_ID.fullmatch(upload_id):
        raise BadRequest("upload_id: expected at most 64 letters, digits, _ and -")
    return Upload(view.user, endpoint, _file_path(request), upload_id)


class FileView(View):
    content_negotiation_class = FirstRenderer
    parser_classes = ()
    #: A longer file comes in parts. No body is in memory.
    max_body = MAX_BODY

    @description.download("Read a file, or a part of it")
    def get(self, request: Request, endpoint: str) -> HttpResponseBase:
        path = _file_path(request)
        with refused(self.user, endpoint, "DownloadFailed"):
            download = downloads.open_file(self.user, endpoint, path)
            try:
                return _answered(request, download)
            except BaseException:
                download.close()
                raise

    @description.operation(
        "Write a file, whole or in parts", answer="upload_result", query="path upload_id", takes_octets=True
    )
    def put(self, request: Request, endpoint: str) -> Response:
        upload = _upload(request, self, endpoint)
        length = int(request._request.META.get("CONTENT_LENGTH") or "0")
        part = sent_part(request.headers.get("Content-Range"), length)
        upload.check(part)
        body = request._request
        # A client that announces a body and sends nothing of it takes no place at the endpoint's servers.
        with receiving(self.user, length):
            first = body.read(min(PIECE, length)) if length else b""
        replace = request.headers.get("If-None-Match") != "*"
        try:
            with receiving(self.user, length), refused(self.user, endpoint, "UploadFailed"):
                complete = upload.store(part, _pieces(body, first, length), replace=replace)
        except TargetExistsError as error:
            raise ApiError(412, "Exists", error.message) from None
        code, words = ("Uploaded", "The file was uploaded successfully") if complete else ("PartUploaded", "Go on")
        more: dict[str, Any] = {"path": upload.path, "received": part.total if complete else part.end}
        more["complete"] = complete
        return result(request, code, words, DATA_TYPE="upload_result", **more)


class ArchiveView(View):
    content_negotiation_class = FirstRenderer

    @description.archive("Read entries of a folder as a zip archive")
    def get(self, request: Request, endpoint: str) -> HttpResponseBase:
        names = query_paths(request, "name")
        if any(not name or "/" in name or name in (".", "..") for name in names):
            raise BadRequest("name: expected the name of an entry of the folder, without a slash")
        with refused(self.user, endpoint, "DownloadFailed"):
            archive = archives.Archive(self.user, endpoint, required_path(request), names)
        if request.method == "HEAD":
            archive.close()
            answer: HttpResponseBase = HttpResponse()
        else:
            answer = StreamingHttpResponse(_cut_off(archive))
            answer._resource_closers.append(archive.close)  # type: ignore[attr-defined]
        return _attached(answer, archive.name, "application/zip")


class UploadView(View):
    @description.operation("See where an upload goes on", answer="upload", query="path upload_id")
    def get(self, request: Request, endpoint: str) -> Response:
        upload = _upload(request, self, endpoint)
        return Response({"DATA_TYPE": "upload", "path": upload.path, "received": upload.received})

    @description.operation("Remove what an upload has left", answer="result", query="path upload_id")
    def delete(self, request: Request, endpoint: str) -> Response:
        with refused(self.user, endpoint, "UploadFailed"):
            _upload(request, self, endpoint).discard()
        return result(request, "Deleted", "The upload was removed")


def _pieces(body: Any, first: bytes, length: int) -> Iterator[bytes]:
    """Raises BadRequest for a body that is shorter than announced."""
    piece = first
    while length:
        if not piece:
            raise BadRequest("The request ended before its body did")
        length -= len(piece)
        yield piece
        piece = body.read(min(PIECE, length)) if length else b""


def _answered(request: Request, download: Download) -> HttpResponseBase:
    entry = download.entry
    tag = tag_of(entry)
    if tag in [one.strip() for one in request.headers.get("If-None-Match", "").split(",")]:
        return _closed(download, HttpResponse(status=304, headers={"ETag": tag}))
    try:
        span = asked_span(request.headers.get("Range"), request.headers.get("If-Range"), entry)
    except UnsatisfiableError:
        download.close()
        raise ApiError(416, "ClientError.RangeNotSatisfiable", f"The file has {entry.size} octets") from None
    sent = span or ByteRange(0, entry.size)
    if request.method == "HEAD":
        answer: HttpResponseBase = _closed(download, HttpResponse())
    else:
        download.begin(*sent)
        answer = StreamingHttpResponse(_cut_off(download))
        # The web server closes the answer also where nothing of it was sent.
        answer._resource_closers.append(download.close)  # type: ignore[attr-defined]
    answer.status_code = 206 if span else 200
    if span:
        answer["Content-Range"] = f"bytes {span.first}-{span.first + span.length - 1}/{entry.size}"
    return _described(answer, download, sent.length)


def _cut_off(octets: Iterable[bytes]) -> Iterator[bytes]:
    """The octets. Where they end too early, the connection ends too: the client sees that something is missing."""
    try:
        yield from octets
    except FaultError as error:
        raise ConnectionResetError(errno.ECONNRESET, str(error.fault.kind)) from None
    except RefusedError as error:
        raise ConnectionResetError(errno.ECONNRESET, error.message) from None


def _closed(download: Download, answer: HttpResponse) -> HttpResponse:
    download.close()
    return answer


def _described(answer: HttpResponseBase, download: Download, length: int) -> HttpResponseBase:
    entry = download.entry
    _attached(answer, readable(entry.name) or "file", "application/octet-stream")
    answer["Content-Length"] = str(length)
    answer["Accept-Ranges"] = "bytes"
    answer["ETag"] = tag_of(entry)
    if entry.modified:
        answer["Last-Modified"] = http_date(entry.modified.timestamp())
    return answer


def _attached(answer: HttpResponseBase, name: str, content_type: str) -> HttpResponseBase:
    """With the headers of a file that a browser saves, and does not show."""
    answer["Content-Type"] = content_type
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Content-Disposition"] = content_disposition_header(True, name) or ""
    answer["Cross-Origin-Resource-Policy"] = "same-origin"
    return answer
