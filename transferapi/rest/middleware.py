"""The base of the middleware of this service."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase


class Middleware:
    """Keeps the next layer, as Django gives it. A subclass defines `__call__`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
