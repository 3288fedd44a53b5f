"""Paths of a shared endpoint that a user may read and write, and their paths on the host."""

from __future__ import annotations

import pytest

from endpoints.errors import NotPermittedError, PathNotPermittedError
from endpoints.models import AccessRule, Endpoint, Role
from endpoints.permissions import Permission
from endpoints.sharing import access
from endpoints.sharing.access import Access
from identity.models import User

pytestmark = pytest.mark.django_db


def make_share(alice: User, host: Endpoint, host_path: str = "/data/shared/") -> Endpoint:
    return Endpoint.objects.create(owner=alice, name=host_path.strip("/") or "whole", host=host, host_path=host_path)


def ground(user: User, share: Endpoint, *rules: tuple[str, str], verb: Permission = Permission.BROWSE) -> Access:
    """With these (path, permissions)."""
    for path, permissions in rules:
        AccessRule.objects.create(
            endpoint=share, principal_type="identity", principal=user.pk, path=path, permissions=permissions
        )
    return access.of(user, share, verb)


@pytest.fixture
def share(alice: User, ep1: Endpoint) -> Endpoint:
    return make_share(alice, ep1)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/a/", True), ("/a", True), ("/a/b", True), ("/a/b/", True), ("/~/a/b", True), ("/a/~", True),
        ("/", False), ("/~/", False), ("/~", False), ("/ab", False), ("/ab/", False), ("/a.", False), ("/A/", False),
        ("/b/a/", False), ("/a/..", False), ("/a/../b", False), ("/a/../a/b", False), ("/../a/b", False),
        ("a/b", False), ("", False), ("/~/~/a", False), ("//a/b", False), ("/./a/b", False), ("/a/%2e%2e/", True),
        ("/a/..b", True), ("/a/b..", True), ("/a/\udcff", True),
    ],
)  # fmt: skip
def test_a_rule_covers_its_folder_and_all_below_it(bob: User, share: Endpoint, path: str, allowed: bool) -> None:
    found = ground(bob, share, ("/a/", "r"))
    assert found.allows(path, write=False) is allowed
    assert not found.allows(path, write=True)
    if not allowed:
        with pytest.raises(PathNotPermittedError) as refused:
            found.check(path, write=False)
        assert refused.value.path == path


def test_reading_is_not_writing(bob: User, share: Endpoint) -> None:
    found = ground(bob, share, ("/", "r"), ("/a/b/", "rw"), ("/a/b/c/", "r"))
    assert found.allows("/x", write=False)
    assert not found.allows("/a", write=True)
    assert found.allows("/a/b/x", write=True)
    # Rules add up: one below takes nothing away.
    assert found.allows("/a/b/c/x", write=True)
    assert not found.allows("/a/bc", write=True)


def test_a_path_that_a_user_only_reads_is_no_ground_for_writing(bob: User, share: Endpoint) -> None:
    found = ground(bob, share, ("/a/", "r"), ("/b/", "rw"), verb=Permission.WRITE)
    assert not found.allows("/a/x", write=False)
    assert found.allows("/b/x", write=True)


@pytest.mark.parametrize("role", ["administrator", "access_manager"])
def test_the_owner_and_those_who_manage_access_need_no_rule(alice: User, bob: User, share: Endpoint, role: str) -> None:
    Role.objects.create(endpoint=share, principal_type="identity", principal=bob.pk, role=role)
    for user in (alice, bob):
        found = access.of(user, share, Permission.WRITE)
        assert found.allowed_paths is None
        assert found.actor_id == alice.pk
        assert found.allows("/anything", write=True)
        for out in ("/../x", "/a/../../x", "x", "", "/.."):
            assert not found.allows(out, write=False)
            with pytest.raises(PathNotPermittedError):
                found.real(out)


def test_without_a_rule_there_is_no_access(bob: User, charlie: User, share: Endpoint) -> None:
    ground(bob, share, ("/a/", "r"))
    with pytest.raises(NotPermittedError):
        access.of(charlie, share, Permission.BROWSE)
    with pytest.raises(NotPermittedError):
        access.of(bob, share, Permission.WRITE)


@pytest.mark.parametrize(
    ("host_path", "path", "real"),
    [
        ("/data/shared/", "/", "/data/shared/"),
        ("/data/shared/", "/a b/ü", "/data/shared/a b/ü"),
        ("/data/shared/", "/~/a", "/data/shared/a"),
        ("/data/shared/", "/~/", "/data/shared/"),
        ("/data/shared/", "/~", "/data/shared/"),
        ("/data/shared/", "/~/~/a", "/data/shared/~/a"),
        ("/~/shared/", "/a", "/~/shared/a"),
        ("/~/", "/a", "/~/a"),
        ("/~/", "/~/a", "/~/a"),
        ("/", "/a", "/a"),
        ("/", "/~/a", "/a"),
        ("/", "/", "/"),
    ],
)
def test_paths_of_a_share_lie_below_its_folder(
    alice: User, ep1: Endpoint, host_path: str, path: str, real: str
) -> None:
    found = access.of(alice, make_share(alice, ep1, host_path), Permission.BROWSE)
    assert found.host == ep1
    assert found.real(path) == real
    assert found.shown(real) == ("/" + path.removeprefix("/~").lstrip("/"))


def test_the_home_of_the_owner_is_not_reached_through_a_server_that_is_shared_whole(alice: User, ep1: Endpoint) -> None:
    """There is nothing before its paths: "/~/x" would be taken for a path from the home, and not for a name."""
    found = access.of(alice, make_share(alice, ep1, "/"), Permission.BROWSE)
    for path in ("/~/~/x", "/~/~"):
        with pytest.raises(PathNotPermittedError):
            found.real(path)


def test_nothing_is_revealed_of_a_path_elsewhere_on_the_host(alice: User, share: Endpoint) -> None:
    found = access.of(alice, share, Permission.BROWSE)
    for path in ("/data/sharedness/x", "/data", "/etc/passwd", "/data/shared-not"):
        assert found.shown(path) == "/"


def test_on_an_endpoint_that_is_no_share_the_server_decides(alice: User, ep1: Endpoint) -> None:
    found = access.of(alice, ep1, Permission.BROWSE)
    assert not found.shared
    assert found.actor_id == alice.pk
    assert found.allows("/../x", write=True)
    assert found.real("/~/x") == found.shown("/~/x") == "/~/x"


def test_a_session_is_fenced_in_by_the_rules(alice: User, bob: User, share: Endpoint) -> None:
    assert access.of(alice, share, Permission.BROWSE).folders() == [("/data/shared/", True)]
    found = ground(bob, share, ("/a/", "r"), ("/b/", "rw"))
    assert found.folders() == [("/data/shared/a/", False), ("/data/shared/b/", True)]


def test_of_many_rules_a_session_gets_those_that_it_needs(bob: User, share: Endpoint) -> None:
    found = ground(bob, share, *((f"/{number}/", "r") for number in range(access.MANY + 1)), ("/7/x/", "rw"))
    assert found.folders(["/~/7/x/y"]) == [("/data/shared/7/", False), ("/data/shared/7/x/", True)]
    assert len(found.folders()) == access.MANY + 2
