"""DELETE on six servers: the named entry goes, with all that is in it, and nothing that a link leads to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from endpoints import paths
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS
from tests.gridftp.six_servers import NAMES, Served, six_servers
from tests.gridftp.ssh_grid import NEEDS_SSHD
from tests.gridftp.streamed_tasks import StreamedTask

pytestmark = [NEEDS_FTP_SERVERS, NEEDS_SSHD]
SPELLINGS = ("{}", "{}/", "{}//", "{}/.", "{}/./", "{}//.//")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    with six_servers(tmp_path_factory.mktemp("six")) as made:
        yield made


@pytest.fixture(params=NAMES)
def served(request: pytest.FixtureRequest, servers: dict[str, Served]) -> Served:
    return servers[request.param]


def fill(served: Served, name: str) -> Path:
    """A folder `work` with files, folders and links; the links lead to `precious` beside it."""
    top = served.data / name
    (top / "work" / "sub" / "deep").mkdir(parents=True)
    (top / "work" / "empty").mkdir()
    (top / "precious" / "inner").mkdir(parents=True)
    (top / "precious" / "inner" / "p").write_bytes(b"p")
    for place in (top / "work", top / "work" / "sub", top / "work" / "sub" / "deep"):
        (place / "file").write_bytes(b"x")
        (place / ".dot").write_bytes(b".")
        (place / "link").symlink_to(os.path.relpath(top / "precious", place))
        (place / "far").symlink_to(top / "precious" / "inner")
        (place / "to file").symlink_to("file")
        (place / "nowhere").symlink_to("no such file")
    served.give()
    return top


async def delete(served: Served, spelled: str, **options: object) -> StreamedTask:
    """spelled: as a user writes the path; every request is normalized when it is submitted."""
    task = StreamedTask(served.end, None, [(paths.normal(spelled), None, None)], {"recursive": True, **options})
    await task.run(slices=8)
    return task


def is_safe(top: Path) -> bool:
    return (top / "precious" / "inner" / "p").read_bytes() == b"p"


@pytest.mark.parametrize("spelling", SPELLINGS[:2])
async def test_a_folder_goes_with_its_links_and_nothing_behind_them(served: Served, spelling: str) -> None:
    top = fill(served, f"tree{SPELLINGS.index(spelling)}")
    task = await delete(served, spelling.format(served.path(top / "work")))
    # A link without a target is in no listing of the toolkit's server and of ProFTPD: its folder needs a second try.
    assert (task.store.status, set(task.faults()) <= {"DIRECTORY_NOT_EMPTY"}) == ("SUCCEEDED", True)
    assert not (top / "work").exists()
    assert is_safe(top)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_named_link_goes_alone_however_its_path_is_spelled(served: Served, spelling: str) -> None:
    top = fill(served, f"link{SPELLINGS.index(spelling)}")
    task = await delete(served, spelling.format(served.path(top / "work" / "link")))
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert not (top / "work" / "link").is_symlink()
    assert (top / "work" / "sub" / "link").is_symlink()
    assert is_safe(top)


async def test_a_link_that_a_pattern_matches_goes_alone(served: Served) -> None:
    top = fill(served, "glob")
    task = await delete(served, f"{served.path(top / 'work')}/lin*", interpret_globs=True)
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert not (top / "work" / "link").is_symlink()
    assert (top / "work" / "far").is_symlink()
    assert is_safe(top)


async def test_a_link_that_cannot_be_removed_is_not_followed(served: Served) -> None:
    top = fill(served, "locked")
    (top / "work").chmod(0o555)
    os.chown(top / "work", 0, 0)
    task = await delete(served, served.path(top / "work" / "link") + "/")
    assert is_safe(top)
    assert (task.store.status == "SUCCEEDED") is not (top / "work" / "link").is_symlink()


def test_a_path_with_a_step_upwards_is_refused() -> None:
    for spelled in ("/a/../link/", "/a/..", "/../a", "/a/.././link"):
        with pytest.raises(paths.BadPathError):
            paths.normal(spelled)
