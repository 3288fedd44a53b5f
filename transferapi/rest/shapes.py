"""The shapes of the documents that go out, as OpenAPI schemas. Their examples: `canned`."""

from __future__ import annotations

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
    SOMETIMES,
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
from .shapes_account import ANSWERS_ACCOUNT
from .shapes_auth import ANSWERS_AUTH
from .shapes_bookmarks import ANSWERS_BOOKMARKS
from .shapes_groups import ANSWERS_GROUPS
from .shapes_manage import answers_manage
from .shapes_push import ANSWERS_PUSH
from .shapes_sharing import ANSWERS_SHARING
from .shapes_timers import ANSWERS_TIMERS

_DONE = each("code message request_id resource", TEXT)
_ROW_PATHS = fields(source_path=PATH, destination_path={**PATH, "nullable": True})
_PAGE = each("length limit offset", NUMBER)
_MARKERS = each("marker next_marker", about("null: nothing comes after it", MAYBE_NUMBER))
_ACCEPTED = {**_DONE, "task_id": UUID, "submission_id": UUID, "task_link": ref("link")}

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
        "public is_globus_connect shareable allow_guest_collections acl_available acl_editable force_encryption "
        "disable_verify force_verify preserve_modtime disable_anonymous_writes high_assurance mfa_required "
        "requester_pays non_functional local_user_info_available in_use french_english_bilingual activated "
        "s3_owner_activated is_go_storage",
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
    "data_hosts": about("hosts besides the servers that data connections may go to", list_of(TEXT)),
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
    #: An extension of ours.
    "data_protection": about(
        "the weakest that data channels had: clear, authenticated or encrypted; null: none were opened", MAYBE_TEXT
    ),
    "nice_status_expires_in": about("seconds to the next try, -1: no such time is known", MAYBE_NUMBER),
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
    "properties": {
        **_DONE,
        "required_scopes": about("with ConsentRequired: what a token must be good for", list_of(TEXT)),
    },
    "required": list(_DONE),
    "additionalProperties": False,
    SOMETIMES: ["required_scopes"],
}

#: Every document by its DATA_TYPE; each is a component of the description.
ANSWERS: dict[str, Schema] = {
    "error": ERROR,
    "result": told("result", {**_DONE, "id": about("of what was changed", TEXT)}, sometimes="id"),
    "link": told("link", each("rel resource title href", TEXT)),
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
    "transfer_result": told("transfer_result", _ACCEPTED),
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
    **ANSWERS_ACCOUNT,
    **ANSWERS_AUTH,
    **ANSWERS_BOOKMARKS,
    **ANSWERS_GROUPS,
    **ANSWERS_PUSH,
    **ANSWERS_SHARING,
    **answers_manage(_TASK_TOLD),
    **ANSWERS_TIMERS,
}
