"""Ranges out: what a forecast says, rounded."""

from __future__ import annotations

from transferapi.tasks.forecast import Forecast


def seconds(found: Forecast) -> dict[str, float]:
    return {"low": round(found.low, 3), "expected": round(found.expected, 3), "high": round(found.high, 3)}


def bytes_per_second(found: Forecast) -> dict[str, int]:
    low, expected, high = found.bytes_per_second
    return {"low": int(low), "expected": int(expected), "high": int(high)}
