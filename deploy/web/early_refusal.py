"""Refuses long bodies that no view would take, by the head of the request, without a thread.

A flood of them would otherwise cost a thread and some milliseconds each. The application would refuse the same requests
with the same document (`transferapi/rest/http/errors.py`); it decides about all others.
"""

from __future__ import annotations

import json
from dataclasses import replace
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

from django.urls import Resolver404, resolve
from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import IsAuthenticated

from transferapi.rest.cross_origin import middleware
from transferapi.rest.cross_origin.registered_origins import origins
from transferapi.rest.http import errors, parsing
from transferapi.rest.http.base import View
from transferapi.rest.http.trusted_proxies import request_id_of

from .early_answer import EarlyAnswer

#: Headers by which a front server reports a client's certificate (`transferapi/rest/http/trusted_proxies.py`).
_OF_CERTIFICATES = ("X-SSL-", "SSL-")


def refusal_of(request: Any, length: int, *, shows_credential: bool) -> EarlyAnswer | None:
    """The refusal of a long body that has not been read; None: the application decides.

    request: gunicorn's. length: octets of its body. shows_credential: whether it has a token, cookies or a certificate.
    """
    path = unquote(request.path)
    view = _view_of(path)
    if view is None:
        return None
    shows_credential = shows_credential or any(name.startswith(_OF_CERTIFICATES) for name, _ in request.headers)
    if IsAuthenticated in view.permission_classes and not shows_credential:
        return _refusal(NotAuthenticated(), path, request)
    most = parsing.longest_body(view)
    return _refusal(parsing.too_long(most), path, request) if length > most else None


def readable(refusal: EarlyAnswer, request: Any) -> EarlyAnswer:
    """The refusal, with the headers by which the page of a registered origin reads it (CORS); without a query."""
    origin = next((value for name, value in request.headers if name == "ORIGIN"), "")
    if not origin or not middleware.is_api(unquote(request.path)) or not origins.remembers(origin):
        return refusal
    return replace(refusal, headers={**refusal.headers, **middleware.headers_for(origin), "Vary": "Origin"})


def _view_of(path: str) -> type[View] | None:
    """The view of the API that the path belongs to."""
    try:
        found = getattr(resolve(path).func, "cls", None)
    except Resolver404:
        return None
    return found if isinstance(found, type) and issubclass(found, View) else None


def _refusal(error: Exception, path: str, request: Any) -> EarlyAnswer:
    shown = SimpleNamespace(path=path)
    address = str(request.peer_addr[0]) if isinstance(request.peer_addr, tuple) else ""
    given = [value for name, value in request.headers if name == "X-REQUEST-ID"]
    if name := request_id_of(address, ",".join(given)):
        errors.set_request_id(shown, name)
    status, headers, document = errors.answer(error, shown)
    phrase = f"{status} {HTTPStatus(status).phrase}"
    return EarlyAnswer(phrase, json.dumps(document), "application/json", headers, errors.request_id(shown))
