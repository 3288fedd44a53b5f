"""First paint, octets, requests and queries of each page, and a listing of many entries on the Transfer page.

    python -m bench.pages [--entries 100000] [--rounds 5] [--live 500] [--tls] [--only pages|listing|live]

A cold page has nothing in the browser's cache; a warm one has its files. Frames count as dropped where more than 34 ms
pass between two of them, while the listing scrolls from its beginning to its end. Live pages are open streams of events
on one events server, of each user eight; with --tls it ends TLS itself.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.table import machine
from endpoints.gridftp.server import GridFtpServer
from tests.browsers.chromium import ENTER, Chromium
from tests.instance import Api, instance
from tests.waiting import eventually

from . import listing, live, paint

PATHS = ("/transfer", "/activity", "/endpoints", "/account")
FRONT = ("/", "/signin")


@contextmanager
def many_files(entries: int) -> Iterator[int]:
    """A server of ours over a folder with so many files; its port."""
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        folder = Path(name)
        for number in range(entries):
            (folder / f"run-{number % 97:02}-event-{number:06}.dat").touch()
        with GridFtpServer(folder) as server:
            yield server.port


def sign_in(browser: Chromium, api: Api) -> None:
    browser.open(f"{api.url}/signin?next=/transfer")
    browser.type("#username", api.connection["username"])
    browser.type("#password", api.connection["password"] + ENTER)
    eventually(lambda: urlsplit(browser.address).path == "/transfer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--live", type=int, default=500)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--only", choices=("pages", "listing", "live"))
    arguments = parser.parse_args()
    if arguments.only in (None, "live"):
        with instance() as api:
            _print_live(live.measure(api, arguments.live, tls=arguments.tls))
    if arguments.only != "live":
        _in_browser(arguments)


def _in_browser(arguments: argparse.Namespace) -> None:
    wants_pages, wants_listing = (arguments.only in (None, one) for one in ("pages", "listing"))
    with instance() as api, tempfile.TemporaryDirectory() as profile, Chromium(Path(profile)) as browser:
        found = [paint.measure(browser, api, path, arguments.rounds) for path in FRONT if wants_pages]
        sign_in(browser, api)
        if wants_pages:
            found += [paint.measure(browser, api, path, arguments.rounds) for path in PATHS]
            _print_pages(found, paint.queries(api, [*FRONT, *PATHS]))
        if wants_listing:
            with many_files(arguments.entries) as port:
                endpoint = api.endpoint("many", port)
                rounds = [listing.measure(browser, api, endpoint) for _ in range(arguments.rounds)]
            _print_listing(arguments.entries, rounds)


def _print_live(found: live.Found) -> None:
    out = sys.stdout.write
    out(f"\n{found.pages} live pages on one events server ({machine()})\n\n| | |\n|---|---|\n")
    for name, value in found.lines:
        out(f"| {name} | {value} |\n")


def _print_pages(found: list[paint.Painted], counted: dict[str, int]) -> None:
    out = sys.stdout.write
    out(f"\nPages ({machine()})\n\n")
    out("| page | first paint, cold | warm | JS and CSS | octets, cold | warm | requests, cold | warm | queries |\n")
    out("|---|---|---|---|---|---|---|---|---|\n")
    for page in found:
        cold, warm = page.cold, page.warm
        times = f"{cold.milliseconds:.0f} ms | {warm.milliseconds:.0f} ms"
        sizes = f"{cold.octets / 1000:.0f} kB | {warm.octets / 1000:.0f} kB | {cold.requests} | {warm.requests}"
        code = f"{cold.code / 1000:.0f} kB"
        out(f"| `{page.path}` | {times} | {code} | {sizes} | {counted[page.path]} |\n")


def _print_listing(entries: int, rounds: list[dict[str, float]]) -> None:
    out = sys.stdout.write
    out(f"\nA listing of {entries:,} entries ({machine()})\n\n| step | median | max |\n|---|---|---|\n")
    for name in rounds[0]:
        values = [one[name] for one in rounds]
        out(f"| {name} | {statistics.median(values):.0f} | {max(values):.0f} |\n")


if __name__ == "__main__":
    main()
