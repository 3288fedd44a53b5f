"""The API as its clients see it: documents over HTTP, signed in or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponseBase
from django.test import Client
from rest_framework.response import Response
from rest_framework.views import APIView

from identity import tokens
from identity.models import User
from transferapi.rest.urls import urlpatterns


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str:
        return str(self.body["code"])


class Api:
    """A client of the API; `user` None: without a token."""

    def __init__(self, user: User | None = None) -> None:
        self._headers = {"Authorization": f"Bearer {tokens.issue(user)}"} if user else {}
        #: A failure of the service is an answer here, as it is for its users.
        self._client = Client(raise_request_exception=False)

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
        """path: below /v0.10, percent-encoded. body: a document; raw: octets in its place."""
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode("ascii")
        answer = self._client.generic(
            method,
            f"/v0.10{path}",
            data,
            content_type,
            headers={**self._headers, **(headers or {})},
            query_params=query,
            **(environ or {}),
        )
        return _read(answer)

    def get(self, path: str, /, **query: Any) -> Answer:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: object = None) -> Answer:
        return self.call("POST", path, body)

    def put(self, path: str, body: object = None) -> Answer:
        return self.call("PUT", path, body)

    def delete(self, path: str) -> Answer:
        return self.call("DELETE", path)


def _read(answer: HttpResponseBase) -> Answer:
    content = getattr(answer, "content", b"")
    return Answer(answer.status_code, dict(answer.headers.items()), json.loads(content) if content else None)


def routes() -> list[tuple[str, str]]:
    """Every (method, route) that the router knows, but OPTIONS and HEAD."""
    found = []
    for pattern in urlpatterns:
        view: type[APIView] = pattern.callback.cls  # type: ignore[attr-defined]
        methods = set(view.http_method_names) - {"options", "head"}
        found += [(name.upper(), str(pattern.pattern)) for name in sorted(methods) if hasattr(view, name)]
    return found


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
