"""The table of a rehearsal: each step, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.table import machine


@dataclass(frozen=True)
class Row:
    """host: "" for what is done beside the hosts. output: of the commands, for the log."""

    host: str
    what: str
    seconds: float
    result: str
    good: bool
    output: str


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    lines = [
        f"The rehearsal of docs/operate ({machine()}).",
        "",
        "| host | step | seconds | result |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row.host} | {row.what} | {row.seconds:.0f} | {row.result} |" for row in rows]
    return "\n".join([*lines, ""])
