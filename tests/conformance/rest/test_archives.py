"""Folders and selections as zip archives over REST, on real servers of both kinds."""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client

from endpoints import concurrency_limits, pause_rules
from endpoints.concurrency_limits import FILES, RequestSlot
from endpoints.files import archives
from endpoints.gridftp.facts import Entry
from identity import tokens
from identity.error_categories import RefusedError
from identity.models import User
from tests.conformance.rest.test_operations import OLD, Place, alice, loopback, place, register
from tests.integration.rest import Answer, assert_error
from transferapi.config.limits import RequestLimits

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_server")]

__all__ = ["alice", "loopback", "place", "register"]

ADDRESS = "/operation/endpoint/place/archive"
LARGE = random.Random(5).randbytes(3_000_000)


@pytest.fixture(autouse=True)
def no_slot_stays() -> Iterator[None]:
    """Each request gives back what it held."""
    yield
    assert not concurrency_limits._files
    assert not concurrency_limits._waiting
    assert not concurrency_limits._reserved


@pytest.fixture
def tree(place: Place) -> Place:
    inner = place.folder / "folder" / "inner"
    inner.mkdir()
    (inner / "large").write_bytes(LARGE)
    (inner / "nothing").write_bytes(b"")
    (inner / "empty").mkdir()
    (place.folder / "folder" / "to file").symlink_to("../file")
    (place.folder / "folder" / "up").symlink_to("..")
    return place


def ask(place: Place, name: str = "", *names: str) -> Answer:
    return place.api.call("GET", ADDRESS, query={"path": place.path(name), "name": names})


def opened(answer: Answer) -> zipfile.ZipFile:
    assert answer.status == 200, answer.body[:1000]
    assert answer.headers["Content-Type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(answer.body))
    assert archive.testzip() is None
    return archive


def test_a_folder_comes_with_all_that_is_in_it(tree: Place) -> None:
    answer = ask(tree, "folder")
    archive = opened(answer)
    assert answer.headers["Content-Disposition"] == 'attachment; filename="folder.zip"'
    inner = {f"folder/inner/{name}" for name in ("", "large", "nothing", "empty/")}
    assert set(archive.namelist()) == {"folder/", *inner, archives.LEFT_OUT}
    assert archive.read("folder/inner/large") == LARGE
    left_out = archive.read(archives.LEFT_OUT).decode().splitlines()
    assert sorted(left_out) == ["folder/to file: a symbolic link", "folder/up: a symbolic link"]


def test_a_selection_comes_in_one_archive(tree: Place) -> None:
    answer = ask(tree, "", "file", "folder", "file")
    archive = opened(answer)
    assert archive.read("file") == b"12345"
    assert archive.read("folder/inner/large") == LARGE
    assert ".hidden" not in archive.namelist()


@pytest.mark.skipif(not shutil.which("unzip"), reason="needs unzip")
def test_unzip_of_the_system_finds_names_sizes_and_times(tree: Place, tmp_path: Path) -> None:
    """Info-ZIP reads the extended timestamps, and judges what Python's reader may overlook."""
    (tmp_path / "it.zip").write_bytes(ask(tree, "", "file", "folder").body)
    subprocess.run(
        ["unzip", "-q", "it.zip"], cwd=tmp_path, check=True, timeout=60, env={**os.environ, "TZ": "Asia/Tokyo"}
    )
    assert (tmp_path / "folder/inner/large").read_bytes() == LARGE
    assert (tmp_path / "file").stat().st_mtime == OLD.timestamp()


def test_names_beyond_ascii_are_utf_8(place: Place) -> None:
    if place.ascii_only:
        pytest.skip("the toolkit's server takes no such names")
    (place.folder / "grüße-日本").write_bytes(b"x")
    (place.folder / os.fsdecode(b"latin-1 \xfc")).write_bytes(b"y")
    archive = opened(ask(place, ""))
    assert archive.read("grüße-日本") == b"x"
    assert archive.read("latin-1 \ufffd") == b"y"
    assert archive.getinfo("grüße-日本").flag_bits & 0x800


@pytest.mark.parametrize("name", ["..\\..\\evil", "a/../../evil", ".."])
def test_a_name_of_the_server_leads_to_no_other_folder(tree: Place, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A server may list any name. Programs that unpack the archive may take "\\" for "/"."""
    known = archives.Archive._listed
    monkeypatch.setattr(archives.Archive, "_listed", lambda *words: [*known(*words), Entry(name, "file", 5)])
    archive = opened(ask(tree, "folder"))
    assert not [one for one in archive.namelist() if "evil" in one or ".." in one]
    assert name in archive.read(archives.LEFT_OUT).decode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_what_cannot_be_read_is_named(tree: Place) -> None:
    (tree.folder / "folder" / "inner" / "large").chmod(0)
    (tree.folder / "folder" / "inner" / "empty").chmod(0)
    archive = opened(ask(tree, "folder"))
    said = archive.read(archives.LEFT_OUT).decode()
    assert "folder/inner/large: " in said
    assert "folder/inner/empty/: " in said


def test_a_file_that_is_gone_is_named(tree: Place, alice: User) -> None:
    """The files after it come."""
    for number in range(3):
        (tree.folder / "folder" / f"later{number}").write_bytes(LARGE[:70_000])
    with archives.Archive(alice, "place", tree.path("folder")) as archive:
        (tree.folder / "folder" / "inner" / "large").unlink()
        (tree.folder / "folder" / "later1").unlink()
        content = zipfile.ZipFile(io.BytesIO(b"".join(archive)))
    assert "folder/inner/large" not in content.namelist()
    assert content.read("folder/later0") == content.read("folder/later2") == LARGE[:70_000]
    assert "folder/inner/large: " in content.read(archives.LEFT_OUT).decode()


def test_a_file_that_becomes_shorter_breaks_the_archive_off(tree: Place, alice: User) -> None:
    """Without its directory at the end, nothing takes it for a whole archive."""
    (tree.folder / "large").write_bytes(bytes(64 << 20))
    client = Client(headers={"Authorization": f"Bearer {tokens.issue(alice)}"})
    answer = client.get(f"/v0.10{ADDRESS}", {"path": tree.path(""), "name": "large"})
    assert isinstance(answer, StreamingHttpResponse)
    pieces = iter(answer.streaming_content)
    read = [next(pieces)]
    (tree.folder / "large").write_bytes(b"short")
    with pytest.raises(ConnectionResetError):
        read.extend(pieces)
    answer.close()
    assert not zipfile.is_zipfile(io.BytesIO(b"".join(read)))


def test_a_file_that_grows_comes_as_far_as_the_limit_allows(tree: Place, alice: User, settings: Any) -> None:
    with archives.Archive(alice, "place", tree.path(""), ["file"]) as archive:
        (tree.folder / "file").write_bytes(b"1234567")
        assert zipfile.ZipFile(io.BytesIO(b"".join(archive))).read("file") == b"1234567"
    settings.LIMITS = RequestLimits(download=7)
    with archives.Archive(alice, "place", tree.path(""), ["file"]) as archive:
        (tree.folder / "file").write_bytes(b"12345678")
        with pytest.raises(RefusedError):
            list(archive)


def test_what_is_too_large_is_refused_before_the_first_octet(
    tree: Place, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LIMITS = RequestLimits(download=len(LARGE) - 1)
    assert_error(ask(tree, "folder"), 409, "ClientError.FileTooLarge")
    settings.LIMITS = RequestLimits(download=len(LARGE))
    assert ask(tree, "folder").status == 200
    for most, status in ((5, 409), (6, 409), (7, 200)):
        monkeypatch.setattr(archives, "MOST", most)
        assert ask(tree, "folder").status == status


def test_listings_that_take_too_long_are_a_fault(tree: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LISTING_SECONDS", 0.0)
    assert_error(ask(tree, "folder"), 502)


def test_a_client_that_takes_nothing_is_given_up(tree: Place, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "PAUSE", -1000.0)
    with archives.Archive(alice, "place", tree.path("folder")) as archive, pytest.raises(Exception, match="slower"):
        list(archive)


def test_what_is_not_there_and_names_of_other_folders_are_refused(tree: Place) -> None:
    assert_error(ask(tree, "missing"), 404)
    assert_error(ask(tree, "", "file", "missing"), 404)
    for name in ("..", "a/b", "."):
        assert_error(ask(tree, "folder", name), 400)
    assert_error(tree.api.get(ADDRESS), 400)


def test_a_head_says_what_would_come(tree: Place) -> None:
    answer = tree.api.call("HEAD", ADDRESS, query={"path": tree.path("folder")})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/zip")


def test_rules_and_places_are_those_of_single_files(tree: Place, alice: User) -> None:
    with RequestSlot(alice.pk, FILES), RequestSlot(alice.pk, FILES):
        assert_error(ask(tree, "folder"), 429)
    flags = dict.fromkeys(pause_rules.FLAGS, False)
    pause_rules.create(alice, "place", flags | {"pause_task_transfer_read": True, "message": "no reading"})
    assert_error(ask(tree, "folder"), 409, "ExternalError.DownloadFailed.GCPaused")
