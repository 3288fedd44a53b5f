"""Files in the image of deploy/Dockerfile and in git: the service, and no secret from the folder beside it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from transferapi.config import CHECKOUT

ROOMS = ("deploy/", "endpoints/", "identity/", "transferapi/", "webui/", "workers/")
#: Files of the rooms that are left out of the image, since only a host needs them.
LEFT_OUT = re.compile(
    r"deploy/(Dockerfile|front/.*|helm/.*|monitoring/.*|systemd/.*|endpoint/box|compose-public\.yml|.*\.sh)$"
)
SECRETS = (
    ".env",
    ".env.production",
    "deploy/.env",
    ".waybill/vault-key",
    ".waybill/postgres/PG_VERSION",
    "secrets/vault-key",
    "deploy/secrets/oidc",
    "vault-key",
    "vault-key.new",
    "server.key",
    "identity/server.pem",
    "webui/assets/server.key",
    "transferapi/rest/openapi/examples/alice.p12",
)


def test_the_image_holds_the_service_and_nothing_else() -> None:
    tracked = _git("ls-files", "-z").split("\0")[:-1]
    wanted = {path for path in tracked if path.startswith(ROOMS) and not LEFT_OUT.match(path)}
    wanted |= {"LICENSE", "README.md", "manage.py", "pyproject.toml", "requirements.lock"}
    assert {path for path in tracked if _enters_the_context(path)} == wanted


@pytest.mark.parametrize("path", [*SECRETS, ".git/config", ".venv/pyvenv.cfg", "dump.sql", "notes/.env"])
def test_what_lies_beside_it_does_not_reach_docker(path: str) -> None:
    assert not _enters_the_context(path)


@pytest.mark.parametrize("path", SECRETS)
def test_git_takes_no_secret(path: str) -> None:
    assert _git("check-ignore", "--no-index", path).strip() == path


def test_the_dockerfile_copies_what_it_names() -> None:
    lines = (CHECKOUT / "deploy" / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith(("COPY", "ADD"))]
    assert not {".", "./", "*"} & {source for sources in copied for source in sources}
    assert {f"{source}/" for sources in copied for source in sources} >= set(ROOMS)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, timeout=30, check=True).stdout


def _enters_the_context(path: str) -> bool:
    """Whether .dockerignore admits the path: the last pattern that matches it, or a folder above it, decides."""
    enters = True
    for line in (CHECKOUT / ".dockerignore").read_text().splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        names = [path, *(str(parent) for parent in Path(path).parents if parent != Path())]
        if any(_expression(pattern.removeprefix("!")).fullmatch(name) for name in names):
            enters = pattern.startswith("!")
    return enters


def _expression(pattern: str) -> re.Pattern[str]:
    """`**/` is any number of folders, `*` anything within a name."""
    parts = re.split(r"(\*\*/|\*)", pattern)
    known = {"**/": "(?:.*/)?", "*": "[^/]*"}
    return re.compile("".join(known.get(part, re.escape(part)) for part in parts))
