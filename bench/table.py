"""Prints benchmarks: medians and ratios side by side. The machine is shared, so an absolute time proves nothing."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime


def machine() -> str:
    """One line with the place and the time."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    now = datetime.now(UTC).strftime("%Y-%m-%d")
    system = f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {system}, {now}"


def print_table(
    title: str, unit: str, runs: Mapping[str, Sequence[float]], reference: str, *, higher: bool = False
) -> None:
    """One row a contender: median, spread, and the ratio to `reference` (above 1 is better)."""
    base = statistics.median(runs[reference])
    out = sys.stdout.write
    out(f"\n{title} ({machine()})\n\n")
    out(f"| {'':<40} | median {unit:<5} | min {unit:<5} | max {unit:<5} | against {reference} |\n")
    out(f"|{'-' * 42}|{'-' * 14}|{'-' * 11}|{'-' * 11}|{'-' * (10 + len(reference))}|\n")
    for name, values in runs.items():
        middle = statistics.median(values)
        ratio = middle / base if higher else base / middle
        out(f"| {name:<40} | {middle:12.3f} | {min(values):9.3f} | {max(values):9.3f} | {ratio:.2f} |\n")
