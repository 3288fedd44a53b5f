"""Backups and versions of the schema: a backup of an older version, and the way back after a contraction."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import newer_version
from tests.integration.deploy.test_backup import FILL, HELD, STATE, asked, environment, running
from tests.newer_version import CONTRACTION, EXPANSION
from transferapi.config import CHECKOUT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(400)]

#: The schema of the newer version after its contraction: its column and its table, and not the removed column.
SCHEMA = """
    SELECT (SELECT count(*) FROM information_schema.columns WHERE column_name = 'tomorrow'),
    (SELECT count(*) FROM information_schema.tables WHERE table_name = 'tasks_tomorrow'),
    (SELECT count(*) FROM information_schema.columns WHERE column_name = 'trace_context')"""
OLDER, EXPANDED, NEWER = (0, 0, 1), (1, 1, 1), (1, 1, 0)


class Versions:
    """A home with a database of this version's schema, with a task and a timer, and a tree of a newer version."""

    def __init__(self, folder: Path, give_schema: Callable[[Path], object]) -> None:
        self.folder, self.home = folder, folder / "home"
        give_schema(self.home)
        self.newer = newer_version.make(folder / "newer")
        with running(self.home):
            subprocess.run([sys.executable, "-c", FILL], env=environment(self.home), timeout=120, check=True)

    def waybill(self, tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of a version."""
        return subprocess.run(
            [sys.executable, "-m", "deploy.cli", *words],
            env=environment(self.home),
            cwd=tree,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def back_up(self, tree: Path, name: str) -> None:
        with running(self.home):
            done = self.waybill(tree, "backup", str(self.folder / name), "--keys", str(self.folder / f"{name}.keys"))
        assert done.returncode == 0, done

    def restore(self, tree: Path, name: str) -> subprocess.CompletedProcess[str]:
        words = ["--keys", str(self.folder / f"{name}.keys"), "--replace"]
        return self.waybill(tree, "restore", str(self.folder / name), *words)

    def released(self, tree: Path) -> bool:
        """Whether the one task is held, and `waybill task release` of a version ends that."""
        task = str(asked(self.home, "SELECT id::text FROM tasks_task")[0])
        with running(self.home):
            assert task in self.waybill(tree, "task", "list", "--held").stdout
            done = self.waybill(tree, "task", "release", task)
            assert done.returncode == 0, done
            return task not in self.waybill(tree, "task", "list", "--held").stdout


@pytest.fixture
def versions(give_schema: Callable[[Path], object]) -> Iterator[Versions]:
    with tempfile.TemporaryDirectory(prefix="waybill-") as name:
        Path(name).chmod(0o711)
        yield Versions(Path(name), give_schema)


def test_a_newer_version_restores_a_backup_of_an_older_schema(versions: Versions) -> None:
    versions.back_up(CHECKOUT, "before")
    done = versions.restore(versions.newer, "before")
    assert (done.returncode, "1 tasks and 1 timers are held" in done.stdout) == (0, True), done
    assert asked(versions.home, STATE)[1:] == HELD[1:]
    # As `waybill run migrate`: the older version can still run, and the way back needs no other restore.
    assert asked(versions.home, SCHEMA) == EXPANDED
    assert "1 contractions are left: `waybill upgrade --contract`" in done.stdout
    with running(versions.home):
        assert versions.waybill(CHECKOUT, "token", "alice").returncode == 0
        contracted = versions.waybill(versions.newer, "upgrade", "--contract")
        assert contracted.returncode == 0, contracted
    assert asked(versions.home, SCHEMA) == NEWER
    assert versions.released(versions.newer)


def test_the_way_back_after_a_contraction_is_the_backup_of_before_the_upgrade(versions: Versions) -> None:
    versions.back_up(CHECKOUT, "before-upgrade")
    with running(versions.home):
        for words in (["upgrade"], ["upgrade", "--contract"]):
            done = versions.waybill(versions.newer, *words)
            assert done.returncode == 0, done
    assert asked(versions.home, SCHEMA) == NEWER
    with running(versions.home):
        refused = versions.waybill(CHECKOUT, "token", "alice")
    assert refused.returncode == 1, refused
    assert f"the database has the migration {CONTRACTION}, which this version does not know" in refused.stderr
    versions.back_up(versions.newer, "after-upgrade")

    refused = versions.restore(CHECKOUT, "after-upgrade")
    assert (refused.returncode, EXPANSION in refused.stderr) == (1, True), refused
    assert asked(versions.home, SCHEMA) == NEWER
    done = versions.restore(CHECKOUT, "before-upgrade")
    assert (done.returncode, "1 tasks and 1 timers are held" in done.stdout) == (0, True), done
    assert asked(versions.home, SCHEMA) == OLDER
    assert asked(versions.home, STATE)[1:] == HELD[1:]
    assert versions.released(CHECKOUT)
