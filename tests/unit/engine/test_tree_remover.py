"""Files that appear in a folder during its deletion are deleted too."""

from __future__ import annotations

import asyncio

import pytest

from endpoints.gridftp.faults import Kind, Side, make_fault
from tests.unit.engine.test_delete import delete_world, fill, kept
from tests.unit.engine.world import World
from workers.engine.credentials import Credentials
from workers.engine.delete import tree_remover
from workers.engine.delete.tree_remover import NAMES, TreeRemover
from workers.engine.ports import TaskStore
from workers.engine.work import SliceContext

pytestmark = pytest.mark.virtual_time


def work_in(world: World) -> SliceContext:
    lease: TaskStore = world.store.lease()
    credentials = Credentials(world.credential_provider, world.clock)
    return SliceContext(world.spec(), lease, world.sessions, credentials, world.clock, lambda: 0.5)


async def test_a_file_that_appears_during_a_deletion_goes_too() -> None:
    world = delete_world("/old", latency=0.01)
    fill(world)
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.source.find("/old/a1/b1/f1") is None)
    world.source.write("/old/a1/b1/f1", b"again")
    world.source.write("/old/a1/new/deep/f", b"new")
    world.source.link("/old/a1/new/link", "/keep")
    assert await task == "SUCCEEDED"
    assert kept(world)


async def test_a_folder_that_cannot_be_emptied_is_tried_again_and_reports_why() -> None:
    world = delete_world("/old")
    fill(world)
    world.script.add("remove", "/old/a1/b1/f1", make_fault(Kind.PERMISSION_DENIED), 12)
    assert await world.run() == "SUCCEEDED"
    assert kept(world)
    assert "PERMISSION_DENIED" in world.store.codes()


async def test_all_under_a_folder_goes_and_what_stays_keeps_only_its_own_folders() -> None:
    world = delete_world("/old")
    fill(world)
    work = work_in(world)
    remover = TreeRemover(work, Side.SOURCE, keeps=lambda entry: entry.name == "f7")
    await remover.remove_folders(["/old"])
    assert remover.fault is None
    assert world.source.paths("/old") == {"/a1", "/a1/b1", "/a1/b1/f7"}
    assert (remover.files, remover.symlinks) == (31, 3)
    await work.control_sessions.close()


async def test_a_fault_keeps_the_folders_above_and_is_reported() -> None:
    world = delete_world("/old")
    fill(world)
    world.script.add("remove", "/old/a2/b0/f2", make_fault(Kind.PERMISSION_DENIED), 1)
    work = work_in(world)
    remover = TreeRemover(work, Side.SOURCE)
    await remover.remove_folders(["/old"])
    assert remover.fault
    assert remover.fault.kind is Kind.PERMISSION_DENIED
    assert world.source.paths("/old") == {"/a2", "/a2/b0", "/a2/b0/f2"}
    again = TreeRemover(work, Side.SOURCE)
    await again.remove_folders(["/old"])
    assert again.fault is None
    assert kept(world)
    await work.control_sessions.close()


@pytest.mark.parametrize("leaves", [1, 7, 10, 1000])
async def test_a_folder_of_more_names_than_are_remembered_is_listed_again(
    leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_remover, "LEAVES", leaves)
    world = delete_world("/old")
    fill(world)
    work = work_in(world)
    remover = TreeRemover(work, Side.SOURCE)
    await remover.remove_folders(["/old"])
    assert kept(world)
    assert len(remover.names) == NAMES
    assert remover.folders == 12
    await work.control_sessions.close()


async def test_a_deep_tree_needs_no_deep_stack() -> None:
    world = delete_world("/old")
    world.source.write("/old" + "/d" * 400 + "/f", b"x")
    work = work_in(world)
    await TreeRemover(work, Side.SOURCE).remove_folders(["/old"])
    assert kept(world)
    await work.control_sessions.close()


async def test_what_a_server_does_not_list_goes_with_its_folder() -> None:
    world = delete_world("/old")
    fill(world)
    world.source.link("/old/a1/b1/dangling", "/nowhere")
    world.sessions.hides_dangling = True
    assert await world.run() == "SUCCEEDED"
    assert kept(world)


async def test_what_is_not_listed_and_must_not_go_is_a_fault_that_no_repetition_mends() -> None:
    world = delete_world("/old")
    fill(world)
    world.source.link("/old/a1/b1/dangling", "/nowhere")
    world.sessions.hides_dangling = True
    work = work_in(world)
    remover = TreeRemover(work, Side.SOURCE, unlisted=False)
    await remover.remove_folders(["/old"])
    assert remover.fault
    assert not remover.fault.retryable
    assert world.source.paths("/old") == {"/dangling", "/a1", "/a1/b1", "/a1/b1/dangling"}
    await work.control_sessions.close()
