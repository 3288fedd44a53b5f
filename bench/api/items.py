"""One request that submits 100,000 items, in JSON and in XML: seconds, and the most memory of a web worker.

    python -m bench.api.items [items]

Each form is sent three times, to a service that has answered before; the first line, a request with one item, is what
all others are compared with. Both must take less than 10 s and 300 MB.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

from bench.api.service import Person, Web, person, web

ROUNDS = 3
MOST_SECONDS = 10.0
MOST_MEGABYTES = 300.0


def document(user: Person, items: int) -> dict[str, Any]:
    """Paths as an observatory has them, of some 80 octets."""
    return {
        "DATA_TYPE": "transfer",
        "submission_id": str(uuid.uuid4()),
        "source_endpoint": user.source,
        "destination_endpoint": user.destination,
        "label": "many items",
        "DATA": [
            {
                "DATA_TYPE": "transfer_item",
                "source_path": f"/archive/2026/night-{number % 365:03}/telescope-2/observation-{number:06}.fits",
                "destination_path": f"/projects/survey/incoming/night-{number % 365:03}/observation-{number:06}.fits",
                "recursive": False,
            }
            for number in range(items)
        ],
    }


def submit(service: Web, user: Person, body: bytes, kind: str) -> tuple[float, float]:
    """Seconds, and MB of the worker at its peak."""
    headers = {"Authorization": f"Bearer {user.token}", "Content-Type": kind}
    request = Request(f"http://127.0.0.1:{service.port}/v0.10/transfer", body, headers)
    service.forget_peaks()
    begun = time.perf_counter()
    with urlopen(request, timeout=120) as answer:
        answer.read()
    return time.perf_counter() - begun, service.peak()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("items", nargs="?", type=int, default=100_000)
    items = parser.parse_args().items
    good = True
    with web() as service:
        from transferapi.rest.http import json_documents, xml_documents

        forms: dict[str, tuple[Callable[[Any], bytes], str, int]] = {
            "JSON, one item": (json_documents.dumps, "application/json", 1),
            "JSON": (json_documents.dumps, "application/json", items),
            "XML": (xml_documents.dumps, "application/xml", items),
        }
        sys.stdout.write(f"\n{'':16} {'items':>8} {'body MB':>8} {'seconds':>8} {'peak MB':>8}\n")
        for name, (dumps, kind, count) in forms.items():
            user, runs, size = person(name.lower().replace(", ", "-").replace(" ", "-")), [], 0
            for _ in range(ROUNDS):
                body = dumps(document(user, count))
                size = len(body)
                runs.append(submit(service, user, body, kind))
            seconds = statistics.median(one for one, _ in runs)
            peak = max(one for _, one in runs)
            good = good and seconds < MOST_SECONDS and peak < MOST_MEGABYTES
            sys.stdout.write(f"{name:16} {count:8,} {size / 1e6:8.1f} {seconds:8.2f} {peak:8.0f}\n")
            sys.stdout.flush()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
