"""The shapes of the documents that go out, as OpenAPI schemas, with examples."""

from __future__ import annotations

from typing import Any

from endpoints.forms import Form
from endpoints.limits import CUSTOM, WORDS, Limits
from transferapi.tasks.states import Status, TaskType

from .requests import SCHEME
from .schema import (
    FILE_TIME,
    FLAG,
    MAYBE_FLAG,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MAYBE_TIME,
    MAYBE_UUID,
    NUMBER,
    PATH,
    TEXT,
    TIME,
    UUID,
    Schema,
    about,
    each,
    fields,
    list_of,
    one_of,
    page,
    ref,
    told,
)
from .shapes_bookmarks import ANSWERS_BOOKMARKS, EXAMPLES_BOOKMARKS

_DONE = each("code message request_id resource", TEXT)
_ROW_PATHS = fields(source_path=PATH, destination_path={**PATH, "nullable": True})
_PAGE = each("length limit offset", NUMBER)
_MARKERS = each("marker next_marker", about("null: nothing comes after it", MAYBE_NUMBER))
_LINK = told("link", each("rel resource title href", TEXT))
_ACCEPTED = {**_DONE, "task_id": UUID, "submission_id": UUID, "task_link": _LINK}

_ACTIVATION = {
    "endpoint": TEXT,
    "activated": FLAG,
    "expires_in": about("seconds; -1: never, 0: not activated", NUMBER),
    "expire_time": MAYBE_TIME,
    "oauth_server": MAYBE_TEXT,
    "length": NUMBER,
}
_ENDPOINT_TOLD = {
    "id": UUID,
    "owner_id": UUID,
    **each("name canonical_name display_name username owner_string entity_type default_directory", TEXT),
    "network_use": one_of(*WORDS, CUSTOM),
    **each(
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
    **each(
        "public is_globus_connect shareable acl_available acl_editable force_encryption disable_verify force_verify "
        "preserve_modtime disable_anonymous_writes high_assurance mfa_required requester_pays non_functional "
        "local_user_info_available in_use french_english_bilingual activated s3_owner_activated is_go_storage",
        FLAG,
    ),
    **each(
        "gcp_connected gcp_paused subscription_admin_verified restrict_transfers_to_high_assurance skip_auto_delete",
        MAYBE_FLAG,
    ),
    **each(" ".join(Limits._fields), about("null: no word about it", MAYBE_NUMBER)),
    **each("acl_max_expiration_period_mins authentication_timeout_mins auto_delete_timeout", MAYBE_NUMBER),
    "expires_in": about("seconds; -1: never, 0: not activated", NUMBER),
    "my_effective_roles": list_of(TEXT),
    "DATA": list_of(ref("server")),
}
_TASK_TOLD = {
    "task_id": UUID,
    "type": one_of(*TaskType.values),
    "status": about("INACTIVE: a person must act", one_of(*Status.values)),
    "owner_id": UUID,
    "request_time": TIME,
    "deadline": TIME,
    "completion_time": MAYBE_TIME,
    "source_endpoint_id": UUID,
    "destination_endpoint_id": MAYBE_UUID,
    **each("username key source_endpoint source_endpoint_display_name command", TEXT),
    **each(
        "label destination_endpoint destination_endpoint_display_name source_base_path destination_base_path "
        "source_local_user source_local_user_status destination_local_user destination_local_user_status "
        "recursive_symlinks nice_status nice_status_details nice_status_short_description canceled_by_admin "
        "canceled_by_admin_message",
        MAYBE_TEXT,
    ),
    **each(
        "encrypt_data verify_checksum delete_destination_extra preserve_timestamp skip_source_errors "
        "fail_on_quota_errors history_deleted is_paused",
        FLAG,
    ),
    "sync_level": MAYBE_NUMBER,
    "nice_status_expires_in": MAYBE_NUMBER,
    "is_ok": about("null: it is done", MAYBE_FLAG),
    "filter_rules": list_of({"type": "object"}, nullable=True),
    **each(
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
    "properties": each("low expected high", {"type": "number"}),
    "required": ["low", "expected", "high"],
    "additionalProperties": False,
    "description": "one in ten is below low, and one in ten above high",
}
#: An extension of ours; null in lists, and where nothing is known.
_TASK_TOLD |= {
    **each("forecast_seconds_left forecast_bytes_per_second", {**_RANGE, "nullable": True}),
    "forecast_completion_time": MAYBE_TIME,
    "forecast_basis": about("what the forecast is made from", MAYBE_TEXT),
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
    "result": told("result", {**_DONE, "id": about("of what was changed", TEXT)}),
    "endpoint": told("endpoint", _ENDPOINT_TOLD),
    "endpoint_list": page("endpoint_list", "endpoint", **_PAGE, has_next_page=FLAG),
    "endpoint_create_result": told(
        "endpoint_create_result",
        {**_DONE, "id": UUID, "canonical_name": TEXT, "globus_connect_setup_key": MAYBE_TEXT},
    ),
    "server": told(
        "server",
        {
            "id": NUMBER,
            "port": NUMBER,
            "scheme": SCHEME,
            **each("hostname uri", TEXT),
            "subject": MAYBE_TEXT,
            **each("is_connected is_paused", FLAG),
            **each("incoming_data_port_start incoming_data_port_end", MAYBE_NUMBER),
            **each("outgoing_data_port_start outgoing_data_port_end", MAYBE_NUMBER),
        },
    ),
    "endpoint_server_list": page("endpoint_server_list", "server", length=NUMBER, endpoint=TEXT),
    "endpoint_server_add_result": told("endpoint_server_add_result", {**_DONE, "id": NUMBER}),
    "activation_requirement": told(
        "activation_requirement",
        {
            "type": one_of(*Form),
            **each("name ui_name description", TEXT),
            "value": about("filled in by the service, and always null where it is private", MAYBE_TEXT),
            "required": about("in its form", FLAG),
            "private": about("not to be shown or kept", FLAG),
        },
    ),
    "activation_requirements": page(
        "activation_requirements",
        "activation_requirement",
        **_ACTIVATION,
        auto_activation_supported=about("a credential given elsewhere may serve here, or none is needed", FLAG),
    ),
    "activation_result": page(
        "activation_result",
        "activation_requirement",
        **_DONE,
        **_ACTIVATION,
        subject=about("whom the credential is for", MAYBE_TEXT),
    ),
    "file": told(
        "file",
        {
            "name": about("an octet that is no UTF-8 is a lone surrogate (\\udcff)", TEXT),
            "type": about("file, dir, or what else the server calls it", TEXT),
            "size": NUMBER,
            "last_modified": FILE_TIME,
            **each("permissions user group link_target link_user link_group link_last_modified", MAYBE_TEXT),
            "link_size": MAYBE_NUMBER,
        },
    ),
    "file_list": page(
        "file_list",
        "file",
        **_PAGE,
        total=NUMBER,
        endpoint=TEXT,
        path=PATH,
        absolute_path=PATH,
        **each("rename_supported symlink_supported", FLAG),
    ),
    "mkdir_result": told("mkdir_result", {**_DONE, "path": PATH}),
    "submission_id": told("submission_id", {"value": UUID}),
    "transfer_result": told("transfer_result", _ACCEPTED, example=_ACCEPTED_EXAMPLE),
    "delete_result": told("delete_result", _ACCEPTED),
    "task": told("task", _TASK_TOLD),
    "task_list": page("task_list", "task", **_PAGE, total=NUMBER),
    "forecast": told(
        "forecast",
        {
            **each("source_endpoint_id destination_endpoint_id", UUID),
            **each("files bytes", NUMBER),
            **each("seconds bytes_per_second", _RANGE),
            "basis": about("what the forecast is made from", TEXT),
            "runs": about("how many between these endpoints are among them", NUMBER),
        },
    ),
    "event": told("event", {**each("code description details", TEXT), "is_error": FLAG, "time": TIME}),
    "event_list": page("event_list", "event", **_PAGE, total=NUMBER),
    "successful_transfer": told(
        "successful_transfer", {**_ROW_PATHS, "size": NUMBER, **each("checksum checksum_algorithm", MAYBE_TEXT)}
    ),
    "successful_transfers": page("successful_transfers", "successful_transfer", **_MARKERS),
    "skipped_error": told(
        "skipped_error",
        {
            **_ROW_PATHS,
            **each("error_code error_details checksum_algorithm external_checksum", MAYBE_TEXT),
            "error_time": MAYBE_TIME,
            **each("is_directory is_symlink is_delete_destination_extra", FLAG),
        },
    ),
    "skipped_errors": page("skipped_errors", "skipped_error", **_MARKERS),
    **ANSWERS_BOOKMARKS,
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
    "server": {"DATA_TYPE": "server", "hostname": "dtn2.example.org", "port": 2811},
    "activation_requirements": {
        "DATA_TYPE": "activation_requirements",
        "DATA": [
            {"type": "myproxy", "name": "username", "value": "alice"},
            {"type": "myproxy", "name": "passphrase", "value": "..."},
            {"type": "myproxy", "name": "lifetime_in_hours", "value": "12"},
        ],
    },
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
    **EXAMPLES_BOOKMARKS,
}
