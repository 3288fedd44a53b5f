"""Deletes on a server whose listings show symlinks as folders: the target of a link stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.facts import FACTS
from endpoints.gridftp.faults import Side
from endpoints.gridftp.server import GridFtpServer
from tests.engine_fakes import MemoryCredentials, MemoryStore
from tests.engine_fakes.pool import end_pool
from tests.fences import open_fence
from transferapi.tasks.records import TaskEndpoint, TaskSpec
from workers.engine.credentials import Credentials
from workers.engine.delete.extras import SKIPPED
from workers.engine.delete.tree_remover import TreeRemover
from workers.engine.slice import run_slice
from workers.engine.work import SliceContext
from workers.session_factory import RealSessions
from workers.sessions.pool import SessionPool
from workers.sessions.server_addresses import Place, ServersBySide

HIDING = tuple(fact for fact in FACTS if fact != "UNIX.slink")


class RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def sessions_to(port: int, spec: TaskSpec, pool: SessionPool) -> RealSessions:
    places = ServersBySide({side: [Place("127.0.0.1", port)] for side in (Side.SOURCE, Side.DESTINATION)})
    return RealSessions(spec, places, pool, open_fence(), resolve=lambda host, _: [host], accept_address=lambda _: True)


async def run_task(port: int, item: tuple[str, str | None, bool | None], **options: object) -> MemoryStore:
    """A task of one slice, a DELETE when there is no destination."""
    clock, pool, delete = RealClock(), SessionPool(), item[1] is None
    store = MemoryStore(clock, [item], deadline=timedelta(minutes=1))
    here = TaskEndpoint("1", "go#ep1")
    spec = TaskSpec("t", delete, here, None if delete else TaskEndpoint("2", "go#ep2"), options, max_sessions=3)
    sessions = sessions_to(port, spec, pool)
    credential_provider = MemoryCredentials(clock)
    await run_slice(
        spec,
        store.lease(),
        sessions,
        credential_provider,
        clock,
        slice_seconds=20,
        stop=asyncio.Event(),
        jitter=lambda: 0.0,
    )
    await end_pool(pool)
    return store


@pytest.fixture
def port(folder: Path, serve: Callable[..., GridFtpServer]) -> int:
    """Trees full of links to `safe`, which lies outside of them."""
    for tree in ("tree", "mirror"):
        (folder / tree / "deep" / "deeper").mkdir(parents=True)
        for place in (folder / tree, folder / tree / "deep", folder / tree / "deep" / "deeper"):
            (place / "file").write_bytes(b"content")
            (place / "link").symlink_to(folder / "safe")
            (place / "dangling").symlink_to("nowhere")
            (place / "empty").mkdir()
    (folder / "safe" / "folder").mkdir(parents=True)
    (folder / "safe" / "precious").write_bytes(b"precious")
    (folder / "safe" / "folder" / "precious").write_bytes(b"precious")
    (folder / "link").symlink_to("safe")
    (folder / "source").mkdir()
    (folder / "source" / "file").write_bytes(b"new")
    return serve(facts=HIDING).port


def is_safe(folder: Path) -> bool:
    return (folder / "safe" / "precious").exists() and (folder / "safe" / "folder" / "precious").exists()


async def test_the_server_hides_them(port: int) -> None:
    session = await GridFTPSession.open("127.0.0.1", port)
    assert not session.tells_links
    entry = await session.stat("/tree/link")
    assert entry.is_directory
    assert entry.link_target is None
    await session.close()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("path", "options"),
    [("/tree", {"recursive": True}), ("/tree/", {"recursive": True}),
     ("/tr*", {"recursive": True, "interpret_globs": True})],
)  # fmt: skip
async def test_a_tree_is_deleted_with_its_links_and_nothing_behind_them(
    port: int, folder: Path, path: str, options: dict[str, Any]
) -> None:
    store = await run_task(port, (path, None, None), **options)
    assert store.status == "SUCCEEDED"
    assert not (folder / "tree").exists()
    assert is_safe(folder)


async def test_a_link_that_is_named_itself_is_removed_alone(port: int, folder: Path) -> None:
    store = await run_task(port, ("/link", None, None), recursive=True)
    assert store.status == "SUCCEEDED"
    assert not (folder / "link").is_symlink()
    assert is_safe(folder)


async def test_what_appears_while_a_tree_is_deleted_is_removed_as_carefully(port: int, folder: Path) -> None:
    clock, pool = RealClock(), SessionPool()
    spec = TaskSpec("t", True, TaskEndpoint("1", "go#ep1"), None, {}, max_sessions=3)
    store = MemoryStore(clock, [], deadline=timedelta(minutes=1))
    credentials = Credentials(MemoryCredentials(clock), clock)
    work = SliceContext(spec, store.lease(), sessions_to(port, spec, pool), credentials, clock, lambda: 0.0)
    tree_remover = TreeRemover(work, Side.SOURCE)
    await tree_remover.remove_folders(["/tree", "/link"])
    await work.control_sessions.close()
    pool.forget("")
    await asyncio.sleep(0.01)
    assert tree_remover.fault is None
    assert not (folder / "tree").exists()
    assert not (folder / "link").is_symlink()
    assert is_safe(folder)


async def test_a_mirror_deletes_nothing_and_says_why(port: int, folder: Path) -> None:
    store = await run_task(port, ("/source/", "/mirror/", True), delete_destination_extra=True)
    assert store.status == "SUCCEEDED"
    assert (folder / "mirror" / "file").read_bytes() == b"new"
    assert (folder / "mirror" / "deep" / "file").exists()
    assert is_safe(folder)
    assert store.codes().count(SKIPPED) == 1
