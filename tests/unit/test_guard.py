"""The guard of a shared endpoint: what it lets through, what a withdrawn rule changes, and what it tells nobody."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import cast

import pytest

from endpoints.access import Access, Ground
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side, make_fault
from endpoints.models import Endpoint
from identity.models import User
from workers.guard import Guard
from workers.pool import Address, Door

ADDRESS = Address("192.0.2.1", 2811)


def access(*grounds: tuple[str, bool], root: str = "/srv/shared", everything: bool = False) -> Access:
    alice = User(username="alice")
    host = Endpoint(owner=alice, name="host")
    share = Endpoint(owner=alice, name="share", host=host, host_path=f"{root}/")
    rules = None if everything else tuple(Ground(path, write) for path, write in grounds)
    return Access(share, host, uuid.uuid4(), root, rules)


class Rules:
    """Rules that change; None: the endpoint is gone."""

    def __init__(self, now: Access | None, *, side: Side = Side.SOURCE, write: bool = False) -> None:
        self.now = now
        assert now is not None
        self.guard = Guard(now, side, lambda: self.now, write=write, foreign=True)

    def change(self, *grounds: tuple[str, bool]) -> None:
        assert self.now is not None
        self.now = replace(self.now, grounds=tuple(Ground(*ground) for ground in grounds))
        self.guard.refresh()


def fault_of(guard: Guard, path: str, **more: bool) -> Fault:
    with pytest.raises(FaultError) as refused:
        guard.real(path, **more)
    return refused.value.fault


def test_a_path_becomes_that_of_the_host() -> None:
    guard = Rules(access(("/", False))).guard
    assert guard.real("/a/b") == "/srv/shared/a/b"
    assert guard.real("/~/a") == "/srv/shared/a"
    assert guard.real("/") == "/srv/shared/"


def test_a_withdrawn_rule_is_seen_with_the_next_look() -> None:
    rules = Rules(access(("/a/", False), ("/b/", False)))
    assert rules.guard.feed("/a/1") == "/srv/shared/a/1"
    rules.change(("/b/", False))
    for path in ("/a/2", "/a"):
        fault = fault_of(rules.guard, path)
        assert (fault.kind, fault.side, fault.scope, fault.retryable) == (
            Kind.ACL_CHANGED, Side.SOURCE, Scope.FILE, False,
        )  # fmt: skip
        assert f"alice#share covers {path} any more: it was withdrawn, or has expired" in fault.advice
    assert rules.guard.real("/b/1") == "/srv/shared/b/1"


def test_what_was_fed_before_comes_to_its_end() -> None:
    rules = Rules(access(("/a/", True)), side=Side.DESTINATION, write=True)
    rules.guard.feed("/a/1")
    rules.change()
    assert rules.guard.real("/a/1", fed=True) == "/srv/shared/a/1"
    assert fault_of(rules.guard, "/a/1").kind is Kind.ACL_CHANGED
    assert fault_of(rules.guard, "/a/2", fed=True).kind is Kind.ACL_CHANGED


def test_a_rule_that_lets_read_only_is_none_for_who_writes() -> None:
    rules = Rules(access(("/a/", True)), side=Side.DESTINATION, write=True)
    rules.change(("/a/", False))
    assert fault_of(rules.guard, "/a/1").kind is Kind.ACL_CHANGED


def test_a_share_that_is_gone_gives_nothing() -> None:
    rules = Rules(access(everything=True))
    rules.now = None
    rules.guard.refresh()
    assert "alice#share is not there any more" in fault_of(rules.guard, "/a").advice
    with pytest.raises(FaultError):
        rules.guard.door(Door(ADDRESS))


def test_a_folder_above_what_is_shared_is_somebody_elses_to_make() -> None:
    rules = Rules(access(("/a/b/", True)), side=Side.DESTINATION, write=True)
    assert fault_of(rules.guard, "/a").kind is Kind.PERMISSION_DENIED
    assert fault_of(rules.guard, "/c").kind is Kind.ACL_CHANGED


def test_sessions_are_kept_within_the_folders_of_the_rules() -> None:
    reading = Rules(access(("/a/", True), ("/a/b/", False), ("/c/", False))).guard
    assert reading.fence() == (("/srv/shared/a/", False), ("/srv/shared/c/", False)), "who reads may only read"
    rules = access(("/a/", True), ("/c/", False))
    assert Rules(rules, side=Side.DESTINATION, write=True).guard.fence() == (("/srv/shared/a/", True),)
    assert Rules(access(everything=True)).guard.fence() == (("/srv/shared/", False),)


def test_sessions_with_other_fences_are_never_mixed() -> None:
    doors = [
        Door(ADDRESS, "key"),
        Rules(access(("/a/", False))).guard.door(Door(ADDRESS, "key")),
        Rules(access(("/b/", False))).guard.door(Door(ADDRESS, "key")),
        Rules(access(("/a/", False), root="/srv/other")).guard.door(Door(ADDRESS, "key")),
        Rules(access(("/a/", True)), write=True).guard.door(Door(ADDRESS, "key")),
    ]
    assert len({door.key for door in doors}) == len(doors)
    assert all(door.key.startswith("key") for door in doors), "the pool forgets them with their credential"
    assert doors[1] == Rules(access(("/a/", False))).guard.door(Door(ADDRESS, "key"))


def test_faults_do_not_tell_where_the_folder_lies() -> None:
    guard = Rules(access(("/", False))).guard
    fault = guard.told(Fault(Kind.FILE_NOT_FOUND, raw="550 /srv/shared/a: no such file; /srv/shared"))
    assert (fault.raw, fault.side) == ("550 /a: no such file; /", Side.SOURCE)
    guard = Rules(access(("/", False), root="/~/shared")).guard
    guard.know_home("/home/alice/")
    assert guard.told(Fault(Kind.FILE_NOT_FOUND, raw="/home/alice/shared/x")).raw == "/x"


def test_a_refused_login_tells_nothing_of_the_owners_credential() -> None:
    guard = Rules(access(("/", False))).guard
    assert guard.told(Fault(Kind.AUTH, raw="530 Could not map /O=Grid/CN=Alice")).raw == ""


@pytest.mark.parametrize("foreign", [True, False])
def test_what_a_server_says_of_the_folder_of_a_rule_is_told_to_the_owner_alone(foreign: bool) -> None:
    class Failing:
        tells_links = resolves_links = True

        async def stat(self, path: str) -> Entry:
            if path == "/srv/shared":
                return Entry("shared", "dir", link_target="/vol/hidden")
            if path.startswith("/vol"):
                raise FaultError(make_fault(Kind.UNKNOWN, f"500 {path}: Input/output error"))
            return Entry("srv", "dir")

    found = access(("/a/", False))
    guard = Guard(found, Side.SOURCE, lambda: found, write=False, foreign=foreign)
    confine = guard.door(Door(ADDRESS)).confine
    assert confine is not None
    with pytest.raises(FaultError) as passing:
        asyncio.run(confine(cast(GridFTPSession, Failing())))  # type: ignore[arg-type]
    fault = passing.value.fault
    assert (fault.kind, fault.retryable) == (Kind.UNKNOWN, True)
    assert ("/vol/hidden" in fault.raw) is not foreign
