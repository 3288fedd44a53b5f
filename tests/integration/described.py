"""Whether documents are as the OpenAPI description says."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from django.urls import Resolver404, resolve
from drf_spectacular.generators import SchemaGenerator
from jsonschema_rs import Draft202012Validator

from tests.references import inlined
from transferapi.rest.http import xml_documents
from transferapi.rest.openapi.types import SOMETIMES

if TYPE_CHECKING:
    from tests.integration.rest import Answer

JSON, XML = "application/json", ("application/xml", "text/xml")


@cache
def description() -> dict[str, Any]:
    """The whole of it, as GET /openapi gives it."""
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return found


def path_of(route: str) -> str:
    """route: as Django writes it from the root."""
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)


def operation(method: str, route: str) -> dict[str, Any]:
    """route: from the root ("v0.10/task/<str:task>") or below v0.10."""
    paths = description()["paths"]
    found: dict[str, Any] = paths[path_of(route) if path_of(route) in paths else path_of(f"v0.10/{route}")][
        method.lower()
    ]
    return found


def assert_described(method: str, route: str, answer: Answer, *, whole: bool = True) -> None:
    """The status is one of those described, and the document has its shape. whole: and all of its fields."""
    answers = operation(method, route)["responses"]
    status = str(answer.status) if str(answer.status) in answers else f"{answer.status // 100}XX"
    assert status in answers, (answer.status, answer.body)
    content = answers[status].get("content", {})
    # An empty text goes out without a type.
    usual = next((kind for kind in ("text/plain", JSON) if kind in content), "")
    kind = answer.headers.get("Content-Type", usual).split(";")[0]
    if kind in XML and JSON in content:
        document = xml_documents.loads(answer.body, inlined(content[JSON]["schema"]))
        _assert_valid(_validator_of(method, route, status, whole), document)
    elif JSON in (kind, *content):
        assert kind in content, (kind, answer.body)
        if kind == JSON:
            _assert_valid(_validator_of(method, route, status, whole), answer.body)


def check(method: str, path: str, answer: Answer) -> None:
    """Check an answer against the description of its route, if it has one. Every answer of every test is checked.

    path: percent-decoded, with the query that was asked.
    """
    path, _, query = path.partition("?")
    try:
        route = resolve(path).route
    except Resolver404:
        return
    if method.lower() in description()["paths"].get(path_of(route), {}):
        assert_described(method, route, answer, whole="fields=" not in query)


def assert_valid(schema: dict[str, Any], document: object, *, whole: bool = False) -> None:
    """whole: with all of the fields that the service always sends."""
    _assert_valid(_validator(schema, whole), document)


def _assert_valid(validator: Draft202012Validator, document: object) -> None:
    if not validator.is_valid(document := _without_surrogates(document)):
        found = [f"{'/'.join(map(str, one.instance_path))}: {one.message}" for one in validator.iter_errors(document)]
        raise AssertionError(found)


def _without_surrogates(document: object) -> object:
    """Octets of names that are no UTF-8 are lone surrogates, which the validator has no strings for."""
    text = json.dumps(document, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode(errors="replace"))
    return document


@cache
def _validator_of(method: str, route: str, status: str, whole: bool) -> Draft202012Validator:
    return _validator(operation(method, route)["responses"][status]["content"][JSON]["schema"], whole)


def _validator(schema: dict[str, Any], whole: bool) -> Draft202012Validator:
    adapted: dict[str, Any] = _adapted(schema, whole)
    return Draft202012Validator({**adapted, "components": _components(whole)}, validate_formats=True)


@cache
def _components(whole: bool) -> Any:
    return _adapted(description()["components"], whole)


def _adapted(schema: Any, whole: bool) -> Any:
    """To JSON Schema, which has another word for `nullable` than OpenAPI 3.0."""
    if isinstance(schema, list):
        return [_adapted(one, whole) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _adapted(value, whole) for name, value in schema.items() if name != "example"}
    if whole and found.get("additionalProperties") is False:
        found["required"] = sorted(set(found["properties"]) - set(found.get(SOMETIMES, ())))
    if found.pop("nullable", False) is True:
        return {"anyOf": [found, {"type": "null"}]}
    return found
