"""How long the web server waits for its clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClientTimeouts:
    """Time limits in seconds, and the slowest rate in octets a second.

    reading: for a head, or a TLS handshake; also the time before the rate of a body or an answer counts. idle: between
    two requests. closing: for the client to take the end of an answer.
    """

    reading: float
    slowest: int
    idle: float
    closing: float = 2.0
