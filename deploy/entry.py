"""The console script `waybill`: it loads the commands, except for a health check, which starts often."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Returns the exit status."""
    words = sys.argv[1:]
    if words[:1] == ["check"]:
        from .commands import check

        if not check.is_of_make_up(os.environ):
            return check.main(words[1:])
    from . import cli

    return cli.main(words)


if __name__ == "__main__":
    sys.exit(main())
