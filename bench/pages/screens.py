"""Pictures of all pages: light and dark, wide and as on a telephone, empty and full.

    .venv/bin/python -m bench.pages.screens [FOLDER] [PAGE ...]

FOLDER (default: `screens`) gets PAGE-SCHEME-WIDTH.png; with names of pages, only these. It starts an instance with
tasks of its own. It prints a table of the pages: octets of styles and scripts, requests, the first paint, and whether
the page is wider than the window.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from deploy.stack.free_ports import free_port
from tests.browsers.chromium import ENTER, Chromium
from tests.instance import Api, instance
from tests.waiting import eventually

CALLBACK = "https://gateway.example.org/callback"
SCHEMES, WIDTHS = ("light", "dark"), (1280, 360)
_MEASURES = """
const found = performance.getEntriesByType("resource").filter(one => /\\.(css|js)$/.test(one.name));
const paint = performance.getEntriesByName("first-contentful-paint")[0];
return [found.reduce((sum, one) => sum + one.decodedBodySize, 0), performance.getEntriesByType("resource").length + 1,
    paint ? paint.startTime : null,
    document.documentElement.scrollWidth > document.documentElement.clientWidth];
"""


def main() -> None:
    folder, *wanted = sys.argv[1:] or ["screens"]
    Path(folder).mkdir(exist_ok=True)
    with (
        instance(WAYBILL_DEBUG="1", WAYBILL_MAIL="file:///dev/null", WAYBILL_ALLOW_WEBHOOKS="127.0.0.1") as api,
        tempfile.TemporaryDirectory() as profile,
        Chromium(Path(profile)) as browser,
    ):
        # Passkeys belong to a name: not to 127.0.0.1.
        home = api.url.replace("127.0.0.1", "localhost")
        rows = [row for name, address in pages(api, home, browser) if not wanted or name in wanted
                for row in pictures(browser, Path(folder), name, home + address)]  # fmt: skip
    for row in [["page", "window", "CSS + JS", "requests", "first paint", "too wide"], *rows]:
        sys.stdout.write(f"{row[0]:<18} {row[1]:<11} {row[2]:>9} {row[3]!s:>8} {row[4]:>11} {row[5]}\n")


def pages(api: Api, home: str, browser: Chromium) -> Iterator[tuple[str, str]]:
    """The names and addresses of all pages; signs in between them."""
    yield "front", "/"
    yield "sign-in", "/signin"
    yield "problem", "/v2/web/auth-code?error=access_denied"
    yield "recover", "/recover"
    yield "recover-lapsed", "/recover/link?code=none"
    browser.open(f"{home}/signin?next=/activity")
    browser.type("#username", api.connection["username"])
    browser.type("#password", api.connection["password"] + ENTER)
    eventually(lambda: "/activity" in browser.address)
    yield "activity-empty", "/activity?q=nothing-has-this-name"
    tasks = make_tasks(api)
    yield "activity", "/activity"
    for name, task in tasks.items():
        yield f"task-{name}", f"/activity/{task}"
    secure = api.endpoint("needs-a-credential", free_port(), scheme="gsiftp")
    yield "activate", f"/endpoints/{secure}/activate"
    yield "account-empty", "/account"
    application = fill_account(api, home, browser)
    ends = api.connection["endpoints"]
    places = {"origin_id": ends["go#ep1"], "origin_path": "/share/godata/", "destination_id": ends["go#ep2"]}
    yield "transfer", f"/transfer?{urlencode({**places, 'destination_path': '/'})}"
    yield "transfer-empty", "/transfer"
    yield "endpoints", "/endpoints"
    yield "timers", "/timers"
    yield "groups", "/groups"
    yield "unknown", "/no/such/page"
    yield "console", "/console"
    yield "health", "/console/health"
    _make_staff(api)
    yield "users", "/console/users"
    yield "account", "/account"
    yield "sign-in-again", "/signin?again=1"
    yield "consent", consent_of(application)
    yield "style", "/style"


def _make_staff(api: Api) -> None:
    words = [sys.executable, "-m", "deploy.cli", "user", "set", api.connection["username"], "--staff", "yes"]
    subprocess.run(words, env=os.environ | {"WAYBILL_HOME": str(api.home)}, check=True, stdout=subprocess.DEVNULL)


def make_tasks(api: Api) -> dict[str, str]:
    """Tasks in several states."""
    ends = api.connection["endpoints"]
    source, destination = ends["go#ep1"], ends["go#ep2"]
    nowhere = api.endpoint("unreachable", free_port())
    missing = [(f"/no/such file {number}.dat", f"/screens/{number}") for number in range(9)]
    long = "A label that is so long that it would need more room than a telephone has in one line"
    found = {
        "done": api.transfer(source, "/share/godata/", destination, "/screens/", recursive=True, verify_checksum=True,
                             label="Nightly copy of the godata folder"),
        "failing": api.transfer_items(source, destination, missing, label="Files that are not there"),
        "unreachable": api.transfer(nowhere, "/data/", destination, "/screens/x/", recursive=True),
        "canceled": api.transfer(nowhere, "/data/", destination, "/screens/y/", recursive=True, label=long),
    }  # fmt: skip
    api.wait(found["done"])
    api.call("POST", f"/task/{found['canceled']}/cancel")
    time.sleep(4)
    return found


def fill_account(api: Api, home: str, browser: Chromium) -> str:
    """Tokens, an application, ssh keys, webhooks and passkeys of the sample user; the application's id."""
    application = ""
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJCwH4x5WMvqZ0BaHl6sG7rB0mFh9R0bUrLlVY9eVfHx"
    long = "https://gateway.example.org/waybill/" + "a-long-path/" * 12
    for path, document in (
        ("/v2/api/tokens", {"label": "nightly backup", "expires_in": 9_000_000}),
        ("/v2/api/tokens", {"label": "a label that is so long that it needs more than one line on a telephone"}),
        ("/v2/api/clients", {"client": {"name": "our gateway", "redirect_uris": [CALLBACK]}}),
        ("/v2/api/ssh_keys", {"public_key": f"{key} laptop", "commands": ["ls", "transfer"]}),
    ):
        made = api.call_as_signed_in(path, document)
        application = made.get("client", {}).get("id", application)
    api.call("POST", "/webhook", {"DATA_TYPE": "webhook", "url": long.replace("gateway.example.org", "127.0.0.1")})
    # A second session: the browser has other cookies for this name.
    browser.open(f"{api.url}/signin?next=/account")
    browser.type("#username", api.connection["username"])
    browser.type("#password", api.connection["password"] + ENTER)
    eventually(lambda: "/account" in browser.address)
    browser.authenticator()
    browser.open(f"{home}/account")
    browser.type("#passkey-label", "laptop" + ENTER)
    eventually(lambda: browser.shows("signs you in from now on"))
    return application


def consent_of(application: str) -> str:
    """The page that asks whether this application may act for the user."""
    query = {"client_id": application, "redirect_uri": CALLBACK, "response_type": "code"}
    return f"/v2/oauth2/authorize?{urlencode(query)}"


def pictures(browser: Chromium, folder: Path, name: str, address: str) -> Iterator[list[Any]]:
    for scheme in SCHEMES:
        browser.prefer(scheme)
        for width in WIDTHS:
            browser.resize(width)
            browser.open(address)
            time.sleep(0.5)
            octets, requests, paint, too_wide = browser.run(_MEASURES)
            (folder / f"{name}-{scheme}-{width}.png").write_bytes(browser.picture())
            shown = f"{paint:.0f} ms" if paint else "?"
            yield [
                name,
                f"{scheme} {width}",
                f"{octets / 1000:.0f} kB",
                requests,
                shown,
                "TOO WIDE" if too_wide else "",
            ]


if __name__ == "__main__":
    main()
