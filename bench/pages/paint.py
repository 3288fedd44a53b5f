"""The first paint of a page, and what was loaded and asked for it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deploy.stack.embedded import embedded_environment
from tests.browsers.chromium import Chromium
from tests.instance import Api
from tests.waiting import eventually

_FACTS = """
const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
const painted = performance.getEntriesByName("first-contentful-paint")[0];
return painted && document.readyState === "complete"
  ? [painted.startTime, all.reduce((sum, one) => sum + one.transferSize, 0), all.filter(one => one.transferSize).length,
     all.filter(one => /\\.(css|js)$/.test(one.name)).reduce((sum, one) => sum + one.decodedBodySize, 0)]
  : null;
"""
#: Seconds after the first paint for the requests of the page's scripts.
_SETTLE = 0.7


class Loaded(NamedTuple):
    milliseconds: float
    octets: float
    requests: int
    #: Octets of its JavaScript and CSS.
    code: float


@dataclass(frozen=True)
class Painted:
    """cold: with an empty cache. warm: with the page's files in it."""

    path: str
    cold: Loaded
    warm: Loaded


def measure(browser: Chromium, api: Api, path: str, rounds: int) -> Painted:
    """The medians of some rounds."""
    cold, warm = [], []
    for _ in range(rounds):
        browser._devtools("Network.clearBrowserCache", {})
        cold.append(_load(browser, api.url + path))
        warm.append(_load(browser, api.url + path))
    return Painted(path, _median(cold), _median(warm))


def _load(browser: Chromium, address: str) -> Loaded:
    browser.open("about:blank")
    browser.open(address)
    eventually(lambda: browser.run(_FACTS))
    time.sleep(_SETTLE)
    return Loaded(*browser.run(_FACTS))


def _median(found: Sequence[Loaded]) -> Loaded:
    middle = [statistics.median(one[at] for one in found) for at in range(4)]
    return Loaded(middle[0], middle[1], round(middle[2]), middle[3])


def queries(api: Api, paths: Sequence[str]) -> dict[str, int]:
    """The SQL statements of each page, counted in a process of its own on the database of the instance."""
    environment = os.environ | embedded_environment(api.home) | {"DJANGO_SETTINGS_MODULE": "transferapi.settings"}
    command = [sys.executable, "-m", "bench.pages.queries", api.connection["username"], *paths]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {path: int(number) for path, number in found.items()}
