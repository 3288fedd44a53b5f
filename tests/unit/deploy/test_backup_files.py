"""The file of a backup: what was cut, changed or made by somebody else is refused, and nothing is overwritten."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.backup import archive, keys, programs
from deploy.stack.errors import StackError

PIECES = [os.urandom(700_001), b"", os.urandom(300)]
FACTS: dict[str, object] = {"id": "1", "migrations": [["tasks", "0001_initial"]]}


def dump(take: Callable[[bytes], object]) -> None:
    for piece in PIECES:
        take(piece)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    archive.write(tmp_path / "backup", FACTS, {"WAYBILL_PORT": "8000"}, dump)
    return tmp_path / "backup"


def refused(path: Path) -> str:
    with pytest.raises(StackError) as error, archive.read(path):
        pass
    return str(error.value)


def test_what_was_written_is_read(backup: Path) -> None:
    assert backup.stat().st_mode & 0o777 == 0o600
    with archive.read(backup) as found:
        assert b"".join(found.pieces()) == b"".join(PIECES)
        assert found.manifest["migrations"] == FACTS["migrations"]
    with tarfile.open(backup) as opened:
        assert opened.getnames() == [archive.DUMP, archive.SETTINGS, archive.MANIFEST]


def test_a_cut_file_is_refused_wherever_it_was_cut(backup: Path) -> None:
    octets = backup.read_bytes()
    end = len(octets) - 2 * archive.BLOCK
    for length in (0, 1, 511, 512, 600, 400_000, 700_812, 702_000, end - 600, end - 512):
        backup.write_bytes(octets[:length])
        assert refused(backup), length


def test_each_changed_octet_is_found(backup: Path) -> None:
    octets = backup.read_bytes()
    for place in range(0, len(octets) - 2 * archive.BLOCK, 9973):
        changed = bytearray(octets)
        changed[place] ^= 1
        backup.write_bytes(changed)
        try:
            with archive.read(backup) as found:
                # Octets that fill a block, and fields of a header that nothing depends on.
                assert b"".join(found.pieces()) == b"".join(PIECES)
        except StackError:
            continue


def made(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as opened:
        for member, octets in members:
            member.size = len(octets)
            opened.addfile(member, io.BytesIO(octets))
    return path


def test_archives_of_others_are_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo(archive.DUMP)
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    manifest = tarfile.TarInfo(archive.MANIFEST)
    assert "no backup has" in refused(made(tmp_path / "1", (link, b"")))
    assert "no backup has" in refused(made(tmp_path / "2", (tarfile.TarInfo("../escape"), b"x")))
    assert "more than" in refused(made(tmp_path / "3", (manifest, bytes(archive.MOST_SMALL + 1))))
    for octets in (b"", b"[]", b"{}", b"[" * 100_000, b'{"format": "other", "parts": {}, "migrations": []}'):
        assert refused(made(tmp_path / "4", (manifest, octets)))
    empty = json.dumps({"format": archive.FORMAT, "parts": {}, "migrations": []}).encode()
    assert "no dump" in refused(made(tmp_path / "5", (manifest, empty)))
    twice = (tarfile.TarInfo(archive.DUMP), b"1")
    assert "no backup has" in refused(made(tmp_path / "6", twice, (tarfile.TarInfo(archive.DUMP), b"2")))


def test_nothing_is_overwritten_and_a_failed_backup_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "backup"
    file.write_text("precious")
    with pytest.raises(StackError, match="exists"):
        archive.write(file, FACTS, {}, dump)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StackError, match="exists"):
        archive.write(tmp_path / "link", FACTS, {}, dump)

    def fail(take: Callable[[bytes], object]) -> None:
        take(b"begun")
        raise StackError("pg_dump failed")

    def another_first(take: Callable[[bytes], object]) -> None:
        (tmp_path / "new").write_text("of another")

    for dumper in (fail, another_first):
        with pytest.raises(StackError):
            archive.write(tmp_path / "new", FACTS, {}, dumper)
    assert {path.name: path.is_symlink() or path.read_text() for path in tmp_path.iterdir()} == {
        "backup": "precious",
        "link": True,
        "new": "of another",
    }


def test_a_program_that_is_too_old_or_missing_is_named() -> None:
    with pytest.raises(StackError, match="install postgresql-client-99"):
        programs.find("pg_dump", 99)


def test_the_programs_without_tls_are_not_taken_where_our_session_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded ones refuse sslmode=require, and with sslmode=prefer would send everything as it is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    embedded = programs.find("pg_dump", 14)
    assert embedded.is_file()
    with pytest.raises(StackError, match="pg_dump of PostgreSQL 14 or later with TLS: install postgresql-client-14"):
        programs.find("pg_dump", 14, tls=True)
    theirs = tmp_path / "pg_dump"
    theirs.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 15.8'\n")
    theirs.chmod(0o755)
    assert programs.find("pg_dump", 14, tls=True) == theirs
    assert programs.find("pg_dump", 14) == embedded


def test_the_password_is_in_the_environment_only() -> None:
    given = {"dbname": "waybill", "password": "secret", "host": "db", "sslmode": "require", "options": "-c x=1"}
    found = programs.environment(given)
    assert (found["PGPASSWORD"], found["PGSSLMODE"], found["PGHOST"]) == ("secret", "require", "db")
    with pytest.raises(StackError, match="sslpassword") as error:
        programs.environment({**given, "sslpassword": "other"})
    assert "other" not in str(error.value)


def test_a_program_that_hangs_is_killed() -> None:
    sleep = ["/bin/sleep", "60"]
    with programs.running(sleep, os.environ, seconds=0.2) as program, pytest.raises(StackError, match="sleep failed"):
        program.end()


# ---- the file of keys


@pytest.fixture
def written_keys(backup: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WAYBILL_SECRET_KEY", "s" * 50)
    with archive.read(backup) as found:
        keys.write(backup.with_name("keys"), found.manifest)
    return backup.with_name("keys")


def read_keys(path: Path, backup: Path) -> dict[str, str]:
    with archive.read(backup) as found:
        return keys.read(path, found.manifest)


def test_keys_open_the_backup_with_which_they_were_written(backup: Path, written_keys: Path) -> None:
    assert read_keys(written_keys, backup)["WAYBILL_SECRET_KEY"] == "s" * 50
    document = json.loads(written_keys.read_text())
    del document["manifest"]
    written_keys.write_text(json.dumps(document))
    assert read_keys(written_keys, backup)["WAYBILL_SECRET_KEY"] == "s" * 50, "as earlier versions wrote it"


def test_a_backup_that_somebody_wrote_anew_under_its_id_is_refused(backup: Path, written_keys: Path) -> None:
    """Its own manifest fits to it: a dump runs commands of its writer when it is restored."""
    backup.unlink()
    archive.write(backup, FACTS, {"WAYBILL_PORT": "8000"}, lambda take: take(b"another dump"))
    with pytest.raises(StackError, match="was changed"):
        read_keys(written_keys, backup)


@pytest.mark.parametrize(
    "name", ["WAYBILL_/../../CRON", "/ETC/CRON.D/X", "..", "WAYBILL_A\nB", "waybill_secret_key", ""]
)
def test_a_name_of_a_key_leads_to_no_other_folder(backup: Path, written_keys: Path, name: str) -> None:
    document = json.loads(written_keys.read_text())
    document["keys"][name] = "text"
    written_keys.write_text(json.dumps(document))
    with pytest.raises(StackError, match="is no file of keys"):
        read_keys(written_keys, backup)
