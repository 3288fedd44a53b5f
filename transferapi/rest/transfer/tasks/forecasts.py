"""Forecasts: an extension of ours to the Transfer API."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.rest.http.base import View
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.http.parsing import query_number
from transferapi.rest.openapi import description
from transferapi.rest.transfer import filters
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.forecast.model import ForecastWork

from . import documents

MOST = 10**18


class ForecastDetail(View):
    @description.operation(
        "Foretell how long a transfer would take",
        answer="forecast",
        query="source_endpoint destination_endpoint files bytes fields",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        for name in ("source_endpoint", "destination_endpoint", "bytes"):
            if not query.get(name):
                raise BadRequest(f"{name}: is missing")
        work = ForecastWork(query_number(query, "files", 1, most=MOST), query_number(query, "bytes", 0, most=MOST))
        places = forecasts.before(self.user, query["source_endpoint"], query["destination_endpoint"], work)
        return Response(filters.pick(documents.FORECAST.document(places), query.get("fields")))
