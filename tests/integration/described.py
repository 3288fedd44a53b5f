"""Whether documents are as the OpenAPI description says."""

from __future__ import annotations

from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tests.integration.rest import Answer


@cache
def description() -> dict[str, Any]:
    """The whole of it, as GET /openapi gives it."""
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return found


def operation(method: str, route: str) -> dict[str, Any]:
    """route: as Django writes it, "task/<str:task>"."""
    path = "/v0.10/" + route.replace("<str:", "{").replace(">", "}")
    found: dict[str, Any] = description()["paths"][path][method.lower()]
    return found


def assert_described(method: str, route: str, answer: Answer) -> None:
    """The status is one of those described, and the document has its shape."""
    answers = operation(method, route)["responses"]
    status = str(answer.status) if str(answer.status) in answers else f"{answer.status // 100}XX"
    assert status in answers, (answer.status, answer.body)
    assert_valid(answers[status]["content"]["application/json"]["schema"], answer.body)


def assert_valid(schema: dict[str, Any], document: object) -> None:
    """By JSON Schema, which has another word for `nullable` than OpenAPI 3.0."""
    whole = _with_null({**schema, "components": description()["components"]})
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(whole).iter_errors(document)]
    assert not errors, errors


def _with_null(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_null(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _with_null(value) for name, value in schema.items()}
    if found.pop("nullable", False) is True:
        return {"anyOf": [found, {"type": "null"}]}
    return found
