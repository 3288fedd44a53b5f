"""Documents out: what our rows look like on the wire (Transfer API v0.10)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from endpoints.activation import Standing
from endpoints.gridftp.facts import Entry
from endpoints.limits import limits
from endpoints.models import Endpoint, Server
from endpoints.outlook import Outlook
from endpoints.registry import canonical_name, entity_type, server_uri
from transferapi.tasks import troubles
from transferapi.tasks.forecast import Forecast
from transferapi.tasks.models import Event, File, Task
from transferapi.tasks.states import FileKind, Phase, TaskType

from . import ranges

VERSION = "v0.10"
#: Seconds to the last end of a task that has a date: a century.
LONGEST = 100 * 365 * 86400.0
#: Rows of a long list that are documents at one time: some milliseconds of work, also where their names are long.
PART = 200

T = TypeVar("T")


def time(moment: datetime | None) -> str | None:
    """`2021-09-02T18:04:49+00:00`: whole seconds, since scripts read it with `strptime` and no fraction."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")


def server(row: Server) -> dict[str, Any]:
    return {
        "DATA_TYPE": "server",
        "id": row.pk,
        "hostname": row.hostname,
        "port": row.port,
        "scheme": row.scheme,
        "uri": server_uri(row),
        "subject": row.subject or None,
        "is_connected": True,
        "is_paused": False,
        "incoming_data_port_start": None,
        "incoming_data_port_end": None,
        "outgoing_data_port_start": None,
        "outgoing_data_port_end": None,
    }


#: Fields that other kinds of endpoints have, and ours say plainly that they have not.
_ABSENT: dict[str, Any] = {
    "is_globus_connect": False,
    "globus_connect_setup_key": None,
    "gcp_connected": None,
    "gcp_paused": None,
    "acl_max_expiration_period_mins": None,
    "subscription_id": None,
    "subscription_admin_verified": None,
    "location": None,
    "preserve_modtime": False,
    "disable_anonymous_writes": False,
    "restrict_transfers_to_high_assurance": None,
    "high_assurance": False,
    "authentication_policy_id": None,
    "authentication_timeout_mins": None,
    "mfa_required": False,
    "requester_pays": False,
    "storage_type": None,
    "gcs_version": None,
    "gcs_manager_url": None,
    "https_server": None,
    "tlsftp_server": None,
    "local_user_info_available": False,
    "last_accessed_time": None,
    "guest_collection_activity_notification_policy": None,
    "associated_flow_policy": None,
    "auto_delete_timeout": None,
    "skip_auto_delete": None,
    "french_english_bilingual": False,
    "s3_url": None,
    "s3_owner_activated": False,
    "is_go_storage": False,
}


def standing(found: Standing, now: datetime) -> dict[str, Any]:
    """How a user stands at an endpoint. expires_in in seconds: -1 never, 0 not activated."""
    return {
        "activated": found.active,
        "expires_in": found.seconds_left(now),
        "expire_time": time(found.expires_at),
    }


def endpoint(row: Endpoint, seen: Outlook, *, in_use: bool = False) -> dict[str, Any]:
    """seen: as the user sees it. in_use: by a task of his that is not done."""
    return {
        "DATA_TYPE": "endpoint",
        "id": str(row.pk),
        "entity_type": entity_type(row),
        "display_name": row.display_name or row.name,
        "name": row.name,
        "canonical_name": canonical_name(row),
        "username": row.owner.username,
        "owner_id": str(row.owner_id),
        "owner_string": row.owner.username,
        "description": row.description or None,
        "organization": row.organization or None,
        "department": row.department or None,
        "keywords": row.keywords or None,
        "contact_email": row.contact_email or None,
        "contact_info": row.contact_info or None,
        "info_link": row.info_link or None,
        "user_message": row.user_message or None,
        "user_message_link": row.user_message_link or None,
        "force_encryption": row.force_encryption,
        "force_verify": row.force_verify,
        "disable_verify": row.disable_verify,
        "default_directory": row.default_directory,
        "public": row.public,
        "network_use": (row.host or row).network_use,
        **limits(row.host or row)._asdict(),
        "in_use": in_use,
        "my_effective_roles": sorted(seen.roles),
        **standing(seen.standing, datetime.now(UTC)),
        "myproxy_server": row.myproxy_server or None,
        "myproxy_dn": row.myproxy_dn or None,
        "oauth_server": row.oauth_server or None,
        "data_hosts": row.data_hosts,
        **_sharing(row, seen),
        **_ABSENT,
        "DATA": [server(one) for one in row.servers.all()],
    }


def _sharing(row: Endpoint, seen: Outlook) -> dict[str, Any]:
    """What is shared, and what may be. Which folder it is, and of whose endpoint, is for those with a part in it."""
    host = row.host
    known = host if seen.knows_host else None
    name = known and (known.display_name or known.name)
    host_id, path = host and str(host.pk), row.host_path if known else None
    return {
        "host_endpoint": known and canonical_name(known),
        "host_endpoint_id": host_id,
        "host_endpoint_display_name": name,
        "host_path": path,
        "mapped_collection_id": host_id,
        "mapped_collection_display_name": name,
        "sharing_target_endpoint": host_id,
        "sharing_target_root_path": path,
        "shareable": seen.shareable,
        "allow_guest_collections": row.allow_guest_collections,
        "acl_available": host is not None,
        "acl_editable": seen.editable,
        "non_functional": seen.asleep,
        "non_functional_endpoint_id": host_id if seen.asleep else None,
        "non_functional_endpoint_display_name": name if seen.asleep else None,
    }


def file_type(entry: Entry) -> str:
    """`dir` also for the folder itself, which a server calls `cdir`."""
    return "dir" if entry.is_directory else entry.kind


def file(entry: Entry) -> dict[str, Any]:
    """One thing of a listing. A symlink is shown as what it points to, with the `link_` fields about itself."""
    modified = entry.modified and entry.modified.astimezone(UTC).isoformat(sep=" ", timespec="seconds")
    return {
        "DATA_TYPE": "file",
        "name": entry.name,
        "type": file_type(entry),
        "size": entry.size,
        "permissions": entry.mode or None,
        "user": entry.owner or None,
        "group": entry.group or None,
        "last_modified": modified,
        "link_target": entry.link_target,
        "link_size": None,
        "link_user": None,
        "link_group": None,
        "link_last_modified": None,
    }


def task(row: Task, rest: Forecast | None = None) -> dict[str, Any]:
    """rest: what is left of it; lists do not ask for that."""
    options: Mapping[str, Any] = row.options
    done = row.phase == Phase.DONE
    # One that a manager has asked to end may still come to its end before his word does.
    canceled = row.fatal_error_code == "CANCELED"
    nice = None if done else row.nice_status or ("Queued" if row.phase == Phase.QUEUED else "OK")
    return {
        "DATA_TYPE": "task",
        "task_id": str(row.pk),
        "type": row.type,
        "status": row.status,
        "label": row.label,
        "owner_id": str(row.owner_id),
        "username": row.owner.username,
        "request_time": time(row.request_time),
        "completion_time": time(row.completion_time),
        "key": _key(row),
        "deadline": time(row.deadline),
        **_places(row),
        **_options(row, options),
        **_counters(row),
        **_rest(rest),
        "command": "API 0.10",
        "history_deleted": row.history_deleted,
        "nice_status": nice,
        "nice_status_details": None if done else row.nice_status_details,
        "nice_status_short_description": None if nice is None else _short(nice),
        "nice_status_expires_in": None if done else troubles.seconds_to_next_try(row, datetime.now(UTC)),
        "is_ok": None if done else row.nice_status is None,
        "is_paused": row.phase == Phase.PAUSED,
        "data_protection": row.data_protection,
        "fatal_error": _fatal_error(row),
        "canceled_by_admin": row.canceled_by_admin if canceled else None,
        "canceled_by_admin_message": row.canceled_by_admin_message if canceled else None,
    }


def _key(row: Task) -> str:
    """What the oldest clients sort by and go on from: `active,TIME` or `complete,TIME`."""
    if row.completion_time is None:
        return f"active,{time(row.request_time)}"
    return f"complete,{time(row.completion_time)}"


def _places(row: Task) -> dict[str, Any]:
    target = row.destination
    return {
        "source_endpoint": canonical_name(row.source),
        "source_endpoint_id": str(row.source_id),
        "source_endpoint_display_name": row.source.display_name or row.source.name,
        "destination_endpoint": canonical_name(target) if target else None,
        "destination_endpoint_id": str(target.pk) if target else None,
        "destination_endpoint_display_name": (target.display_name or target.name) if target else None,
        "source_base_path": row.source_base_path,
        "destination_base_path": row.destination_base_path,
        "source_local_user": None,
        "source_local_user_status": "NO_PERMISSION",
        "destination_local_user": None,
        "destination_local_user_status": "NO_PERMISSION" if target else None,
    }


def _options(row: Task, options: Mapping[str, Any]) -> dict[str, Any]:
    transfer = row.type == TaskType.TRANSFER
    return {
        "sync_level": options.get("sync_level"),
        "encrypt_data": bool(options.get("encrypt_data")),
        "verify_checksum": bool(options.get("verify_checksum")),
        "delete_destination_extra": bool(options.get("delete_destination_extra")),
        "preserve_timestamp": bool(options.get("preserve_timestamp")),
        "skip_source_errors": bool(options.get("skip_source_errors")),
        "fail_on_quota_errors": bool(options.get("fail_on_quota_errors")),
        "recursive_symlinks": options.get("recursive_symlinks", "ignore") if transfer else None,
        "filter_rules": options.get("filter_rules"),
    }


def _counters(row: Task) -> dict[str, Any]:
    """Subtasks are the files and, as the clients expect it, one more for the scan."""
    scanned = row.items_total == row.items_scanned
    pending = row.files - row.files_transferred - row.files_skipped - row.files_failed
    alive = row.phase != Phase.DONE
    expired = row.fatal_error_code == "EXPIRED"
    canceled = row.fatal_error_code == "CANCELED"
    rest = pending + (not scanned)
    return {
        "faults": row.faults,
        "files": row.files,
        "directories": row.directories,
        "symlinks": row.symlinks,
        "files_skipped": row.files_skipped,
        "files_transferred": row.files_transferred,
        "subtasks_total": row.files + 1,
        "subtasks_pending": rest if alive else 0,
        "subtasks_retrying": 0,
        "subtasks_succeeded": row.files_transferred + row.files_skipped - row.skipped_errors + scanned,
        "subtasks_expired": rest if expired else 0,
        "subtasks_canceled": rest if canceled else 0,
        "subtasks_failed": row.files_failed + (rest if not alive and not expired and not canceled else 0),
        "subtasks_skipped_errors": row.skipped_errors,
        "bytes_transferred": row.bytes_transferred,
        "bytes_checksummed": row.bytes_checksummed,
        "effective_bytes_per_second": _rate(row),
    }


def _rate(row: Task) -> int:
    """Bytes a second from the request to the end, or to the last progress."""
    end = row.completion_time or row.last_progress_at
    seconds = (end - row.request_time).total_seconds() if end else 0.0
    return int(row.bytes_transferred / seconds) if seconds > 0 else 0


def _rest(found: Forecast | None) -> dict[str, Any]:
    """An extension of ours. Nobody is told of an end beyond all calendars."""
    end = datetime.now(UTC) + timedelta(seconds=found.expected) if found and found.expected < LONGEST else None
    return {
        "forecast_seconds_left": found and ranges.seconds(found),
        "forecast_bytes_per_second": found and ranges.bytes_per_second(found),
        "forecast_completion_time": time(end),
        "forecast_basis": found and found.basis,
    }


def _fatal_error(row: Task) -> dict[str, Any] | None:
    if row.fatal_error_code is None:
        return None
    return {"code": row.fatal_error_code, "description": row.fatal_error_description}


def _short(code: str) -> str:
    return code.replace("_", " ").lower() if code.isupper() and code != "OK" else code


def event(row: Event) -> dict[str, Any]:
    return {
        "DATA_TYPE": "event",
        "code": row.code,
        "is_error": row.is_error,
        "description": row.description,
        "details": row.details,
        "time": time(row.time),
    }


def successful_transfer(row: File) -> dict[str, Any]:
    return {
        "DATA_TYPE": "successful_transfer",
        "source_path": row.source_path,
        "destination_path": row.destination_path,
        "size": row.size,
        "checksum": row.checksum,
        "checksum_algorithm": row.checksum_algorithm,
    }


def skipped_error(row: File) -> dict[str, Any]:
    return {
        "DATA_TYPE": "skipped_error",
        "source_path": row.source_path,
        "destination_path": row.destination_path,
        "error_code": row.error_code,
        "error_details": row.error_details,
        "error_time": time(row.error_time),
        "checksum_algorithm": row.checksum_algorithm,
        "external_checksum": row.checksum,
        "is_directory": row.kind == FileKind.DIRECTORY,
        "is_symlink": row.kind == FileKind.SYMLINK,
        "is_delete_destination_extra": False,
    }


def task_link(row: Task) -> dict[str, Any]:
    return {
        "DATA_TYPE": "link",
        "rel": "related",
        "resource": "task",
        "title": "related task",
        "href": f"/{VERSION}/task/{row.pk}?format=json",
    }


class Rows(Generic[T]):
    """The DATA of a long list: each row becomes a document only while it is written."""

    def __init__(self, rows: Sequence[T], document: Callable[[T], dict[str, Any]]) -> None:
        self._rows = rows
        self._document = document

    def __len__(self) -> int:
        return len(self._rows)

    def documents(self) -> Iterator[list[dict[str, Any]]]:
        """Them all, in parts."""
        for start in range(0, len(self._rows), PART):
            yield list(map(self._document, self._rows[start : start + PART]))


def dumps(value: object) -> bytes:
    """ASCII only: octets of names that are no UTF-8 are lone surrogates, which UTF-8 has no form for."""
    return b"".join(parts(value))


def parts(value: object) -> Iterator[bytes]:
    """The same in parts, each with some rows of a long list."""
    if not (isinstance(value, dict) and isinstance(value.get("DATA"), Rows)):
        yield _json(value)
        return
    between = _json({name: one for name, one in value.items() if name != "DATA"})[:-1] + b',"DATA":['
    for documents in value["DATA"].documents():
        yield between + _json(documents)[1:-1]
        between = b","
    yield b"]}" if between == b"," else between + b"]}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode("ascii")
