"""Schemas with those that they refer to in their place, for readers that follow no references."""

from __future__ import annotations

from transferapi.rest.openapi.components import RESPONSES
from transferapi.rest.openapi.types import Schema


def inlined(schema: Schema) -> Schema:
    """The schema without `$ref`. No document of the API contains itself."""
    if "$ref" in schema:
        return inlined(RESPONSES[schema["$ref"].rpartition("/")[2]])
    found = dict(schema)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            found[name] = inlined(schema[name])
    if "properties" in schema:
        found["properties"] = {name: inlined(one) for name, one in schema["properties"].items()}
    if "oneOf" in schema:
        found["oneOf"] = [inlined(one) for one in schema["oneOf"]]
    return found
