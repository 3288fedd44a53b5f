"""WAYBILL_MAX_...: how much one request, one task and one user may ask for. Read by `config.py`.

All are whole numbers of at least 1. What is no matter of an operator's disk or memory is a constant beside its check.
"""

from __future__ import annotations

from dataclasses import dataclass

MB, GB = 1 << 20, 1 << 30
#: Octets of the longest body that the web server takes of anybody (`deploy.stack.connections`, `deploy/front`).
MAX_BODY = 256 * MB


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults. Octets, where no other unit is named."""

    #: Items of one submission, and octets of its body.
    items: int = 100_000
    submission: int = 48 * MB
    #: Rows (items, files, folders to delete) of one task, and octets of the paths in them.
    task_files: int = 5_000_000
    task_octets: int = 2 * GB
    #: The same for all tasks of one user that are kept; and how many tasks these are.
    user_files: int = 20_000_000
    user_octets: int = 8 * GB
    user_tasks: int = 1_000_000
    #: What the scan of one task may hold in memory of folders that it has yet to list.
    scan_memory: int = 64 * MB


#: Variable -> (field of `Limits`, what it is for).
VARIABLES = {
    "WAYBILL_MAX_ITEMS": ("items", "items of one submission"),
    "WAYBILL_MAX_SUBMISSION": ("submission", f"octets of the body of one submission, at most {MAX_BODY}"),
    "WAYBILL_MAX_TASK_FILES": ("task_files", "items, files and folders that one task may keep in the database"),
    "WAYBILL_MAX_TASK_OCTETS": ("task_octets", "octets of their paths"),
    "WAYBILL_MAX_USER_FILES": ("user_files", "items, files and folders that all tasks of a user may keep there"),
    "WAYBILL_MAX_USER_OCTETS": ("user_octets", "octets of their paths"),
    "WAYBILL_MAX_USER_TASKS": ("user_tasks", "tasks that one user may have, those that are done included"),
    "WAYBILL_MAX_SCAN_MEMORY": ("scan_memory", "octets of a worker's memory for folders that one task has yet to list"),
}
DEFAULTS = Limits()
KNOWN = {variable: f"{words} (default {getattr(DEFAULTS, field)})" for variable, (field, words) in VARIABLES.items()}


def parse(text: str) -> int:
    """Raises ValueError."""
    if not text.isascii() or not text.isdigit() or len(text) > 15 or not int(text):
        raise ValueError("a whole number of at least 1")
    return int(text)


def variable(field: str) -> str:
    """The setting that changes this limit: errors name it."""
    return next(name for name, (known, _) in VARIABLES.items() if known == field)
