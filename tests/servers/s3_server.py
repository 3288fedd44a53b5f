"""versitygw, an S3 server, as a child process on loopback, with TLS: a bucket is a folder, and an object a file.

`tests/install-s3-server.sh .s3-server` builds it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.free_ports import free_port
from endpoints.s3.http import StoreAddress
from endpoints.s3.login import S3Login
from endpoints.s3.signature import AccessKey
from endpoints.s3.store import Store
from transferapi.config import CHECKOUT

FOLDER = Path(os.environ.get("S3_SERVER", CHECKOUT / ".s3-server"))
START_SECONDS = 20.0
KEY = AccessKey("AKIDWAYBILL", "correct/horse+battery")


def program() -> str | None:
    """The path of the server, built or installed."""
    built = FOLDER / "versitygw"
    return str(built) if built.exists() else shutil.which("versitygw")


NEEDS_S3_SERVER = pytest.mark.skipif(
    program() is None and os.environ.get("CI") != "true",
    reason="an S3 server is missing: tests/install-s3-server.sh .s3-server",
)


class S3Server:
    """pem: its certificate and key. options: more of its command line."""

    def __init__(self, folder: Path, pem: Path, *options: str, region: str = "us-east-1") -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = 0
        self._pem = pem
        self._options = options
        self._region = region
        self.process: subprocess.Popen[bytes] | None = None

    def login(self, pin: str, key: AccessKey | None = KEY) -> S3Login:
        return S3Login(key, "localhost", pin)

    def store(self, pin: str, key: AccessKey | None = KEY) -> Store:
        """A client that is no session; to be aborted."""
        return Store(StoreAddress("127.0.0.1", self.port, "localhost", pin), key)

    async def make_bucket(self, name: str, pin: str) -> Path:
        """A new bucket, as the folder of the server."""
        store = self.store(pin)
        try:
            await store.ask("PUT", f"/{name}")
        finally:
            store.abort()
        return self.data / name

    def __enter__(self) -> Self:
        self.data.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        words: list[str | Path] = [program() or "versitygw", "--port", f"127.0.0.1:{self.port}", "--quiet"]
        words += ["--cert", self._pem, "--key", self._pem, "--region", self._region, "--access", KEY.id]
        words += ["--secret", KEY.secret, *self._options, "posix", "--sidecar", self.folder / "sidecar", self.data]
        (self.folder / "sidecar").mkdir(exist_ok=True)
        self.process = spawn(words, log=self.folder / "log")
        wait_ready("versitygw", self.process, self._listens, timeout=START_SECONDS, log=self.folder / "log")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process:
            stop(self.process, signal.SIGTERM)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2):
            return True
        return False
