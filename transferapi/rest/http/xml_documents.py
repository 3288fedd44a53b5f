"""The documents of the API in XML, both ways, without loss.

An object is an element with its fields as children. The name of the root, and of each object in a list, is its
DATA_TYPE (`item` where it has none); elsewhere DATA_TYPE is a child like others. A list holds its elements as children,
null is `xsi:nil="true"`, and a field whose name is not a name of XML is `<field name="...">`. XML has no types: the
schema of the expected document gives the types of the values.

XML 1.0 cannot represent some characters (controls, and the lone surrogates that stand for octets that are not UTF-8):
the text of an element that has them is escaped as in JSON (\\u0001, \\udcff, \\\\), with the attribute
`escaped="true"`.

expat reads documents, to a bounded depth, and refuses DTDs, entities and processing instructions. Why this does not use
defusedxml: docs/decisions/rest-documents.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import xmltodict

#: A schema of OpenAPI.
Schema = dict[str, Any]
#: The most elements in each other. The deepest document of the API has six.
MAX_DEPTH = 32
XSI = "http://www.w3.org/2001/XMLSchema-instance"
_HEAD = b'<?xml version="1.0" encoding="utf-8"?>\n'
_NAME = re.compile(r"(?!(?i:xml))[A-Za-z_][A-Za-z0-9_.-]*\Z")
#: Characters that XML 1.0 cannot represent (section 2.2), not even by a reference.
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: A parser would read this character as a line feed (section 2.11).
_REFERENCES = {"\r": "&#13;"}
#: Names of elements without a DATA_TYPE, and of an element that names its field by the attribute `name`.
_ITEM, _ROOT, _FIELD = "item", "document", "field"

# ---- out


def dumps(document: Any, root: str = _ROOT) -> bytes:
    """A document as UTF-8; it may hold `Rows` as a list. root: the name of an element without a DATA_TYPE."""
    return b"".join(parts(document, root))


def parts(document: Any, root: str = _ROOT) -> Iterator[bytes]:
    """The same in parts, each with some rows of a long list."""
    yield _HEAD
    yield from _parts(_type_of(document) or root, document, f' xmlns:xsi="{XSI}"', named=True)


def _parts(name: str, value: Any, attributes: str = "", *, named: bool = False) -> Iterator[bytes]:
    """An element in octets, a long list in parts, so that memory is bounded. named: the name is the DATA_TYPE."""
    if hasattr(value, "documents"):
        yield f"<{name}{attributes}>".encode()
        for part in value.documents():
            yield "".join(map(_item, part)).encode()
        yield f"</{name}>".encode()
    elif isinstance(value, Mapping) and any(hasattr(one, "documents") for one in value.values()):
        yield f"<{name}{attributes}>".encode()
        for field, one in _fields(value, named):
            yield from _parts(field, one)
        yield f"</{name}>".encode()
    else:
        yield _element(name, value, attributes, named=named).encode()


def _element(name: str, value: Any, attributes: str = "", *, named: bool = False) -> str:
    if value is None:
        return f'<{name}{attributes} xsi:nil="true"/>'
    if isinstance(value, Mapping):
        inner = "".join(_field(field, one) for field, one in _fields(value, named))
    elif isinstance(value, (list, tuple)):
        inner = "".join(map(_item, value))
    elif isinstance(value, str):
        if _NO_CHARACTER.search(value):
            value, attributes = _escaped(value), f'{attributes} escaped="true"'
        inner = escape(value, _REFERENCES)
    else:
        inner = json.dumps(value)
    return f"<{name}{attributes}>{inner}</{name}>"


def _fields(value: Mapping[str, Any], named: bool) -> Iterable[tuple[str, Any]]:
    return (pair for pair in value.items() if not (named and pair[0] == "DATA_TYPE"))


def _field(name: str, value: Any) -> str:
    plain = _NAME.match(name) and name != _FIELD
    return _element(name, value) if plain else _element(_FIELD, value, f" name={quoteattr(name)}")


def _item(value: Any) -> str:
    """An element of a list."""
    name = _type_of(value)
    return _element(name or _ITEM, value, named=name is not None)


def _type_of(value: Any) -> str | None:
    name = value.get("DATA_TYPE") if isinstance(value, Mapping) else None
    plain = isinstance(name, str) and _NAME.match(name) and name not in (_ITEM, _ROOT)
    return str(name) if plain else None


def _escaped(text: str) -> str:
    """The text between the quotes of a JSON string, but unescaped where XML can represent it."""
    return _NO_CHARACTER.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\\", "\\\\"))


# ---- in


class XMLError(ValueError):
    """The document is not XML, or has something that is refused. The message says which."""


def loads(data: bytes, schema: Schema) -> Any:
    """A document of this schema, which has no `$ref`. Raises XMLError.

    Fields that the schema does not have stay text, and so do values of a wrong type: the reader of the document reports
    them.
    """
    names = _lists(schema) | ({_ROOT} if schema.get("type") == "array" else set())
    try:
        _examine(data)
        tree = xmltodict.parse(data, strip_whitespace=False, postprocessor=lambda *one: _placed(names, *one))
    except expat.ExpatError as error:
        raise XMLError(f"{expat.errors.messages[error.code]}: line {error.lineno}, column {error.offset}") from None
    except (LookupError, ValueError) as error:
        raise error if isinstance(error, XMLError) else XMLError("the encoding is not known") from None
    ((name, value),) = tree.items()
    return _read(value, schema, name)


def _examine(data: bytes) -> None:
    """Check that a document is well-formed, is not nested too deeply, and has nothing besides elements and text."""
    parser = expat.ParserCreate()
    depth = 0

    def begin(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise XMLError("the document is nested too deeply")

    def end(_: object) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.StartDoctypeDeclHandler = lambda *_: _refuse("a DTD")
    parser.EntityDeclHandler = lambda *_: _refuse("an entity")
    parser.ProcessingInstructionHandler = lambda *_: _refuse("a processing instruction")
    parser.Parse(data, True)


def _refuse(what: str) -> NoReturn:
    raise XMLError(f"{what} is not allowed")


def _lists(schema: Schema) -> frozenset[str]:
    """The names of fields that hold lists, anywhere in a document."""
    found = {name for name, one in schema.get("properties", {}).items() if one.get("type") == "array"}
    inner = [*schema.get("properties", {}).values(), *schema.get("oneOf", ()), schema.get("items", {})]
    return frozenset(found).union(*(_lists(one) for one in inner if one))


def _placed(lists: frozenset[str], path: list[tuple[str, Any]], key: str, value: Any) -> tuple[str, Any] | None:
    """A postprocessor of xmltodict: elements of a list keep their order also where their names differ."""
    if key.startswith("@"):
        short = "@nil" if key.endswith(":nil") else key
        return (short, value) if short in ("@escaped", "@name", "@nil") else None
    if not key.startswith("#") and len(path) > 1 and path[-2][0] in lists:
        return _ITEM, (key, value)
    return key, value


def _read(value: Any, schema: Schema, name: str | None = None) -> Any:
    """Read a value by its schema. name: of the element, where it is the DATA_TYPE."""
    if isinstance(value, list):  # A field that occurs twice: the last value counts, as in JSON.
        value = value[-1]
    if isinstance(value, dict) and value.get("@nil") in ("true", "1"):
        return None
    if "oneOf" in schema:
        return _read_choice(value, schema["oneOf"], name)
    kind = schema.get("type")
    if kind == "array":
        return [_read(one, schema.get("items", {}), key) for key, one in _items(value)]
    if kind == "object" or (kind is None and _has_fields(value)):
        return _read_object(value, schema, name)
    return _read_text(_text(value), kind)


def _read_choice(value: Any, choices: list[Schema], name: str | None) -> Any:
    """Read by the first schema whose constant fields (DATA_TYPE, or a `type`) match; else by the first schema."""
    said = {field: _text(one) for field, one in _children(value) if not isinstance(one, list)}
    if name not in (None, _ITEM):
        said["DATA_TYPE"] = str(name)
    fitting = [one for one in choices if _fits(said, one.get("properties", {}))]
    return _read(value, (fitting or choices)[0], name)


def _fits(said: Mapping[str, str], properties: Mapping[str, Schema]) -> bool:
    words = {field: one["enum"] for field, one in properties.items() if len(one.get("enum", ())) == 1}
    known = [field for field in said if field in words]
    return set(said) - {"DATA_TYPE"} <= set(properties) and all(said[field] in words[field] for field in known)


def _read_object(value: Any, schema: Schema, name: str | None) -> dict[str, Any]:
    known = schema.get("properties", {})
    other = schema.get("additionalProperties")
    other = other if isinstance(other, dict) else {}
    found: dict[str, Any] = {}
    if name not in (None, _ITEM, _ROOT) and ("DATA_TYPE" in known or not known):
        found["DATA_TYPE"] = name
    for field, one in _children(value):
        found[field] = _read(one, known.get(field, other))
    return found


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    for field, one in value.items() if isinstance(value, dict) else ():
        if field == _FIELD:
            for each in one if isinstance(one, list) else [one]:
                if isinstance(each, dict) and "@name" in each:
                    yield each["@name"], {key: inner for key, inner in each.items() if key != "@name"}
        elif not field.startswith(("@", "#")):
            yield field, one


def _items(value: Any) -> list[tuple[str, Any]]:
    found = value.get(_ITEM, []) if isinstance(value, dict) else []
    return found if isinstance(found, list) else [found]


def _has_fields(value: Any) -> bool:
    return isinstance(value, dict) and any(not key.startswith(("@", "#")) for key in value)


def _text(value: Any) -> str:
    if not isinstance(value, dict):
        return value or ""
    text = str(value.get("#text") or "")
    return _unescaped(text) if value.get("@escaped") in ("true", "1") else text


def _unescaped(text: str) -> str:
    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|\\)", lambda found: chr(int(found[1], 16)) if found[1] else "\\", text)


_WHOLE = re.compile(r"\s*([+-]?[0-9]{1,4000})\s*\Z", re.ASCII)
_WORDS = {"true": True, "1": True, "false": False, "0": False}


def _read_text(text: str, kind: str | None) -> Any:
    """A value of this type, or the text where it has another type."""
    if kind == "integer" and (found := _WHOLE.match(text)):
        return int(found[1])
    if kind == "number":
        try:
            return json.loads(text, parse_constant=_refuse)
        except ValueError:
            return text
    return _WORDS.get(text.strip(), text) if kind == "boolean" else text
