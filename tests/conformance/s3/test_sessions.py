"""Sessions with a real object store (versitygw): facts, folders, removals, times, and who may do it."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.ftp_tls.login import ServerKeyError
from endpoints.gridftp.listing import Allowance
from endpoints.gridftp.restriction import AllowedPath
from endpoints.gridftp.streams.file_streams import PIECE, OctetBudget
from endpoints.gridftp.wire.fence import Fence
from endpoints.s3.http import StoreAddress
from endpoints.s3.login import S3Login, shown_key
from endpoints.s3.session import S3Session
from endpoints.s3.signature import AccessKey
from tests.servers.s3_server import KEY, NEEDS_S3_SERVER, S3Server

pytestmark = NEEDS_S3_SERVER
NAMES = ["a b+c%41é.txt", "z&<q>", "ü" * 100, "-", "..."]


async def names(session: S3Session, path: str) -> dict[str, str]:
    """The names in a folder, with their kinds."""
    async with aclosing(session.listing(path)) as batches:
        return {entry.name: entry.kind async for batch in batches for entry in batch}


async def put(session: S3Session, path: str, body: bytes = b"content") -> None:
    await session._store.ask("PUT", path, body=body)


async def fault(work: object) -> Kind:
    with pytest.raises(FaultError) as caught:
        await work  # type: ignore[misc]
    return caught.value.fault.kind


async def test_names_of_all_kinds_are_listed_read_and_removed(session: S3Session, bucket: str) -> None:
    """The region of the store is another one than that of AWS's default: it is learned from the first refusal."""
    paths = [f"{bucket}/sub folder/{name}" for name in NAMES]
    for path in paths:
        await put(session, path, path.encode())
    assert await names(session, bucket) == {"sub folder": "dir"}
    assert await names(session, f"{bucket}/sub folder/") == dict.fromkeys(NAMES, "file")
    for path in paths:
        entry = await session.stat(path)
        assert (entry.kind, entry.size) == ("file", len(path.encode()))
        assert await session.checksum(path, "SHA256") == hashlib.sha256(path.encode()).hexdigest()
    assert list(await session.remove([(path, False) for path in paths])) == [None] * len(paths)
    assert await names(session, bucket) == {}


async def test_a_folder_of_more_than_two_pages_is_listed_whole(session: S3Session, bucket: str, server) -> None:
    folder = server.data / bucket.strip("/") / "many"
    folder.mkdir()
    for number in range(2345):
        (folder / f"{number:05}").touch()
    (folder / "sub").mkdir()
    (folder / "sub" / "file").touch()
    found = await names(session, f"{bucket}/many")
    assert found == {f"{number:05}": "file" for number in range(2345)} | {"sub": "dir"}
    with pytest.raises(FaultError) as caught:
        async for _ in session.listing(f"{bucket}/many", Allowance(lines=1500)):
            pass
    assert caught.value.fault.kind is Kind.LIMIT_EXCEEDED


async def test_an_empty_folder_is_there_and_a_missing_one_is_not(session: S3Session, bucket: str) -> None:
    await session.make_directory(f"{bucket}/empty")
    await put(session, f"{bucket}/file")
    assert await names(session, bucket) == {"empty": "dir", "file": "file"}
    assert await names(session, f"{bucket}/empty") == {}
    assert (await session.stat(f"{bucket}/empty")).is_directory
    for path in (f"{bucket}/none", "/no-such-bucket", "/no-such-bucket/file"):
        assert await fault(session.stat(path)) is Kind.FILE_NOT_FOUND
        assert await fault(names(session, path)) is Kind.FILE_NOT_FOUND
    assert await fault(names(session, f"{bucket}/file")) is Kind.NOT_A_DIRECTORY
    assert await fault(session.check_readable(f"{bucket}/empty")) is Kind.IS_A_DIRECTORY


async def test_folders_are_made_once(session: S3Session, bucket: str) -> None:
    paths = [f"{bucket}/a", f"{bucket}/a/b", f"{bucket}/a"]
    assert await session.make_directories(paths) == [True, True, False]
    assert await fault(session.make_directory(f"{bucket}/a/b")) is Kind.PATH_EXISTS
    await put(session, f"{bucket}/file")
    assert await fault(session.make_directories([f"{bucket}/file"])) is Kind.NOT_A_DIRECTORY
    assert await fault(session.make_directory("/a-new-bucket")) is Kind.PERMISSION_DENIED
    assert await fault(session.make_directory(bucket)) is Kind.PATH_EXISTS


async def test_a_tree_is_removed_in_one_call_and_only_when_it_is_empty(session: S3Session, bucket: str) -> None:
    files = [f"{bucket}/t/{folder}/{number}" for folder in "ab" for number in range(20)]
    for path in files:
        await put(session, path)
    await session.make_directory(f"{bucket}/t/empty")
    [refused] = await session.remove([(f"{bucket}/t", True)])
    assert refused is not None
    assert refused.kind is Kind.DIRECTORY_NOT_EMPTY
    folders = [f"{bucket}/t/{folder}" for folder in ("a", "b", "empty")]
    tree = [(path, False) for path in files] + [(path, True) for path in (*folders, f"{bucket}/t")]
    assert list(await session.remove(tree)) == [None] * len(tree)
    assert await names(session, bucket) == {}
    [refused] = await session.remove([(bucket, True)])
    assert refused is not None
    assert refused.kind is Kind.PERMISSION_DENIED


async def test_modification_times_are_noted_in_the_object(session: S3Session, bucket: str) -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    await put(session, f"{bucket}/file")
    done, missing = await session.set_modified([(f"{bucket}/file", moment), (f"{bucket}/none", moment)])
    assert done is None
    assert missing is not None
    assert (await session.stat(f"{bucket}/file")).modified == moment


async def test_there_are_no_links_and_no_renames(session: S3Session, bucket: str) -> None:
    await put(session, f"{bucket}/file")
    for work in (session.rename(f"{bucket}/file", f"{bucket}/b"), session.make_symlink("file", f"{bucket}/c")):
        assert await fault(work) is Kind.UNSUPPORTED
    assert await names(session, bucket) == {"file": "file"}


@pytest.mark.parametrize("offset", [0, 1, 3 * PIECE - 1, 3 * PIECE])
async def test_a_file_is_read_from_any_offset_in_bounded_memory(session: S3Session, bucket: str, offset: int) -> None:
    content = bytes(range(256)) * (3 * PIECE // 256)
    await put(session, f"{bucket}/file", content)
    budget = OctetBudget(2 * PIECE)
    share, found = budget.share(), b""
    reader = await session.open_reader(f"{bucket}/file", offset, share)
    while data := await reader.read():
        assert len(data) <= PIECE
        found += data
        share.give(len(data))
    await reader.close()
    assert found == content[offset:]
    assert budget.free == 2 * PIECE


async def test_a_file_that_is_not_read_to_its_end_gives_its_connection_free(session: S3Session, bucket: str) -> None:
    await put(session, f"{bucket}/file", bytes(5 * PIECE))
    for _ in range(20):
        reader = await session.open_reader(f"{bucket}/file", 0, OctetBudget(PIECE).share())
        assert not session.idle
        await reader.close()
    assert session.idle
    assert (await session.stat(f"{bucket}/file")).size == 5 * PIECE


async def test_a_session_keeps_to_the_folders_of_a_share(session: S3Session, bucket: str) -> None:
    for path in ("in/file", "in/sub/file", "inside", "out"):
        await put(session, f"{bucket}/{path}")
    await session.restrict([AllowedPath(f"{bucket}/in", False), AllowedPath(f"{bucket}/in/sub/", True)])
    assert await names(session, f"{bucket}/in") == {"file": "file", "sub": "dir"}
    for path in (f"{bucket}/inside", f"{bucket}/out", bucket, "/"):
        assert await fault(session.stat(path)) is Kind.PERMISSION_DENIED
    [refused, done] = await session.remove([(f"{bucket}/in/file", False), (f"{bucket}/in/sub/file", False)])
    assert (refused and refused.kind, done) == (Kind.PERMISSION_DENIED, None)
    assert await fault(session.make_directory(f"{bucket}/in/new")) is Kind.PERMISSION_DENIED


@pytest.mark.parametrize("key", [AccessKey("nobody", "secret"), AccessKey(KEY.id, "wrong")], ids=["unknown", "wrong"])
async def test_a_refused_key_is_a_fault_of_the_endpoint_and_no_absence(server, pin, bucket, key) -> None:
    session = await server.login(pin, key).open_session("127.0.0.1", server.port)
    for work in (session.stat(f"{bucket}/file"), session.stat(bucket), names(session, "/"), names(session, bucket)):
        assert await fault(work) is Kind.AUTH
    await session.close()


async def test_without_a_key_requests_are_not_signed(server: S3Server, pin: str, bucket: str) -> None:
    session = await server.login(pin, None).open_session("127.0.0.1", server.port)
    assert await fault(names(session, bucket)) is Kind.PERMISSION_DENIED
    await session.close()


# ---- the connection


async def test_a_store_is_known_by_its_certificate(server: S3Server, pin: str, pem) -> None:
    """Its certificate signs itself: it is not accepted, unless the owner has pinned its key."""
    address = StoreAddress("127.0.0.1", server.port, "localhost")
    assert await shown_key(address, timeout=10) == pin
    assert await fault(S3Login(KEY, "localhost").open_session("127.0.0.1", server.port)) is (
        Kind.INVALID_SERVICE_CREDENTIAL
    )
    noted: list[str] = []
    login = S3Login(KEY, "localhost", f"SHA256:{'A' * 43}", note_key=noted.append)
    with pytest.raises(ServerKeyError):
        await login.open_session("127.0.0.1", server.port)
    assert noted == [pin]
    folder = pem.parent / "authorities"
    folder.mkdir(exist_ok=True)
    from tests.conformance.gridftp.test_ftp_tls import hash_of

    (folder / f"{hash_of(pem)}.0").write_bytes(pem.read_bytes())
    trusting = StoreAddress("127.0.0.1", server.port, "localhost", authorities=folder)
    assert await shown_key(trusting, timeout=10) == ""
    session = await S3Login(KEY, "localhost", authorities=folder).open_session("127.0.0.1", server.port)
    await session.close()
    assert ssl.HAS_TLSv1_3


async def test_connections_are_used_again_and_a_closed_one_is_replaced(server, pin, bucket) -> None:
    session = await server.login(pin).open_session("127.0.0.1", server.port)
    for _ in range(5):
        await session.stat(bucket)
    [connection] = session._store._open
    assert connection.used
    connection._writer.transport.abort()
    await asyncio.sleep(0)
    await session.stat(bucket)
    assert connection not in session._store._open
    await session.close()


async def test_nothing_leaves_behind_a_closed_fence(session: S3Session, bucket: str) -> None:
    fence = Fence(3600.0)
    fence.extend(fence.now())
    session.set_fence(fence)
    await session.stat(bucket)
    fence.close()
    assert not session.usable
    assert await fault(put(session, f"{bucket}/late")) in (Kind.CONNECTION_BROKEN, Kind.CONNECT_FAILED)
    other = await S3Login(KEY, "localhost", session._store.address.pin or "").open_session(*session.server_address)
    assert await fault(other.stat(f"{bucket}/late")) is Kind.FILE_NOT_FOUND
    await other.close()


async def test_many_requests_share_a_bounded_number_of_connections(session: S3Session, bucket: str) -> None:
    entries: Sequence[object] = await asyncio.gather(*(session.stat(bucket) for _ in range(100)))
    assert len(entries) == 100
    assert len(session._store._open) <= 16
