"""Drives the real clients: the `globus` command of three ages, and globus-sdk of three generations, each as published.

    cli = Globus(url, home=tmp_path, client=(client_id, secret))
    cli("ls", f"{endpoint}:/").out

    run_python("sdk4", SNIPPET, url=url, token=token)

`tests/clients/install.sh .clients` installs them; tests that use them carry `@pytest.mark.real_clients`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transferapi.config import CHECKOUT

FOLDER = Path(os.environ.get("REAL_CLIENTS", CHECKOUT / ".clients"))
GLOBUS = FOLDER / "cli" / "bin" / "globus"
SDKS = ("sdk4", "sdk3", "sdk1")
OLDER_COMMANDS = ("cli320", "cli340")
#: Programs with a sign-in of their own, which `tests.real_programs` runs, and the provider of
#: `tests.identity_providers.openid_provider`.
PROGRAMS = ("authlib", "canaille", "fair", "hub", "portal", "social")
#: The UMD build of @globus/sdk, for pages.
JAVASCRIPT = FOLDER / "javascript" / "package" / "dist" / "umd" / "globus.production.js"
SERVICES = ("AUTH", "TRANSFER", "GROUPS", "SEARCH", "TIMER", "FLOWS")
SECONDS = 60


def installed() -> bool:
    pythons = [FOLDER / name / "bin" / "python" for name in (*SDKS, *OLDER_COMMANDS, *PROGRAMS)]
    return all(path.exists() for path in (GLOBUS, JAVASCRIPT, *pythons))


@dataclass(frozen=True)
class Ran:
    """Exit status and output of a client."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as a JSON document."""
        return json.loads(self.out)


def environment(url: str, home: Path, more: Mapping[str, str] = {}) -> dict[str, str]:
    """An environment with the addresses of the services and none of our other variables; storage goes below `home`."""
    services = {f"GLOBUS_SDK_SERVICE_URL_{name}": url.rstrip("/") + "/" for name in SERVICES}
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    return {**kept, "HOME": str(home), "NO_PROXY": "*", "no_proxy": "*", **services, **more}


@dataclass(frozen=True)
class Globus:
    """The command line, with a storage of its own below `home`."""

    url: str
    home: Path
    #: id and secret, for a login by client credentials; None if it logs in as a user does.
    client: tuple[str, str] | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    #: The environment with the command: "cli", or one of OLDER_COMMANDS.
    program: str = "cli"

    def __call__(self, *words: str, status: int | None = 0, given: str = "", seconds: float = SECONDS) -> Ran:
        """Run `globus WORDS`. status: how it must end (None: anyhow). given: its standard input."""
        done = subprocess.run(
            [str(FOLDER / self.program / "bin" / "globus"), *words],
            input=given,
            capture_output=True,
            text=True,
            env=self.environment(),
            cwd=self.home,
            timeout=seconds,
        )
        ran = Ran(done.returncode, done.stdout, done.stderr)
        assert status in (None, ran.status), f"globus {' '.join(words)} ended with {ran.status}: {ran.out}{ran.err}"
        return ran

    def json(self, *words: str) -> Any:
        """Run `globus WORDS -F json` and return the document that it prints."""
        return self(*words, "-F", "json").json

    def environment(self) -> dict[str, str]:
        login = {}
        if self.client is not None:
            login = {"GLOBUS_CLI_CLIENT_ID": self.client[0], "GLOBUS_CLI_CLIENT_SECRET": self.client[1]}
        return environment(self.url, self.home, {**login, **self.more})


def run_python(
    sdk: str, code: str, *, url: str, home: Path, status: int | None = 0, seconds: float = SECONDS, **given: str
) -> Ran:
    """Run a piece of Python with this globus-sdk; `URL` and what is `given` are in its globals, in upper case."""
    names = {"URL": url.rstrip("/"), **{name.upper(): value for name, value in given.items()}}
    start = "import json, sys\nglobals().update(json.load(sys.stdin))\n"
    done = subprocess.run(
        [str(FOLDER / sdk / "bin" / "python"), "-W", "ignore", "-c", start + code],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        env=environment(url, home),
        cwd=home,
        timeout=seconds,
    )
    ran = Ran(done.returncode, done.stdout, done.stderr)
    assert status in (None, ran.status), f"{sdk} ended with {ran.status}: {ran.out}{ran.err}"
    return ran
