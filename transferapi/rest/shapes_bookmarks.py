"""The documents of bookmarks."""

from __future__ import annotations

from .schema import (
    FLAG,
    MAYBE_FLAG,
    NUMBER,
    TEXT,
    UUID,
    Schema,
    about,
    asked,
    each,
    list_of,
    one_of,
    page,
    taken,
    told,
    told_plain,
)

_NAME = about("your own word for it, of at most 128 characters; no other bookmark of yours has it", TEXT)
_PATH = about("of a folder; comes back with a slash at its end", TEXT)

ANSWERS_BOOKMARKS: dict[str, Schema] = {
    "bookmark": told("bookmark", {"id": UUID, "name": TEXT, "endpoint_id": UUID, "path": _PATH, "pinned": FLAG}),
    "bookmark_list": page("bookmark_list", "bookmark", length=NUMBER),
}
REQUESTS_BOOKMARKS: dict[str, Schema] = {
    "bookmark": asked(
        "bookmark",
        "name endpoint_id path",
        {
            "name": _NAME,
            "endpoint_id": about("id, owner#name, or the name of one of your own", TEXT),
            "path": _PATH,
            "pinned": MAYBE_FLAG,
        },
    ),
    "bookmark_change": asked(
        "bookmark",
        "",
        {"name": {**_NAME, "nullable": True}, "path": {**_PATH, "nullable": True}, "pinned": MAYBE_FLAG},
    ),
}

# ---- as JSON:API

_META = told_plain({"request_id": TEXT})
_ERROR = told_plain(each("status code title detail", TEXT))
_COLLECTION = told_plain({"data": told_plain({"type": one_of("Collection"), "id": UUID})})
_RESOURCE = told_plain(
    {
        "type": one_of("Bookmark"),
        "id": UUID,
        "attributes": told_plain({"name": TEXT, "path": _PATH, "pinned": FLAG}),
        "relationships": told_plain({"collection": _COLLECTION}),
    }
)
ANSWERS_BOOKMARKS |= {
    "bookmark_resource": told_plain({"data": _RESOURCE, "meta": _META}),
    "bookmark_resources": told_plain({"data": list_of(_RESOURCE), "meta": _META}),
    "jsonapi_done": told_plain({"meta": _META}),
    "jsonapi_errors": told_plain({"errors": list_of(_ERROR), "meta": _META}),
}
_WRITTEN_COLLECTION = taken("data", {"data": taken("id", {"type": one_of("Collection"), "id": TEXT})})
_WRITTEN = {"name": _NAME, "path": _PATH, "pinned": MAYBE_FLAG}
REQUESTS_BOOKMARKS |= {
    "bookmark_resource": taken(
        "data",
        {
            "data": taken(
                "attributes relationships",
                {
                    "type": one_of("Bookmark"),
                    "attributes": taken("name path", _WRITTEN),
                    "relationships": taken("collection", {"collection": _WRITTEN_COLLECTION}),
                },
            )
        },
    ),
    "bookmark_resource_change": taken(
        "data", {"data": taken("attributes", {"type": one_of("Bookmark"), "attributes": taken("", _WRITTEN)})}
    ),
}
