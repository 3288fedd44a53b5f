"""The table of metrics in docs/operate/metrics.md."""

from __future__ import annotations

from transferapi.rest.metrics.families import FAMILIES


def table() -> str:
    """One row for each metric."""
    rows = [
        f"| `{one.name}` | {one.type} | {', '.join(f'`{label}`' for label in one.labels)} | {one.help} |"
        for one in FAMILIES.values()
    ]
    return "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *rows])
