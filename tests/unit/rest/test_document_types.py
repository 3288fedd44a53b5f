"""One declaration gives the output, the reading of requests, the schema and the example."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.integration.described import assert_valid
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.openapi import common, components
from transferapi.rest.openapi.document_types import (
    Always,
    Field,
    ListDocument,
    RequestDocument,
    ResponseDocument,
    any_list,
    each,
    optional,
    part,
    unchecked,
)
from transferapi.rest.openapi.types import (
    FLAG,
    MAYBE_TEXT,
    MAYBE_TIME,
    MAYBE_UUID,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    list_of,
    one_of,
)

ID = uuid.UUID("8f1c7d1e-4b0a-4c55-9a41-6f4d5f0f6a01")


@dataclass
class Owner:
    name: str = "alice"


@dataclass
class Row:
    id: uuid.UUID = ID
    label: str = "night"
    owner: Owner | None = None
    begun: datetime | None = datetime(2026, 1, 15, 13, 0, 0, 5, timezone(timedelta(hours=1)))
    other_id: uuid.UUID | None = None

    def __post_init__(self) -> None:
        self.owner = self.owner or Owner()


ROW = ResponseDocument[Row](
    "row",
    Field("id", UUID),
    Field("label", TEXT, example="night"),
    Field("owner", TEXT, "owner.name", "alice"),
    Field("letters", NUMBER, lambda row: len(row.label), 5),
    Field("begun", TIME),
    Field("other_id", MAYBE_UUID),
    Field("kind", one_of("row"), Always("row")),
    Field("note", MAYBE_TEXT, sometimes=True),
)


def test_values_come_from_attributes_paths_functions_and_constants_and_become_json_by_their_types() -> None:
    assert ROW.document(Row()) == {
        "DATA_TYPE": "row", "id": str(ID), "label": "night", "owner": "alice", "letters": 5,
        "begun": "2026-01-15T12:00:00+00:00", "other_id": None, "kind": "row",
    }  # fmt: skip
    assert list(ROW.document(Row())) == [name for name in ROW.schema["properties"] if name != "note"]
    assert ROW.document(Row(begun=None))["begun"] is None


def test_a_document_is_not_changed_by_the_next_one() -> None:
    first = ROW.document(Row())
    second = ROW.document(Row(label="day", other_id=ID))
    assert (first["label"], second["label"]) == ("night", "day")
    assert (first["other_id"], second["other_id"]) == (None, str(ID))


def test_the_schema_has_every_field_and_the_example_fits_it() -> None:
    assert ROW.schema["additionalProperties"] is False
    assert ROW.schema["x-sometimes"] == ["note"]
    assert set(ROW.example) == {"DATA_TYPE", *(field.name for field in ROW.fields)} - {"note"}
    assert_valid(ROW.schema, ROW.example, whole=True)
    assert_valid(ROW.schema, ROW.document(Row()), whole=True)


def test_a_page_shows_one_row() -> None:
    page = ListDocument("row_list", ROW, Field("length", NUMBER, example=1))
    assert page.example == {"DATA_TYPE": "row_list", "length": 1, "DATA": [ROW.example]}
    assert page.schema["properties"]["DATA"]["items"] == ROW.ref
    assert page.schema["required"] == ["DATA_TYPE", "DATA"]


def test_a_part_fills_in_fields_that_are_null_until_then() -> None:
    times = part(Field[Row]("begun", MAYBE_TIME), Field("label", MAYBE_TEXT))
    whole = ResponseDocument[Row]("whole", Field("id", UUID), *times.absent())
    assert whole.document(Row()) == {"DATA_TYPE": "whole", "id": str(ID), "begun": None, "label": None}
    filled = whole.document(Row()) | times.values(Row())
    assert (filled["begun"], filled["label"]) == ("2026-01-15T12:00:00+00:00", "night")


def test_a_field_without_an_example_cannot_be_shown() -> None:
    with pytest.raises(TypeError, match="title: the declaration of the field has no example"):
        _ = ResponseDocument[Row]("untitled", Field("title", TEXT)).example


REQUEST = RequestDocument(
    "row",
    "label id",
    Field("label", TEXT, example="night"),
    Field("id", UUID),
    *each("flag", FLAG),
    Field("number", NUMBER),
    Field("begun", TIME),
    Field("words", list_of(TEXT, maxItems=2)),
    *unchecked(Field("anything", NUMBER)),
    Field("DATA", list_of({"type": "object"}), read=any_list),
    example={"number": 3},
)
GIVEN: dict[str, Any] = {"DATA_TYPE": "row", "label": "night", "id": str(ID)}


def test_a_request_is_read_by_the_types_of_its_fields() -> None:
    more = {"flag": True, "number": 3, "begun": "2026-01-15", "words": ["a"], "anything": "x", "unheard_of": 1}
    assert REQUEST.read(GIVEN | more) == {
        "label": "night", "id": ID, "flag": True, "number": 3, "begun": datetime(2026, 1, 15, tzinfo=UTC),
        "words": ["a"], "anything": "x", "DATA": (),
    }  # fmt: skip
    nulls = dict.fromkeys(("flag", "number", "begun", "words", "anything"))
    assert REQUEST.read(GIVEN | nulls) == {"label": "night", "id": ID, **nulls, "DATA": ()}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"label": None}, "label: is missing"),
        ({"id": None}, "id: is missing"),
        ({"label": 1}, "label: expected a string"),
        ({"id": "x"}, "id: expected a UUID"),
        ({"flag": "true"}, "flag: expected true or false"),
        ({"number": True}, "number: expected a whole number"),
        ({"begun": "soon"}, "begun: expected a time such as"),
        ({"words": ["a", "b", "c"]}, "words: expected a list of at most 2 strings"),
        ({"DATA_TYPE": "column"}, "DATA_TYPE: expected row"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_field(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        REQUEST.read(GIVEN | changed)
    assert message in str(caught.value.message)
    with pytest.raises(BadRequest) as caught:
        REQUEST.read(GIVEN | changed, "DATA[3].")
    assert f"DATA[3].{message}" in str(caught.value.message)


def test_the_schema_and_the_example_of_a_request() -> None:
    assert REQUEST.schema["required"] == ["label", "id"]
    assert REQUEST.example == {"DATA_TYPE": "row", "label": "night", "id": str(ID), "number": 3}
    assert_valid(REQUEST.schema, REQUEST.example)
    assert [one.schema for one in optional(*each("flag", FLAG))] == [{**FLAG, "nullable": True}]


def test_two_documents_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "ANOTHER", ResponseDocument[None]("task"), raising=False)
    with pytest.raises(ValueError, match="another document has the name task"):
        components._declared(ResponseDocument)
