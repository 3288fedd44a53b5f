"""The API as its clients see it: documents over HTTP, signed in or not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlencode

from django.http import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.response import Response
from rest_framework.views import APIView

from identity import tokens
from identity.models import User
from tests.integration import described
from transferapi.rest.http.authentication import SIGNED_IN_AT


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str:
        return str(self.body["code"])


class Api:
    """A client of the API; `user` None: without a token. Every answer must be as its route is described.

    root: what stands before all paths; "" for routes of other APIs than Transfer. age: of a session of the pages, in
    seconds, which is then used in place of a token.
    """

    def __init__(self, user: User | None = None, *, root: str = "/v0.10", age: float | None = None) -> None:
        self._root = root
        self._headers = {"Authorization": f"Bearer {tokens.issue(user)}"} if user and age is None else {}
        #: A failure of the service is an answer here, as it is for its users.
        self._client = Client(raise_request_exception=False)
        if user and age is not None:
            self._client.force_login(user)
            session = self._client.session
            session[SIGNED_IN_AT] = time.time() - age
            session.save()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        environ: dict[str, Any] | None = None,
    ) -> Answer:
        """path: below the root, percent-encoded. body: a document; raw: octets in its place."""
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode("ascii")
        answer = self._client.generic(
            method,
            f"{self._root}{path}",
            data,
            content_type,
            headers={**self._headers, **(headers or {})},
            query_params=query,
            **(environ or {}),
        )
        found = read(answer)
        asked = urlencode(query or {}, doseq=True)
        described.check(method, f"{unquote(self._root + path)}?{asked}", found)
        return found

    def get(self, path: str, /, **query: Any) -> Answer:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: object = None) -> Answer:
        return self.call("POST", path, body)

    def put(self, path: str, body: object = None) -> Answer:
        return self.call("PUT", path, body)

    def delete(self, path: str) -> Answer:
        return self.call("DELETE", path)


def read(answer: HttpResponseBase) -> Answer:
    """A body that is no JSON is given as the octets it is."""
    content = b"" if answer.headers.get("Content-Type") == "text/event-stream" else answer.getvalue()
    kind = answer.headers.get("Content-Type", "").split(";")[0]
    is_json = kind.endswith("json") and not kind.endswith("ndjson")
    return Answer(
        answer.status_code,
        dict(answer.headers.items()),
        json.loads(content) if content and is_json else content or None,
    )


def routes(below: str = "") -> list[tuple[str, str]]:
    """Every (method, route) that the router knows and views of ours serve, but OPTIONS and HEAD.

    below: the routes that begin with this, without it: `routes("v0.10/")`.
    """
    found = []
    for route, pattern in _patterns(get_resolver().url_patterns):
        view: type[APIView] | None = getattr(pattern.callback, "cls", None)
        if view is not None and route.startswith(below):
            methods = sorted(set(view.http_method_names) - {"options", "head"})
            found += [(name.upper(), route.removeprefix(below)) for name in methods if hasattr(view, name)]
    return found


def plain_routes() -> list[str]:
    """The routes of the API that are plain functions; pages are no part of it."""
    found = _patterns(get_resolver().url_patterns)
    rest = [(route, one) for route, one in found if one.callback.__module__.startswith("transferapi.rest.")]
    return [route for route, one in rest if not hasattr(one.callback, "cls")]


def _patterns(among: Sequence[URLPattern | URLResolver], before: str = "") -> Iterator[tuple[str, URLPattern]]:
    for one in among:
        if isinstance(one, URLResolver):
            yield from _patterns(one.url_patterns, before + str(one.pattern))
        else:
            yield before + str(one.pattern), one


def assert_error(answer: Answer | Response, status: int, code: str | None = None) -> None:
    """An error is a document with all four fields, the header of the oldest clients, and JSON."""
    assert isinstance(answer, Answer)
    assert answer.status == status, answer.body
    assert set(answer.body) == {"code", "message", "request_id", "resource"}
    assert all(isinstance(value, str) and value for value in answer.body.values())
    assert answer.headers["X-Transfer-API-Error"] == answer.body["code"]
    assert answer.headers["Content-Type"].split(";")[0] == "application/json"
    if code is not None:
        assert answer.code == code
