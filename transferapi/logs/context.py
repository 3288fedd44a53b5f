"""The facts that each log line of a request, or of the work on a task, has: its request id, task, user and endpoints.

They follow the code into coroutines and callbacks, as all context variables (PEP 567). No secret belongs here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_facts: ContextVar[dict[str, str] | None] = ContextVar("waybill_log_facts", default=None)


@contextmanager
def bound(**facts: object) -> Iterator[None]:
    """Lines written within have these facts, besides those around; empty ones are left out."""
    token = _facts.set({**(_facts.get() or {}), **_texts(facts)})
    try:
        yield
    finally:
        _facts.reset(token)


def add(**facts: object) -> None:
    """Add facts that became known within the innermost `bound`; does nothing outside of one."""
    known = _facts.get()
    if known is not None:
        known.update(_texts(facts))


def current() -> Mapping[str, str]:
    return _facts.get() or {}


def _texts(facts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}
