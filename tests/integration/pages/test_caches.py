"""A cache between the service and its users keeps only answers that are the same for everybody, and no session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from endpoints.models import Endpoint
from identity.models import User

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_server")]


def paths(found: Any = None, before: str = "/") -> Iterator[str]:
    """The paths of all routes without a parameter."""
    for one in get_resolver().url_patterns if found is None else found:
        route = before + str(one.pattern).removeprefix("^").removesuffix(r"\Z").removesuffix("$")
        if isinstance(one, URLResolver):
            yield from paths(one.url_patterns, route)
        elif isinstance(one, URLPattern) and not set(route) & set("<(["):
            yield route.replace("\\", "")


def seen(client: Client, path: str) -> HttpResponseBase:
    return client.get(path, headers={"Accept": "*/*"})


def content(answer: HttpResponseBase) -> bytes:
    return b"" if answer.streaming else answer.content  # type: ignore[attr-defined]


def test_an_answer_that_may_be_kept_is_the_same_for_everybody(alice: User, bob: User, ep1: Endpoint) -> None:
    nobody, clients = Client(raise_request_exception=False), []
    for user in (alice, bob):
        clients.append(Client(raise_request_exception=False))
        clients[-1].force_login(user)
    kept = []
    for path in sorted(set(paths())):
        answers = [seen(client, path) for client in (nobody, *clients)]
        if all("no-store" in one.headers.get("Cache-Control", "") for one in answers):
            continue
        kept.append(path)
        assert len({content(one) for one in answers}) == 1, path
        assert not any(one.cookies for one in answers), path
        assert len({one.headers.get("ETag") for one in answers}) == 1, path
        assert "Cookie" not in answers[0].headers.get("Vary", ""), path
    assert {"/.well-known/openid-configuration", "/v0.10/openapi"} <= set(kept)
    assert len(kept) < 20, kept


def test_a_tag_of_somebody_else_gets_no_answer_of_a_user(alice: User, bob: User) -> None:
    clients = [Client(), Client()]
    for client, user in zip(clients, (alice, bob), strict=True):
        client.force_login(user)
    for path in ("/account", "/v0.10/task_list", "/v2/api/identities?ids=" + str(alice.pk)):
        for tag in ("*", 'W/"1"', '"1"'):
            answer = clients[1].get(
                path, headers={"If-None-Match": tag, "If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}
            )
            assert answer.status_code != 304, path
            assert "ETag" not in answer.headers, path
