"""The types of fields, as OpenAPI has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Schema = dict[str, Any]

#: Where a schema of ours names the fields that are not in every document.
SOMETIMES = "x-sometimes"


def maybe(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


def about(description: str, schema: Schema) -> Schema:
    return {**schema, "description": description}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def list_of(schema: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": schema, **more}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def properties(names: str, schema: Schema) -> dict[str, Schema]:
    return dict.fromkeys(names.split(), schema)


def object_of(fields: dict[str, Schema], *, sometimes: str = "") -> Schema:
    """An object that the service sends: always with all of these fields but `sometimes`, and no others."""
    shape: Schema = {"type": "object", "properties": fields, "additionalProperties": False}
    return {**shape, SOMETIMES: sometimes.split()} if sometimes else shape


def object_with(required: str, fields: dict[str, Schema]) -> Schema:
    """An object that a client sends: fields that are not known are ignored."""
    shape: Schema = {"type": "object", "properties": fields}
    return {**shape, "required": required.split()} if required else shape


def by_id(what: str, schema: Schema) -> Schema:
    """An object with ids for names."""
    return {"type": "object", "properties": {}, "additionalProperties": schema, "description": f"by the id of {what}"}


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
UUID: Schema = {"type": "string", "format": "uuid"}
TIME: Schema = {"type": "string", "format": "date-time", "example": "2021-09-02T18:04:49+00:00"}
MAYBE_TEXT, MAYBE_NUMBER, MAYBE_FLAG, MAYBE_UUID, MAYBE_TIME = map(maybe, (TEXT, NUMBER, FLAG, UUID, TIME))
FILE_TIME: Schema = {"type": "string", "nullable": True, "example": "2021-01-15 01:45:50+00:00"}
PATH: Schema = {
    "type": "string",
    "description": "absolute, or from the home as /~/...; an octet that is no UTF-8 is a lone surrogate (\\udcff)",
}
#: Names of endpoints in requests.
ENDPOINT = about("id, owner#name, or the name of one of your own", TEXT)


def is_time(schema: Schema) -> bool:
    return schema.get("format") == "date-time"


def wire_time(moment: datetime | None) -> str | None:
    """`2021-09-02T18:04:49+00:00`: whole seconds, since scripts read it with `strptime` and no fraction."""
    if moment is None:
        return None
    return (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat("T", "seconds")
