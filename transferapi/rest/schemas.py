"""The OpenAPI description: the documents' shapes in one place, and the decorator that views wear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema

F = TypeVar("F", bound=Callable[..., Any])
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
MAYBE_TEXT: Schema = {"type": "string", "nullable": True}
NUMBER: Schema = {"type": "integer"}
MAYBE_NUMBER: Schema = {"type": "integer", "nullable": True}
FLAG: Schema = {"type": "boolean"}
MAYBE_FLAG: Schema = {"type": "boolean", "nullable": True}
UUID: Schema = {"type": "string", "format": "uuid"}
TIME: Schema = {"type": "string", "format": "date-time"}
MAYBE_TIME: Schema = {"type": "string", "format": "date-time", "nullable": True}


def _object(required: str = "", /, **fields: Schema) -> Schema:
    found: Schema = {"type": "object", "properties": fields}
    return {**found, "required": required.split()} if required else found


def _list(of: Schema, /, **more: Schema) -> Schema:
    return _object("DATA", DATA_TYPE=TEXT, length=NUMBER, **more, DATA={"type": "array", "items": of})


def _texts(names: str, schema: Schema = MAYBE_TEXT) -> dict[str, Schema]:
    return dict.fromkeys(names.split(), schema)


RESULT = _object("code message request_id resource", DATA_TYPE=TEXT, **_texts("code message request_id resource", TEXT))
ERROR = _object("code message request_id resource", **_texts("code message request_id resource", TEXT))
SERVER = _object(
    id=NUMBER, hostname=TEXT, port=NUMBER, scheme={"type": "string", "enum": ["gsiftp", "ftp", "sshftp"]}, uri=TEXT,
    subject=MAYBE_TEXT, DATA_TYPE=TEXT,
)  # fmt: skip
ENDPOINT = _object(
    DATA_TYPE=TEXT,
    id=UUID,
    owner_id=UUID,
    public=FLAG,
    DATA={"type": "array", "items": SERVER},
    **_texts("name display_name canonical_name owner_string default_directory", TEXT),
    **_texts("description organization department keywords contact_email contact_info info_link"),
)
FILE = _object(
    "name type size",
    **_texts("DATA_TYPE name type", TEXT),
    **_texts("permissions user group last_modified link_target"),
    size=NUMBER,
)
TRANSFER_ITEM = _object(
    "source_path destination_path", DATA_TYPE=TEXT, source_path=TEXT, destination_path=TEXT, recursive=MAYBE_FLAG
)
TRANSFER = _object(
    "submission_id source_endpoint destination_endpoint DATA",
    DATA_TYPE=TEXT, submission_id=UUID, source_endpoint=TEXT, destination_endpoint=TEXT, label=MAYBE_TEXT,
    deadline=MAYBE_TIME, perf_cc=MAYBE_NUMBER, perf_p=MAYBE_NUMBER, perf_pp=MAYBE_NUMBER,
    notify_on_succeeded=FLAG, notify_on_failed=FLAG, notify_on_inactive=FLAG,
    DATA={"type": "array", "items": TRANSFER_ITEM, "minItems": 1},
)  # fmt: skip
DELETE = _object(
    "submission_id endpoint DATA",
    DATA_TYPE=TEXT, submission_id=UUID, endpoint=TEXT, label=MAYBE_TEXT, deadline=MAYBE_TIME, recursive=FLAG,
    ignore_missing=FLAG, interpret_globs=FLAG,
    DATA={"type": "array", "minItems": 1, "items": _object("path", DATA_TYPE=TEXT, path=TEXT)},
)  # fmt: skip
TASK = _object(
    "task_id type status",
    DATA_TYPE=TEXT, task_id=UUID, type={"type": "string", "enum": ["TRANSFER", "DELETE"]},
    status={"type": "string", "enum": ["ACTIVE", "INACTIVE", "SUCCEEDED", "FAILED"]}, label=MAYBE_TEXT,
    request_time=TIME, deadline=TIME, completion_time=MAYBE_TIME, is_ok=MAYBE_FLAG,
    fatal_error={**_object("code", code=TEXT, description=TEXT), "nullable": True},
    **_texts("source_endpoint_id source_endpoint source_endpoint_display_name", TEXT),
    **_texts("destination_endpoint_id destination_endpoint destination_endpoint_display_name nice_status"),
    **_texts("nice_status_details nice_status_short_description"),
    **_texts(
        "files directories symlinks files_transferred files_skipped bytes_transferred bytes_checksummed faults "
        "effective_bytes_per_second subtasks_total subtasks_pending subtasks_succeeded subtasks_failed "
        "subtasks_expired subtasks_canceled subtasks_retrying",
        NUMBER,
    ),
)  # fmt: skip
EVENT = _object("code time", **_texts("DATA_TYPE code description details", TEXT), is_error=FLAG, time=TIME)
ACCEPTED = _object(
    "task_id", **_texts("DATA_TYPE code message request_id resource", TEXT), task_id=UUID, submission_id=UUID
)
PATHS = _texts("source_path destination_path")
PAGE = {"limit": NUMBER, "offset": NUMBER}

#: Every document by its DATA_TYPE.
DOCUMENTS: dict[str, Schema] = {
    "endpoint": ENDPOINT,
    "endpoint_create_result": _object("id", **RESULT["properties"], id=UUID, canonical_name=TEXT),
    "endpoint_list": _list(ENDPOINT, **PAGE, has_next_page=FLAG),
    "server": SERVER,
    "endpoint_server_list": _list(SERVER, endpoint=TEXT),
    "endpoint_server_add_result": _object("id", **RESULT["properties"], id=NUMBER),
    "activation_result": _object("code", **RESULT["properties"], expires_in=NUMBER),
    "file_list": _list(FILE, **PAGE, total=NUMBER, path=TEXT, absolute_path=TEXT, endpoint=TEXT),
    "file": FILE,
    "mkdir": _object("path", DATA_TYPE=TEXT, path=TEXT),
    "mkdir_result": RESULT,
    "rename": _object("old_path new_path", DATA_TYPE=TEXT, old_path=TEXT, new_path=TEXT),
    "submission_id": _object("value", DATA_TYPE=TEXT, value=UUID),
    "transfer": TRANSFER,
    "transfer_result": ACCEPTED,
    "delete": DELETE,
    "delete_result": ACCEPTED,
    "task": TASK,
    "task_list": _list(TASK, **PAGE, total=NUMBER),
    "event_list": _list(EVENT, **PAGE, total=NUMBER),
    "successful_transfers": _list(_object(**PATHS, size=NUMBER), marker=MAYBE_NUMBER, next_marker=MAYBE_NUMBER),
    "skipped_errors": _list(
        _object(**PATHS, **_texts("error_code error_details error_time")), marker=MAYBE_NUMBER, next_marker=MAYBE_NUMBER
    ),
    "result": RESULT,
}

_QUERY: dict[str, str] = {
    "fields": "only these fields of each document, with commas",
    "filter": "conditions such as status:ACTIVE,INACTIVE/label:~night*",
    "orderby": "a field, with ASC or DESC; several with commas",
    "limit": "how many at most",
    "offset": "how many to pass over",
    "marker": "where to go on: next_marker of the page before",
    "path": "absolute, or relative to the home as /~/...",
    "show_hidden": "0 hides names that begin with a dot",
    "filter_fulltext": "words that begin words of the endpoint's texts",
    "filter_scope": "all, my-endpoints, administered-by-me ...",
    "filter_owner_id": "the id of the owner",
}
_NUMBERS = {"limit", "offset", "marker"}

#: Examples that the description shows; each is a document that the service accepts.
EXAMPLES: dict[str, dict[str, Any]] = {
    "endpoint": {
        "DATA_TYPE": "endpoint",
        "name": "dtn",
        "display_name": "The data transfer node",
        "public": False,
        "DATA": [{"DATA_TYPE": "server", "uri": "gsiftp://dtn1.example.org:2811"}],
    },
    "server": {"DATA_TYPE": "server", "hostname": "dtn2.example.org", "port": 2811, "scheme": "gsiftp"},
    "mkdir": {"DATA_TYPE": "mkdir", "path": "/~/results"},
    "rename": {"DATA_TYPE": "rename", "old_path": "/~/old", "new_path": "/~/new"},
    "transfer": {
        "DATA_TYPE": "transfer",
        "submission_id": "6e7bd3b4-3d5b-4f0a-8a52-0c5a1b7e7d3e",
        "source_endpoint": "go#ep1",
        "destination_endpoint": "go#ep2",
        "label": "two items",
        "DATA": [
            {"DATA_TYPE": "transfer_item", "source_path": "/share/godata/file1.txt", "destination_path": "/file1.txt"},
            {"DATA_TYPE": "transfer_item", "source_path": "/share/", "destination_path": "/copy/", "recursive": True},
        ],
    },
    "delete": {
        "DATA_TYPE": "delete",
        "submission_id": "0b0f1c3e-6f7b-4a45-9a3c-8f6ac1d1a0b1",
        "endpoint": "go#ep2",
        "recursive": True,
        "DATA": [{"DATA_TYPE": "delete_item", "path": "/copy/"}],
    },
    "task": {"DATA_TYPE": "task", "label": "a better label", "deadline": "2030-01-31T23:59:59+00:00"},
}


def operation(
    summary: str, *, answer: str, status: int = 200, body: str | None = None, query: Sequence[str] = ()
) -> Callable[[F], F]:
    """Describe a method of a view: which document comes in, which goes out."""
    parameters = [
        OpenApiParameter(name, int if name in _NUMBERS else str, OpenApiParameter.QUERY, description=_QUERY[name])
        for name in query
    ]
    examples = [OpenApiExample(body, EXAMPLES[body], request_only=True)] if body else []
    return extend_schema(
        summary=summary,
        parameters=parameters,
        request={"application/json": DOCUMENTS[body]} if body else None,
        responses={
            (status, "application/json"): DOCUMENTS[answer],
            ("4XX", "application/json"): ERROR,
            ("5XX", "application/json"): ERROR,
        },
        examples=examples,
    )


class Described(AutoSchema):
    """Operation ids and tags from the resource."""

    def get_tags(self) -> list[str]:
        words = self.path.strip("/").split("/")
        return [words[1].split("_")[0] if len(words) > 1 else "service"]


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How to sign in, for the description."""

    target_class = "transferapi.rest.auth.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer"}
