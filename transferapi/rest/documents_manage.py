"""Documents out: pause rules, why a task is paused, and tasks as those see them who run an endpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from endpoints import pausing
from endpoints.models import Endpoint, PauseRule
from endpoints.registry import canonical_name
from transferapi.tasks.models import AdminCancel, Task
from transferapi.tasks.overseeing import SIDES, LastKey, Seen
from transferapi.tasks.pauses import Causes

from . import documents


def pause_rule_limited(row: PauseRule, at: Collection[UUID | None] = ()) -> dict[str, Any]:
    """As users see it. at: the endpoints that they ask about: any other is the host of one."""
    of_host = row.created_by_host_manager or (bool(at) and row.endpoint_id not in at)
    return {
        "DATA_TYPE": "pause_rule_limited",
        "id": str(row.pk),
        "message": row.message,
        "start_time": documents.time(row.start_time),
        "endpoint_id": str(row.endpoint_id),
        "endpoint_display_name": row.endpoint.display_name or row.endpoint.name,
        "identity_id": str(row.identity_id) if row.identity_id else None,
        "modified_time": documents.time(row.modified_time),
        "created_by_host_manager": of_host,
        **{str(flag): getattr(row, flag) for flag in pausing.FLAGS},
    }


def pause_rule(row: PauseRule, *, editable: bool) -> dict[str, Any]:
    """As managers see it."""
    return {
        **pause_rule_limited(row),
        "DATA_TYPE": "pause_rule",
        "modified_by_id": str(row.modified_by_id) if row.modified_by_id else None,
        "editable": editable,
    }


def pause_info_limited(task: Task, found: Causes) -> dict[str, Any]:
    """As the owner sees it."""
    ends = {task.source_id, task.destination_id}
    rules = {rule.pk: rule for rule, _ in found.rules}.values()
    return {
        "DATA_TYPE": "pause_info_limited",
        **_messages(found),
        "pause_rules": [pause_rule_limited(rule, ends) for rule in rules],
    }


def pause_info(found: Causes, rules: Iterable[PauseRule], editable: Collection[UUID]) -> dict[str, Any]:
    """As a manager sees it."""
    return {
        "DATA_TYPE": "pause_info",
        **_messages(found),
        "pause_rules": [pause_rule(rule, editable=rule.pk in editable) for rule in rules],
    }


def _messages(found: Causes) -> dict[str, Any]:
    places = [(side, share) for side in SIDES for share in ("", "_share")]
    return {f"{side}_pause_message{share}": found.messages.get(f"{side}{share}") for side, share in places}


def managed_task(seen: Seen) -> dict[str, Any]:
    """A task as a manager sees it: with its owner, and the hosts of what is shared."""
    row = seen.task
    return {
        **documents.task(row),
        "owner_string": row.owner.username,
        **_host("source", row.source if seen.sees("source") else None),
        **_host("destination", row.destination if seen.sees("destination") else None),
    }


def _host(side: str, endpoint: Endpoint | None) -> dict[str, Any]:
    """Which folder of which endpoint is shared here; None: that is no business of his."""
    host = endpoint.host if endpoint else None
    name = (host.display_name or host.name) if host else None
    return {
        f"{side}_host_endpoint": canonical_name(host) if host else None,
        f"{side}_host_endpoint_id": str(host.pk) if host else None,
        f"{side}_host_endpoint_display_name": name,
        f"{side}_host_path": endpoint.host_path if endpoint and host else None,
        f"{side}_mapped_collection_id": str(host.pk) if host else None,
        f"{side}_mapped_collection_display_name": name,
    }


def last_key(key: LastKey | None) -> str | None:
    """Opaque to clients. The beginning is that of the `key` of the task it is about."""
    if key is None:
        return None
    kind, *times = ("active",) if key.completion_time is None else ("complete", key.completion_time.isoformat())
    return ",".join([kind, *times, key.request_time.isoformat(), str(key.id)])


def admin_cancel(row: AdminCancel, *, done: bool) -> dict[str, Any]:
    return {"DATA_TYPE": "admin_cancel", "id": str(row.pk), "done": done}
