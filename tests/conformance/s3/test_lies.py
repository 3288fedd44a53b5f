"""Object stores that lie, end early, never end, or send their clients elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from endpoints.gridftp.faults import FaultError, FaultScope, Kind
from endpoints.gridftp.listing import Allowance
from endpoints.gridftp.streams.data_stream import RestartRefusedError
from endpoints.gridftp.streams.file_streams import PIECE, OctetBudget
from endpoints.s3 import http, store, uploads
from endpoints.s3.login import S3Login
from endpoints.s3.session import S3Session
from tests.servers.lying_s3 import Answer, lying_store, ok
from tests.servers.s3_server import KEY

EMPTY = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


@asynccontextmanager
async def session_with(pem: Path, pin: str, answer: Answer) -> AsyncIterator[S3Session]:
    """A session with a store that answers so. Its first connection is closed by the store, and opened again."""
    async with lying_store(pem, answer) as port:
        session = await S3Login(KEY, "localhost", pin).open_session("127.0.0.1", port)
        try:
            yield session
        finally:
            await session.close()


async def names(session: S3Session, path: str, allowance: Allowance | None = None) -> list[str]:
    async with aclosing(session.listing(path, allowance)) as batches:
        return [entry.name async for batch in batches for entry in batch]


async def read(session: S3Session, offset: int = 0) -> bytes:
    found, share = b"", OctetBudget(2**20).share()
    reader = await session.open_reader("/b/k", offset, share)
    try:
        while data := await reader.read():
            found += data
            share.give(len(data))
    finally:
        await reader.close()
    return found


def page(keys: list[str], token: str = "") -> bytes:
    rows = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
    end = more if token else "<IsTruncated>false</IsTruncated>"
    return f"<ListBucketResult>{rows}{end}</ListBucketResult>".encode()


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"0123", length=9),
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 9\r\n\r\n0123",
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n\r\n0123",
        b"220 an FTP server\r\n",
        b"",
    ],
    ids=["short", "without-a-size", "half-a-chunk", "chunks", "two-sizes", "a-part", "another-protocol", "nothing"],
)
async def test_an_object_without_a_certain_end_is_a_fault(pem: Path, pin: str, answer: bytes) -> None:
    async with session_with(pem, pin, lambda head, body: answer) as session:
        with pytest.raises(FaultError):
            await read(session)


@pytest.mark.parametrize(
    "answer",
    [ok(b"0123456789"), ok(b"6789", "Content-Range: bytes 0-3/10", status="206 Partial Content")],
    ids=["from-the-beginning", "another-part"],
)
async def test_a_store_that_begins_elsewhere_is_not_continued(pem: Path, pin: str, answer: bytes) -> None:
    async with session_with(pem, pin, lambda head, body: answer) as session:
        with pytest.raises(RestartRefusedError):
            await read(session, 6)


async def test_a_redirect_is_not_followed(pem: Path, pin: str) -> None:
    asked: list[str] = []

    def answer(head: str, body: bytes) -> bytes:
        asked.append(head)
        return ok(b"", "Location: http://169.254.169.254/latest/meta-data/", status="307 Temporary Redirect")

    async with session_with(pem, pin, answer) as session:
        for work in (read(session), names(session, "/b"), session.stat("/b/k")):
            with pytest.raises(FaultError) as caught:
                await work
            assert caught.value.fault.scope is FaultScope.ENDPOINT
            assert "another address" in caught.value.fault.advice
    assert len(asked) == 3


async def test_a_listing_for_ever_ends_by_its_allowance(pem: Path, pin: str) -> None:
    asked = 0

    def answer(head: str, body: bytes) -> bytes:
        nonlocal asked
        asked += 1
        return ok(page([f"{asked}-{number}" for number in range(100)], f"token{asked}"))

    async with session_with(pem, pin, answer) as session:
        with pytest.raises(FaultError) as caught:
            await names(session, "/b", Allowance(lines=1000))
    assert (caught.value.fault.kind, asked) == (Kind.LIMIT_EXCEEDED, 10)


async def test_empty_pages_for_ever_end_too(pem: Path, pin: str) -> None:
    asked = 0

    def answer(head: str, body: bytes) -> bytes:
        nonlocal asked
        asked += 1
        return ok(page([], f"token{asked}"))

    async with session_with(pem, pin, answer) as session:
        with pytest.raises(FaultError):
            await names(session, "/b", Allowance(lines=50))
    assert asked <= 51


async def test_a_page_that_comes_again_is_a_fault(pem: Path, pin: str) -> None:
    async with session_with(pem, pin, lambda head, body: ok(page(["a"], "same"))) as session:
        with pytest.raises(FaultError, match="the same next page"):
            await names(session, "/b")


async def test_keys_that_cannot_be_files_are_reported(pem: Path, pin: str) -> None:
    """A listing without them would be one of which sync deletes the copies."""
    keys = {"f/": 5, "f/good": 1, "f//x": 1, "f/..": 1, "f/.": 1, "f/%FF": 1}
    rows = "".join(f"<Contents><Key>{key}</Key><Size>{size}</Size></Contents>" for key, size in keys.items())
    prefixes = "".join(f"<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>" for key in ("f//", "f/../"))
    head = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
    body = f"<ListBucketResult>{head}{rows}{prefixes}</ListBucketResult>".encode()
    async with session_with(pem, pin, lambda *_: ok(body)) as session:
        found: list[str] = []
        with pytest.raises(FaultError) as caught:  # noqa: PT012
            async for batch in session.listing("/b/f"):
                found += [entry.name for entry in batch]
        assert (found, caught.value.fault.retryable) == (["good"], False)


async def test_a_file_and_a_folder_of_one_name_on_two_pages_are_reported(pem: Path, pin: str) -> None:
    second = b"<ListBucketResult><IsTruncated>false</IsTruncated><CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>"
    pages = [page(["a"], "next"), second + b"</ListBucketResult>"]
    async with session_with(pem, pin, lambda *_: ok(pages.pop(0))) as session:
        with pytest.raises(FaultError, match="a file and a folder"):
            await names(session, "/b")


async def test_a_removal_that_is_confirmed_and_not_done_is_reported(pem: Path, pin: str, monkeypatch) -> None:
    monkeypatch.setattr("endpoints.s3.session.LATER", 0.01)
    async with session_with(
        pem, pin, lambda head, body: ok(status="204 No Content" if "DELETE" in head else "200 OK")
    ) as session:
        outcome = await session.remove([("/b/one", False), ("/b/two", False)])
    assert [fault and fault.kind for fault in outcome] == [Kind.ENDPOINT_ERROR] * 2


async def test_an_error_in_a_success_is_no_success(pem: Path, pin: str) -> None:
    from datetime import UTC, datetime

    error = ok(b"<Error><Code>InternalError</Code><Message>We failed</Message></Error>")
    async with session_with(pem, pin, lambda head, body: error if head.startswith("PUT") else ok()) as session:
        [fault] = await session.set_modified([("/b/k", datetime(2026, 1, 1, tzinfo=UTC))])
    assert fault is not None
    assert "We failed" in fault.raw


async def test_answers_are_bounded(pem: Path, pin: str, monkeypatch) -> None:
    monkeypatch.setattr(http, "MAX_BODY", 1000)
    async with session_with(pem, pin, lambda *_: ok(bytes(2000))) as session:
        with pytest.raises(FaultError, match="more than 1000 octets"):
            await names(session, "/b")
    head = b"HTTP/1.1 200 OK\r\n" + b"X-Header: value\r\n" * 10_000 + b"\r\n"
    async with session_with(pem, pin, lambda *_: head) as session:
        with pytest.raises(FaultError, match="HTTP"):
            await names(session, "/b")


async def test_a_silent_store_ends_by_its_time(pem: Path, pin: str, monkeypatch) -> None:
    async def silent() -> bytes:
        await asyncio.sleep(60)
        return b""

    monkeypatch.setattr(store, "STALL_TIMEOUT", 0.2)
    async with session_with(pem, pin, lambda *_: silent()) as session:
        with pytest.raises(FaultError) as caught:
            await names(session, "/b", Allowance(seconds=0.2))
    assert caught.value.fault.kind is Kind.TIMEOUT


async def test_a_store_that_is_busy_is_a_fault_of_the_endpoint(pem: Path, pin: str) -> None:
    error = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
    async with session_with(pem, pin, lambda *_: ok(error, status="503 Slow Down")) as session:
        with pytest.raises(FaultError) as caught:
            await names(session, "/b")
    assert (caught.value.fault.kind, caught.value.fault.scope) == (Kind.ENDPOINT_TOO_BUSY, FaultScope.ENDPOINT)


async def test_a_store_that_names_one_region_after_the_other_is_asked_twice_at_most(pem: Path, pin: str) -> None:
    asked = 0

    def answer(head: str, body: bytes) -> bytes:
        nonlocal asked
        asked += 1
        text = f"<Error><Code>AuthorizationHeaderMalformed</Code><Region>region-{asked}</Region></Error>"
        return ok(text.encode(), status="400 Bad Request")

    async with session_with(pem, pin, answer) as session:
        with pytest.raises(FaultError):
            await names(session, "/b")
    assert asked == 2


# ---- uploads


def store_of_parts(complete: bytes) -> tuple[Answer, list[str]]:
    """A store that takes parts, and answers so to the last request; and the requests that it got."""
    asked: list[str] = []

    def answer(head: str, body: bytes) -> bytes:
        line = head.partition(" HTTP")[0]
        asked.append(line)
        if "?uploads" in line:
            return ok(b"<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>")
        if line.startswith("POST"):
            return complete
        return ok(b"", 'ETag: "e"', status="404 Not Found" if line.startswith("GET") else "200 OK")

    return answer, asked


async def write(session: S3Session, octets: int, come: int) -> int:
    """Write a file of so many octets, of which `come` do. Returns what is certain to be stored."""
    share = OctetBudget(4 * PIECE).share()
    writer = await session.open_writer("/b/k", 0, share, expected=octets, partial="/b/.waybill-1")
    try:
        for start in range(0, come, PIECE):
            piece = min(PIECE, come - start)
            await share.take(piece)
            await writer.write(bytes(piece))
        await writer.finish()
        return writer.stored
    finally:
        await writer.close()


@pytest.mark.parametrize(
    "complete",
    [
        ok(b"<Error><Code>InternalError</Code><Message>We failed</Message></Error>"),
        ok(b""),
        ok(b"<Other/>"),
        b"",
    ],
    ids=["an-error", "nothing", "another-document", "no-answer"],
)
async def test_an_upload_is_complete_only_by_the_word_of_the_store(pem, pin, monkeypatch, complete: bytes) -> None:
    monkeypatch.setattr(uploads, "PART", 5 * 2**20)
    answer, asked = store_of_parts(complete)
    async with session_with(pem, pin, answer) as session:
        with pytest.raises(FaultError):
            await write(session, 6 * 2**20, 6 * 2**20)
    assert any("partNumber=2" in line for line in asked)


@pytest.mark.parametrize("size", [2**20, 3 * 2**20], ids=["small", "in-parts"])
@pytest.mark.parametrize("difference", [-1, 1], ids=["shorter", "longer"])
async def test_a_file_of_another_size_is_not_published(pem: Path, pin: str, size: int, difference: int) -> None:
    answer, asked = store_of_parts(ok(b"<CompleteMultipartUploadResult/>"))
    async with session_with(pem, pin, answer) as session:
        with pytest.raises(FaultError) as caught:
            await write(session, size, size + difference)
    assert caught.value.fault.kind is Kind.FILE_SIZE_CHANGED
    published = [line for line in asked if line == "PUT /b/k" or line.startswith("POST /b/k?uploadId")]
    assert not published


async def test_the_note_of_an_upload_is_written_before_its_first_part(pem: Path, pin: str) -> None:
    answer, asked = store_of_parts(ok(b"<CompleteMultipartUploadResult/>"))
    async with session_with(pem, pin, answer) as session:
        assert await write(session, 3 * 2**20, 3 * 2**20) == 3 * 2**20
    changes = [line for line in asked if not line.startswith("GET")]
    assert changes == [
        "POST /b/k?uploads=",
        "PUT /b/.waybill-1",
        "PUT /b/k?partNumber=1&uploadId=u1",
        "POST /b/k?uploadId=u1",
        "DELETE /b/.waybill-1",
    ]


@pytest.mark.parametrize(
    "note",
    [b'{"upload": "u1", "path": "/b/other/k"}', b'{"upload": "u1", "path": "/b/../k"}', b'{"upload": 1}', b"[]", b"{"],
    ids=["another-folder", "no-path", "half", "a-list", "no-json"],
)
async def test_a_note_that_is_none_is_removed_and_names_no_upload(
    pem: Path, pin: str, note: bytes, monkeypatch
) -> None:
    monkeypatch.setattr("endpoints.s3.session.LATER", 0.01)
    asked: list[str] = []

    def answer(head: str, body: bytes) -> bytes:
        asked.append(head.partition(" HTTP")[0])
        gone = head.startswith("HEAD")
        return ok(note, f"Content-Type: {uploads.NOTE}", status="404 Not Found" if gone else "200 OK")

    async with session_with(pem, pin, answer) as session:
        assert list(await session.remove([("/b/.waybill-1", False)])) == [None]
    assert [line for line in asked if line.startswith("DELETE")] == ["DELETE /b/.waybill-1"]
