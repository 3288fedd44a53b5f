"""The shapes of all documents, as OpenAPI schemas: what comes in (`REQUESTS`) and what goes out (`ANSWERS`)."""

from __future__ import annotations

from typing import Any

from endpoints.limits import CUSTOM, MOST, WORDS, Limits
from transferapi.tasks.states import Status, TaskType

Schema = dict[str, Any]

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


def _fields(**names: Schema) -> dict[str, Schema]:
    return names


def _each(names: str, schema: Schema) -> dict[str, Schema]:
    return dict.fromkeys(names.split(), schema)


def _one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def _about(description: str, schema: Schema) -> Schema:
    return {**schema, "description": description}


def _list_of(schema: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": schema, **more}


def _asked(data_type: str, required: str, fields: dict[str, Schema]) -> Schema:
    """A document of a client: DATA_TYPE may be left out, fields that we do not know are passed over."""
    shape: Schema = {"type": "object", "properties": {"DATA_TYPE": _one_of(data_type), **fields}}
    return {**shape, "required": required.split()} if required else shape


def _told(data_type: str, fields: dict[str, Schema], **more: Any) -> Schema:
    """A document of ours: always with all of its fields (but for what `fields=` leaves out), and no others."""
    properties = {"DATA_TYPE": _one_of(data_type), **fields}
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": ["DATA_TYPE"],
        **more,
    }


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _page(data_type: str, row: str, **fields: Schema) -> Schema:
    return _told(data_type, {**fields, "DATA": _list_of(ref(row))}, required=["DATA_TYPE", "DATA"])


# ---- what comes in

SCHEME = _one_of("gsiftp", "ftp", "sshftp")
_SERVER = {
    "hostname": _about("or `uri` in its place", MAYBE_TEXT),
    "port": {"type": "integer", "minimum": 1, "maximum": 65535, "nullable": True},
    "scheme": {**SCHEME, "nullable": True, "default": "gsiftp"},
    "uri": _about("gsiftp://host:port, in place of hostname, port and scheme", MAYBE_TEXT),
    "subject": _about("of the server's certificate, where it is not its host name", MAYBE_TEXT),
}
SERVER_REQUEST = _asked("server", "", _SERVER)
_TEXTS = "display_name description organization department keywords contact_email contact_info info_link"
_ENDPOINT = {
    "name": _about("the part after `#`; the endpoint's id when it is not given", MAYBE_TEXT),
    **_each(_TEXTS, MAYBE_TEXT),
    "default_directory": _about("where a listing without a path begins", MAYBE_TEXT),
    "public": _about("others may see it and move data from and to it", MAYBE_FLAG),
    "network_use": _about(
        "how hard one task may work it; custom: by the four numbers beside it",
        {**_one_of(*WORDS, CUSTOM), "nullable": True},
    ),
    **_each(" ".join(Limits._fields), {"type": "integer", "minimum": 1, "maximum": MOST, "nullable": True}),
}
_SUBMISSION = _fields(
    submission_id=_about("from GET /submission_id: sent again, it gives the same task", UUID),
    label=_about("one line of at most 128 characters", MAYBE_TEXT),
    deadline=_about("2030-01-31, 2030-01-31 23:59:59 or ISO 8601; UTC when no zone is said", MAYBE_TEXT),
    **_each("notify_on_succeeded notify_on_failed notify_on_inactive", MAYBE_FLAG),
)
_ENDPOINT_REFERENCE = _about("id, owner#name, or the name of one of your own", TEXT)
TRANSFER_ITEM = _asked(
    "transfer_item",
    "source_path destination_path",
    {
        "source_path": PATH,
        "destination_path": PATH,
        "recursive": _about("absent: the service looks whether the source is a folder", MAYBE_FLAG),
    },
)

REQUESTS: dict[str, Schema] = {
    "endpoint": _asked("endpoint", "", {**_ENDPOINT, "DATA": _list_of(SERVER_REQUEST, nullable=True)}),
    "endpoint_change": _asked("endpoint", "", _ENDPOINT),
    "server": SERVER_REQUEST,
    "mkdir": _asked("mkdir", "path", _fields(path=PATH)),
    "rename": _asked("rename", "old_path new_path", _fields(old_path=PATH, new_path=PATH)),
    "transfer": _asked(
        "transfer",
        "submission_id source_endpoint destination_endpoint DATA",
        {
            **_SUBMISSION,
            "source_endpoint": _ENDPOINT_REFERENCE,
            "destination_endpoint": _ENDPOINT_REFERENCE,
            "perf_cc": _about("sessions side by side", MAYBE_NUMBER),
            "perf_p": _about("streams for each file", MAYBE_NUMBER),
            "perf_pp": _about("files under way in each session", MAYBE_NUMBER),
            "DATA": _list_of(TRANSFER_ITEM, minItems=1),
        },
    ),
    "delete": _asked(
        "delete",
        "submission_id endpoint DATA",
        {
            **_SUBMISSION,
            "endpoint": _ENDPOINT_REFERENCE,
            "recursive": _about("folders too, with all that is in them", MAYBE_FLAG),
            "ignore_missing": _about("what is not there is as good as deleted", MAYBE_FLAG),
            "DATA": _list_of(_asked("delete_item", "path", _fields(path=PATH)), minItems=1),
        },
    ),
    "task": _asked("task", "", {name: _SUBMISSION[name] for name in ("label", "deadline")}),
}

# ---- what goes out

_DONE = _each("code message request_id resource", TEXT)
_ROW_PATHS = _fields(source_path=PATH, destination_path={**PATH, "nullable": True})
_PAGE = _each("length limit offset", NUMBER)
_MARKERS = _each("marker next_marker", _about("null: nothing comes after it", MAYBE_NUMBER))
_LINK = _told("link", _each("rel resource title href", TEXT))
_ACCEPTED = {**_DONE, "task_id": UUID, "submission_id": UUID, "task_link": _LINK}

_ENDPOINT_TOLD = {
    "id": UUID,
    "owner_id": UUID,
    **_each("name canonical_name display_name username owner_string entity_type default_directory", TEXT),
    "network_use": _one_of(*WORDS, CUSTOM),
    **_each(
        "description organization department keywords contact_email contact_info info_link user_message "
        "user_message_link globus_connect_setup_key host_endpoint host_endpoint_id host_endpoint_display_name "
        "host_path mapped_collection_id mapped_collection_display_name sharing_target_endpoint "
        "sharing_target_root_path "
        "subscription_id location authentication_policy_id storage_type gcs_version gcs_manager_url https_server "
        "tlsftp_server non_functional_endpoint_id non_functional_endpoint_display_name last_accessed_time "
        "guest_collection_activity_notification_policy associated_flow_policy expire_time myproxy_server myproxy_dn "
        "oauth_server s3_url",
        MAYBE_TEXT,
    ),
    **_each(
        "public is_globus_connect shareable acl_available acl_editable force_encryption disable_verify force_verify "
        "preserve_modtime disable_anonymous_writes high_assurance mfa_required requester_pays non_functional "
        "local_user_info_available in_use french_english_bilingual activated s3_owner_activated is_go_storage",
        FLAG,
    ),
    **_each(
        "gcp_connected gcp_paused subscription_admin_verified restrict_transfers_to_high_assurance skip_auto_delete",
        MAYBE_FLAG,
    ),
    **_each(" ".join(Limits._fields), _about("null: no word about it", MAYBE_NUMBER)),
    **_each("acl_max_expiration_period_mins authentication_timeout_mins auto_delete_timeout", MAYBE_NUMBER),
    "expires_in": _about("-1: never", NUMBER),
    "my_effective_roles": _list_of(TEXT),
    "DATA": _list_of(ref("server")),
}
_TASK_TOLD = {
    "task_id": UUID,
    "type": _one_of(*TaskType.values),
    "status": _about("INACTIVE: a person must act", _one_of(*Status.values)),
    "owner_id": UUID,
    "request_time": TIME,
    "deadline": TIME,
    "completion_time": MAYBE_TIME,
    "source_endpoint_id": UUID,
    "destination_endpoint_id": MAYBE_UUID,
    **_each("username key source_endpoint source_endpoint_display_name command", TEXT),
    **_each(
        "label destination_endpoint destination_endpoint_display_name source_base_path destination_base_path "
        "source_local_user source_local_user_status destination_local_user destination_local_user_status "
        "recursive_symlinks nice_status nice_status_details nice_status_short_description canceled_by_admin "
        "canceled_by_admin_message",
        MAYBE_TEXT,
    ),
    **_each(
        "encrypt_data verify_checksum delete_destination_extra preserve_timestamp skip_source_errors "
        "fail_on_quota_errors history_deleted is_paused",
        FLAG,
    ),
    "sync_level": MAYBE_NUMBER,
    "nice_status_expires_in": MAYBE_NUMBER,
    "is_ok": _about("null: it is done", MAYBE_FLAG),
    "filter_rules": _list_of({"type": "object"}, nullable=True),
    **_each(
        "files directories symlinks files_skipped files_transferred bytes_transferred bytes_checksummed faults "
        "effective_bytes_per_second subtasks_total subtasks_pending subtasks_retrying subtasks_succeeded "
        "subtasks_expired subtasks_canceled subtasks_failed subtasks_skipped_errors",
        NUMBER,
    ),
    "fatal_error": {
        "type": "object",
        "nullable": True,
        "properties": {"code": TEXT, "description": MAYBE_TEXT},
        "additionalProperties": False,
    },
}

_RANGE: Schema = {
    "type": "object",
    "properties": _each("low expected high", {"type": "number"}),
    "required": ["low", "expected", "high"],
    "additionalProperties": False,
    "description": "one in ten is below low, and one in ten above high",
}
#: An extension of ours; null in lists, and where nothing is known.
_TASK_TOLD |= {
    **_each("forecast_seconds_left forecast_bytes_per_second", {**_RANGE, "nullable": True}),
    "forecast_completion_time": MAYBE_TIME,
    "forecast_basis": _about("what the forecast is made from", MAYBE_TEXT),
}

ERROR: Schema = {
    "type": "object",
    "properties": _DONE,
    "required": list(_DONE),
    "additionalProperties": False,
    "example": {
        "code": "EndpointNotFound",
        "message": "No such endpoint 'go#nothing'",
        "request_id": "aB3_dE6gH9",
        "resource": "/endpoint/go#nothing",
    },
}
_TASK_ID, _SUBMISSION_ID = "3f4c9c1e-8a5b-4f0e-9d5c-2f1d7c0b6a11", "6e7bd3b4-3d5b-4f0a-8a52-0c5a1b7e7d3e"
_ACCEPTED_EXAMPLE = {
    "DATA_TYPE": "transfer_result",
    "code": "Accepted",
    "message": "The transfer has been accepted and a task has been created and queued for execution",
    "request_id": "aB3_dE6gH9",
    "resource": "/transfer",
    "task_id": _TASK_ID,
    "submission_id": _SUBMISSION_ID,
    "task_link": {
        "DATA_TYPE": "link",
        "rel": "related",
        "resource": "task",
        "title": "related task",
        "href": f"/v0.10/task/{_TASK_ID}?format=json",
    },
}

#: Every document by its DATA_TYPE; each is a component of the description.
ANSWERS: dict[str, Schema] = {
    "error": ERROR,
    "result": _told("result", {**_DONE, "id": _about("of what was changed", TEXT)}),
    "endpoint": _told("endpoint", _ENDPOINT_TOLD),
    "endpoint_list": _page("endpoint_list", "endpoint", **_PAGE, has_next_page=FLAG),
    "endpoint_create_result": _told(
        "endpoint_create_result",
        {**_DONE, "id": UUID, "canonical_name": TEXT, "globus_connect_setup_key": MAYBE_TEXT},
    ),
    "server": _told(
        "server",
        {
            "id": NUMBER,
            "port": NUMBER,
            "scheme": SCHEME,
            **_each("hostname uri", TEXT),
            "subject": MAYBE_TEXT,
            **_each("is_connected is_paused", FLAG),
            **_each("incoming_data_port_start incoming_data_port_end", MAYBE_NUMBER),
            **_each("outgoing_data_port_start outgoing_data_port_end", MAYBE_NUMBER),
        },
    ),
    "endpoint_server_list": _page("endpoint_server_list", "server", length=NUMBER, endpoint=TEXT),
    "endpoint_server_add_result": _told("endpoint_server_add_result", {**_DONE, "id": NUMBER}),
    "activation_result": _told(
        "activation_result",
        {
            **_DONE,
            "endpoint": TEXT,
            **_each("expires_in length", NUMBER),
            **_each("expire_time subject oauth_server", MAYBE_TEXT),
            "DATA": _list_of({"type": "object"}),
        },
    ),
    "file": _told(
        "file",
        {
            "name": _about("an octet that is no UTF-8 is a lone surrogate (\\udcff)", TEXT),
            "type": _about("file, dir, or what else the server calls it", TEXT),
            "size": NUMBER,
            "last_modified": FILE_TIME,
            **_each("permissions user group link_target link_user link_group link_last_modified", MAYBE_TEXT),
            "link_size": MAYBE_NUMBER,
        },
    ),
    "file_list": _page(
        "file_list",
        "file",
        **_PAGE,
        total=NUMBER,
        endpoint=TEXT,
        path=PATH,
        absolute_path=PATH,
        **_each("rename_supported symlink_supported", FLAG),
    ),
    "mkdir_result": _told("mkdir_result", {**_DONE, "path": PATH}),
    "submission_id": _told("submission_id", {"value": UUID}),
    "transfer_result": _told("transfer_result", _ACCEPTED, example=_ACCEPTED_EXAMPLE),
    "delete_result": _told("delete_result", _ACCEPTED),
    "task": _told("task", _TASK_TOLD),
    "task_list": _page("task_list", "task", **_PAGE, total=NUMBER),
    "forecast": _told(
        "forecast",
        {
            **_each("source_endpoint_id destination_endpoint_id", UUID),
            **_each("files bytes", NUMBER),
            **_each("seconds bytes_per_second", _RANGE),
            "basis": _about("what the forecast is made from", TEXT),
            "runs": _about("how many between these endpoints are among them", NUMBER),
        },
    ),
    "event": _told("event", {**_each("code description details", TEXT), "is_error": FLAG, "time": TIME}),
    "event_list": _page("event_list", "event", **_PAGE, total=NUMBER),
    "successful_transfer": _told(
        "successful_transfer", {**_ROW_PATHS, "size": NUMBER, **_each("checksum checksum_algorithm", MAYBE_TEXT)}
    ),
    "successful_transfers": _page("successful_transfers", "successful_transfer", **_MARKERS),
    "skipped_error": _told(
        "skipped_error",
        {
            **_ROW_PATHS,
            **_each("error_code error_details checksum_algorithm external_checksum", MAYBE_TEXT),
            "error_time": MAYBE_TIME,
            **_each("is_directory is_symlink is_delete_destination_extra", FLAG),
        },
    ),
    "skipped_errors": _page("skipped_errors", "skipped_error", **_MARKERS),
}

#: Examples of what comes in; each is a document that the service accepts.
EXAMPLES: dict[str, dict[str, Any]] = {
    "endpoint": {
        "DATA_TYPE": "endpoint",
        "name": "dtn",
        "display_name": "The data transfer node",
        "public": False,
        "DATA": [{"DATA_TYPE": "server", "uri": "gsiftp://dtn1.example.org:2811"}],
    },
    "endpoint_change": {"DATA_TYPE": "endpoint", "description": "Open to all projects", "public": True},
    "server": {"DATA_TYPE": "server", "hostname": "dtn2.example.org", "port": 2811, "scheme": "gsiftp"},
    "mkdir": {"DATA_TYPE": "mkdir", "path": "/~/results"},
    "rename": {"DATA_TYPE": "rename", "old_path": "/~/old", "new_path": "/~/new"},
    "transfer": {
        "DATA_TYPE": "transfer",
        "submission_id": _SUBMISSION_ID,
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
    "task": {"DATA_TYPE": "task", "label": "a better label", "deadline": "2090-01-31T23:59:59+00:00"},
}
