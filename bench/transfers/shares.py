"""2,000 files of 1 KB to a shared endpoint, beside the same files to the endpoint that hosts it, in one run.

    python -m bench.transfers.shares [--files 2000] [--rounds 7]

A shared destination costs two more commands for each file (RNFR and RNTO), because files are written under temporary
names, and one more statement for each batch (docs/decisions/sharing-and-groups.md).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bench.table import print_table
from bench.transfers.small_files import arguments_of, by_us, measure, site
from tests.instance import Api

DIRECT, SHARED = "to the host endpoint", "to a shared endpoint"


def share(api: Api, host: str, path: Path) -> str:
    """A shared endpoint of this folder; its id."""
    document = {"DATA_TYPE": "shared_endpoint", "display_name": "bench", "host_endpoint": host, "host_path": f"{path}/"}
    return str(api.call("POST", "/shared_endpoint", document)["id"])


def main() -> None:
    arguments = arguments_of(__doc__)
    with site(arguments.files) as here:
        source, host = here.ids
        shared = share(here.api, host, here.destination)
        contenders = {
            DIRECT: partial(by_us, here.api, source, host, (here.source, here.destination)),
            SHARED: partial(by_us, here.api, source, shared, (here.source, Path("/"))),
        }
        runs = measure(here, contenders, arguments.rounds)
    print_table(f"{arguments.files} files of 1 KB, two toolkit servers, loopback", "s", runs, DIRECT)


if __name__ == "__main__":
    main()
