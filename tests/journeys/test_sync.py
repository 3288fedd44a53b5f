"""Decisions of the scan through the whole service, between real servers: sync, rules, links."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_transfers import PAIRS, digests, events, hand_over, make_tree, succeeded

MakeSite = Callable[..., Site]
KINDS = ["own", pytest.param("toolkit", marks=pytest.mark.toolkit)]
#: By path: what is in place before the task, how old it is compared with the source's, and levels at which it is sent.
CASES: dict[str, tuple[bytes | None, int, set[int]]] = {
    "missing": (None, 0, {0, 1, 2, 3}),
    "in/missing": (None, 0, {0, 1, 2, 3}),
    "in/deep/same": (b"content of in/deep/same", 0, set()),
    "size": (b"something longer than before", 9, {1, 2, 3}),
    "in/older": (b"content of in/older", -9, {2}),
    "in/newer": (b"content of in/newer", 9, set()),
    "content": (b"CONTENT OF content", 9, {3}),
    "in/content": (b"CONTENT OF in/content", 0, {3}),
}


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


def code_of(api: Api, task: dict[str, Any]) -> str:
    """Return the error code of a failed task."""
    assert task["status"] == "FAILED"
    return str(task["fatal_error"]["code"])


@pytest.mark.parametrize(
    ("source_kind", "destination_kind", "level"),
    [
        *(("own", "own", level) for level in range(4)),
        *(pytest.param("toolkit", "toolkit", level, marks=pytest.mark.toolkit) for level in range(4)),
        pytest.param("own", "toolkit", 3, marks=pytest.mark.toolkit),
        pytest.param("toolkit", "own", 3, marks=pytest.mark.toolkit),
    ],
)
def test_only_what_differs_is_sent(
    service: Api, site: MakeSite, source_kind: str, destination_kind: str, level: int
) -> None:
    a, b = site("a", source_kind), site("b", destination_kind)
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
    assert task["bytes_checksummed"] == (sum(len(f"content of {name}") for name in compared) if level == 3 else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_that_is_in_place_is_not_sent_again(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
    make_tree(a.folder, 300)
    hand_over(a)
    first = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), sync_level=3)))
    assert first["files_skipped"] == 0
    for level in range(4):
        again = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), sync_level=level)))
        assert (again["files_transferred"], again["files_skipped"]) == (0, first["files"])
        assert again["bytes_transferred"] == 0
    assert again["bytes_checksummed"] == first["bytes_transferred"]
    assert digests(b.folder / "copy") == digests(a.folder)


@pytest.mark.parametrize("kind", KINDS)
def test_items_that_are_files_are_compared_one_by_one(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
    items = []
    for index in range(60):
        put(a.folder / f"f{index}", b"%d" % index)
        if index % 3:
            put(b.folder / f"g{index}", b"%d" % (index if index % 3 == 1 else index + 1))
        items.append((a.path(f"f{index}"), b.path(f"g{index}")))
    open_to_all(a.folder, b.folder)
    task = succeeded(service.wait(service.transfer_items(a.id, b.id, items, sync_level=3)))
    assert (task["files_transferred"], task["files_skipped"]) == (40, 20)
    assert all((b.folder / f"g{index}").read_bytes() == b"%d" % index for index in range(60))


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_where_a_file_goes_is_told(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
    put(a.folder / "f", b"f")
    put(a.folder / "g", b"g")
    put(b.folder / "copy" / "f" / "inner", b"i")
    open_to_all(a.folder, b.folder)
    task = service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), sync_level=0))
    assert code_of(service, task) == "IS_A_DIRECTORY"
    assert (b.folder / "copy" / "g").read_bytes() == b"g"
    assert (b.folder / "copy" / "f" / "inner").read_bytes() == b"i"


@pytest.mark.parametrize("kind", KINDS)
def test_rules_leave_out_files_and_folders(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
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


@pytest.mark.parametrize(("source_kind", "destination_kind"), PAIRS)
def test_links_are_kept(service: Api, site: MakeSite, source_kind: str, destination_kind: str) -> None:
    a, b = site("a", source_kind), site("b", destination_kind)
    linked(a.folder)
    open_to_all(a.folder)
    for _ in range(2):
        options = {"recursive_symlinks": "keep", "sync_level": 1}
        task = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), **options)))
        copy = b.folder / "copy"
        kept = links(copy)
        assert set(kept) == {"link", "in/up", "folder"}
        if destination_kind == "own":
            assert kept == {"link": "real", "in/up": "../real", "folder": "in/deep"}
        # The toolkit's servers make them absolute; they lead to the copy all the same.
        for name, text in links(a.folder).items():
            assert (copy / name).resolve() == (copy / name).parent.joinpath(text).resolve()
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_does_not_give_way_to_a_link(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
    linked(a.folder)
    put(b.folder / "copy" / "link", b"precious")
    open_to_all(a.folder, b.folder)
    task = service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), recursive_symlinks="keep"))
    assert code_of(service, task) == "PATH_EXISTS"
    assert (b.folder / "copy" / "link").read_bytes() == b"precious"
    assert set(links(b.folder / "copy")) == {"in/up", "folder"}


@pytest.mark.parametrize("kind", KINDS)
def test_links_are_followed(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
    linked(a.folder)
    open_to_all(a.folder)
    options = {"recursive_symlinks": "copy", "sync_level": 3}
    task = succeeded(service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), **options)))
    assert links(b.folder / "copy") == {}
    assert set(digests(b.folder / "copy")) == {"real", "link", "in/up", "in/deep/f", "folder/f"}
    assert (b.folder / "copy" / "in" / "up").read_bytes() == b"real"
    assert task["files"] == 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_of_links_ends_and_is_told(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
    linked(a.folder)
    (a.folder / "in" / "loop").symlink_to("..")
    open_to_all(a.folder)
    task = service.wait(service.transfer(a.id, a.path(""), b.id, b.path("copy/"), recursive_symlinks="copy"))
    assert code_of(service, task) == "INVALID_SYMLINK"
    assert set(digests(b.folder / "copy")) == {"real", "link", "in/up", "in/deep/f", "folder/f"}


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


@pytest.mark.parametrize("kind", KINDS)
def test_items_may_be_links(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
    linked(a.folder)
    open_to_all(a.folder)
    task = succeeded(symlink_items(service, a, b, "link", "folder"))
    there = links(b.folder / "to")
    if kind == "own":
        assert there == {"link": "real", "folder": "in/deep"}
    else:
        # The toolkit's servers report the true target of a link, and a link item has no copied folder to point into.
        assert there == {"link": f"{a.folder}/real", "folder": f"{a.folder}/in/deep"}
    assert (task["files"], task["symlinks"]) == (0, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_an_item_that_is_no_link_is_told(service: Api, site: MakeSite, kind: str) -> None:
    a, b = site("a", kind), site("b", kind)
    linked(a.folder)
    open_to_all(a.folder)
    task = symlink_items(service, a, b, "link", "real", "in")
    assert code_of(service, task) == "NOT_A_SYMLINK"
    assert set(links(b.folder / "to")) == {"link"}
    assert "NOT_A_SYMLINK" in {event["code"] for event in events(service, task["task_id"])}


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
