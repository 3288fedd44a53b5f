"""`waybill nightly-backup`: names, keys, what is deleted, and the age of the last backup in the metrics."""

from __future__ import annotations

import fcntl
import math
import os
import re
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client

from deploy import cli
from deploy.backup import archive, programs
from deploy.stack.errors import StackError
from identity.vault.keys import new_key
from tests.integration.web.test_metrics import samples
from transferapi.config import load
from transferapi.rest.metrics import exposition
from transferapi.rest.metrics.exposition import Sampler
from transferapi.tasks.upkeep import figures, last_backup

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("commands_here"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    (tmp_path / "keys").mkdir()
    return tmp_path / "keys"


def waybill(*words: str, **environ: str) -> int:
    arguments = cli.parser().parse_args(["nightly-backup", *words])
    return cli.carry_out(load(environ), arguments)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def old_backup(folder: Path, keys: Path, day: int) -> str:
    name = f"waybill-2020-01-{day:02}T023000Z"
    (folder / name).write_text("backup")
    (keys / f"{name}.keys").write_text("keys")
    return name


def test_the_newest_stay_with_their_keys_and_no_other_file_is_touched(
    folder: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = [old_backup(folder, keys, day) for day in (1, 2, 3)]
    others = ["waybill-2020-01-01", "waybill-2020-01-01T023000Z.txt", ".waybill-2020-01-01.part", "else.keys"]
    for place in (folder, keys):
        for name in others:
            (place / name).write_text("somebody's")
    (folder / f".{old[0]}.abc.part").write_text("of a backup that was killed")
    (keys / f".{old[0]}.keys.abc.part").write_text("of a backup that was killed")
    assert waybill(str(folder), "--keys", str(keys), "--keep", "2", WAYBILL_VAULT_KEY=new_key()) == 0
    [new] = set(names(folder)) - {*old, *others}
    assert re.fullmatch(r"waybill-\d{4}-\d\d-\d\dT\d{6}Z", new)
    assert set(names(folder)) == {new, old[2], *others}
    assert set(names(keys)) == {f"{new}.keys", f"{old[2]}.keys", *others}
    with archive.read(folder / new) as backup:
        assert backup.size > 0
    assert (folder / new).stat().st_mode & 0o077 == (keys / f"{new}.keys").stat().st_mode & 0o077 == 0
    assert re.search(rf"{new}: \d+ octets of the database; 6 older files deleted\n", capsys.readouterr().out)


def test_a_backup_that_fails_deletes_nothing_and_does_not_count(
    folder: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [old_backup(folder, keys, day) for day in (1, 2, 3)]
    monkeypatch.setattr(programs, "find", lambda *_, **__: Path("/bin/false"))
    with pytest.raises(StackError):
        waybill(str(folder), "--keys", str(keys), "--keep", "1")
    with pytest.raises(StackError, match="/nonexistent is no folder"):
        waybill(str(folder), "--keys", "/nonexistent", "--keep", "1")
    assert names(folder) == old
    assert math.isinf(last_backup.age())


def test_one_at_a_time_and_keys_apart(folder: Path) -> None:
    with pytest.raises(StackError, match="a folder of their own"):
        waybill(str(folder), "--keys", str(folder))
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(StackError, match=r"another backup into .* is under way"):
            waybill(str(folder))
    finally:
        os.close(descriptor)
    assert names(folder) == []


@pytest.mark.parametrize("number", ["0", "1001", "-1", "all"])
def test_at_least_one_stays(folder: Path, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        waybill(str(folder), f"--keep={number}")
    assert "1 to 1000 backups" in capsys.readouterr().err


def test_the_metrics_have_the_age_of_the_last_backup(
    folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "_sampler", Sampler(figures.read))
    assert math.isinf(samples(client)["waybill_backup_age_seconds", ()])
    waybill(str(folder))
    assert 0 <= last_backup.age() < 120
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tasks_tally SET value = value - 7200 WHERE key = %s", [last_backup.KEY])
    assert 7200 <= last_backup.age() < 7320
