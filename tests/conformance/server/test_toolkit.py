"""Our server with the toolkit's client and the toolkit's server, as people have them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.server import ServerLimits
from tests.gridftp.ftp_dialogue import Dialogue, ThirdParty

pytestmark = pytest.mark.toolkit

CLIENT = "globus-url-copy"
LARGE = 5 * 2**20 + 12345
WAYS = {
    "single": [],
    "fast": ["-fast"],
    "parallel": ["-p", "4"],
    "one channel, pipelined": ["-pp", "-fast"],
    "several channels, pipelined": ["-pp", "-cc", "3", "-p", "2"],
}


@pytest.fixture(params=WAYS)
def way(request) -> list[str]:
    return WAYS[request.param]


def copy(*words: str | Path) -> None:
    done = subprocess.run([CLIENT, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def other(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


@pytest.fixture
def tree(folder: Path) -> dict[str, bytes]:
    """Some files in some folders: empty, small and large ones."""
    contents = {f"deep/{number}": os.urandom(number * 300) for number in range(60)}
    contents |= {"large": os.urandom(LARGE), "deep/er/empty": b"", "deep/er/ blank; name": b"x"}
    for name, content in contents.items():
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / name).write_bytes(content)
    return contents


def contents_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("size", [0, 1, 1024, LARGE])
def test_a_file_goes_up_and_down(serve, folder, other, way, size):
    url = f"ftp://127.0.0.1:{serve().port}"
    (other / "f").write_bytes(os.urandom(size))
    copy(*way, f"file://{other}/f", f"{url}/up")
    copy(*way, f"{url}/up", f"file://{other}/down")
    assert (folder / "up").read_bytes() == (other / "down").read_bytes() == (other / "f").read_bytes()


def test_a_tree_goes_up_and_down(serve, folder, other, tree, way):
    url = f"ftp://127.0.0.1:{serve().port}"
    copy(*way, "-r", "-cd", f"{url}/tree/", f"file://{other}/")
    assert contents_of(other) == tree
    copy(*way, "-r", "-cd", f"file://{other}/", f"{url}/new/place/")
    assert contents_of(folder / "new" / "place") == tree


def test_a_tree_goes_from_ours_to_ours(serve, folder, other, tree, way):
    copy(*way, "-r", "-cd", f"ftp://127.0.0.1:{serve().port}/tree/", f"ftp://127.0.0.1:{serve(other).port}/")
    assert contents_of(other) == tree


def test_a_tree_goes_from_ours_to_the_toolkits(serve, other, tree, way, toolkit_server_factory):
    server = toolkit_server_factory(other)
    copy(*way, "-r", "-cd", f"ftp://127.0.0.1:{serve().port}/tree/", f"{server.url}{other}/")
    assert contents_of(other) == tree


def test_a_tree_goes_from_the_toolkits_to_ours(serve, folder, other, tree, way, toolkit_server_factory):
    server = toolkit_server_factory(folder)
    copy(*way, "-r", "-cd", f"{server.url}{folder}/tree/", f"ftp://127.0.0.1:{serve(other).port}/")
    assert contents_of(other) == tree


def test_the_clients_other_options_work(serve, folder, other):
    url = f"ftp://127.0.0.1:{serve().port}"
    (folder / "f").write_bytes(os.urandom(LARGE))
    copy("-verify-checksum", f"{url}/f", f"{url}/verified")
    copy("-tcp-bs", "500000", "-p", "2", f"{url}/f", f"{url}/buffered")
    copy("-stripe", "-p", "2", f"{url}/f", f"{url}/striped")
    copy("-rst", f"{url}/f", f"{url}/reliable")
    copy("-off", "1000", "-len", "5000", f"{url}/f", f"{url}/part")
    content = (folder / "f").read_bytes()
    for name in ("verified", "buffered", "striped", "reliable"):
        assert (folder / name).read_bytes() == content
    assert (folder / "part").read_bytes() == bytes(1000) + content[1000:6000]
    listed = subprocess.run([CLIENT, "-list", f"{url}/"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert {"f", "verified", "part"} <= set(listed.split())


def test_a_missing_file_is_an_error_for_the_client_and_hangs_nobody(serve, folder, other, way):
    (folder / "f").write_bytes(b"x")
    source, destination = (
        serve(limits=ServerLimits(connect_seconds=5)),
        serve(other, limits=ServerLimits(connect_seconds=5)),
    )
    done = subprocess.run(
        [CLIENT, *way, f"ftp://127.0.0.1:{source.port}/none", f"ftp://127.0.0.1:{destination.port}/x"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    # With cached channels or pipelining the client reports the refusal that it reads first. The source sends its own
    # before it closes the channel, which causes the other one; on a busy machine both wait in the client's sockets.
    is_second = {"-fast", "-pp"} & {*way} and "before the end of the file" in done.stderr
    assert "No such file" in done.stderr or is_second


@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("ours", ["source", "destination"])
def test_cached_channels_with_the_toolkits_server(serve, folder, other, toolkit_server_factory, parallelism, ours):
    """File after file over one channel, of all sizes, and again after a new PASV."""
    contents = [os.urandom(size) for size in (0, 1, 1024, 70_000, LARGE, 3, 0, 300_000)] * 3
    for number, content in enumerate(contents):
        (folder / str(number)).write_bytes(content)
    if ours == "source":
        ports, prefixes = (serve().port, toolkit_server_factory(other).port), ("", other)
    else:
        ports, prefixes = (toolkit_server_factory(folder).port, serve(other).port), (folder, "")
    with Dialogue(ports[0]) as source, Dialogue(ports[1]) as destination:
        pair = ThirdParty(source, destination, parallelism)
        names = [(f"{prefixes[0]}/{number}", f"{prefixes[1]}/{number}") for number in range(len(contents))]
        for _ in range(2):
            outcomes = pair.move(names)
            assert {(sent.code, received.code) for sent, received in outcomes} == {(226, 226)}
            assert [received.ranges.total for _, received in outcomes] == [len(content) for content in contents]
            pair.connect()
    for number, content in enumerate(contents):
        assert (other / str(number)).read_bytes() == content


@pytest.mark.parametrize("ours", ["source", "destination"])
@pytest.mark.parametrize("ranges", ["0-10", "5-6,8-9", "0-100000,200000-300000", "0-300000"])
def test_restart_ranges_with_the_toolkits_server(serve, folder, other, toolkit_server_factory, ours, ranges):
    content = os.urandom(300_000)
    half = bytearray(300_000)
    for start, end in RangeSet.parse(ranges):
        half[start:end] = content[start:end]
    (folder / "f").write_bytes(content)
    (other / "f").write_bytes(half)
    if ours == "source":
        ports, prefixes = (serve().port, toolkit_server_factory(other).port), ("", other)
    else:
        ports, prefixes = (toolkit_server_factory(folder).port, serve(other).port), (folder, "")
    with Dialogue(ports[0]) as source, Dialogue(ports[1]) as destination:
        pair = ThirdParty(source, destination, 2)
        source.demand(f"REST {ranges}")
        destination.demand(f"REST {ranges}")
        [(sent, received)] = pair.move([(f"{prefixes[0]}/f", f"{prefixes[1]}/f")])
        assert (sent.code, received.code) == (226, 226)
    assert (other / "f").read_bytes() == content
