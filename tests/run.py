"""Run all tests; a few that fail beside others run once more, alone: `python -m tests.run [options of pytest]`.

A test that fails both times fails the run, and so do more than `FEW`. The second run prints which tests these were:
each of them is a defect of a test or of the service that is to be mended (docs/decisions/0078-a-second-run.md).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

#: As many failures may be chance; more have a cause in common.
FEW = 3
#: Exit codes of pytest.
PASSED, SOME_FAILED = 0, 1


def failed_tests(cache: Path) -> list[str]:
    """The node ids that failed, from the cache of pytest; empty where it cannot be read."""
    try:
        found = json.loads((cache / "v" / "cache" / "lastfailed").read_text())
    except (OSError, ValueError):
        return []
    return sorted(found) if isinstance(found, dict) else []


def run(options: list[str], folder: Path) -> int:
    """Run pytest in the folder, and the few tests that failed once more, without the options; returns the exit code."""
    cache = folder / ".pytest_cache"
    # The cache keeps what failed in earlier runs, too.
    (cache / "v" / "cache" / "lastfailed").unlink(missing_ok=True)
    words = [sys.executable, "-m", "pytest"]
    code = subprocess.run([*words, *options], cwd=folder, stdin=subprocess.DEVNULL, check=False).returncode
    failed = failed_tests(cache)
    # A module that cannot be collected is no test: it has no name within the module.
    if code != SOME_FAILED or not 0 < len(failed) <= FEW or not all("::" in one for one in failed):
        return code
    print(f"\n{len(failed)} failed beside other tests, and run once more, alone:", *failed, sep="\n  ", flush=True)
    code = subprocess.run([*words, "-v", *failed], cwd=folder, stdin=subprocess.DEVNULL, check=False).returncode
    if code == PASSED:
        print("These failed once and passed once. They are to be mended:", *failed, sep="\n  ", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], Path.cwd()))
