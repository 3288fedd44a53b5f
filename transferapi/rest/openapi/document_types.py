"""Documents of the API. Each is declared once: its fields give the JSON that is sent, the values that are read from a
request, the OpenAPI schema and the example.

A `Field` of a `ResponseDocument` has a source: the attribute of the row with its name, another attribute
("owner.username"), a function of the row, or a constant (`Always`). The type of the field turns the value into JSON: a
UUID into its text, a datetime into ISO 8601. A `RequestDocument` reads each field by its type, and names the field in
errors.

See docs/decisions/rest-documents.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar

from transferapi.rest.http.parsing import Document

from .types import SOMETIMES, Schema, is_time, list_of, maybe, one_of, ref, wire_time

T = TypeVar("T")

_MISSING: Any = object()
_ID = "8f1c7d1e-4b0a-4c55-9a41-6f4d5f0f6a01"


@dataclass(frozen=True, slots=True)
class Always:
    """A source: a constant."""

    value: object


@dataclass(frozen=True, slots=True)
class AsJson:
    """A source: the function gives the value as JSON has it, whatever the type of the field."""

    get: Callable[[Any], object]


@dataclass(frozen=True)
class Field(Generic[T]):
    """One field of a document.

    source: of a response, see above. read: of a request, the function that reads the value, where the type is not
    enough. sometimes: the field is not in every document.
    """

    name: str
    schema: Schema
    source: str | Callable[[T], object] | Always | AsJson | None = None
    example: Any = _MISSING
    sometimes: bool = False
    read: Callable[[Document, str], object] | None = None

    def shown(self) -> Any:
        """The value in the example of the document."""
        return _usual_example(self.name, self.schema) if self.example is _MISSING else self.example


def as_given(document: Document, name: str) -> object:
    """For `Field.read`: the value as it is; the service checks it."""
    return document.fields.get(name)


def any_list(document: Document, name: str) -> object:
    """For `Field.read`: the value, or an empty list; the service checks it and refuses an empty list."""
    return document.fields.get(name) or ()


def unchecked(*fields: Field[Any]) -> tuple[Field[Any], ...]:
    """Fields of a request that the service checks."""
    return tuple(replace(one, read=as_given) for one in fields)


def each(
    names: str, schema: Schema, source: Always | None = None, example: Any = _MISSING, *, of: str = ""
) -> tuple[Field[Any], ...]:
    """Fields of one type. The source of each is the attribute of its name. of: the attribute of the row that has it."""
    return tuple(Field(name, schema, source or (f"{of}.{name}" if of else None), example) for name in names.split())


def optional(*fields: Field[Any]) -> tuple[Field[Any], ...]:
    """The fields, where null means absent."""
    return tuple(replace(one, schema=maybe(one.schema)) for one in fields)


class ResponseDocument(Generic[T]):
    """A document that the service sends, made from rows of type T.

    data_type: what DATA_TYPE says; the name where it is not given; None for the APIs whose documents have none.
    required: of the schema, besides DATA_TYPE. example: values in place of those of the fields.
    """

    def __init__(
        self,
        name: str,
        *fields: Field[T],
        data_type: str | None = "",
        required: str = "",
        example: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.fields = fields
        self._example = example or {}
        self._required = (["DATA_TYPE"] if data_type is not None else []) + required.split()
        self._type = {} if data_type is None else {"DATA_TYPE": data_type or name}
        always = {one.name: one for one in fields if not one.sometimes}
        self.constants = self._type | {
            name: one.source.value if isinstance(one.source, Always) else None for name, one in always.items()
        }
        self.sources = [(name, _getter(one)) for name, one in always.items() if not isinstance(one.source, Always)]

    def document(self, row: T) -> dict[str, Any]:
        """The document of a row."""
        found = self.constants.copy()
        for name, get in self.sources:
            found[name] = get(row)
        return found

    def values(self, row: T) -> dict[str, Any]:
        """The fields that are not constant, without the DATA_TYPE: to be put into another document."""
        return {name: get(row) for name, get in self.sources}

    def pick(self, names: Iterable[str]) -> tuple[Field[Any], ...]:
        """The fields with these names, for another document."""
        known = {one.name: one for one in self.fields}
        return tuple(known[name] for name in names)

    def absent(self) -> tuple[Field[Any], ...]:
        """The fields with null, for a document that the `values` of this one are put into later."""
        return tuple(replace(one, source=Always(None)) for one in self.fields)

    @property
    def schema(self) -> Schema:
        """All of the fields (`fields=` leaves some out), and no others."""
        sometimes = [one.name for one in self.fields if one.sometimes]
        return {
            "type": "object",
            "properties": _properties(self._type, self.fields),
            "additionalProperties": False,
            **({"required": self._required} if self._required else {}),
            **({SOMETIMES: sometimes} if sometimes else {}),
        }

    @property
    def example(self) -> dict[str, Any]:
        shown = (one for one in self.fields if not one.sometimes or one.example is not _MISSING)
        return self._type | {one.name: one.shown() for one in shown} | dict(self._example)

    @property
    def ref(self) -> Schema:
        return ref(self.name)


def part(*fields: Field[T]) -> ResponseDocument[T]:
    """Fields that are put into other documents, from rows of their own."""
    return ResponseDocument("", *fields, data_type=None)


def wrapped(name: str, key: str, inner: ResponseDocument[Any], *, many: bool = False) -> ResponseDocument[None]:
    """A document with another one, or a list of them, under a key."""
    shown = Field[None](
        key, list_of(inner.ref) if many else inner.ref, example=[inner.example] if many else inner.example
    )
    return ResponseDocument(name, shown, data_type=None)


class ListDocument(ResponseDocument[Any]):
    """A list document: `fields` beside the rows in DATA."""

    def __init__(
        self,
        name: str,
        rows: ResponseDocument[Any],
        *fields: Field[Any],
        data_type: str | None = "",
        example: Mapping[str, Any] | None = None,
    ) -> None:
        data = Field[Any]("DATA", list_of(rows.ref), example=[rows.example])
        super().__init__(name, *fields, data, data_type=data_type, required="DATA", example=example)
        self._row = rows.document
        self._has_length = any(one.name == "length" for one in fields)

    def of(self, rows: Iterable[Any], **more: object) -> dict[str, Any]:
        """The list of these rows. more: the fields beside them."""
        return self.of_documents(list(map(self._row, rows)), **more)

    def of_documents(self, data: list[dict[str, Any]], **more: object) -> dict[str, Any]:
        """The list of rows that are documents already."""
        length = {"length": len(data)} if self._has_length else {}
        return {**self._type, **length, **more, "DATA": data}


@dataclass(frozen=True, slots=True)
class OtherResponse:
    """A document whose fields have no fixed names: its schema and its example."""

    name: str
    schema: Schema
    example: Any


class OtherRequest(OtherResponse):
    """A request whose fields have no fixed names."""


class RequestDocument:
    """A document that a client sends. Unknown fields are ignored, and DATA_TYPE may be left out.

    required: names of fields. data_type: as of a `ResponseDocument`.
    """

    def __init__(
        self,
        name: str,
        required: str,
        *fields: Field[Any],
        data_type: str | None = "",
        example: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.fields = fields
        self._required = required.split()
        self._type = {} if data_type is None else {"DATA_TYPE": data_type or name}
        self._example = example or {}
        self._readers = [(one.name, one.read or _reader(one.schema), one.name in self._required) for one in fields]

    def open(self, value: object, where: str = "") -> Document:
        """The document with its DATA_TYPE checked, to be read field by field. Raises BadRequest."""
        return Document(value, *self._type.values(), where=where)

    def read(self, value: object, where: str = "") -> dict[str, Any]:
        """The values of all declared fields by name; None where absent or null. Raises BadRequest."""
        return self.values(self.open(value, where))

    def values(self, document: Document) -> dict[str, Any]:
        """`read` for a document that `open` has returned."""
        found = {}
        for name, read, required in self._readers:
            found[name] = value = read(document, name)
            if required and value is None:
                document.refuse_missing(name)
        return found

    @property
    def schema(self) -> Schema:
        shape: Schema = {"type": "object", "properties": _properties(self._type, self.fields)}
        return {**shape, "required": self._required} if self._required else shape

    @property
    def example(self) -> dict[str, Any]:
        """The example of the declaration, completed by the required fields."""
        needed = {
            one.name: one.shown() for one in self.fields if one.name in self._required and one.name not in self._example
        }
        return {**self._type, **needed, **self._example}


def _properties(types: Mapping[str, str], fields: tuple[Field[Any], ...]) -> dict[str, Schema]:
    return {name: one_of(word) for name, word in types.items()} | {one.name: one.schema for one in fields}


def _getter(field: Field[Any]) -> Callable[[Any], Any]:
    """The function from a row to the value in JSON."""
    if isinstance(field.source, AsJson):
        return field.source.get
    source = field.source or field.name
    get: Callable[[Any], Any] = attrgetter(source) if isinstance(source, str) else source  # type: ignore[assignment]
    if is_time(field.schema):
        return lambda row: wire_time(get(row))
    if field.schema.get("format") == "uuid":
        return lambda row: str(found) if (found := get(row)) else None
    return get


def _reader(schema: Schema) -> Callable[[Document, str], object]:
    """How a value of this type is read. Lists of objects, and objects, come as they are."""
    if is_time(schema):
        return Document.moment
    if schema.get("format") == "uuid":
        return _identifier
    if schema.get("type") == "array" and schema["items"].get("type") == "string":
        most = schema.get("maxItems", 1000)
        return lambda document, name: document.texts(name, most)
    return _READERS.get(schema.get("type", ""), as_given)


_READERS: dict[str, Callable[[Document, str], object]] = {
    "string": Document.text,
    "boolean": Document.flag,
    "integer": Document.number,
}


def _identifier(document: Document, name: str) -> object:
    return document.identifier(name) if document.has(name) else None


def _usual_example(name: str, schema: Schema) -> Any:
    if "example" in schema:
        return schema["example"]
    if schema.get("nullable"):
        return None
    if schema.get("format") == "uuid":
        return _ID
    if "enum" in schema:
        return schema["enum"][0]
    usual: dict[str, Any] = {"boolean": False, "integer": 0, "array": []}
    if schema.get("type") not in usual:
        raise TypeError(f"{name}: the declaration of the field has no example")
    return usual[schema["type"]]
