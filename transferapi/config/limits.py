"""WAYBILL_MAX_...: limits of one request, one task and one user. Read by `reading.py`.

All are whole numbers of at least 1. A limit that does not depend on the disk or memory of the installation is a
constant beside its check.
"""

from __future__ import annotations

from dataclasses import dataclass

from .values import Whole

MB, GB = 1 << 20, 1 << 30
#: Octets of the longest body that the web server accepts (`deploy.web.connections`, `deploy/front`).
MAX_BODY = 256 * MB


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The defaults. Octets, where no other unit is named."""

    #: Items of one submission, and octets of its body.
    items: int = 100_000
    submission: int = 48 * MB
    #: Lines of one list that a client of the shell sends; octets of temporary files of all lists of one user, and of
    #: all users, in one process.
    listed_items: int = 2_000_000
    user_lists: int = 1 * GB
    lists: int = 8 * GB
    #: Rows (items, files, folders to delete) of one task, and octets of the paths in them.
    task_files: int = 5_000_000
    task_octets: int = 2 * GB
    #: The same for all tasks of one user that are kept; and how many tasks these are.
    user_files: int = 20_000_000
    user_octets: int = 8 * GB
    user_tasks: int = 1_000_000
    #: Octets of memory of one scan for folders that it has yet to list.
    scan_memory: int = 64 * MB
    #: Octets of one file that passes through the service: to an endpoint, and from one in one answer.
    upload: int = GB
    download: int = GB


#: Variable -> (field of `RequestLimits`, its meaning).
VARIABLES = {
    "WAYBILL_MAX_ITEMS": ("items", "items of one submission"),
    "WAYBILL_MAX_SUBMISSION": ("submission", f"octets of the body of one submission, at most {MAX_BODY}"),
    "WAYBILL_MAX_LISTED_ITEMS": ("listed_items", "lines of one list that the shell reads"),
    "WAYBILL_MAX_USER_LISTS": ("user_lists", "octets of temporary files of the lists that one user sends to the shell"),
    "WAYBILL_MAX_LISTS": ("lists", "octets of temporary files of all lists in one process of the service"),
    "WAYBILL_MAX_TASK_FILES": ("task_files", "items, files and folders that one task may keep in the database"),
    "WAYBILL_MAX_TASK_OCTETS": ("task_octets", "octets of their paths"),
    "WAYBILL_MAX_USER_FILES": ("user_files", "items, files and folders that all tasks of a user may keep there"),
    "WAYBILL_MAX_USER_OCTETS": ("user_octets", "octets of their paths"),
    "WAYBILL_MAX_USER_TASKS": ("user_tasks", "tasks that one user may have, those that are done included"),
    "WAYBILL_MAX_SCAN_MEMORY": ("scan_memory", "octets of a worker's memory for folders that one task has yet to list"),
    "WAYBILL_MAX_UPLOAD": ("upload", "octets of one file that a user sends to an endpoint through the service"),
    "WAYBILL_MAX_DOWNLOAD": ("download", "octets of one answer with a file, or a part of it, from an endpoint"),
}
DEFAULTS = RequestLimits()
parse = Whole(1, 10**15 - 1)
KNOWN = {variable: f"{words} (default {getattr(DEFAULTS, field)})" for variable, (field, words) in VARIABLES.items()}


def variable(field: str) -> str:
    """The variable of this limit, for error messages."""
    return next(name for name, (known, _) in VARIABLES.items() if known == field)
