"""The end of a worker of the web server: it answers what has come, and refuses what comes later.

Gunicorn's worker leaves the listening socket open until its last request is answered. The kernel completes connections
to it meanwhile, and resets them at the end. A server in front passes a request whose connection was refused to another
web server, but not a POST that it has sent.
"""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def close_early(worker: Any, end_streams: Callable[[], object]) -> None:
    """Have this worker close its listening sockets as soon as it is asked to stop. Call this in the worker's process.

    worker: gunicorn's `ThreadWorker`. end_streams: ends the answers that have no end, which hold threads.
    """
    gunicorns: Any = signal.getsignal(signal.SIGTERM)

    def stop(number: int, frame: FrameType | None) -> None:
        if worker.alive:
            # The loop calls these. A signal handler must not take connections: it may interrupt the loop as it does so.
            worker.method_queue.defer(_leave, worker)
            threading.Thread(target=end_streams, name="end of streams", daemon=True).start()
        gunicorns(number, frame)

    signal.signal(signal.SIGTERM, stop)


def _leave(worker: Any) -> None:
    worker.set_accept_enabled(False)
    _accept_all(worker)
    # The loop may have found further connections in this round: the sockets are closed in a later one.
    worker.method_queue.defer(_close, worker)


def _close(worker: Any) -> None:
    _accept_all(worker)
    for listener in worker.sockets:
        listener.close()
    worker.sockets = []


def _accept_all(worker: Any) -> None:
    """Accept what waits. Other workers of this server may accept some of it."""
    for listener in worker.sockets:
        waiting = select.poll()
        waiting.register(listener, select.POLLIN)
        for _ in range(worker.cfg.worker_connections):
            if not waiting.poll(0):
                break
            worker.accept(listener)
