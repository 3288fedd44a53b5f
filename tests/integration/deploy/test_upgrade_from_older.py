"""The version of before the last change of the schema, from the history of this repository, beside this one."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from tests.integration.deploy.two_versions import SECONDS, Site, site_with
from transferapi.config import CHECKOUT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(240 + 2 * SECONDS)]
MIGRATIONS = ":(glob)**/migrations/[0-9]*.py"


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, timeout=60, check=True).stdout


def older_commit() -> str:
    """The newest one with other migrations; "": the history is not there."""
    try:
        changed = git("log", "-1", "--format=%H", "--", MIGRATIONS).decode().strip()
        return git("rev-parse", "--verify", "--quiet", f"{changed}^").decode().strip() if changed else ""
    except (OSError, subprocess.CalledProcessError):
        return ""


def unpack(folder: Path) -> Path:
    """The tree of that commit."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", OLDER))) as archive:
        # PEP 706, where this Python has it: Debian 12 has 3.11.2, which has none.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder


OLDER = older_commit()


@pytest.fixture(scope="module")
def site(postgres: Postgres, redis_server: Redis, django_db_modify_db_settings: None) -> Iterator[Site]:
    if not OLDER:
        pytest.skip("no history of the repository: an archive, or a shallow checkout")
    with site_with(postgres, redis_server, "upgrades_from_older", unpack) as found:
        yield found


def test_the_older_version_and_this_one_work_on_this_ones_schema(site: Site) -> None:
    if site.run(site.other, "-m", "deploy.cli", "upgrade", "--check").returncode:
        pytest.skip(f"the schema has a contraction since {OLDER[:12]}, which ends that version")
    site.add_cast()
    older, _ = site.web(site.other, "older-web")
    ours, _ = site.web(CHECKOUT, "our-web")
    site.worker(site.other, "older-worker")
    site.worker(CHECKOUT, "our-worker")
    site.transfer_for(SECONDS, [older, ours], ["older-worker", "our-worker"])
    for name in ("older-web", "older-worker"):
        assert "of a newer version, an expansion" in site.logs[name].read_text()
