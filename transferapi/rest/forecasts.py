"""Forecasts: an extension of ours to the Transfer API."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints.models import Endpoint
from transferapi.tasks import outlook
from transferapi.tasks.forecast import Forecast, Work

from . import filters, ranges, schemas
from .base import View
from .errors import BadRequest
from .parsing import query_number

MOST = 10**18


def document(source: Endpoint, destination: Endpoint, found: Forecast) -> dict[str, Any]:
    return {
        "DATA_TYPE": "forecast",
        "source_endpoint_id": str(source.pk),
        "destination_endpoint_id": str(destination.pk),
        "files": found.work.files,
        "bytes": found.work.bytes,
        "seconds": ranges.seconds(found),
        "bytes_per_second": ranges.bytes_per_second(found),
        "basis": found.basis,
        "runs": found.runs,
    }


class ForecastDetail(View):
    @schemas.operation(
        "Foretell how long a transfer would take",
        answer="forecast",
        query=["source_endpoint", "destination_endpoint", "files", "bytes", "fields"],
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        for name in ("source_endpoint", "destination_endpoint", "bytes"):
            if not query.get(name):
                raise BadRequest(f"{name}: is missing")
        files = query_number(query.get("files"), "files", 1, most=MOST)
        octets = query_number(query["bytes"], "bytes", 0, most=MOST)
        work = Work(files, octets)
        places = outlook.before(self.user, query["source_endpoint"], query["destination_endpoint"], work)
        return Response(filters.pick(document(*places), query.get("fields")))
