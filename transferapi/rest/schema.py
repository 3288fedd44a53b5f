"""The words that shapes of documents are made of, as OpenAPI has them."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

#: Where a schema of ours names those of its fields that a document has not always.
SOMETIMES = "x-sometimes"

TEXT: Schema = {"type": "string"}
MAYBE_TEXT: Schema = {"type": "string", "nullable": True}
NUMBER: Schema = {"type": "integer"}
MAYBE_NUMBER: Schema = {"type": "integer", "nullable": True}
FLAG: Schema = {"type": "boolean"}
MAYBE_FLAG: Schema = {"type": "boolean", "nullable": True}
UUID: Schema = {"type": "string", "format": "uuid"}
MAYBE_UUID: Schema = {"type": "string", "format": "uuid", "nullable": True}
TIME: Schema = {"type": "string", "format": "date-time", "example": "2021-09-02T18:04:49+00:00"}
MAYBE_TIME: Schema = {**TIME, "nullable": True}
FILE_TIME: Schema = {"type": "string", "nullable": True, "example": "2021-01-15 01:45:50+00:00"}
PATH: Schema = {
    "type": "string",
    "description": "absolute, or from the home as /~/...; an octet that is no UTF-8 is a lone surrogate (\\udcff)",
}


def fields(**names: Schema) -> dict[str, Schema]:
    return names


def each(names: str, schema: Schema) -> dict[str, Schema]:
    return dict.fromkeys(names.split(), schema)


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def about(description: str, schema: Schema) -> Schema:
    return {**schema, "description": description}


def list_of(schema: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": schema, **more}


def asked(data_type: str, required: str, fields: dict[str, Schema]) -> Schema:
    """A document of a client: DATA_TYPE may be left out, fields that we do not know are passed over."""
    shape: Schema = {"type": "object", "properties": {"DATA_TYPE": one_of(data_type), **fields}}
    return {**shape, "required": required.split()} if required else shape


def told(data_type: str, fields: dict[str, Schema], *, sometimes: str = "") -> Schema:
    """A document of ours: always with all of its fields (but for what `fields=` leaves out), and no others.

    sometimes: names of fields that it has not always.
    """
    return {
        "type": "object",
        "properties": {"DATA_TYPE": one_of(data_type), **fields},
        "additionalProperties": False,
        "required": ["DATA_TYPE"],
        **({SOMETIMES: sometimes.split()} if sometimes else {}),
    }


def taken(required: str, fields: dict[str, Schema]) -> Schema:
    """As `asked`, of the APIs whose documents have no DATA_TYPE."""
    shape: Schema = {"type": "object", "properties": fields}
    return {**shape, "required": required.split()} if required else shape


def told_plain(fields: dict[str, Schema], *, sometimes: str = "") -> Schema:
    """As `told`, of the APIs whose documents have no DATA_TYPE."""
    shape: Schema = {"type": "object", "properties": fields, "additionalProperties": False}
    return {**shape, SOMETIMES: sometimes.split()} if sometimes else shape


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def page(data_type: str, row: str, **fields: Schema) -> Schema:
    return {**told(data_type, {**fields, "DATA": list_of(ref(row))}), "required": ["DATA_TYPE", "DATA"]}
