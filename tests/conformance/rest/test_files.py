"""Files over REST, on real servers of both kinds: ranges, uploads in parts, and what must not pass."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client

from endpoints import concurrency_limits, pause_rules
from endpoints.concurrency_limits import FILES, RequestSlot
from endpoints.files import uploads
from endpoints.files.sessions import FileSession
from endpoints.models import UploadRecord
from identity import tokens
from identity.models import User
from tests.conformance.rest.test_operations import OLD, Place, alice, loopback, place, register
from tests.integration.rest import Answer, assert_error
from transferapi.config.limits import RequestLimits

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_server")]

__all__ = ["alice", "loopback", "place", "register"]

CONTENT = random.Random(3).randbytes(700_000)


@dataclass
class Files:
    """The files of a place, as a client reads and writes them."""

    place: Place

    def get(self, name: str, method: str = "GET", **headers: str) -> Answer:
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        query = {"path": self.place.path(name)}
        return self.place.api.call(method, "/operation/endpoint/place/file", query=query, headers=given)

    def put(self, name: str, data: bytes, upload_id: str = "", **headers: str) -> Answer:
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        query = {"path": self.place.path(name), "upload_id": upload_id}
        return self.place.api.call(
            "PUT", "/operation/endpoint/place/file", query=query, headers=given,
            raw=data, content_type="application/octet-stream",
        )  # fmt: skip

    def part(self, name: str, start: int, end: int, total: int = len(CONTENT)) -> Answer:
        return self.put(name, CONTENT[start:end], "one", Content_Range=f"bytes {start}-{end - 1}/{total}")

    def received(self, name: str) -> int:
        answer = self.place.api.get("/operation/endpoint/place/upload", path=self.place.path(name), upload_id="one")
        assert answer.status == 200, answer.body
        return int(answer.body["received"])

    def discard(self, name: str) -> Answer:
        query = {"path": self.place.path(name), "upload_id": "one"}
        return self.place.api.call("DELETE", "/operation/endpoint/place/upload", query=query)

    @property
    def left(self) -> list[str]:
        return [one.name for one in self.place.folder.iterdir() if one.name.startswith(".waybill")]


@pytest.fixture
def files(place: Place) -> Files:
    return Files(place)


@pytest.fixture(autouse=True)
def no_slot_stays() -> Iterator[None]:
    """Each request gives back what it held."""
    yield
    assert not concurrency_limits._files
    assert not concurrency_limits._waiting


# ---- reading


def test_a_file_comes_as_an_attachment_that_no_browser_runs(files: Files) -> None:
    answer = files.get("file")
    assert (answer.status, answer.body) == (200, b"12345")
    headers = answer.headers
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"] == 'attachment; filename="file"'
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in headers["Content-Security-Policy"]
    assert headers["Content-Length"] == "5"
    assert headers["ETag"] == f'"5-{OLD.timestamp():.0f}"'
    assert headers["Last-Modified"] == "Fri, 15 Jan 2021 01:45:50 GMT"
    head = files.get("file", "HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, None, "5")


@pytest.mark.parametrize(
    ("asked", "found", "shown"),
    [
        ("bytes=0-0", b"1", "bytes 0-0/5"),
        ("bytes=1-3", b"234", "bytes 1-3/5"),
        ("bytes=3-", b"45", "bytes 3-4/5"),
        ("bytes=3-900", b"45", "bytes 3-4/5"),
        ("bytes=-2", b"45", "bytes 3-4/5"),
        ("bytes=-900", b"12345", "bytes 0-4/5"),
    ],
)
def test_a_range_is_answered_with_206(files: Files, asked: str, found: bytes, shown: str) -> None:
    answer = files.get("file", Range=asked)
    assert (answer.status, answer.body, answer.headers["Content-Range"]) == (206, found, shown)


@pytest.mark.parametrize("asked", ["bytes=2-1", "bytes=-", "octets=0-1", "bytes=0-1,3-4", "bytes=a-b", "nonsense"])
def test_a_range_that_is_none_is_passed_over(files: Files, asked: str) -> None:
    assert (files.get("file", Range=asked).status, files.get("file", Range=asked).body) == (200, b"12345")


@pytest.mark.parametrize("asked", ["bytes=5-", "bytes=5-9", "bytes=-0"])
def test_a_range_behind_the_end_is_416(files: Files, asked: str) -> None:
    assert_error(files.get("file", Range=asked), 416, "ClientError.RangeNotSatisfiable")


def test_if_range_gives_the_whole_file_where_it_has_changed(files: Files) -> None:
    tag = files.get("file", "HEAD").headers["ETag"]
    assert files.get("file", Range="bytes=1-", If_Range=tag).status == 206
    (files.place.folder / "file").write_bytes(b"other octets")
    answer = files.get("file", Range="bytes=1-", If_Range=tag)
    assert (answer.status, answer.body) == (200, b"other octets")
    fresh = answer.headers["ETag"]
    assert fresh.startswith("W/"), "it may change again within this second"
    assert files.get("file", Range="bytes=1-", If_Range=fresh).status == 200


def test_a_client_that_has_the_file_gets_nothing_again(files: Files) -> None:
    tag = files.get("file", "HEAD").headers["ETag"]
    answer = files.get("file", If_None_Match=f'"other", {tag}')
    assert (answer.status, answer.body) == (304, None)


def test_a_name_cannot_mislead_who_saves_the_file(files: Files) -> None:
    name = "photo\u202egnp.exe" if not files.place.ascii_only else 'a"; filename=b.exe'
    (files.place.folder / name).write_bytes(b"x")
    shown = files.get(name).headers["Content-Disposition"]
    assert shown.startswith("attachment; ")
    assert "%E2%80%AE" not in shown
    if files.place.ascii_only:
        assert shown == 'attachment; filename="a\\"; filename=b.exe"'


def test_what_is_no_file_cannot_be_read(files: Files) -> None:
    assert_error(files.get("missing"), 404, "ClientError.NotFound")
    assert_error(files.get("folder"), 400, "ClientError.NotAFile")
    assert_error(files.get("folder/"), 400)
    assert_error(files.get("../../etc/passwd"), 400)
    assert_error(files.place.api.get("/operation/endpoint/place/file"), 400)


def test_no_more_passes_than_the_operator_allows(files: Files, settings: Any) -> None:
    settings.LIMITS = RequestLimits(upload=4, download=4)
    assert_error(files.get("file"), 409, "ClientError.FileTooLarge")
    assert files.get("file", Range="bytes=1-4").body == b"2345"
    assert_error(files.put("new", b"12345"), 409, "ClientError.FileTooLarge")
    assert files.put("new", b"1234").status == 200


def test_a_user_reads_two_files_at_a_time(files: Files, alice: User) -> None:
    with RequestSlot(alice.pk, FILES), RequestSlot(alice.pk, FILES):
        answer = files.get("file")
        assert_error(answer, 429)
        assert answer.headers["Retry-After"]
        assert_error(files.put("new", b"x"), 429)
        assert files.place.ls().status == 200
    assert files.get("file").status == 200


# ---- writing


def test_a_file_is_written_whole(files: Files) -> None:
    answer = files.put("new", CONTENT)
    assert (answer.status, answer.code, answer.body["received"]) == (200, "Uploaded", len(CONTENT))
    assert answer.body["complete"]
    assert (files.place.folder / "new").read_bytes() == CONTENT
    assert files.put("nothing", b"").status == 200
    assert (files.place.folder / "nothing").read_bytes() == b""
    assert files.left == []


def test_an_upload_goes_on_where_it_was_interrupted(files: Files) -> None:
    assert files.part("new", 0, 300_000).code == "PartUploaded"
    assert not (files.place.folder / "new").exists()
    assert files.received("new") == 300_000
    assert_error(files.part("new", 400_000, 500_000), 409, "UploadOffset")
    assert files.part("new", 300_000, 500_000).status == 200
    # The answer was lost: the client sends the part again.
    assert files.part("new", 300_000, 500_000).status == 200
    assert files.part("new", 500_000, len(CONTENT)).body["complete"]
    assert (files.place.folder / "new").read_bytes() == CONTENT
    assert files.received("new") == 0
    assert files.left == []


def test_a_part_that_was_cut_off_does_not_count(files: Files) -> None:
    assert files.part("new", 0, 300_000).status == 200
    cut = {"wsgi.input": io.BytesIO(CONTENT[300_000:301_000]), "CONTENT_LENGTH": "200000"}
    answer = files.place.api.call(
        "PUT", "/operation/endpoint/place/file", query={"path": files.place.path("new"), "upload_id": "one"},
        headers={"Content-Range": f"bytes 300000-499999/{len(CONTENT)}"}, environ=cut,
    )  # fmt: skip
    assert_error(answer, 400, "ClientError.BadRequest")
    assert files.received("new") == 300_000
    assert files.part("new", 300_000, len(CONTENT)).body["complete"]
    assert (files.place.folder / "new").read_bytes() == CONTENT


def test_a_file_that_becomes_shorter_meanwhile_breaks_the_answer_off(place: Place, alice: User) -> None:
    """The client has the length already: it must not take a part of the file for all of it."""
    (place.folder / "large").write_bytes(bytes(64 << 20))
    client = Client(headers={"Authorization": f"Bearer {tokens.issue(alice)}"})
    answer = client.get("/v0.10/operation/endpoint/place/file", {"path": place.path("large")})
    assert isinstance(answer, StreamingHttpResponse)
    pieces = iter(answer.streaming_content)
    next(pieces)
    (place.folder / "large").write_bytes(b"short")
    with pytest.raises(ConnectionResetError):
        for _ in pieces:
            pass
    answer.close()


@pytest.mark.parametrize(
    "range_", ["bytes 0-3/5", "bytes 4-0/5", "bytes 3-7/5", "bytes */5", "0-4/5", "bytes 0-99999999999999999999/5"]
)
def test_a_part_whose_length_is_a_lie_is_refused(files: Files, range_: str) -> None:
    assert_error(files.put("new", b"12345", Content_Range=range_), 400)
    assert files.left == []


def test_a_file_of_another_size_begins_anew(files: Files) -> None:
    assert files.part("new", 0, 300_000).status == 200
    assert_error(files.part("new", 300_000, 400_000, total=400_000), 409, "UploadOffset")
    assert files.part("new", 0, 400_000, total=400_000).body["complete"]
    assert (files.place.folder / "new").read_bytes() == CONTENT[:400_000]


def test_what_arrived_by_another_way_does_not_become_the_file(files: Files) -> None:
    """Somebody else appends to the temporary file: its size is wrong, and the upload fails."""
    assert files.part("new", 0, 300_000).status == 200
    (left,) = files.left
    with (files.place.folder / left).open("ab") as file:
        file.truncate(len(CONTENT) + 5)
    answer = files.part("new", 300_000, len(CONTENT))
    if answer.status == 200:  # MODE S ends the file where the data ends, on some servers
        assert (files.place.folder / "new").read_bytes() == CONTENT
    else:
        assert_error(answer, 502, "ExternalError.UploadFailed")
        assert not (files.place.folder / "new").exists()
    assert files.left == []


def test_nothing_is_replaced_where_nothing_shall_be(files: Files) -> None:
    assert_error(files.put("file", b"other", If_None_Match="*"), 412)
    assert (files.place.folder / "file").read_bytes() == b"12345"
    assert files.put("fresh", b"other", If_None_Match="*").status == 200
    assert files.put("file", b"other").status == 200
    assert (files.place.folder / "file").read_bytes() == b"other"


def test_a_link_is_replaced_and_not_followed(files: Files) -> None:
    assert files.put("link", b"new").status == 200
    assert not (files.place.folder / "link").is_symlink()
    assert (files.place.folder / "file").read_bytes() == b"12345"


def test_an_upload_that_is_given_up_leaves_nothing(files: Files) -> None:
    assert files.part("new", 0, 300_000).status == 200
    assert len(files.left) == 1
    assert files.discard("new").status == 200
    assert files.left == []
    assert files.received("new") == 0


def test_a_file_goes_nowhere_else(files: Files) -> None:
    assert_error(files.put("missing/new", b"x"), 404)
    assert_error(files.put("folder", b"x"), 502)
    assert_error(files.put("../new", b"x"), 400)
    assert_error(files.put("new", b"x", "no such/id"), 400)


def test_rules_of_managers_stop_single_files_too(files: Files, alice: User) -> None:
    flags = dict.fromkeys(pause_rules.FLAGS, False)
    rule = pause_rules.create(alice, "place", flags | {"pause_task_transfer_read": True, "message": "no reading"})
    answer = files.get("file")
    assert_error(answer, 409, "ExternalError.DownloadFailed.GCPaused")
    assert "no reading" in answer.body["message"]
    assert files.put("new", b"x").status == 200
    pause_rules.update(alice, str(rule.pk), flags | {"pause_task_transfer_write": True})
    assert_error(files.put("new", b"x"), 409, "ExternalError.UploadFailed.GCPaused")
    assert files.get("file").status == 200


def test_an_upload_that_is_discarded_while_a_part_is_written_leaves_nothing(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user presses Stop, and the web server has the whole part already."""
    known = uploads.Upload._prepare
    told: list[int] = []

    def prepare_and_discard(self: uploads.Upload, session: FileSession, part: uploads.UploadPart) -> None:
        known(self, session, part)
        if not told:
            told.append(files.discard("stopped").status)

    monkeypatch.setattr(uploads.Upload, "_prepare", prepare_and_discard)
    assert_error(files.part("stopped", 0, 300_000), 409)
    assert told
    assert files.left == []
    assert files.received("stopped") == 0
    assert not UploadRecord.objects.exists()
    for start, end in ((0, 400_000), (400_000, len(CONTENT))):
        assert files.part("stopped", start, end).status == 200
    assert (files.place.folder / "stopped").read_bytes() == CONTENT
