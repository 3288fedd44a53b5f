"""A folder as lines of JSON (`application/x-ndjson`): its entries are sent as the endpoint sends them, unsorted.

The first line is about the folder, each further one is an entry, and the last one says how it ended: `listing_end` with
the number of entries, and in `incomplete` why some are missing; or the error with which it broke off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from endpoints import concurrency_limits
from endpoints.files.listings import ListingStream
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError
from transferapi.rest.http import errors
from transferapi.rest.http.base import View
from transferapi.rest.http.content_negotiation import FirstRenderer
from transferapi.rest.http.json_documents import PART, dumps
from transferapi.rest.http.long_answers import paced
from transferapi.rest.openapi import description
from transferapi.rest.transfer import filters

from . import documents
from .views import query_path, refusal, refused

LINES = "application/x-ndjson"


class ListingView(View):
    content_negotiation_class = FirstRenderer

    @description.lines("List a folder as its entries arrive", LINES, query="path fields")
    def get(self, request: Request, endpoint: str) -> HttpResponseBase:
        path = query_path(request)
        document = filters.picked(documents.FILE.document, request.query_params.get("fields"))
        with refused(self.user, endpoint, "DirListingFailed"):
            stream = ListingStream(self.user, endpoint, path)

        def ended(error: FaultError) -> dict[str, Any]:
            fault = refusal(error, self.user, endpoint, "DirListingFailed")
            return {"DATA_TYPE": "error", **errors.document(request, fault.code, fault.message)}

        lines = _lines(stream, endpoint, document, ended)
        answer = StreamingHttpResponse(paced(lines), content_type=LINES)
        # A proxy in front of this service passes each part on at once.
        answer["X-Accel-Buffering"] = "no"
        # The web server closes the answer also where nothing of it was sent.
        answer._resource_closers.append(stream.close)  # type: ignore[attr-defined]
        return answer


def _lines(stream: ListingStream, asked: str, document: Any, ended: Any) -> Iterator[bytes]:
    found = 0
    try:
        folder = documents.folder(stream.folder, asked)
        del folder["incomplete"]  # only the last line can say it
        yield _json({**folder, "DATA_TYPE": "listing"})
        for batch in stream:
            found += len(batch)
            for start in range(0, len(batch), PART):
                yield _part(batch[start : start + PART], document)
        missing = {"incomplete": stream.incomplete} if stream.incomplete else {}
        yield _json({"DATA_TYPE": "listing_end", "total": found, **missing})
    except FaultError as error:
        yield _json(ended(error))


def _part(entries: Sequence[Entry], document: Any) -> bytes:
    with concurrency_limits.cpu_lock:
        return b"".join(_json(document(entry)) for entry in entries)


def _json(line: dict[str, Any]) -> bytes:
    """No line of it contains a line feed."""
    return dumps(line) + b"\n"
