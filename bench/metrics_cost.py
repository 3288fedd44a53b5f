"""The cost of counting one request, beside the same call without it: `python -m bench.metrics_cost`."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

ROUNDS, CALLS = 50, 2000


def measure(call: Callable[[], object]) -> list[float]:
    """Microseconds of one call, for each round."""
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        found.append((time.perf_counter() - began) / CALLS * 1e6)
    return found


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    os.environ.setdefault("WAYBILL_SECRET_KEY", "x" * 64)
    import django

    django.setup()
    from django.http import HttpRequest, HttpResponse

    from transferapi.rest.metrics.requests import RequestMetrics
    from transferapi.rest.metrics.shared_counts import COUNTS

    answer, request = HttpResponse(), HttpRequest()
    counted = RequestMetrics(lambda _: answer)
    sides = {
        "without": measure(lambda: (lambda _: answer)(request)),
        "a request": measure(lambda: counted(request)),
        "a statement": measure(lambda: COUNTS.statement(0.001)),
    }
    for name, found in sides.items():
        sys.stdout.write(f"{name:12} median {statistics.median(found):6.2f} us, best {min(found):6.2f} us\n")


if __name__ == "__main__":
    main()
