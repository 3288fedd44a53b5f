"""Links in the path of a shared folder: a server reports either the resolved target of a link or its text."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, make_fault
from endpoints.gridftp.restriction import AllowedPath
from endpoints.sharing import confinement
from endpoints.sharing.confinement import Confinement, LeadsOutError


class Tree:
    """A server's folders, files and links, as its facts report them. paths: path -> "dir", "file" or "-> text"."""

    home = "/home/alice"

    def __init__(self, paths: dict[str, str], *, resolves: bool, tells: bool = True) -> None:
        self.paths = {"/": "dir", **paths}
        self.resolves_links = resolves
        self.tells_links = tells
        self.asked: list[str] = []
        self.denied: set[str] = set()
        self.faults: dict[str, Kind] = {}

    async def stat(self, path: str) -> Entry:
        self.asked.append(path)
        if path in self.denied:
            raise FaultError(make_fault(Kind.PERMISSION_DENIED, path))
        if path in self.faults:
            raise FaultError(make_fault(self.faults[path], path))
        end = self._end(path)
        name = posixpath.basename(path)
        parent = self._end(posixpath.dirname(path))
        own = self.paths.get(posixpath.join(parent, name), "") if parent else ""
        text = own.removeprefix("-> ") if own.startswith("->") else None
        if end is None or end not in self.paths:
            if text is not None and not self.resolves_links:
                return Entry(name, "link", link_target=text)
            raise FaultError(make_fault(Kind.FILE_NOT_FOUND, path))
        target = None if text is None else end if self.resolves_links else text
        return Entry(name, self.paths[end], 7, link_target=target)

    def _end(self, path: str, left: int = 60) -> str | None:
        """The end of a path, as the server's kernel resolves it."""
        here, ahead = "/", path.split("/")
        while ahead:
            name = ahead.pop(0)
            if name in ("", "."):
                continue
            if name == "..":
                here = posixpath.dirname(here)
                continue
            there = posixpath.join(here, name)
            kind = self.paths.get(there, "")
            if kind.startswith("-> "):
                left -= 1
                if not left:
                    return None
                text = kind[3:]
                here, ahead = ("/" if text.startswith("/") else here), text.split("/") + ahead
            else:
                here = there
        return here


USUAL = {
    "/data": "dir", "/data/share": "dir", "/data/share/in": "dir", "/data/share/in/file": "file", "/data/secret": "dir",
    "/data/secret/file": "file", "/data/share-not": "dir", "/data/share/inner": "-> in",
    "/data/share/out": "-> ../secret", "/data/share/twice": "-> inner/../inner", "/data/share/near": "-> ../share-not",
    "/data/share/dangling": "-> nowhere",
    "/data/share/gone": "-> ../secret/nowhere", "/data/share/loop": "-> loop", "/data/share/root": "-> .",
    "/data/share/absolute": "-> /data/share/in", "/data/share/above": "-> ../../../../data/share/in",
    "/data/share/back": "-> ../share/in",
    "/home": "dir", "/home/alice": "dir", "/home/alice/mine": "dir", "/way": "-> data/share",
    "/home/alice/far": "-> /data/share",
}  # fmt: skip
BOTH = pytest.mark.parametrize("resolves", [True, False], ids=["ends", "texts"])


def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(work())


def leads_to(tree: Tree, path: str, root: str = "/data/share", *, follow: bool = True) -> str | None:
    """None: out."""
    try:
        return str(run(lambda: Confinement(root).real(tree, path, follow=follow)))
    except LeadsOutError:
        return None


def test_a_path_that_leads_out_is_reported_without_its_target() -> None:
    with pytest.raises(LeadsOutError) as refused:
        run(lambda: Confinement("/data/share").resolve(Tree(USUAL, resolves=True), "/data/share/out"))
    fault = refused.value.fault
    assert (fault.kind, fault.retryable, fault.scope) == (Kind.PERMISSION_DENIED, False, FaultScope.FILE)
    assert "/" not in str(refused.value)


@BOTH
@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("/data/share", "/data/share"), ("/data/share/", "/data/share"), ("/data/share/in/file", "/data/share/in/file"),
        ("/data/share/inner/file", "/data/share/in/file"), ("/data/share/twice/file", "/data/share/in/file"),
        ("/data/share/root/root/inner", "/data/share/in"), ("/data/share/back/file", "/data/share/in/file"),
        ("/data/share/new", "/data/share/new"), ("/data/share/new/deep/er", "/data/share/new/deep/er"),
        ("/data/share/in/file/below", "/data/share/in/file/below"),
        ("/data/share/out", None), ("/data/share/out/file", None), ("/data/share/out/new", None),
        ("/data/share/near", None), ("/data/share-not", None), ("/data/secret/file", None), ("/data", None),
        ("/data/share/../secret/file", None), ("/data/share/in/..", None), ("", None),
    ],
)  # fmt: skip
def test_what_a_path_leads_to_lies_in_what_is_shared(resolves: bool, path: str, end: str | None) -> None:
    assert leads_to(Tree(USUAL, resolves=resolves), path) == end


@BOTH
def test_about_a_link_itself_it_is_where_it_lies(resolves: bool) -> None:
    tree = Tree(USUAL, resolves=resolves)
    assert leads_to(tree, "/data/share/out", follow=False) == "/data/share/out"
    assert leads_to(tree, "/data/share/inner/file", follow=False) == "/data/share/in/file"
    assert leads_to(tree, "/data/share/out/file", follow=False) is None


def test_texts_that_may_mean_another_tree_are_ways_out() -> None:
    """An absolute one, and one that climbs above the server's root: it may serve another folder than "/"."""
    ends, texts = Tree(USUAL, resolves=True), Tree(USUAL, resolves=False)
    for name in ("absolute", "above"):
        assert leads_to(ends, f"/data/share/{name}") == "/data/share/in"
        assert leads_to(texts, f"/data/share/{name}") is None


def test_a_link_without_an_end_is_a_way_out_or_nothing() -> None:
    texts = Tree(USUAL, resolves=False)
    assert leads_to(texts, "/data/share/loop") is None
    assert leads_to(texts, "/data/share/gone") is None
    assert leads_to(texts, "/data/share/dangling") == "/data/share/nowhere"
    # The toolkit's server reports a dangling link like a missing path.
    assert leads_to(Tree(USUAL, resolves=True), "/data/share/dangling") == "/data/share/dangling"


@pytest.mark.parametrize("links", [confinement.MAX_LINKS, confinement.MAX_LINKS + 1])
def test_so_many_links_are_followed_and_no_more(links: int) -> None:
    chain = {f"/s/{number}": f"-> {number + 1}" for number in range(links)}
    tree = Tree({"/s": "dir", **chain, f"/s/{links}": "dir"}, resolves=False)
    assert leads_to(tree, "/s/0", "/s") == (f"/s/{links}" if links <= confinement.MAX_LINKS else None)


@pytest.mark.parametrize("said", ["in", "/data/share/../secret", "/data//secret", "/data/./share"])
def test_a_server_that_says_no_true_path_is_not_believed(said: str) -> None:
    class Liar(Tree):
        async def stat(self, path: str) -> Entry:
            entry = await super().stat(path)
            return Entry(entry.name, "dir", link_target=said) if path.endswith("/inner") else entry

    assert leads_to(Liar(USUAL, resolves=True), "/data/share/inner") is None


@BOTH
def test_the_root_may_be_reached_by_links_and_from_the_home(resolves: bool) -> None:
    tree = Tree(USUAL, resolves=resolves)
    assert leads_to(tree, "/way/inner", "/way") == "/data/share/in"
    assert leads_to(tree, "/way/out", "/way") is None
    assert leads_to(tree, "/~/mine/x", "/~/mine") == "/home/alice/mine/x"
    assert leads_to(tree, "/~/x", "/~") == "/home/alice/x"
    assert leads_to(tree, "/~/far/in", "/~/far") == ("/data/share/in" if resolves else None)


def test_the_way_to_the_root_may_be_closed_to_looks() -> None:
    tree = Tree(USUAL, resolves=True)
    tree.denied = {"/data"}
    assert leads_to(tree, "/data/share/in") == "/data/share/in"
    tree.denied = {"/data/share/in"}
    with pytest.raises(FaultError) as refused:
        leads_to(tree, "/data/share/in/file")
    assert not isinstance(refused.value, LeadsOutError)


def test_a_server_that_reports_no_links_is_trusted_where_all_of_it_is_shared() -> None:
    tree = Tree(USUAL, resolves=False, tells=False)
    assert leads_to(tree, "/data/share/in") is None
    assert run(lambda: Confinement("").resolve(tree, "/data/share/in")) == "/data/share/in"
    assert tree.asked == []


@BOTH
def test_what_is_given_may_be_less_than_what_is_shared(resolves: bool) -> None:
    tree = Tree({**USUAL, "/data/share/in/beside": "-> ../other", "/data/share/other": "dir"}, resolves=resolves)
    for root in ("/data/share", ""):
        prefix = "/in" if root else "/data/share/in"
        inside = Confinement(root, lambda inner, prefix=prefix: inner.startswith(prefix))  # type: ignore[misc]
        assert run(lambda inside=inside: inside.resolve(tree, "/data/share/in/file")) == "/data/share/in/file"  # type: ignore[misc]
        for path in ("/data/share/in/beside", "/data/share/other"):
            with pytest.raises(LeadsOutError):
                run(lambda inside=inside, path=path: inside.resolve(tree, path))  # type: ignore[misc]


@BOTH
def test_a_listing_shows_links_that_stay_and_closes_the_others(resolves: bool) -> None:
    tree = Tree(USUAL, resolves=resolves)

    async def listing() -> dict[str, Entry]:
        names = [path.rpartition("/")[2] for path in USUAL if posixpath.dirname(path) == "/data/share"]
        told = []
        for name in names:
            try:
                told.append(await tree.stat(f"/data/share/{name}"))
            except FaultError:
                continue
        return {one.name: one for one in await Confinement("/data/share").shown(tree, "/data/share/", told)}

    shown = run(listing)
    assert (shown["in"].kind, shown["in"].link_target) == ("dir", None)
    assert (shown["inner"].kind, shown["inner"].link_target, shown["inner"].size) == ("dir", "/in", 7)
    assert shown["root"].link_target == "/"
    for name in ("out", "near"):
        assert shown[name] == Entry(name, "link")


def test_of_one_listing_so_many_texts_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "MAX_LISTED", 3)
    paths = {"/s": "dir", "/s/in": "dir", **{f"/s/{number}": "-> in" for number in range(6)}}

    async def listing(tree: Tree) -> list[str | None]:
        entries = [await tree.stat(f"/s/{number}") for number in range(6)]
        return [entry.link_target for entry in await Confinement("/s").shown(tree, "/s", entries)]

    assert run(lambda: listing(Tree(paths, resolves=False))) == ["/in"] * 3 + [None] * 3
    assert run(lambda: listing(Tree(paths, resolves=True))) == ["/in"] * 6


def test_folders_are_remembered_for_a_while_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "MAX_KNOWN", 3)
    tree = Tree({"/s": "dir", **{f"/s/{number}": "dir" for number in range(5)}}, resolves=True)

    async def scene() -> None:
        kept = Confinement("/s")
        await kept.resolve(tree, "/s/0/a")
        tree.asked.clear()
        await kept.resolve(tree, "/s/0/b")
        assert tree.asked == ["/s/0/b"]
        for number in range(5):
            await kept.resolve(tree, f"/s/{number}/a")
        assert len(kept._known) == 3
        tree.asked.clear()
        await kept.resolve(tree, "/s/0/b")
        assert "/s/0" in tree.asked
        monkeypatch.setattr(confinement, "MAX_AGE", -1.0)
        tree.paths["/s/0"] = "-> ../"
        with pytest.raises(LeadsOutError):
            await kept.resolve(tree, "/s/0/b")

    run(scene)


@BOTH
def test_a_session_is_kept_in_by_true_paths(resolves: bool) -> None:
    tree = Tree(USUAL, resolves=resolves)
    wanted = [
        AllowedPath("/way/inner/", write=True),
        AllowedPath("/way/out/", write=True),
        AllowedPath("/way/new/", write=False),
    ]
    found = run(lambda: Confinement("/way").folders(tree, wanted))
    assert found == {"/way/inner": ("/data/share/in/", True), "/way/new": ("/data/share/new/", False)}


def test_a_lost_connection_is_no_answer_about_a_link() -> None:
    class Lost(Tree):
        async def stat(self, path: str) -> Entry:
            fault = make_fault(Kind.CONNECTION_BROKEN, "gone")
            raise FaultError(fault)

    assert make_fault(Kind.CONNECTION_BROKEN, "gone").scope is not FaultScope.FILE
    tree = Lost(USUAL, resolves=True)
    for work in (
        lambda: Confinement("/data/share").resolve(tree, "/data/share/in"),
        lambda: Confinement("/data/share").folders(tree, [AllowedPath("/data/share/in/", write=True)]),
    ):
        with pytest.raises(FaultError) as lost:
            run(work)
        assert lost.value.fault.kind is Kind.CONNECTION_BROKEN


class Kept(Tree):
    """A session that can be kept in folders, and has been kept in these."""

    def __init__(self, paths: dict[str, str]) -> None:
        super().__init__(paths, resolves=True)
        self.within: list[str] = []

    async def restrict(self, allowed_paths: Iterable[AllowedPath]) -> None:
        self.within = [allowed_path.path for allowed_path in allowed_paths]


def entered(tree: Kept, *names: str) -> list[str]:
    wanted = [AllowedPath(f"/data/share/{name}/", write=True) for name in names]
    run(lambda: Confinement("/data/share").confine(tree, wanted))
    return tree.within


def test_a_passing_fault_of_one_rule_is_no_answer_about_where_it_leads() -> None:
    tree = Kept(USUAL)
    tree.faults = {"/data/share/in": Kind.UNKNOWN}
    for names in (("in",), ("in", "new"), ("out", "in")):
        with pytest.raises(FaultError) as passing:
            entered(tree, *names)
        fault = passing.value.fault
        assert (fault.kind, fault.scope, fault.retryable) == (Kind.UNKNOWN, FaultScope.FILE, True)
        assert tree.within == []


@pytest.mark.parametrize("kind", [Kind.PERMISSION_DENIED, Kind.INVALID_PATH_NAME])
def test_a_rule_that_the_server_refuses_to_look_at_is_left_out_while_there_is_another(kind: Kind) -> None:
    tree = Kept(USUAL)
    tree.faults = {"/data/share/in": kind}
    assert entered(tree, "in", "new", "out") == ["/data/share/new/"]
    for names in (("in",), ("out", "in")):
        with pytest.raises(FaultError) as refused:
            entered(tree, *names)
        assert not isinstance(refused.value, LeadsOutError)
        assert refused.value.fault.kind is kind
    with pytest.raises(LeadsOutError):
        entered(tree, "out")
