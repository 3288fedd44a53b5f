"""Servers of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture(scope="module")
def running() -> Iterator[ExitStack]:
    """Programs that run until the end of a module's tests."""
    with ExitStack() as stack:
        yield stack
