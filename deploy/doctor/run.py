"""Runs the checks side by side, each for a limited time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from django.db import connections

from transferapi.config import Config

from .findings import Check, Finding, error

#: Seconds for all checks together; they run at the same time. A connection to PostgreSQL may take 10 s.
SECONDS = 30.0


def run_all(checks: Mapping[str, Check], config: Config, seconds: float = SECONDS) -> dict[str, list[Finding]]:
    """The findings of each check, those that it had made before the time was over included."""
    found: dict[str, list[Finding]] = {name: [] for name in checks}
    threads = {
        name: threading.Thread(target=_run, args=(check, config, found[name]), name=f"doctor {name}", daemon=True)
        for name, check in checks.items()
    }
    until = time.monotonic() + seconds
    for thread in threads.values():
        thread.start()
    for name, thread in threads.items():
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            late = error(f"The check did not end within {seconds:g} s.", "See whether what it looks at hangs.")
            found[name] = [*found[name], late]
    return found


def _run(check: Check, config: Config, found: list[Finding]) -> None:
    try:
        for one in check(config):
            found.append(one)
    except Exception as failure:
        # Its text may contain private data.
        found.append(error(f"The check itself failed: {type(failure).__name__}", "Please report this."))
    finally:
        connections.close_all()
