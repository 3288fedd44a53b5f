"""Write the pictures and the tables of docs/architecture.md: `python -m docs.draw`."""

from __future__ import annotations

import sys

from .imports import ROOT
from .page import files


def main() -> None:
    """Prints the names of the files that changed."""
    for path, text in files().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
