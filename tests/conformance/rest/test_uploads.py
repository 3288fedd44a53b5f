"""Uploads in parts over REST, on real servers of both kinds: repeated requests, what is lost, and what stays behind."""

from __future__ import annotations

import io
import logging
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from endpoints import pause_rules
from endpoints.files import leftovers, upload_records
from endpoints.files.uploads import Upload, UploadPart
from endpoints.models import Endpoint, UploadRecord
from identity.models import User
from tests.conformance.rest.test_files import CONTENT, Files, files
from tests.conformance.rest.test_operations import alice, loopback, place, register
from tests.integration.rest import Answer, assert_error
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_server")]

__all__ = ["alice", "files", "loopback", "place", "register"]

THIRD = len(CONTENT) // 3
ENDS = (THIRD, 2 * THIRD, len(CONTENT))


def part(files: Files, number: int, name: str = "new", upload_id: str = "one", **headers: str) -> Answer:
    start, end = (0, *ENDS)[number], ENDS[number]
    span = f"bytes {start}-{end - 1}/{len(CONTENT)}"
    return files.put(name, CONTENT[start:end], upload_id, Content_Range=span, **headers)


def content(files: Files, name: str = "new") -> bytes | None:
    path = files.place.folder / name
    return path.read_bytes() if path.exists() else None


def lapse(**columns: Any) -> None:
    """So much time passes for all rows."""
    for name, seconds in columns.items():
        UploadRecord.objects.update(**{name: F(name) - timedelta(seconds=seconds)})


def given_up(**columns: Any) -> UploadRecord:
    """A beginning that was given up a day ago, of the user and the endpoint of the tests."""
    endpoint = Endpoint.objects.get(name="place")
    given = {"owner": endpoint.owner, "endpoint": endpoint, "folder": b"/", "total": 1, **columns}
    return UploadRecord.objects.create(**{"due_at": datetime.now(UTC) - timedelta(days=1), **given})


@pytest.mark.parametrize("headers", [{}, {"If_None_Match": "*"}])
def test_each_part_may_come_twice(files: Files, headers: dict[str, str]) -> None:
    """A proxy that repeats what it got no answer to."""
    for number in (0, 0, 1, 1, 2, 2):
        answer = part(files, number, **headers)
        assert (answer.status, answer.body["received"]) == (200, ENDS[number])
        assert answer.body["complete"] == (number == 2)
    assert part(files, 1).body["complete"], "what is complete has all parts"
    assert content(files) == CONTENT
    assert files.left == []
    assert files.received("new") == 0, "the next upload of this name begins anew"


def test_a_file_that_is_replaced_on_a_server_of_ours_keeps_its_mode_unless_it_has_several_links(files: Files) -> None:
    for name in ("one", "linked"):
        (files.place.folder / name).write_bytes(b"old")
        (files.place.folder / name).chmod(0o666)
        if name == "linked":
            (files.place.folder / "other").hardlink_to(files.place.folder / name)
        assert files.put(name, CONTENT).status == 200
        assert content(files, name) == CONTENT
    assert content(files, "other") in (b"old", CONTENT), "one of the versions, whole"
    ours = not files.place.ascii_only
    if ours:
        assert (files.place.folder / "one").stat().st_mode & 0o777 == 0o666
    assert files.left == []


def test_a_first_part_that_comes_late_lets_no_wrong_file_arise(files: Files) -> None:
    assert part(files, 0).status == part(files, 1).status == 200
    assert part(files, 0).status == 200
    assert files.received("new") == THIRD
    assert_error(part(files, 2), 409, "UploadOffset")
    assert content(files) is None
    assert part(files, 1).status == part(files, 2).status == 200
    assert content(files) == CONTENT
    assert files.left == []


def test_a_temporary_file_that_vanished_is_said_and_leaves_no_hole(files: Files) -> None:
    assert part(files, 0).status == part(files, 1).status == 200
    (left,) = files.left
    (files.place.folder / left).unlink()
    answer = part(files, 2)
    assert_error(answer, 409, "UploadOffset")
    assert "begin again with the first octet" in answer.body["message"]
    assert (content(files), files.received("new"), files.left) == (None, 0, [])


def test_a_temporary_file_that_became_shorter_is_not_continued(files: Files) -> None:
    assert part(files, 0).status == part(files, 1).status == 200
    (left,) = files.left
    with (files.place.folder / left).open("r+b") as file:
        file.truncate(THIRD)
    assert_error(part(files, 2), 409, "UploadOffset")
    assert (content(files), files.left) == (None, [])


def test_without_its_row_an_upload_begins_anew(files: Files) -> None:
    """The database was restored from an older copy."""
    assert part(files, 0).status == 200
    UploadRecord.objects.all().delete()
    assert_error(part(files, 1), 409, "UploadOffset")
    for number in range(3):
        assert part(files, number).status == 200
    assert content(files) == CONTENT


def test_without_redis_an_upload_goes_on(files: Files) -> None:
    assert part(files, 0).status == 200
    cache.clear()
    assert part(files, 1).status == part(files, 2).status == 200
    assert content(files) == CONTENT


def test_a_part_that_was_cut_is_written_again_under_another_name(files: Files) -> None:
    """The server may still do something with the former name: it harms nothing."""
    assert part(files, 0).status == 200
    (before,) = files.left
    cut = {"wsgi.input": io.BytesIO(CONTENT[THIRD : THIRD + 1000]), "CONTENT_LENGTH": str(THIRD)}
    answer = files.place.api.call(
        "PUT", "/operation/endpoint/place/file", query={"path": files.place.path("new"), "upload_id": "one"},
        headers={"Content-Range": f"bytes {THIRD}-{2 * THIRD - 1}/{len(CONTENT)}"}, environ=cut,
    )  # fmt: skip
    assert_error(answer, 400, "ClientError.BadRequest")
    assert part(files, 1).status == 200
    (after,) = files.left
    assert after != before
    assert part(files, 2).status == 200
    assert content(files) == CONTENT


def test_the_part_of_a_process_that_was_killed_is_taken_over(files: Files) -> None:
    assert part(files, 0).status == 200
    record = upload_records.claim(UploadRecord.objects.get(), THIRD)
    answer = part(files, 1)
    assert_error(answer, 429, "UploadBusy")
    assert int(answer.headers["Retry-After"]) == 5
    lapse(held_until=upload_records.HOLD.total_seconds() + 1)
    assert part(files, 1).status == 200
    # It was not killed, and stood still only.
    assert not upload_records.renew(record)
    assert not upload_records.acknowledge(record, 2 * THIRD)
    assert not upload_records.take_target(record, "x")
    assert part(files, 2).status == 200
    assert content(files) == CONTENT
    assert files.left == []


def test_of_two_uploads_that_are_to_replace_nothing_one_gets_the_name(files: Files) -> None:
    for upload_id in ("one", "two"):
        for number in (0, 1):
            assert part(files, number, upload_id=upload_id, If_None_Match="*").status == 200
    assert part(files, 2, upload_id="two", If_None_Match="*").status == 200
    assert_error(part(files, 2, If_None_Match="*"), 412)
    assert content(files) == CONTENT
    assert files.discard("new").status == 200
    assert files.left == []


def test_a_user_has_so_many_unfinished_uploads(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_records, "MOST", 2)
    assert part(files, 0, "a").status == part(files, 0, "b").status == 200
    assert_error(part(files, 0, "c"), 409, "ClientError.LimitExceeded")
    assert files.put("whole", b"1").status == 200
    assert files.discard("a").status == 200
    assert part(files, 0, "c").status == 200


def test_whole_files_that_fail_are_bounded_too(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaves a row until its temporary file is removed, which the server may refuse for days."""
    monkeypatch.setattr(upload_records, "MOST", 1)
    monkeypatch.setattr(upload_records, "MOST_WITH_WHOLE", 2)
    assert part(files, 0, "a").status == 200
    assert files.put("whole", b"1").status == 200
    given_up(removals=3)
    assert_error(files.put("another", b"1"), 409, "ClientError.LimitExceeded")
    assert content(files, "another") is None


def test_a_file_that_is_never_removed_delays_the_removal_of_no_other(files: Files) -> None:
    assert part(files, 0).status == 200
    refused = [given_up(removals=5 + number) for number in range(3)]
    new = given_up(due_at=datetime.now(UTC) - timedelta(minutes=1))
    taken = [upload_records.claim_removal() for _ in range(5)]
    assert [one and one.pk for one in taken] == [*(one.pk for one in (new, *refused)), None]


# ---- what nobody finishes


def test_what_does_not_go_on_for_a_day_is_removed(files: Files) -> None:
    assert part(files, 0).status == 200
    assert leftovers.remove_due() == 0
    lapse(due_at=upload_records.KEPT.total_seconds() + 1)
    assert leftovers.remove_due() == 1
    assert files.left == []
    assert not UploadRecord.objects.exists()
    assert_error(part(files, 1), 409, "UploadOffset")


def test_a_complete_upload_is_forgotten(files: Files) -> None:
    for number in range(3):
        part(files, number)
    lapse(due_at=upload_records.COMPLETE_KEPT.total_seconds() + 1)
    leftovers.remove_due()
    assert not UploadRecord.objects.exists()
    assert content(files) == CONTENT


def test_what_cannot_be_removed_is_tried_again_and_said_in_the_end(
    files: Files, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as where the credential has ended; here a manager has paused the endpoint."""
    assert part(files, 0).status == 200
    flags = dict.fromkeys(pause_rules.FLAGS, False) | {"pause_task_transfer_write": True, "message": "no"}
    rule = pause_rules.create(alice, "place", flags)
    lapse(due_at=upload_records.KEPT.total_seconds() + 1)
    assert leftovers.remove_due() == 0
    assert leftovers.remove_due() == 0, "only an hour later"
    assert UploadRecord.objects.get().removals == 1
    UploadRecord.objects.update(removals=upload_records.MOST_REMOVALS - 1, due_at=Now())
    with caplog.at_level(logging.WARNING):
        assert leftovers.remove_due() == 0
    assert f"stays on the endpoint {files.place.endpoint.pk}" in caplog.text
    assert not UploadRecord.objects.exists()
    assert len(files.left) == 1
    pause_rules.delete(alice, str(rule.pk))


def test_one_that_is_being_written_is_left_alone(files: Files) -> None:
    assert part(files, 0).status == 200
    upload_records.claim(UploadRecord.objects.get(), THIRD)
    lapse(due_at=upload_records.KEPT.total_seconds() + 1)
    assert leftovers.remove_due() == 0
    assert len(files.left) == 1
    lapse(held_until=upload_records.HOLD.total_seconds() + 1)
    assert leftovers.remove_due() == 1
    assert files.left == []


@pytest.mark.django_db(transaction=True)
def test_a_part_that_takes_long_is_held_and_stops_when_it_is_discarded(
    files: Files, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The endpoint is slower than the time for which a part is held; then the user presses Stop."""
    monkeypatch.setattr(upload_records, "HOLD", timedelta(seconds=2))
    monkeypatch.setattr(upload_records, "RENEW_SECONDS", 0.1)
    octets, stopped, sent = 4 << 20, threading.Event(), threading.Event()

    def body() -> Iterator[bytes]:
        for number in range(3000):
            if number == 30:
                sent.set()
            yield bytes(octets // 4000)
            time.sleep(0.02)

    outcome: list[object] = []

    def write() -> None:
        upload = Upload(alice, "place", files.place.path("slow"), "one")
        try:
            outcome.append(upload.store(UploadPart(0, octets, 2 * octets), body(), replace=True))
        except Exception as error:
            outcome.append(error)
        finally:
            stopped.set()
            connection.close()

    writing = threading.Thread(target=write)
    writing.start()
    assert sent.wait(30)
    first = UploadRecord.objects.get().held_until
    eventually(lambda: UploadRecord.objects.filter(held_until__gt=first).exists())
    assert files.discard("slow").status == 200
    assert stopped.wait(30), "it did not wait for the end of its body"
    writing.join(30)
    assert type(outcome[0]).__name__ == "UploadLostError"
    leftovers.remove_due()
    assert files.left == []
    assert not UploadRecord.objects.exists()
