"""The documents of files on endpoints."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from endpoints import operations
from endpoints.gridftp.facts import Entry
from endpoints.registry import canonical_name
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import LISTED, ActionDocument
from transferapi.rest.openapi.document_types import Always, Field, ListDocument, RequestDocument, ResponseDocument, each

_ON = "/operation/endpoint/1d2f4f0b-7c2e-4f0c-8b0e-0c1f6a7e9b02"


def file_type(entry: Entry) -> str:
    """`dir` also for the folder itself, which a server calls `cdir`."""
    return "dir" if entry.is_directory else entry.kind


def _modified(entry: Entry) -> str | None:
    return entry.modified.astimezone(UTC).isoformat(" ", "seconds") if entry.modified else None


#: A symlink is shown as what it points to, with the `link_` fields about itself.
FILE = ResponseDocument[Entry](
    "file",
    Field("name", t.about("an octet that is no UTF-8 is a lone surrogate (\\udcff)", t.TEXT), example="file1.txt"),
    Field("type", t.about("file, dir, or another type that the server reports", t.TEXT), file_type, "file"),
    Field("size", t.NUMBER, example=5),
    Field("permissions", t.MAYBE_TEXT, lambda entry: entry.mode or None, "0644"),
    Field("user", t.MAYBE_TEXT, lambda entry: entry.owner or None, "tutorial"),
    Field("group", t.MAYBE_TEXT, lambda entry: entry.group or None, "tutorial"),
    Field("last_modified", t.FILE_TIME, _modified),
    Field("link_target", t.MAYBE_TEXT),
    Field("link_size", t.MAYBE_NUMBER, Always(None)),
    *each("link_user link_group link_last_modified", t.MAYBE_TEXT, Always(None)),
)
FILE_LIST = ListDocument(
    "file_list",
    FILE,
    Field("endpoint", t.TEXT, example="go#ep1"),
    Field("path", t.PATH, example="/share/godata/"),
    Field("absolute_path", t.PATH, example="/share/godata/"),
    Field("rename_supported", t.FLAG, example=True),
    Field("symlink_supported", t.FLAG),
    Field("incomplete", t.about("why entries are missing; null: the listing is complete", t.MAYBE_TEXT)),
    #: An extension of ours.
    Field("writable", t.about("whether the access rules let you change what is in the folder", t.FLAG), example=True),
    *LISTED,
    Field("total", t.NUMBER, example=1),
)
MADE_DIRECTORY = ActionDocument(
    "mkdir_result",
    Field("path", t.PATH, example="/~/results"),
    code="DirectoryCreated",
    message="The directory was created successfully",
    resource=f"{_ON}/mkdir",
)
MADE_SYMLINK = ActionDocument(
    "symlink_result",
    Field("path", t.PATH, example="/~/latest"),
    code="SymlinkCreated",
    message="The symlink was created successfully",
    resource=f"{_ON}/symlink",
)
UPLOAD = ResponseDocument[Any](
    "upload",
    Field("path", t.PATH, example="/~/results.csv"),
    Field("received", t.about("octets that have arrived: the offset of the next request", t.NUMBER), example=8),
)
UPLOADED = ActionDocument(
    "upload_result",
    Field("path", t.PATH, example="/~/results.csv"),
    Field("received", t.about("octets that have arrived", t.NUMBER), example=16),
    Field("complete", t.about("whether the file is complete and has its name", t.FLAG), example=True),
    code="Uploaded",
    message="The file was uploaded successfully",
    resource=f"{_ON}/file",
)
DESTINATION = ResponseDocument[Any](
    "destination",
    Field("path", t.PATH, example="/~/results/"),
    Field("exists", t.about("a transfer makes a missing folder", t.FLAG), example=True),
    Field("writable", t.about("null: the server does not say it", t.MAYBE_FLAG), example=True),
    Field(
        "free",
        t.about("octets that may still be written; null: the server does not say it", t.MAYBE_NUMBER),
        example=2 * 10**12,
    ),
)
MKDIR = RequestDocument("mkdir", "path", Field("path", t.PATH, example="/~/results"))
RENAME = RequestDocument(
    "rename",
    "old_path new_path",
    Field("old_path", t.PATH, example="/~/old"),
    Field("new_path", t.PATH, example="/~/new"),
)
SYMLINK = RequestDocument(
    "symlink",
    "symlink_target path",
    Field("symlink_target", t.PATH, example="run-17"),
    Field("path", t.PATH, example="/~/latest"),
)


def folder(found: operations.Listing, asked: str = "") -> dict[str, Any]:
    """The fields of a listing about the folder. asked: the endpoint as the request names it."""
    by_id = asked.lower() == str(found.endpoint.pk)
    return {
        "DATA_TYPE": "file_list",
        "endpoint": str(found.endpoint.pk) if by_id else canonical_name(found.endpoint),
        "path": found.path,
        "absolute_path": found.absolute_path,
        "rename_supported": True,
        "symlink_supported": found.links,
        "incomplete": found.incomplete or None,
        "writable": found.writable,
    }
