"""Decisions of the scan through the whole service: sync, rules, links; each by one pair of servers.

Tests of the engine and the servers alone are in tests/conformance/tasks/test_trees.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.tasks.test_trees import CASES
from tests.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_transfers import digests, succeeded

MakeSite = Callable[..., Site]


def put(path: Path, content: bytes, modified: int = 10**9) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (modified, modified))


def open_to_all(*folders: Path) -> None:
    """The toolkit's servers work for another account."""
    for folder in folders:
        for root, _, files in os.walk(folder):
            os.chmod(root, 0o777)
            for name in files:
                if not os.path.islink(os.path.join(root, name)):
                    os.chmod(os.path.join(root, name), 0o666)


def links(folder: Path) -> dict[str, str]:
    """The symlinks below a folder: relative path to text."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            if path.is_symlink():
                found[str(path.relative_to(folder))] = os.readlink(path)
    return found


@pytest.mark.toolkit
def test_only_what_differs_is_sent(service: Api, site: MakeSite) -> None:
    a, b, level = site("a", "toolkit"), site("b", "own"), 3
    expected = {}
    for name, (there, seconds, levels) in CASES.items():
        content = f"content of {name}".encode()
        put(a.folder / name, content)
        if there is not None:
            put(b.folder / "copy" / name, there, 10**9 + seconds)
        expected[name] = content if level in levels or there is None else there
    open_to_all(a.folder, b.folder)
    task = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), sync_level=level)))
    sent = sum(level in levels for _, _, levels in CASES.values())
    assert (task["files_transferred"], task["files_skipped"]) == (sent, len(CASES) - sent)
    assert {name: (b.folder / "copy" / name).read_bytes() for name in CASES} == expected
    compared = [name for name, (there, _, _) in CASES.items() if there and len(there) == len(f"content of {name}")]
    assert task["bytes_checksummed"] == sum(len(f"content of {name}") for name in compared)


def test_rules_leave_out_files_and_folders(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    for name in ("a", "b.tmp", "in/keep.tmp", "in/c.tmp", "in/d", "cache/e", "in/cache/f", "out/cache"):
        put(a.folder / name, b"x")
    open_to_all(a.folder)
    rules = [
        {"method": "include", "name": "keep.*"},
        {"method": "exclude", "name": "*.t?p", "type": "file"},
        {"method": "exclude", "name": "[ac]ache", "type": "dir"},
    ]
    task = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), filter_rules=rules)))
    assert set(digests(b.folder / "copy")) == {"a", "in/keep.tmp", "in/d", "out/cache"}
    assert not (b.folder / "copy" / "cache").exists()
    assert (task["files"], task["filter_rules"][0]["name"]) == (4, "keep.*")


def linked(folder: Path) -> None:
    """A tree with links to a file, to a folder, up, and between folders."""
    put(folder / "real", b"real")
    put(folder / "in" / "deep" / "f", b"deep")
    (folder / "link").symlink_to("real")
    (folder / "in" / "up").symlink_to("../real")
    (folder / "folder").symlink_to("in/deep")


@pytest.mark.toolkit
def test_links_are_kept(service: Api, site: MakeSite) -> None:
    a, b = site("a", "toolkit"), site("b", "own")
    linked(a.folder)
    open_to_all(a.folder)
    for _ in range(2):
        options = {"recursive_symlinks": "keep", "sync_level": 1}
        task = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), **options)))
        copy = b.folder / "copy"
        assert links(copy) == {"link": "real", "in/up": "../real", "folder": "in/deep"}
        assert (task["files"], task["symlinks"], task["faults"]) == (2, 3, 0)


def test_our_servers_keep_links_that_lead_nowhere(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    (a.folder / "tree").mkdir()
    texts = {"nowhere": "no where;%", "out": "/etc/passwd", "odd": "grüße \udcff", "self": "self"}
    for name, text in texts.items():
        (a.folder / "tree" / name).symlink_to(text)
    (b.folder / "copy").mkdir()
    (b.folder / "copy" / "nowhere").symlink_to("elsewhere")
    succeeded(service.wait(service.transfer(a.id, "/tree/", b.id, "/copy/", recursive_symlinks="keep")))
    assert links(b.folder / "copy") == texts


def test_links_are_followed(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    linked(a.folder)
    open_to_all(a.folder)
    options = {"recursive_symlinks": "copy", "sync_level": 3}
    task = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), **options)))
    assert links(b.folder / "copy") == {}
    assert set(digests(b.folder / "copy")) == {"real", "link", "in/up", "in/deep/f", "folder/f"}
    assert (b.folder / "copy" / "in" / "up").read_bytes() == b"real"
    assert task["files"] == 5


def symlink_items(service: Api, a: Site, b: Site, *names: str) -> dict[str, Any]:
    document = {
        "submission_id": service.call("GET", "/submission_id")["value"],
        "source_endpoint": a.id,
        "destination_endpoint": b.id,
        "DATA": [
            {
                "DATA_TYPE": "transfer_symlink_item",
                "source_path": a.path(name),
                "destination_path": b.path(f"to/{name}"),
            }
            for name in names
        ],
    }
    return service.wait(service.call("POST", "/transfer", document)["task_id"])


def test_items_may_be_links(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "own")
    linked(a.folder)
    open_to_all(a.folder)
    task = succeeded(symlink_items(service, a, b, "link", "folder"))
    assert links(b.folder / "to") == {"link": "real", "folder": "in/deep"}
    assert (task["files"], task["symlinks"]) == (0, 2)


@pytest.mark.toolkit
def test_the_toolkit_makes_links_only_to_what_is_there(service: Api, site: MakeSite) -> None:
    a, b = site("a", "own"), site("b", "toolkit")
    put(a.folder / "tree" / "f", b"f")
    (a.folder / "tree" / "lost").symlink_to("/no/such/file")
    (a.folder / "tree" / "good").symlink_to("f")
    (b.folder / "copy").mkdir()
    open_to_all(b.folder)
    (b.folder / "copy" / "good").symlink_to("leads nowhere")
    os.chmod(b.folder / "copy", 0o777)
    rules = [{"method": "exclude", "name": "lost"}]
    options = {"recursive_symlinks": "keep", "filter_rules": rules}
    succeeded(service.wait(service.transfer(a.id, "/tree/", b.id, b.path("copy/"), **options)))
    assert (b.folder / "copy" / "good").read_bytes() == b"f"
