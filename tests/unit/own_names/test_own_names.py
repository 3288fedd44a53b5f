"""Names that tasks give to files on their way are no files of the user."""

from __future__ import annotations

import pytest

from tests.unit.engine.world import World
from transferapi.tasks.records import FileRow

pytestmark = pytest.mark.virtual_time

COUNT = 10


def world_of_files(**more: object) -> World:
    world = World([("/src/", "/dst/", True)], **more)  # type: ignore[arg-type]
    for number in range(COUNT):
        world.source.write(f"/src/file{number:02}", bytes([65 + number]) * 100)
    return world


async def test_what_another_task_has_under_way_is_left_out_of_a_scan() -> None:
    world = world_of_files()
    world.source.write(f"/src/.waybill-{'0a' * 12}", b"half a file")
    world.source.write("/src/.waybill-notes", b"of the user")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.find(f"/dst/.waybill-{'0a' * 12}") is None
    assert world.destination.get("/dst/.waybill-notes").content == b"of the user"


def test_a_file_under_another_name_is_the_same_in_all_else() -> None:
    """For a row with a value of its own in each field."""
    values = {name: object() for name in FileRow._fields}
    row = FileRow(**values)  # type: ignore[arg-type]
    assert row.under("/d/.t") == row._replace(temporary_path="/d/.t")
