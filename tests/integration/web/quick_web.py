"""The web server's worker, impatient and with little room:

--worker-class tests.integration.web.quick_web.QuickWorker
"""

from __future__ import annotations

from deploy.web.worker import StreamWorker


class QuickWorker(StreamWorker):
    READING = 1.0
    MOST_CONNECTIONS = 100
    MOST_BODIES = 10
    MOST_SPOOLED = 1 << 20


class HastyWorker(QuickWorker):
    """A high minimum rate, so that octets in the kernel's buffers give the client little more time."""

    SLOWEST = 2_000_000
