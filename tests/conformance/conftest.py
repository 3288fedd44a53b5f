"""Servers of ours over a folder of each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from endpoints.gridftp.server import GridFtpServer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    served = tmp_path / "served"
    served.mkdir()
    return served


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., GridFtpServer]]:
    """Start a server over `folder` with these options; it is stopped at the end, and must then have no session left."""
    with ExitStack() as stack:
        servers: list[GridFtpServer] = []

        def start(root: Path = folder, **options: Any) -> GridFtpServer:
            servers.append(stack.enter_context(GridFtpServer(root, **options)))
            return servers[-1]

        yield start
        for server in servers:
            server.stop()
            assert server.sessions == 0
