"""WAYBILL_MAX_...: limits of one request, one task and one user. Read by `reading.py`.

All are whole numbers of at least 1. A limit that does not depend on the disk or memory of the installation is a
constant beside its check.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from .declaration import Variable
from .values import Whole

MB, GB = 1 << 20, 1 << 30
#: Octets of the longest body that the web server accepts (`deploy/front`).
MAX_BODY = 256 * MB
_WHOLE = Whole(1, 10**15 - 1)


def _limit(name: str, default: int, meaning: str) -> int:
    """Declare the variable of a field of `RequestLimits`."""
    return field(default=default, metadata={"variable": Variable(name, _WHOLE, str(default), meaning)})


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Each limit with its default."""

    items: int = _limit("WAYBILL_MAX_ITEMS", 100_000, "items of one submission")
    submission: int = _limit(
        "WAYBILL_MAX_SUBMISSION", 48 * MB, f"octets of the body of one submission, at most {MAX_BODY}"
    )
    listed_items: int = _limit("WAYBILL_MAX_LISTED_ITEMS", 2_000_000, "lines of one list that the shell reads")
    user_lists: int = _limit(
        "WAYBILL_MAX_USER_LISTS", 1 * GB, "octets of temporary files of the lists that one user sends to the shell"
    )
    lists: int = _limit(
        "WAYBILL_MAX_LISTS", 8 * GB, "octets of temporary files of all lists in one process of the service"
    )
    task_files: int = _limit(
        "WAYBILL_MAX_TASK_FILES", 5_000_000, "items, files and folders that one task may keep in the database"
    )
    task_octets: int = _limit("WAYBILL_MAX_TASK_OCTETS", 2 * GB, "octets of their paths")
    user_files: int = _limit(
        "WAYBILL_MAX_USER_FILES", 20_000_000, "items, files and folders that all tasks of a user may keep there"
    )
    user_octets: int = _limit("WAYBILL_MAX_USER_OCTETS", 8 * GB, "octets of their paths")
    user_tasks: int = _limit(
        "WAYBILL_MAX_USER_TASKS", 1_000_000, "tasks that one user may have, those that are done included"
    )
    pending_tasks: int = _limit("WAYBILL_MAX_PENDING_TASKS", 100, "tasks of one user that are not done")
    scan_memory: int = _limit(
        "WAYBILL_MAX_SCAN_MEMORY", 64 * MB, "octets of a worker's memory for folders that one task has yet to list"
    )
    upload: int = _limit(
        "WAYBILL_MAX_UPLOAD", GB, "octets of one file that a user sends to an endpoint through the service"
    )
    download: int = _limit(
        "WAYBILL_MAX_DOWNLOAD", GB, "octets of one answer with a file, or a part of it, from an endpoint"
    )


#: The variables by the names of their fields.
VARIABLES: dict[str, Variable] = {one.name: one.metadata["variable"] for one in fields(RequestLimits)}
