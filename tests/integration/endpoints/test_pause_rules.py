"""Pause rules: who may write them and where, whom they stop, and what is refused under them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from endpoints import operations, pause_rules, permissions, registry
from endpoints.error_meanings import meaning
from endpoints.errors import (
    PAUSE_RULE_NOT_EDITABLE,
    TOO_MANY_PAUSE_RULES,
    EndpointNotFoundError,
    NotPermittedError,
    OperationPausedError,
)
from endpoints.files import downloads, uploads
from endpoints.files.uploads import UploadPart
from endpoints.models import Endpoint, PauseRule
from endpoints.pause_rules import FLAGS, MAX_MESSAGE, MAX_RULES, PausableOperation
from endpoints.permissions import Permission, may
from endpoints.sharing import roles
from identity import group_memberships, groups
from identity.error_categories import InvalidFieldError, NotFoundError, RefusedError
from identity.group_memberships import MembershipAction
from identity.group_memberships import MembershipVerb as GroupVerb
from identity.models import User
from tests.integration.cast import all_at_once, later, make_endpoint, make_user
from tests.integration.shared import give, make_share
from tests.refusals import kind_of, raises_refusal


def ref(endpoint: Endpoint) -> str:
    return str(endpoint.pk)


def make(user: User, endpoint: Endpoint, **fields: Any) -> PauseRule:
    return pause_rules.create(user, ref(endpoint), fields)


def grant(owner: User, endpoint: Endpoint, user: User, role: str) -> None:
    roles.create(owner, ref(endpoint), "identity", str(user.pk), role)


@pytest.fixture
def share(bob: User, public: Endpoint) -> Endpoint:
    """alice's, of bob's public endpoint."""
    return make_share(public, "share", owner=User.objects.get_or_create(username="alice")[0])


# ---- who


@pytest.mark.parametrize(
    ("role", "reads", "writes"),
    [("administrator", True, True), ("activity_manager", True, True), ("activity_monitor", True, False)],
)
def test_roles_say_who_may_read_and_write_rules(
    alice: User, bob: User, ep1: Endpoint, role: str, reads: bool, writes: bool
) -> None:
    rule = make(alice, ep1)
    grant(alice, ep1, bob, role)
    assert (pause_rules.listed(bob, ref(ep1)) == [rule]) is reads
    assert pause_rules.get(bob, str(rule.pk)).pk == rule.pk
    assert pause_rules.editable(bob, rule) is writes
    assert pause_rules.editable_ones(bob, [rule]) == ({rule.pk} if writes else set())
    actions: list[Callable[[], object]] = [
        partial(make, bob, ep1),
        partial(pause_rules.update, bob, str(rule.pk), {"message": "bob's"}),
        partial(pause_rules.delete, bob, str(rule.pk)),
    ]
    for action in actions:
        if writes:
            action()
        else:
            with pytest.raises((NotPermittedError, RefusedError)):
                action()


def test_who_is_nobody_there_sees_no_rule(
    alice: User, bob: User, charlie: User, ep1: Endpoint, public: Endpoint
) -> None:
    rule = make(alice, ep1)
    for user in (bob, charlie):
        assert pause_rules.listed(user) == []
        for action in (
            pause_rules.get,
            pause_rules.delete,
            lambda user, id_: pause_rules.update(user, id_, {"message": "x"}),
        ):
            with pytest.raises(NotFoundError):
                action(user, str(rule.pk))
    with pytest.raises(EndpointNotFoundError):
        pause_rules.listed(charlie, ref(ep1))
    with pytest.raises(NotPermittedError):
        pause_rules.listed(charlie, ref(public))
    with pytest.raises(NotPermittedError):
        make(charlie, public)
    for unknown in (str(uuid.uuid4()), "nonsense", ""):
        with pytest.raises(NotFoundError):
            pause_rules.get(alice, unknown)


def test_a_rule_that_the_host_makes_on_a_share_is_not_the_sharers_to_take_back(
    alice: User, bob: User, share: Endpoint
) -> None:
    hosts, own = make(bob, share, message="by the host"), make(alice, share, message="by the sharer")
    assert (hosts.created_by_host_manager, own.created_by_host_manager) == (True, False)
    assert pause_rules.editable_ones(alice, [hosts, own]) == {own.pk}
    assert pause_rules.editable_ones(bob, [hosts, own]) == {hosts.pk, own.pk}
    for action in (partial(pause_rules.delete, alice), lambda id_: pause_rules.update(alice, id_, {"message": "x"})):
        with raises_refusal(PAUSE_RULE_NOT_EDITABLE):
            action(str(hosts.pk))
    pause_rules.delete(bob, str(own.pk))
    pause_rules.delete(bob, str(hosts.pk))


def test_a_list_holds_the_rules_of_an_endpoint_and_of_what_is_shared_of_it(
    alice: User, bob: User, public: Endpoint, share: Endpoint, ep1: Endpoint
) -> None:
    on_host, on_share, elsewhere = make(bob, public), make(alice, share), make(alice, ep1)
    assert {rule.pk for rule in pause_rules.listed(bob)} == {on_host.pk, on_share.pk}
    assert {rule.pk for rule in pause_rules.listed(bob, ref(public))} == {on_host.pk, on_share.pk}
    assert {rule.pk for rule in pause_rules.listed(alice)} == {on_share.pk, elsewhere.pk}
    assert [rule.pk for rule in pause_rules.listed(alice, ref(share))] == [on_share.pk]
    registry.delete(bob, ref(public))
    assert pause_rules.listed(bob) == []


# ---- what


def test_a_flag_that_is_not_given_is_true_and_changes_keep_the_rest(alice: User, bob: User, ep1: Endpoint) -> None:
    rule = make(alice, ep1, pause_ls=False)
    assert {flag: getattr(rule, flag) for flag in FLAGS} == {flag: flag != "pause_ls" for flag in FLAGS}
    grant(alice, ep1, bob, "activity_manager")
    when = later(60)
    changed = pause_rules.update(bob, str(rule.pk), {"message": "new", "start_time": when, "pause_mkdir": False})
    assert (changed.message, changed.start_time, changed.pause_mkdir, changed.pause_rename) == (
        "new",
        when,
        False,
        True,
    )
    assert (changed.modified_by, changed.created_by) == (bob, alice)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"message": "x" * (MAX_MESSAGE + 1)}, "message"),
        ({"message": "\0"}, "message"),
        ({"message": "\udcff"}, "message"),
        ({"identity_id": uuid.uuid4()}, "identity_id"),
        (dict.fromkeys(FLAGS, False), "pause_ls"),
    ],
)
def test_what_makes_no_sense_is_refused(alice: User, ep1: Endpoint, fields: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        make(alice, ep1, **fields)
    assert refused.value.field == field
    assert not PauseRule.objects.exists()


def test_a_change_cannot_leave_a_rule_that_stops_nothing(alice: User, ep1: Endpoint) -> None:
    rule = make(alice, ep1)
    with pytest.raises(InvalidFieldError):
        pause_rules.update(alice, str(rule.pk), dict.fromkeys(FLAGS, False))
    assert PauseRule.objects.get().pause_ls


def test_an_endpoint_has_a_bounded_number_of_rules(alice: User, ep1: Endpoint) -> None:
    for _ in range(MAX_RULES):
        make(alice, ep1)
    with raises_refusal(TOO_MANY_PAUSE_RULES) as refused:
        make(alice, ep1)
    assert refused.value.facts == {"limit": MAX_RULES}


@pytest.mark.django_db(transaction=True)
def test_the_number_of_rules_is_bounded_when_all_ask_at_once(
    alice: User, ep1: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause_rules, "MAX_RULES", 3)
    results = all_at_once([partial(make, alice, ep1)] * 8)
    assert sum(isinstance(result, PauseRule) for result in results) == 3
    assert sum(kind_of(result) is TOO_MANY_PAUSE_RULES for result in results) == 5


# ---- whom


def test_the_rules_that_hold_are_those_for_the_user_or_for_all_of_the_endpoint_and_its_host(
    alice: User, bob: User, charlie: User, public: Endpoint, share: Endpoint
) -> None:
    for_all, for_charlie, on_share = make(bob, public), make(bob, public, identity_id=charlie.pk), make(alice, share)
    make(bob, public, start_time=later(100))
    give(share, charlie)

    def held(user: User, endpoint: Endpoint) -> set[uuid.UUID]:
        return {rule.pk for rule in pause_rules.effective_by_ref(user, ref(endpoint))[1]}

    assert held(alice, public) == held(bob, public) == {for_all.pk}
    assert held(charlie, public) == {for_all.pk, for_charlie.pk}
    assert held(charlie, share) == {for_all.pk, for_charlie.pk, on_share.pk}
    assert len(pause_rules.effective(alice, public, now=later(101))) == 2
    with pytest.raises(EndpointNotFoundError):
        pause_rules.effective_by_ref(make_user("dave"), ref(make_endpoint(alice, "hidden")))


# ---- what is done at once

_OPERATIONS: dict[PausableOperation, list[Callable[[User, str], object]]] = {
    PausableOperation.LS: [
        lambda user, ep: operations.list_directory(user, ep, "/"),
        lambda user, ep: operations.stat(user, ep, "/a"),
    ],
    PausableOperation.MKDIR: [lambda user, ep: operations.make_directory(user, ep, "/a")],
    PausableOperation.RENAME: [lambda user, ep: operations.rename(user, ep, "/a", "/b")],
    PausableOperation.SYMLINK: [lambda user, ep: operations.make_symlink(user, ep, "/a", "/b")],
    PausableOperation.DOWNLOAD: [lambda user, ep: downloads.open_file(user, ep, "/a")],
    PausableOperation.UPLOAD: [
        lambda user, ep: uploads.Upload(user, ep, "/a").store(UploadPart(0, 0, 0), (), replace=True),
    ],
}  # fmt: skip
_FAMILIES = {
    "ls": "DirListing", "mkdir": "Mkdir", "rename": "Rename", "symlink": "Symlink",
    "task_transfer_read": "Download", "task_transfer_write": "Upload",
}  # fmt: skip


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("operation", list(PausableOperation))
def test_each_operation_is_refused_by_its_flag_alone(
    alice: User, ep1: Endpoint, flag: str, operation: PausableOperation
) -> None:
    make(alice, ep1, message="Not now.", **{one: one == flag for one in FLAGS})
    for act in _OPERATIONS[operation]:
        with pytest.raises(Exception) as met:
            act(alice, ref(ep1))
        assert isinstance(met.value, OperationPausedError) is (flag == operation)
        if flag == operation:
            status, code, message = meaning(met.value, "")
            family = _FAMILIES[operation.removeprefix("pause_")]
            assert (status, code) == (409, f"ExternalError.{family}Failed.GCPaused")
            assert "alice#ep1" in message
            assert message.endswith("Details: Not now.")


def test_a_rule_for_another_user_refuses_nothing(alice: User, bob: User, public: Endpoint) -> None:
    make(bob, public, identity_id=bob.pk)
    pause_rules.check(alice, public, PausableOperation.LS)
    with pytest.raises(OperationPausedError):
        pause_rules.check(bob, public, PausableOperation.LS)


def test_a_rule_without_words_refuses_without_details(alice: User, ep1: Endpoint) -> None:
    make(alice, ep1)
    with pytest.raises(OperationPausedError) as met:
        pause_rules.check(alice, ep1, PausableOperation.LS)
    assert "Details" not in meaning(met.value, "")[2]


# ---- the same rule twice: in Python and for the database


def test_the_database_says_of_whom_an_endpoint_is_run_as_the_function_does(
    alice: User, bob: User, charlie: User, ep1: Endpoint, public: Endpoint, share: Endpoint
) -> None:
    dave, asleep = make_user("dave"), make_share(ep1, "asleep", owner=charlie)
    make_share(make_endpoint(alice, "ep9"), "mine")
    grant(alice, ep1, bob, "activity_monitor")
    grant(bob, public, charlie, "activity_manager")
    grant(alice, share, dave, "access_manager")
    group = groups.create(alice, name="operators").group
    group_memberships.act(alice, group.pk, [MembershipAction(GroupVerb.ADD, dave.pk)])
    roles.create(bob, ref(public), "group", str(group.pk), "activity_monitor")
    gone = make_endpoint(alice, "gone")
    Endpoint.objects.filter(pk=gone.pk).update(deleted_at=datetime.now(UTC) - timedelta(days=1))
    everything = list(Endpoint.objects.select_related("owner", "host__owner"))
    assert asleep in everything
    for user in (alice, bob, charlie, dave):
        for verb in (Permission.OVERSEE, Permission.CONTROL):
            found = set(Endpoint.objects.filter(permissions.endpoints_by_role(user, verb)))
            assert found == {endpoint for endpoint in everything if may(user, verb, endpoint)}, (user, verb)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert not Endpoint.objects.filter(
        permissions.endpoints_by_role(User.objects.get(pk=alice.pk), Permission.OVERSEE)
    ).exists()
