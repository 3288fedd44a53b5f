"""Documents in XML: there and back without a loss, and nothing but data comes in."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.references import inlined
from transferapi.rest.http import xml_documents
from transferapi.rest.http.xml_documents import MAX_DEPTH, XMLError
from transferapi.rest.openapi import components
from transferapi.rest.openapi.components import REQUESTS, RESPONSES
from transferapi.rest.openapi.types import Schema

#: Every character of Python, also those that XML cannot have, and more of them than by chance.
TEXTS = st.text(
    st.one_of(st.characters(codec=None), st.sampled_from("\0\x01\r\n\t\x1b\udc80\udcff\ufffe\uffff\\<>&'\" u]"))
)


def _documents(schema: Schema) -> st.SearchStrategy[Any]:
    """Documents of a schema, with anything for text."""
    found = _values(schema)
    return st.none() | found if schema.get("nullable") else found


def _values(schema: Schema) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return _documents(RESPONSES[schema["$ref"].rpartition("/")[2]])
    if "oneOf" in schema:
        return st.one_of(*map(_documents, schema["oneOf"])) if "properties" in schema["oneOf"][0] else TEXTS
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "array":
            return st.lists(_documents(schema["items"]), max_size=3)
        case "object":
            return _objects(schema)
        case "integer":
            return st.integers(-(2**70), 2**70)
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case _:
            return TEXTS


def _objects(schema: Schema) -> st.SearchStrategy[Any]:
    fields = {name: _documents(one) for name, one in schema.get("properties", {}).items() if name != "DATA_TYPE"}
    types = schema.get("properties", {}).get("DATA_TYPE", {}).get("enum")
    told = {"DATA_TYPE": st.just(types[0])} if types else {}
    words = {
        name: fields.pop(name)
        for name, one in schema.get("properties", {}).items()
        if len(one.get("enum", ())) == 1 and name in fields
    }
    return st.fixed_dictionaries({**told, **words}, optional=fields)


@cache
def _documents_of(kind: str, name: str) -> st.SearchStrategy[Any]:
    return _documents((RESPONSES if kind == "out" else REQUESTS)[name])


#: In this JSON:API list `data` is a list, and inside it an object: names of XML elements alone do not distinguish them.
#: The service sends this document, and never reads it.
SENT_ONLY = "bookmark_resources"
OUT = [name for name in RESPONSES if name != SENT_ONLY]


@pytest.mark.parametrize(("kind", "name"), [("out", name) for name in OUT] + [("in", name) for name in REQUESTS])
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_document_of_any_kind_comes_back_as_it_went(kind: str, name: str, data: st.DataObject) -> None:
    schema = _schema_of(name) if kind == "out" else REQUESTS[name]
    document = data.draw(_documents_of(kind, name))
    assert xml_documents.loads(xml_documents.dumps(document), schema) == document


@cache
def _schema_of(name: str) -> Schema:
    return inlined(RESPONSES[name])


def _is_open(schema: Schema, seen: frozenset[str] = frozenset()) -> bool:
    """Whether the schema has an object of any content: XML keeps the text of such content, but not its types."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name not in seen and _is_open(RESPONSES[name], seen | {name})
    if schema.get("type") == "object" and "properties" not in schema:
        return True
    inner = [*schema.get("properties", {}).values(), *schema.get("oneOf", ()), schema.get("items", {})]
    return any(_is_open(one, seen) for one in inner if one)


@pytest.mark.parametrize("name", [name for name in OUT if not _is_open(RESPONSES[name])])
def test_the_canned_documents_come_back_too(name: str) -> None:
    assert (
        xml_documents.loads(xml_documents.dumps(components.RESPONSE_EXAMPLES[name]), _schema_of(name))
        == components.RESPONSE_EXAMPLES[name]
    )


def test_a_list_is_a_document_too() -> None:
    schema = {"type": "array", "items": _schema_of("task")}
    for document in ([], [components.RESPONSE_EXAMPLES["task"]] * 2):
        assert xml_documents.loads(xml_documents.dumps(document), schema) == document


def test_how_it_looks() -> None:
    document = {
        "DATA_TYPE": "endpoint", "name": "a<b", "description": None, "public": True, "keywords": "",
        "my_effective_roles": ["administrator"], "DATA": [{"DATA_TYPE": "server", "port": 2811}], "2nd": "x\0\\",
    }  # fmt: skip
    assert xml_documents.dumps(document).decode() == (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<endpoint xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        '<name>a&lt;b</name><description xsi:nil="true"/><public>true</public><keywords></keywords>'
        "<my_effective_roles><item>administrator</item></my_effective_roles>"
        "<DATA><server><port>2811</port></server></DATA>"
        '<field name="2nd" escaped="true">x\\u0000\\\\</field></endpoint>'
    )


def test_what_people_write_by_hand_is_read_by_the_schema() -> None:
    text = """<?xml version='1.0' encoding='ISO-8859-1'?>
    <!-- a transfer -->
    <transfer xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
      <source_endpoint>go#ep1</source_endpoint> <label>gr\u00fc\u00df</label>
      <verify_checksum> true </verify_checksum><sync_level>2</sync_level><deadline i:nil="1"/>
      <encrypt_data>0</encrypt_data>
      <DATA>
        <transfer_item><source_path>/a b </source_path><recursive>false</recursive></transfer_item>
        <transfer_symlink_item><source_path><![CDATA[<l>]]></source_path></transfer_symlink_item>
        <transfer_item><source_path>/c&#10;</source_path></transfer_item>
      </DATA>
    </transfer>"""
    assert xml_documents.loads(text.encode("latin-1"), REQUESTS["transfer"]) == {
        "DATA_TYPE": "transfer", "source_endpoint": "go#ep1", "label": "gr\u00fc\u00df", "verify_checksum": True,
        "sync_level": 2, "deadline": None, "encrypt_data": False,
        "DATA": [
            {"DATA_TYPE": "transfer_item", "source_path": "/a b ", "recursive": False},
            {"DATA_TYPE": "transfer_symlink_item", "source_path": "<l>"},
            {"DATA_TYPE": "transfer_item", "source_path": "/c\n"},
        ],
    }  # fmt: skip


def test_what_is_no_value_of_its_type_stays_text_for_who_reads_it() -> None:
    found = xml_documents.loads(
        b"<transfer><sync_level>two</sync_level><DATA/><unheard><of>1</of></unheard></transfer>", REQUESTS["transfer"]
    )
    assert found == {"DATA_TYPE": "transfer", "sync_level": "two", "DATA": [], "unheard": {"of": "1"}}


_LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><transfer><label>&b;</label></transfer>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_LAUGHS, "a DTD is not allowed"),
        ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><transfer>&a;</transfer>', "a DTD is not allowed"),
        ('<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd"><transfer/>', "a DTD is not allowed"),
        ('<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><transfer/>', "a DTD is not allowed"),
        ("<transfer>&a;</transfer>", "undefined entity"),
        ("<?php evil ?><transfer/>", "a processing instruction is not allowed"),
        ('<transfer><?xml-stylesheet href="x"?></transfer>', "a processing instruction is not allowed"),
        ("<a>" * 100_000, "nested too deeply"),
        ("<a>" * (MAX_DEPTH + 1) + "</a>" * (MAX_DEPTH + 1), "nested too deeply"),
        ("<transfer><label></transfer>", "mismatched tag"),
        ("<transfer/><transfer/>", "junk after document element"),
        ("", "no element found"),
        ("<transfer>\x01</transfer>", "not well-formed"),
        ("<transfer>&#1;</transfer>", "reference to invalid character number"),
        ("<x:transfer/>x", "junk after document element"),
        ('<?xml version="1.0" encoding="klingon"?><transfer/>', "the encoding is not known"),
        ('<transfer a="1" a="2"/>', "duplicate attribute"),
    ],
)
def test_what_is_more_than_data_or_no_xml_is_refused(text: str, words: str) -> None:
    with pytest.raises(XMLError) as caught:
        xml_documents.loads(text.encode(), REQUESTS["transfer"])
    assert words in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text(alphabet="<>/ab?!&;[]\"'= ", max_size=60).map(str.encode))
def test_whatever_comes_in_is_a_document_or_an_error(data: bytes) -> None:
    with suppress(XMLError):
        xml_documents.loads(data, REQUESTS["transfer"])
