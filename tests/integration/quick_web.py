"""The web server's worker in a hurry: `--worker-class tests.integration.quick_web.QuickWorker`."""

from __future__ import annotations

from deploy.stack.web import StreamWorker


class QuickWorker(StreamWorker):
    READING = 1.0
    WRITING = 1
