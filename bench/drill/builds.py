"""The images of the project, of this commit and of an older one, built beside secrets that must not get into them."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from pathlib import Path

from bench.drill import commits
from bench.drill.commits import CHECKOUT
from bench.drill.engine import Engine

#: The checkout in the engine; a file for Compose that takes away what the older version does not know.
FOLDER, OLD = "/srv/project", "/srv/old.yml"
#: A variable of `.env`, and a file beside the secrets.
CANARY = "DRILL_CANARY"
#: How many there are while a fault begins.
WORKERS = 3


def use_image(engine: Engine, tag: str) -> None:
    """tag: old or new."""
    engine.docker("tag", f"waybill:{tag}", "waybill")


def _write_secrets(folder: Path) -> None:
    """As the first lines of docker-compose.yml say, before the image is built; and what a drill needs: several workers,
    private addresses, a higher rate, and a word in `.env` and in a file, which must be in no image and no container."""
    more = {"WAYBILL_ALLOW_TARGETS": "172.16.0.0/12,192.168.0.0/16", "WAYBILL_RATE_LIMIT": "200"}
    more |= {"WAYBILL_WORKERS": str(WORKERS), CANARY: secrets.token_hex(20)}
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in more.items()))
    subprocess.run(["sh", "deploy/compose-secrets.sh"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (folder / "secrets" / "canary").write_text(more[CANARY])


def build(engine: Engine, old: str) -> None:
    """The images of the commit that is checked out, and of the older one; what is not committed is in neither."""
    folder = engine.root / FOLDER[1:]
    if folder.exists():
        shutil.rmtree(folder)
    commits.git(CHECKOUT, "clone", "-q", str(CHECKOUT), str(folder))
    _write_secrets(folder)
    head = commits.git(CHECKOUT, "rev-parse", "HEAD")
    for tag, commit in (("old", old), ("new", head)):
        if commit:
            commits.git(folder, "checkout", "-q", "--detach", commit)
            engine.build(FOLDER, f"waybill:{tag}")
    (engine.root / OLD[1:]).write_text(commits.without_new_variables(head, old) if old else "{}\n")
