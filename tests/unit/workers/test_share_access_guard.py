"""The guard of a shared endpoint: permitted paths, the effect of a withdrawn rule, and facts that it keeps secret."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import cast

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.restriction import AllowedPath
from endpoints.models import Endpoint
from endpoints.sharing.access import Access
from identity.models import User
from workers.sessions.pool import Address, SessionKey
from workers.sessions.share_access_guard import ShareAccessGuard

ADDRESS = Address("192.0.2.1", 2811)


def access(*allowed_paths: tuple[str, bool], root: str = "/srv/shared", everything: bool = False) -> Access:
    alice = User(username="alice")
    host = Endpoint(owner=alice, name="host")
    share = Endpoint(owner=alice, name="share", host=host, host_path=f"{root}/")
    rules = None if everything else tuple(AllowedPath(path, write) for path, write in allowed_paths)
    return Access(share, host, uuid.uuid4(), root, rules)


class Rules:
    """Rules that change; None: the endpoint is gone."""

    def __init__(self, now: Access | None, *, side: Side = Side.SOURCE, write: bool = False) -> None:
        self.now = now
        assert now is not None
        self.access_guard = ShareAccessGuard(now, side, lambda: self.now, write=write, foreign=True)

    def change(self, *allowed_paths: tuple[str, bool]) -> None:
        assert self.now is not None
        self.now = replace(self.now, allowed_paths=tuple(AllowedPath(*allowed_path) for allowed_path in allowed_paths))
        self.access_guard.refresh()


def fault_of(access_guard: ShareAccessGuard, path: str, **more: bool) -> Fault:
    with pytest.raises(FaultError) as refused:
        access_guard.real(path, **more)
    return refused.value.fault


def test_a_path_becomes_that_of_the_host() -> None:
    access_guard = Rules(access(("/", False))).access_guard
    assert access_guard.real("/a/b") == "/srv/shared/a/b"
    assert access_guard.real("/~/a") == "/srv/shared/a"
    assert access_guard.real("/") == "/srv/shared/"


def test_a_withdrawn_rule_is_seen_with_the_next_look() -> None:
    rules = Rules(access(("/a/", False), ("/b/", False)))
    assert rules.access_guard.feed("/a/1") == "/srv/shared/a/1"
    rules.change(("/b/", False))
    for path in ("/a/2", "/a"):
        fault = fault_of(rules.access_guard, path)
        assert (fault.kind, fault.side, fault.scope, fault.retryable) == (
            Kind.ACL_CHANGED, Side.SOURCE, FaultScope.FILE, False,
        )  # fmt: skip
        assert f"alice#share covers {path} any more: it was withdrawn, or has expired" in fault.advice
    assert rules.access_guard.real("/b/1") == "/srv/shared/b/1"


def test_what_was_fed_before_comes_to_its_end() -> None:
    rules = Rules(access(("/a/", True)), side=Side.DESTINATION, write=True)
    rules.access_guard.feed("/a/1")
    rules.change()
    assert rules.access_guard.real("/a/1", fed=True) == "/srv/shared/a/1"
    assert fault_of(rules.access_guard, "/a/1").kind is Kind.ACL_CHANGED
    assert fault_of(rules.access_guard, "/a/2", fed=True).kind is Kind.ACL_CHANGED


def test_a_rule_that_lets_read_only_is_none_for_who_writes() -> None:
    rules = Rules(access(("/a/", True)), side=Side.DESTINATION, write=True)
    rules.change(("/a/", False))
    assert fault_of(rules.access_guard, "/a/1").kind is Kind.ACL_CHANGED


def test_a_share_that_is_gone_gives_nothing() -> None:
    rules = Rules(access(everything=True))
    rules.now = None
    rules.access_guard.refresh()
    assert "alice#share is no longer available" in fault_of(rules.access_guard, "/a").advice
    with pytest.raises(FaultError):
        rules.access_guard.session_key(SessionKey(ADDRESS))


def test_a_folder_above_what_is_shared_is_somebody_elses_to_make() -> None:
    rules = Rules(access(("/a/b/", True)), side=Side.DESTINATION, write=True)
    assert fault_of(rules.access_guard, "/a").kind is Kind.PERMISSION_DENIED
    assert fault_of(rules.access_guard, "/c").kind is Kind.ACL_CHANGED


def test_sessions_are_kept_within_the_folders_of_the_rules() -> None:
    reading = Rules(access(("/a/", True), ("/a/b/", False), ("/c/", False))).access_guard
    assert reading.allowed_folders() == (("/srv/shared/a/", False), ("/srv/shared/c/", False)), "a reader may only read"
    rules = access(("/a/", True), ("/c/", False))
    assert Rules(rules, side=Side.DESTINATION, write=True).access_guard.allowed_folders() == (("/srv/shared/a/", True),)
    assert Rules(access(everything=True)).access_guard.allowed_folders() == (("/srv/shared/", False),)


def test_sessions_with_other_fences_are_never_mixed() -> None:
    doors = [
        SessionKey(ADDRESS, "key"),
        Rules(access(("/a/", False))).access_guard.session_key(SessionKey(ADDRESS, "key")),
        Rules(access(("/b/", False))).access_guard.session_key(SessionKey(ADDRESS, "key")),
        Rules(access(("/a/", False), root="/srv/other")).access_guard.session_key(SessionKey(ADDRESS, "key")),
        Rules(access(("/a/", True)), write=True).access_guard.session_key(SessionKey(ADDRESS, "key")),
    ]
    assert len({door.key for door in doors}) == len(doors)
    assert all(door.key.startswith("key") for door in doors), "the pool forgets them with their credential"
    assert doors[1] == Rules(access(("/a/", False))).access_guard.session_key(SessionKey(ADDRESS, "key"))


def test_faults_do_not_reveal_where_the_folder_lies() -> None:
    access_guard = Rules(access(("/", False))).access_guard
    fault = access_guard.for_user(Fault(Kind.FILE_NOT_FOUND, raw="550 /srv/shared/a: no such file; /srv/shared"))
    assert (fault.raw, fault.side) == ("550 /a: no such file; /", Side.SOURCE)
    access_guard = Rules(access(("/", False), root="/~/shared")).access_guard
    access_guard.set_home("/home/alice/")
    assert access_guard.for_user(Fault(Kind.FILE_NOT_FOUND, raw="/home/alice/shared/x")).raw == "/x"


def test_a_refused_login_reveals_nothing_of_the_owners_credential() -> None:
    access_guard = Rules(access(("/", False))).access_guard
    assert access_guard.for_user(Fault(Kind.AUTH, raw="530 Could not map /O=Grid/CN=Alice")).raw == ""


@pytest.mark.parametrize("foreign", [True, False])
def test_what_a_server_says_of_the_folder_of_a_rule_is_shown_to_the_owner_alone(foreign: bool) -> None:
    class Failing:
        tells_links = resolves_links = True

        async def stat(self, path: str) -> Entry:
            if path == "/srv/shared":
                return Entry("shared", "dir", link_target="/vol/hidden")
            if path.startswith("/vol"):
                raise FaultError(make_fault(Kind.UNKNOWN, f"500 {path}: Input/output error"))
            return Entry("srv", "dir")

    found = access(("/a/", False))
    access_guard = ShareAccessGuard(found, Side.SOURCE, lambda: found, write=False, foreign=foreign)
    confine = access_guard.session_key(SessionKey(ADDRESS)).confine
    assert confine is not None
    with pytest.raises(FaultError) as passing:
        asyncio.run(confine(cast(GridFTPSession, Failing())))  # type: ignore[arg-type]
    fault = passing.value.fault
    assert (fault.kind, fault.retryable) == (Kind.UNKNOWN, True)
    assert ("/vol/hidden" in fault.raw) is not foreign
