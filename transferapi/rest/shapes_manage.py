"""The documents of pause rules, and of what those see and do who run endpoints."""

from __future__ import annotations

from endpoints import pausing
from transferapi.tasks.controlling import MAX_MESSAGE
from transferapi.tasks.overseeing import MAX_TASKS, SIDES

from .schema import (
    FLAG,
    MAYBE_FLAG,
    MAYBE_TEXT,
    MAYBE_TIME,
    MAYBE_UUID,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    Schema,
    about,
    asked,
    each,
    list_of,
    page,
    ref,
    told,
)

_FLAGS = " ".join(pausing.FLAGS)
_RULE = {
    "id": UUID,
    "message": TEXT,
    "start_time": about("from when on it holds", TIME),
    "endpoint_id": UUID,
    "endpoint_display_name": TEXT,
    "identity_id": about("whom it stops; null: everybody", MAYBE_UUID),
    "modified_time": TIME,
    "created_by_host_manager": about("those who run the host of the shared endpoint made it, for it or for all", FLAG),
    **each(_FLAGS, FLAG),
}
_MESSAGES = about("of who paused this task by its id; null: nobody did", MAYBE_TEXT)
_PAUSED = each(" ".join(f"{side}_pause_message{share}" for side in SIDES for share in ("", "_share")), _MESSAGES)


def answers_manage(task: dict[str, Schema]) -> dict[str, Schema]:
    """task: the fields of a task as its owner sees it."""
    hosts = ["host_endpoint", "host_endpoint_display_name", "host_path", "mapped_collection_display_name"]
    ids = ["host_endpoint_id", "mapped_collection_id"]
    return {
        "pause_rule_limited": told("pause_rule_limited", _RULE),
        "pause_rule_limited_list": page("pause_rule_limited_list", "pause_rule_limited", length=NUMBER),
        "pause_rule": told(
            "pause_rule",
            {**_RULE, "modified_by_id": MAYBE_UUID, "editable": about("you may change it and take it back", FLAG)},
        ),
        "pause_rule_list": page("pause_rule_list", "pause_rule", length=NUMBER),
        "pause_info_limited": told(
            "pause_info_limited", {**_PAUSED, "pause_rules": list_of(ref("pause_rule_limited"))}
        ),
        "pause_info": told("pause_info", {**_PAUSED, "pause_rules": list_of(ref("pause_rule"))}),
        "managed_task": told(
            "task",
            {
                **task,
                "owner_string": TEXT,
                **each(" ".join(f"{side}_{name}" for side in SIDES for name in hosts), MAYBE_TEXT),
                **each(" ".join(f"{side}_{name}" for side in SIDES for name in ids), MAYBE_UUID),
            },
        ),
        "managed_task_list": page(
            "task_list",
            "managed_task",
            length=NUMBER,
            has_next_page=FLAG,
            last_key=about("of this page; null: nothing comes after it", MAYBE_TEXT),
        ),
        "managed_successful_transfers": page("successful_transfers", "managed_successful_transfer", **_MARKERS),
        "managed_successful_transfer": told(
            "successful_transfer",
            {**_ROW_PATHS, "size": NUMBER, **each("checksum checksum_algorithm", MAYBE_TEXT)},
        ),
        "managed_skipped_errors": page("skipped_errors", "managed_skipped_error", **_MARKERS),
        "managed_skipped_error": told(
            "skipped_error",
            {
                **_ROW_PATHS,
                **each("error_code error_details checksum_algorithm external_checksum", MAYBE_TEXT),
                "error_time": MAYBE_TIME,
                **each("is_directory is_symlink is_delete_destination_extra", FLAG),
            },
        ),
        "admin_cancel": told("admin_cancel", {"id": UUID, "done": about("none of the tasks goes on", FLAG)}),
    }


_MARKERS = each("marker next_marker", about("null: nothing comes after it", {"type": "integer", "nullable": True}))
_ROW_PATHS = each("source_path destination_path", about("null: on a side that you do not run", MAYBE_TEXT))
_IDS = list_of(UUID, minItems=1, maxItems=MAX_TASKS)
_SAID = {"task_id_list": _IDS, "message": about("for the owners", {**MAYBE_TEXT, "maxLength": MAX_MESSAGE})}
_RULE_WRITTEN = {
    "message": about("for users", {**MAYBE_TEXT, "maxLength": pausing.MAX_MESSAGE}),
    "start_time": about("null: now", MAYBE_TIME),
    **each(_FLAGS, MAYBE_FLAG),
}

REQUESTS_MANAGE: dict[str, Schema] = {
    "pause_rule": asked(
        "pause_rule",
        "endpoint_id",
        {
            "endpoint_id": about("id, owner#name, or the name of one of your own", TEXT),
            "identity_id": about("whom it stops; null: everybody", MAYBE_UUID),
            **_RULE_WRITTEN,
            **each(_FLAGS, about("true when it is not given", MAYBE_FLAG)),
        },
    ),
    "pause_rule_change": asked("pause_rule", "", _RULE_WRITTEN),
    "admin_cancel": asked("admin_cancel", "task_id_list", _SAID),
    "admin_pause": asked("admin_pause", "task_id_list", _SAID),
    "admin_resume": asked("admin_resume", "task_id_list", {"task_id_list": _IDS}),
}
