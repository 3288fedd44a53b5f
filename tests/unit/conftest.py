"""Event loops of the unit tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.engine_fakes import VirtualLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A test with the marker `virtual_time` runs on a loop whose clock jumps to the next timer."""
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualLoop}
    return {"real": asyncio.new_event_loop}
