"""The documents of bookmarks."""

from __future__ import annotations

from .schema import FLAG, MAYBE_FLAG, NUMBER, TEXT, UUID, Schema, about, asked, page, told

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
