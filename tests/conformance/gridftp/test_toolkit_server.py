"""The toolkit's own server, as our tests and benchmarks start it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gridftp.toolkit import ToolkitServer

pytestmark = pytest.mark.toolkit


def test_the_toolkits_client_copies_between_two_of_its_servers(
    tmp_path: Path, toolkit_server_factory: Callable[..., ToolkitServer]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"\x00\xff" * 5000)
    source = toolkit_server_factory(tmp_path / "a")
    destination = toolkit_server_factory(tmp_path / "b")
    subprocess.run(
        ["globus-url-copy", f"{source.url}{tmp_path}/a/file", f"{destination.url}{tmp_path}/b/file"],
        check=True,
        timeout=30,
    )
    assert (tmp_path / "b" / "file").read_bytes() == b"\x00\xff" * 5000


def test_stopping_the_server_ends_its_sessions_too(
    tmp_path: Path, toolkit_server_factory: Callable[..., ToolkitServer]
) -> None:
    import socket

    server = toolkit_server_factory(tmp_path)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as session:
        assert session.recv(3) == b"220"
        server.stop()
        while session.recv(4096):
            pass
