"""Tasks to a real SFTP server that does not distinguish case, as on macOS and Windows."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.server import GridFtpServer
from tests.gridftp.ends import End
from tests.gridftp.lying_sftp import LyingSftp, lying
from tests.gridftp.streamed_tasks import StreamedTask


class CaseFolding(LyingSftp):
    """Finds each name of a path by its folded form, and keeps the spelling of the first."""

    def map_path(self, path: bytes) -> bytes:
        found = b"/"
        for name in filter(None, path.split(b"/")):
            there = os.listdir(found) if os.path.isdir(found) else []
            same = (one for one in there if one.lower() == name.lower())
            found = os.path.join(found, name if name in there else next(same, name))
        return found


@pytest.fixture
async def folding(tmp_path: Path) -> AsyncIterator[End]:
    async with lying(tmp_path, CaseFolding) as end:
        yield end


@pytest.fixture
def source(tmp_path: Path) -> Iterator[End]:
    (tmp_path / "from").mkdir()
    with GridFtpServer(tmp_path / "from") as server:
        yield End(server.port)


def write(folder: Path, **contents: str) -> None:
    for path, text in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def content(folder: Path) -> dict[str, str]:
    return {str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*") if one.is_file()}


async def test_a_mirror_keeps_what_it_wrote_by_another_spelling(source: End, folding: End, tmp_path: Path) -> None:
    write(tmp_path / "from", **{"Report.txt": "new", "Data/One": "new", "same": "new"})
    write(tmp_path / "to", **{"report.txt": "old", "data/one": "old", "data/extra": "old", "old": "old"})
    task = StreamedTask(source, folding, [("/", f"{tmp_path}/to/", True)], {"delete_destination_extra": True})
    await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    found = {path.lower(): text for path, text in content(tmp_path / "to").items()}
    assert found == {"report.txt": "new", "data/one": "new", "data/extra": "old", "same": "new"}


async def test_the_second_of_two_files_that_fold_together_does_not_replace_the_first(
    source: End, folding: End, tmp_path: Path
) -> None:
    write(tmp_path / "from", **{"A.txt": "upper", "a.txt": "lower", "other": "other"})
    (tmp_path / "to").mkdir()
    task = StreamedTask(source, folding, [("/", f"{tmp_path}/to/", True)])
    await task.run()
    assert task.store.status == "FAILED"
    found = content(tmp_path / "to")
    assert found.pop("other") == "other"
    assert found in ({"A.txt": "upper"}, {"a.txt": "lower"})


async def test_both_arrive_at_a_server_that_distinguishes_them(source: End, tmp_path: Path) -> None:
    write(tmp_path / "from", **{"A.txt": "upper", "a.txt": "lower"})
    (tmp_path / "to").mkdir()
    async with lying(tmp_path) as end:
        task = StreamedTask(source, end, [("/", f"{tmp_path}/to/", True)])
        await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert content(tmp_path / "to") == {"A.txt": "upper", "a.txt": "lower"}
