"""A server of a test, for clients."""

from __future__ import annotations

from dataclasses import dataclass

from endpoints.gridftp.login import ANONYMOUS, Login


@dataclass(frozen=True)
class End:
    """A server, and how one logs in there. host: its address."""

    port: int
    login: Login = ANONYMOUS
    host: str = "127.0.0.1"
