"""How many examples the tests of chance try: a quarter in each run, all of them with THOROUGH_TESTS=1.

Hypothesis draws others in each run, so that many runs try more than one long run does. `make thorough` is that long
run, for before a release.
"""

from __future__ import annotations

import os

THOROUGH = os.environ.get("THOROUGH_TESTS") == "1"
#: Hypothesis's own number, for tests that name none.
DEFAULT = 100


def examples(thorough: int) -> int:
    """The number of examples to try, where a thorough run tries `thorough`."""
    return thorough if THOROUGH else max(1, thorough // 4)
