"""MyProxy servers that lie, on loopback."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

import pytest

from deploy.endpoint.authority import CertificateFiles
from tests.gridftp.authority import Authority
from tests.identity_providers.lying_myproxy import Caller, LyingServer, server_context

Behave = Callable[[Caller], object]


@pytest.fixture
def lie(authority: Authority, host_of: Callable[[Authority], CertificateFiles]) -> Iterator[Callable[..., LyingServer]]:
    """`lie(behave)`: a server with a certificate that is accepted; `lie(behave, context)`: with another one."""
    servers: list[LyingServer] = []

    def start(behave: Behave, context: ssl.SSLContext | str | None = "good") -> LyingServer:
        given = server_context(host_of(authority)) if isinstance(context, str) else context
        servers.append(LyingServer(behave, given))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
