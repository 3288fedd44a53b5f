"""A folder is looked at before a transfer goes there: permission to write, and free space."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoints.gridftp.server import GridFtpServer
from tests.conformance.rest.test_operations import Place, Register, alice, loopback, place, register
from tests.integration.rest import Answer, Api, assert_error

pytestmark = pytest.mark.django_db

__all__ = ["alice", "loopback", "place", "register"]


def look(place: Place, name: str = "") -> Answer:
    return place.api.get("/operation/endpoint/place/destination", path=place.path(name))


def test_a_folder_that_can_be_written_to(place: Place) -> None:
    (place.folder / "folder").chmod(0o777)
    found = look(place, "folder").body
    assert (found["DATA_TYPE"], found["exists"], found["writable"]) == ("destination", True, True)


def test_our_server_says_how_much_space_is_free(
    alice: object, register: Register, folder: Path, serve: Callable[..., GridFtpServer]
) -> None:
    there = Place(Api(alice), folder, "", register(serve().port))  # type: ignore[arg-type]
    found, now = look(there).body, os.statvfs(folder)
    assert 0 < found["free"] <= now.f_blocks * now.f_frsize
    (folder / "inner").mkdir()
    assert look(there, "inner").body["free"] is not None


def test_a_missing_folder_is_judged_by_the_one_above_it(place: Place) -> None:
    found = look(place, "folder/new/deep").body
    assert (found["exists"], found["path"]) == (False, place.path("folder/new/deep/"))
    assert found["writable"] is not None


def test_a_server_that_only_reads_is_said_to(
    alice: object, register: Register, folder: Path, serve: Callable[..., GridFtpServer]
) -> None:
    there = Place(Api(alice), folder, "", register(serve(read_only=True).port))  # type: ignore[arg-type]
    assert look(there).body["writable"] is False


def test_what_is_no_folder_is_refused(place: Place) -> None:
    assert_error(look(place, "file"), 502, "ExternalError.StatFailed.NotDirectory")
