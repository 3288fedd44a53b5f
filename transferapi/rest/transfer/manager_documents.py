"""The documents of pause rules, and of tasks as the managers of endpoints see them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from endpoints import pause_rules
from endpoints.models import Endpoint, PauseRule
from endpoints.registry import canonical_name
from identity import shown_names as shown_identity
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import LENGTH
from transferapi.rest.openapi.document_types import (
    Field,
    ListDocument,
    RequestDocument,
    ResponseDocument,
    any_list,
    each,
    part,
)
from transferapi.tasks.managers.actions import MAX_MESSAGE
from transferapi.tasks.managers.managed_tasks import MAX_TASKS, SIDES, LastKey, ManagedTask
from transferapi.tasks.managers.pauses import Causes
from transferapi.tasks.models import AdminCancel, Task

from .endpoint_documents import shown_name
from .task_documents import TASK, task

# ---- pause rules


@dataclass(frozen=True, slots=True)
class ShownRule:
    """A pause rule. editable: by the user. at: the endpoints that the user asks about; any other is the host of one."""

    row: PauseRule
    editable: bool = False
    at: Collection[uuid.UUID | None] = ()

    @property
    def of_host(self) -> bool:
        return self.row.created_by_host_manager or (bool(self.at) and self.row.endpoint_id not in self.at)


_MESSAGE = "The disks are being replaced until noon."
_FLAGS = " ".join(pause_rules.FLAGS)
_RULE = (
    Field[ShownRule]("id", t.UUID, "row.pk"),
    Field[ShownRule]("message", t.TEXT, "row.message", _MESSAGE),
    Field[ShownRule]("start_time", t.about("the time from which it applies", t.TIME), "row.start_time"),
    Field[ShownRule]("endpoint_id", t.UUID, "row.endpoint_id"),
    Field[ShownRule]("endpoint_display_name", t.TEXT, lambda rule: shown_name(rule.row.endpoint), "Sample endpoint 1"),
    Field[ShownRule](
        "identity_id", t.about("the user whose tasks it pauses; null: all users", t.MAYBE_UUID), "row.identity_id"
    ),
    Field[ShownRule]("modified_time", t.TIME, "row.modified_time"),
    Field[ShownRule](
        "created_by_host_manager",
        t.about("whether it was made by the managers of the shared endpoint's host", t.FLAG),
        "of_host",
    ),
    *each(_FLAGS, t.FLAG, of="row"),
)
PAUSE_RULE_LIMITED = ResponseDocument[ShownRule]("pause_rule_limited", *_RULE)
PAUSE_RULE = ResponseDocument[ShownRule](
    "pause_rule",
    *_RULE,
    Field("modified_by_id", t.MAYBE_UUID, "row.modified_by_id"),
    Field("editable", t.about("whether you may change and delete it", t.FLAG), example=True),
)
PAUSE_RULE_LIMITED_LIST = ListDocument("pause_rule_limited_list", PAUSE_RULE_LIMITED, LENGTH)
PAUSE_RULE_LIST = ListDocument("pause_rule_list", PAUSE_RULE, LENGTH)
_WRITTEN = (
    Field[Any](
        "message",
        t.about("shown to the owners of paused tasks", {**t.MAYBE_TEXT, "maxLength": pause_rules.MAX_MESSAGE}),
        example=_MESSAGE,
    ),
    Field[Any]("start_time", t.about("null: now", t.MAYBE_TIME), example=None),
)
PAUSE_RULE_REQUEST = RequestDocument(
    "pause_rule",
    "endpoint_id",
    Field("endpoint_id", t.ENDPOINT, example="go#ep1"),
    Field("identity_id", t.about("the user whose tasks it pauses; null: all users", t.MAYBE_UUID)),
    *_WRITTEN,
    *each(_FLAGS, t.about("true when it is not given", t.MAYBE_FLAG)),
    example={"identity_id": None, "start_time": None, "message": _MESSAGE, "pause_ls": False},
)
PAUSE_RULE_CHANGE = RequestDocument(
    "pause_rule_change",
    "",
    *_WRITTEN,
    *each(_FLAGS, t.MAYBE_FLAG),
    data_type="pause_rule",
    example={"message": "Reading works again.", "pause_ls": False, "pause_task_transfer_read": False},
)

# ---- why a task is paused


def _message(side: str, share: str) -> Field[Causes]:
    return Field(
        f"{side}_pause_message{share}",
        t.about("message of the manager who paused this task by its id; null: nobody did", t.MAYBE_TEXT),
        lambda found: found.messages.get(f"{side}{share}"),
    )


_MESSAGES = part(*(_message(side, share) for side in SIDES for share in ("", "_share")))
PAUSE_INFO_LIMITED = ResponseDocument[Causes](
    "pause_info_limited",
    *_MESSAGES.fields,
    Field("pause_rules", t.list_of(PAUSE_RULE_LIMITED.ref), lambda _: [], [PAUSE_RULE_LIMITED.example]),
    example={"source_pause_message": "Too many small files at once; please wait."},
)
PAUSE_INFO = ResponseDocument[Causes](
    "pause_info",
    *_MESSAGES.fields,
    Field("pause_rules", t.list_of(PAUSE_RULE.ref), lambda _: [], [PAUSE_RULE.example]),
    example={"source_pause_message": "Too many small files at once; please wait."},
)


def pause_info_limited(task: Task, found: Causes) -> dict[str, Any]:
    """The document of the pauses of a task, for its owner."""
    ends = {task.source_id, task.destination_id}
    rules = {rule.pk: rule for rule, _ in found.rules}.values()
    shown = [PAUSE_RULE_LIMITED.document(ShownRule(rule, at=ends)) for rule in rules]
    return PAUSE_INFO_LIMITED.document(found) | {"pause_rules": shown}


def pause_info(found: Causes, rules: Iterable[PauseRule], editable: Collection[uuid.UUID]) -> dict[str, Any]:
    """The document of the pauses of a task, for a manager of an endpoint."""
    shown = [PAUSE_RULE.document(ShownRule(rule, rule.pk in editable)) for rule in rules]
    return PAUSE_INFO.document(found) | {"pause_rules": shown}


# ---- tasks


def _host(side: str) -> tuple[Field[ManagedTask], ...]:
    """The fields that name the host and the shared folder, where the manager may see this side of the task."""

    def of(get: Callable[[Endpoint, Endpoint], object]) -> Callable[[ManagedTask], object]:
        def value(seen: ManagedTask) -> object:
            endpoint: Endpoint | None = getattr(seen.task, side) if seen.sees(side) else None
            return get(endpoint, endpoint.host) if endpoint and endpoint.host else None

        return value

    return (
        Field(f"{side}_host_endpoint", t.MAYBE_TEXT, of(lambda _, host: canonical_name(host))),
        Field(f"{side}_host_endpoint_id", t.MAYBE_UUID, of(lambda _, host: host.pk)),
        Field(f"{side}_host_endpoint_display_name", t.MAYBE_TEXT, of(lambda _, host: shown_name(host))),
        Field(f"{side}_host_path", t.MAYBE_TEXT, of(lambda endpoint, _: endpoint.host_path)),
        Field(f"{side}_mapped_collection_id", t.MAYBE_UUID, of(lambda _, host: host.pk)),
        Field(f"{side}_mapped_collection_display_name", t.MAYBE_TEXT, of(lambda _, host: shown_name(host))),
    )


_MANAGED = part(
    Field[ManagedTask](
        "owner_string", t.TEXT, lambda shown: shown_identity.name_of(shown.task.owner), "alice@example.org"
    ),
    *_host("source"),
    *_host("destination"),
)
MANAGED_TASK = ResponseDocument[ManagedTask](
    "managed_task",
    *TASK.fields,  # type: ignore[arg-type]  # `managed_task` fills them in
    *_MANAGED.fields,
    data_type="task",
    example={
        **{f"forecast_{name}": None for name in ("seconds_left", "bytes_per_second", "completion_time", "basis")},
        "nice_status": "PAUSED",
        "nice_status_details": f"A manager of go#ep1 has paused transfers from it: {_MESSAGE}",
        "nice_status_short_description": "paused",
        "is_paused": True,
    },
)
MANAGED_TASK_LIST = ListDocument(
    "managed_task_list",
    MANAGED_TASK,
    LENGTH,
    Field("has_next_page", t.FLAG, example=True),
    Field(
        "last_key",
        t.about("the key of the next page; null: this is the last one", t.MAYBE_TEXT),
        example="active,2026-01-15T12:00:00.123456+00:00,3f4c9c1e-8a5b-4f0e-9d5c-2f1d7c0b6a11",
    ),
    data_type="task_list",
)


def managed_task(seen: ManagedTask) -> dict[str, Any]:
    """A task as a manager sees it: with its owner, and the hosts of what is shared."""
    return task(seen.task) | _MANAGED.values(seen)


def last_key(key: LastKey | None) -> str | None:
    """Opaque to clients. It begins as the `key` of the task."""
    if key is None:
        return None
    kind, *times = ("active",) if key.completion_time is None else ("complete", key.completion_time.isoformat())
    return ",".join([kind, *times, key.request_time.isoformat(), str(key.id)])


# ---- what managers do to tasks

ADMIN_CANCEL = ResponseDocument[tuple[AdminCancel, bool]](
    "admin_cancel",
    Field("id", t.UUID, lambda found: found[0].pk),
    Field("done", t.about("whether none of the tasks is still running", t.FLAG), lambda found: found[1]),
)
_IDS = Field[Any](
    "task_id_list",
    t.list_of(t.UUID, minItems=1, maxItems=MAX_TASKS),
    example=["3f4c9c1e-8a5b-4f0e-9d5c-2f1d7c0b6a11"],
    read=any_list,
)


_TO_OWNERS = Field[Any](
    "message", t.about("shown to the owners of the tasks", {**t.MAYBE_TEXT, "maxLength": MAX_MESSAGE})
)
ADMIN_CANCEL_REQUEST = RequestDocument(
    "admin_cancel", "task_id_list", _IDS, _TO_OWNERS, example={"message": "This fills the disks."}
)
ADMIN_PAUSE = RequestDocument(
    "admin_pause", "task_id_list", _IDS, _TO_OWNERS, example={"message": "Too many small files at once; please wait."}
)
ADMIN_RESUME = RequestDocument("admin_resume", "task_id_list", _IDS)
