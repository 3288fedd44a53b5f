"""One versitygw for each module, in a region of its own, and a bucket for each test."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from endpoints.s3.session import S3Session
from tests.conformance.gridftp.test_ftp_tls import certificate, key_of
from tests.servers.s3_server import S3Server


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("certificate"), "localhost")


@pytest.fixture(scope="module")
def pin(pem: Path) -> str:
    return key_of(pem)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, pem: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3"), pem, "--keep-alive", region="eu-north-1") as server:
        yield server


@pytest.fixture
async def bucket(server: S3Server, pin: str) -> str:
    """The path of a new bucket."""
    name = f"bucket-{uuid.uuid4().hex[:8]}"
    await server.make_bucket(name, pin)
    return f"/{name}"


@pytest.fixture
async def session(server: S3Server, pin: str) -> AsyncIterator[S3Session]:
    opened = await server.login(pin).open_session("127.0.0.1", server.port)
    yield opened
    await opened.close()
