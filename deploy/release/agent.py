"""`make agent`: write the agent as one file, the same one that the service offers at `/connect`."""

from __future__ import annotations

import argparse
from pathlib import Path

from endpoints.connect.program import program


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.release.agent", description=__doc__)
    parser.add_argument("path", type=Path, help="where to write it")
    path: Path = parser.parse_args().path
    made = program()
    path.write_bytes(made.octets)
    path.chmod(0o755)
    print(f"{path}: version {made.version}, {len(made.octets)} octets, SHA-256 {made.digest}")


if __name__ == "__main__":
    main()
