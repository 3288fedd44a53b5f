"""Where the present call comes from, for the audit log: a client's address, or the operator's command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

#: The actor of what is done on the machine of the service.
OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Origin:
    """address: of the client; "" where there is none. actor: who acts, if that is no user."""

    address: str = ""
    actor: str = ""


_NOWHERE = Origin()
_ORIGIN: ContextVar[Origin] = ContextVar("origin", default=_NOWHERE)


def present() -> Origin:
    return _ORIGIN.get()


@contextmanager
def comes_from(origin: Origin) -> Iterator[None]:
    """Within this block, in this thread."""
    token = _ORIGIN.set(origin)
    try:
        yield
    finally:
        _ORIGIN.reset(token)
