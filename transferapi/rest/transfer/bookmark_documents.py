"""The documents of bookmarks, in the form of v0.10 and as JSON:API."""

from __future__ import annotations

from endpoints.models import Bookmark
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import LENGTH
from transferapi.rest.openapi.document_types import (
    Field,
    ListDocument,
    RequestDocument,
    ResponseDocument,
    optional,
    part,
)

_ATTRIBUTES = (
    Field[Bookmark](
        "name",
        t.about("at most 128 characters; unique among your bookmarks", t.TEXT),
        example="the archive",
    ),
    Field[Bookmark]("path", t.about("of a folder; comes back with a slash at its end", t.TEXT), example="/projects/"),
    Field[Bookmark]("pinned", t.FLAG, example=True),
)
_NAME, _PATH, _PINNED = _ATTRIBUTES
_PINNED_OR_NOT = optional(_PINNED)

BOOKMARK = ResponseDocument[Bookmark](
    "bookmark", Field("id", t.UUID, "pk"), _NAME, Field("endpoint_id", t.UUID), _PATH, _PINNED
)
BOOKMARK_LIST = ListDocument("bookmark_list", BOOKMARK, LENGTH)
BOOKMARK_REQUEST = RequestDocument(
    "bookmark",
    "name endpoint_id path",
    _NAME,
    Field("endpoint_id", t.ENDPOINT, example="go#ep1"),
    _PATH,
    *_PINNED_OR_NOT,
    example={"pinned": True},
)
BOOKMARK_CHANGE = RequestDocument(
    "bookmark_change", "", *optional(*_ATTRIBUTES), data_type="bookmark", example={"name": "the old archive"}
)

# ---- as JSON:API


META = Field[None]("meta", t.object_of({"request_id": t.TEXT}), example={"request_id": "aB3_dE6gH9"})
ATTRIBUTES = part(*_ATTRIBUTES)
_COLLECTION = t.object_of({"data": t.object_of({"type": t.one_of("Collection"), "id": t.UUID})})
RESOURCE = part(
    Field[Bookmark]("type", t.one_of("Bookmark"), lambda row: "Bookmark"),
    Field("id", t.UUID, "pk"),
    Field("attributes", ATTRIBUTES.schema, ATTRIBUTES.document, ATTRIBUTES.example),
    Field(
        "relationships",
        t.object_of({"collection": _COLLECTION}),
        lambda row: {"collection": {"data": {"type": "Collection", "id": str(row.endpoint_id)}}},
        {"collection": {"data": {"type": "Collection", "id": "8f1c7d1e-4b0a-4c55-9a41-6f4d5f0f6a01"}}},
    ),
)
BOOKMARK_RESOURCE = ResponseDocument[None](
    "bookmark_resource", Field("data", RESOURCE.schema, example=RESOURCE.example), META, data_type=None
)
BOOKMARK_RESOURCES = ResponseDocument[None](
    "bookmark_resources", Field("data", t.list_of(RESOURCE.schema), example=[RESOURCE.example]), META, data_type=None
)
JSONAPI_DONE = ResponseDocument[None]("jsonapi_done", META, data_type=None)
JSONAPI_ERRORS = ResponseDocument[None](
    "jsonapi_errors",
    Field(
        "errors",
        t.list_of(t.object_of(t.properties("status code title detail", t.TEXT))),
        example=[
            {
                "status": "501",
                "code": "ServiceError.NotSupported",
                "title": "ServiceError.NotSupported",
                "detail": "This service has no tunnels",
            }
        ],
    ),
    META,
    data_type=None,
)
GIVEN_ATTRIBUTES = RequestDocument("bookmark_attributes", "name path", _NAME, _PATH, *_PINNED_OR_NOT, data_type=None)
CHANGED_ATTRIBUTES = RequestDocument("bookmark_changed_attributes", "", _NAME, _PATH, *_PINNED_OR_NOT, data_type=None)
_GIVEN_COLLECTION = t.object_with("data", {"data": t.object_with("id", {"type": t.one_of("Collection"), "id": t.TEXT})})
BOOKMARK_RESOURCE_REQUEST = RequestDocument(
    "bookmark_resource",
    "data",
    Field(
        "data",
        t.object_with(
            "attributes relationships",
            {
                "type": t.one_of("Bookmark"),
                "attributes": GIVEN_ATTRIBUTES.schema,
                "relationships": t.object_with("collection", {"collection": _GIVEN_COLLECTION}),
            },
        ),
        example={
            "type": "Bookmark",
            "attributes": {"name": "the archive again", "path": "/projects/"},
            "relationships": {"collection": {"data": {"type": "Collection", "id": "go#ep1"}}},
        },
    ),
    data_type=None,
)
BOOKMARK_RESOURCE_CHANGE = RequestDocument(
    "bookmark_resource_change",
    "data",
    Field(
        "data",
        t.object_with("attributes", {"type": t.one_of("Bookmark"), "attributes": CHANGED_ATTRIBUTES.schema}),
        example={"type": "Bookmark", "attributes": {"name": "the oldest archive", "path": "/projects/old/"}},
    ),
    data_type=None,
)
