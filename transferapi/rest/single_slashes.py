"""Addresses with doubled slashes: portals join `https://host/` and `/.well-known/...`."""

from __future__ import annotations

import re

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

from .middleware import Middleware

_DOUBLED = re.compile("/{2,}")


class SingleSlashes(Middleware):
    """A middleware: an address that is no route is looked up with single slashes.

    It stands before all that looks at the address, so that an address has one meaning. Nobody is redirected.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "//" in request.path_info and not _is_route(request.path_info):
            request.path_info = _DOUBLED.sub("/", request.path_info)
            request.path = f"{request.META.get('SCRIPT_NAME', '').rstrip('/')}{request.path_info}"
            request.META["PATH_INFO"] = request.path_info
        return self._get_response(request)


def _is_route(path: str) -> bool:
    """Some routes take an argument with slashes, such as the fingerprint of a key."""
    if path.startswith("//"):
        return False
    try:
        resolve(path)
    except Resolver404:
        return False
    return True
