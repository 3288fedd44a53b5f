"""Groups: who sees them, who may change them, who comes in and who goes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

import pytest
from pytest_django import DjangoAssertNumQueries

from identity import group_memberships, groups
from identity.group_memberships import ActionRefusal, MembershipAction, MembershipVerb
from identity.groups import (
    GroupForbiddenError,
    GroupInvalidError,
    GroupNotFoundError,
    GroupRole,
    MembershipContext,
    MembershipStatus,
    Policies,
    TooManyGroupsError,
)
from identity.models import Group, Membership, User
from tests.integration.cast import all_at_once, make_user


@pytest.fixture
def group(alice: User) -> Group:
    """alice's, private."""
    return groups.create(alice, name="beamline").group


def act(
    user: User, group: Group, verb: MembershipVerb, *whom: User, role: GroupRole = GroupRole.MEMBER, **fields: object
) -> list[str]:
    """The status of each that it was done to, or the code of the refusal."""
    actions = [MembershipAction(verb, one.pk, role, fields) for one in whom or [user]]
    found = group_memberships.act(user, group.pk, actions)
    return [one.result.code if isinstance(one.result, ActionRefusal) else one.result.status for one in found]


def activation_status(user: User, group: Group) -> tuple[str, str] | None:
    row = Membership.objects.filter(user=user, group=group).first()
    return None if row is None else (row.role, row.status)


def put(user: User, group: Group, status: str, role: str = "member") -> None:
    Membership.objects.update_or_create(user=user, group=group, defaults={"status": status, "role": role})


def policies(alice: User, group: Group, **named: object) -> None:
    groups.set_policies(alice, group.pk, Policies(**named))  # type: ignore[arg-type]


# ---- the group itself


def test_who_makes_a_group_is_its_admin(alice: User) -> None:
    made = groups.create(
        alice, name="beamline", description="two\nlines", terms="be kind",
        policies=Policies(join_requests=True, signup_fields=["city", "institution", "city"]),
    ).group  # fmt: skip
    made.refresh_from_db()
    assert (made.name, made.description, made.terms_and_conditions) == ("beamline", "two\nlines", "be kind")
    assert (made.group_visibility, made.group_members_visibility) == ("private", "managers")
    assert (made.join_requests, made.signup_fields) == (True, ["institution", "city"])
    assert activation_status(alice, made) == ("admin", "active")
    assert groups.of(alice) == [made.pk]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\ud800", "x" * 257])
def test_what_is_no_name_is_refused(alice: User, group: Group, name: str) -> None:
    for call in (partial(groups.create, alice), partial(groups.update, alice, group.pk)):
        with pytest.raises(GroupInvalidError) as caught:
            call(name=name)
        assert caught.value.field == "name"


def test_texts_are_bounded(alice: User, group: Group) -> None:
    for text in ("x" * 4097, "a\0"):
        with pytest.raises(GroupInvalidError, match="description"):
            groups.update(alice, group.pk, description=text)
        with pytest.raises(GroupInvalidError, match="terms"):
            groups.update(alice, group.pk, terms=text)


@pytest.mark.parametrize(
    "named",
    [{"group_visibility": "all"}, {"group_members_visibility": ""}, {"signup_fields": ["shoe_size"]}],
)
def test_policies_have_their_words(alice: User, group: Group, named: dict[str, object]) -> None:
    with pytest.raises(GroupInvalidError) as caught:
        policies(alice, group, **named)
    assert [caught.value.field] == list(named)


def test_a_private_group_exists_for_those_who_are_in_it_or_on_the_way(alice: User, bob: User, group: Group) -> None:
    seen = {}
    for status in MembershipStatus:
        put(bob, group, status)
        try:
            seen[str(status)] = groups.get(bob, group.pk).group == group
        except GroupNotFoundError:
            seen[str(status)] = False
    assert {status for status, sees in seen.items() if sees} == {"active", "invited", "pending"}
    for user, group_id in ((make_user("dora"), group.pk), (alice, uuid.uuid4())):
        with pytest.raises(GroupNotFoundError):
            groups.get(user, group_id)


def test_a_group_may_be_seen_by_everybody(alice: User, charlie: User, group: Group) -> None:
    policies(alice, group, group_visibility="authenticated")
    seen = groups.get(charlie, group.pk)
    assert seen == MembershipContext(group, None)
    assert not any((seen.active, seen.manages, seen.administers, seen.sees_members))


@pytest.mark.parametrize("role", ["member", "manager"])
def test_only_admins_change_and_delete_a_group(alice: User, bob: User, group: Group, role: str) -> None:
    put(bob, group, "active", role)
    calls: list[Callable[[User], object]] = [
        lambda user: groups.update(user, group.pk, name="new"),
        lambda user: groups.set_policies(user, group.pk, Policies(join_requests=True)),
        lambda user: groups.delete(user, group.pk),
    ]
    for call in calls:
        with pytest.raises(GroupForbiddenError):
            call(bob)
    put(alice, group, "left", "admin")
    for call in calls:
        with pytest.raises(GroupNotFoundError):
            call(alice)


def test_with_the_group_goes_what_it_gave(alice: User, bob: User, group: Group) -> None:
    put(bob, group, "active")
    assert groups.of(bob) == [group.pk]
    groups.delete(alice, group.pk)
    assert groups.of(bob) == groups.of(alice) == []
    assert not Membership.objects.exists()


def test_my_groups_are_those_that_i_stand_so_to(alice: User, bob: User, group: Group) -> None:
    public = groups.create(alice, name="another", policies=Policies(group_visibility="authenticated")).group
    assert [one.group.name for one in groups.mine(alice)] == ["another", "beamline"]
    for status in MembershipStatus:
        put(bob, group, status)
        put(bob, public, status)
        found = [one.group for one in groups.mine(bob, [status])]
        assert found == ([public, group] if status in groups.LIVING else [public])
    assert groups.mine(bob) == []


def test_members_are_seen_by_managers_and_by_members_where_the_policy_says_so(
    alice: User, bob: User, charlie: User, group: Group
) -> None:
    put(bob, group, "active")
    put(charlie, group, "invited")
    put(make_user("dora"), group, "left")

    def seen(user: User) -> list[str]:
        return [row.user.username for row in groups.members(groups.get(user, group.pk))]

    assert seen(alice) == ["alice", "bob", "charlie", "dora"]
    for user in (bob, charlie):
        with pytest.raises(GroupForbiddenError):
            seen(user)
    policies(alice, group, group_members_visibility="members", group_visibility="authenticated")
    assert seen(bob) == ["alice", "bob"]
    for user in (charlie, make_user("eve")):
        with pytest.raises(GroupForbiddenError):
            seen(user)


def test_managers_count_who_stands_how(alice: User, bob: User, group: Group) -> None:
    put(bob, group, "active")
    put(make_user("dora"), group, "pending")
    assert groups.counts(bob) == {}
    found = groups.counts(alice)[group.pk]
    assert {status: number for status, number in found.items() if number} == {"active": 2, "pending": 1}
    assert set(found) == set(MembershipStatus)


def test_who_is_in_very_many_groups_makes_no_other(alice: User, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_GROUPS", 1)
    with pytest.raises(TooManyGroupsError):
        groups.create(alice, name="one more")


def test_the_groups_of_a_user_are_one_question(
    alice: User, group: Group, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        assert groups.of(alice) == [group.pk]


# ---- who comes and goes: the way through


def test_an_invitation_is_accepted_and_a_member_leaves(alice: User, bob: User, group: Group) -> None:
    assert act(alice, group, MembershipVerb.INVITE, bob, role=GroupRole.MANAGER) == ["invited"]
    assert groups.of(bob) == []
    assert act(bob, group, MembershipVerb.ACCEPT) == ["active"]
    assert activation_status(bob, group) == ("manager", "active")
    assert act(bob, group, MembershipVerb.LEAVE) == ["left"]
    assert activation_status(bob, group) == ("member", "left")
    assert act(alice, group, MembershipVerb.ADD, bob) == ["HAS_LEFT"]
    assert act(alice, group, MembershipVerb.INVITE, bob) == ["invited"]
    assert act(bob, group, MembershipVerb.DECLINE) == ["declined"]


def test_a_request_to_join_is_approved_or_rejected(alice: User, bob: User, charlie: User, group: Group) -> None:
    policies(alice, group, group_visibility="authenticated", join_requests=True)
    for user in (bob, charlie):
        assert act(user, group, MembershipVerb.REQUEST_JOIN) == ["pending"]
        assert act(user, group, MembershipVerb.REQUEST_JOIN) == ["MEMBERSHIP_EXISTS"]
    assert act(alice, group, MembershipVerb.INVITE, bob) == ["WRONG_STATUS"]
    assert act(alice, group, MembershipVerb.APPROVE, bob) == ["active"]
    assert act(alice, group, MembershipVerb.REJECT, charlie) == ["rejected"]
    assert activation_status(bob, group) == ("member", "active")
    assert act(charlie, group, MembershipVerb.REQUEST_JOIN) == ["pending"]


def test_nobody_comes_in_where_nobody_may_ask(alice: User, bob: User, group: Group) -> None:
    policies(alice, group, group_visibility="authenticated")
    assert act(bob, group, MembershipVerb.REQUEST_JOIN) == ["FORBIDDEN"]
    assert act(bob, group, MembershipVerb.JOIN) == ["FORBIDDEN"]
    policies(alice, group, join_requests=True)
    assert act(bob, group, MembershipVerb.JOIN) == ["FORBIDDEN"]
    assert activation_status(bob, group) is None
    act(alice, group, MembershipVerb.INVITE, bob)
    assert act(bob, group, MembershipVerb.JOIN) == ["active"]


def test_adding_needs_no_answer_but_that_the_user_allows_it(
    alice: User, bob: User, charlie: User, group: Group
) -> None:
    groups.set_allows_adding(charlie, False)
    assert (groups.allows_adding(bob), groups.allows_adding(charlie)) == (True, False)
    assert act(alice, group, MembershipVerb.ADD, bob, charlie) == ["active", "ADD_NOT_ALLOWED"]
    assert act(alice, group, MembershipVerb.ADD, bob) == ["MEMBERSHIP_EXISTS"]
    assert act(alice, group, MembershipVerb.INVITE, bob, charlie) == ["MEMBERSHIP_EXISTS", "invited"]
    groups.set_allows_adding(charlie, True)
    assert act(alice, group, MembershipVerb.ADD, charlie) == ["active"]


def test_who_is_removed_is_given_nothing_any_more(alice: User, bob: User, charlie: User, group: Group) -> None:
    put(bob, group, "active", "manager")
    put(charlie, group, "invited")
    assert act(alice, group, MembershipVerb.REMOVE, bob, charlie) == ["removed", "removed"]
    assert activation_status(bob, group) == ("member", "removed")
    assert groups.of(bob) == []
    assert act(alice, group, MembershipVerb.REMOVE, bob, alice) == ["WRONG_STATUS", "FORBIDDEN"]


# ---- what each may do


def test_managers_let_members_in_and_make_nobody_more_than_that(
    alice: User, bob: User, charlie: User, group: Group
) -> None:
    put(bob, group, "active", "manager")
    for role in (GroupRole.MANAGER, GroupRole.ADMIN):
        assert act(bob, group, MembershipVerb.ADD, charlie, role=role) == ["FORBIDDEN"]
        assert act(bob, group, MembershipVerb.INVITE, charlie, role=role) == ["FORBIDDEN"]
    assert act(bob, group, MembershipVerb.ADD, charlie) == ["active"]
    with pytest.raises(GroupForbiddenError):
        act(bob, group, MembershipVerb.CHANGE_ROLE, charlie, role=GroupRole.MANAGER)
    assert act(alice, group, MembershipVerb.CHANGE_ROLE, charlie, role=GroupRole.MANAGER) == ["active"]
    assert act(bob, group, MembershipVerb.REMOVE, alice, charlie) == ["FORBIDDEN", "removed"]


@pytest.mark.parametrize("role", [GroupRole.ADMIN, GroupRole.MANAGER])
@pytest.mark.parametrize("verb", [MembershipVerb.INVITE, MembershipVerb.ADD])
def test_a_manager_does_not_undo_what_an_admin_has_offered(
    alice: User, bob: User, charlie: User, group: Group, role: GroupRole, verb: MembershipVerb
) -> None:
    put(bob, group, "active", "manager")
    assert act(alice, group, MembershipVerb.INVITE, charlie, role=role) == ["invited"]
    assert act(bob, group, verb, charlie) == ["FORBIDDEN"]
    assert activation_status(charlie, group) == (role, "invited")
    assert act(alice, group, MembershipVerb.INVITE, charlie) == ["invited"]
    assert act(bob, group, verb, charlie) == ["invited" if verb is MembershipVerb.INVITE else "active"]


@pytest.mark.parametrize("verb", sorted(set(MembershipVerb) - group_memberships.OWN))
def test_members_and_strangers_do_nothing_to_others(
    alice: User, bob: User, charlie: User, group: Group, verb: MembershipVerb
) -> None:
    put(bob, group, "active")
    with pytest.raises(GroupForbiddenError):
        act(bob, group, verb, charlie)
    with pytest.raises(GroupNotFoundError):
        act(charlie, group, verb, bob)
    for status in ("invited", "pending"):
        put(charlie, group, status, "admin")
        with pytest.raises(GroupForbiddenError):
            act(charlie, group, verb, bob)


@pytest.mark.parametrize("verb", sorted(group_memberships.OWN))
def test_nobody_answers_for_another(alice: User, bob: User, group: Group, verb: MembershipVerb) -> None:
    for status in MembershipStatus:
        put(bob, group, status)
        assert act(alice, group, verb, bob) == ["FORBIDDEN"]
        assert activation_status(bob, group) == ("member", status)


@pytest.mark.parametrize(
    ("verb", "right"),
    [
        (MembershipVerb.ACCEPT, {"invited"}),
        (MembershipVerb.DECLINE, {"invited"}),
        (MembershipVerb.LEAVE, {"active"}),
        (MembershipVerb.APPROVE, {"pending"}),
        (MembershipVerb.REJECT, {"pending"}),
        (MembershipVerb.REMOVE, {"active", "invited"}),
        (MembershipVerb.CHANGE_ROLE, {"active"}),
    ],
)
def test_an_action_wants_the_membership_that_it_is_about(
    alice: User, bob: User, group: Group, verb: MembershipVerb, right: set[str]
) -> None:
    policies(alice, group, group_visibility="authenticated")
    actor = bob if verb in group_memberships.OWN else alice
    assert act(actor, group, verb, bob) == ["WRONG_STATUS"]
    done = set()
    for status in MembershipStatus:
        put(bob, group, status)
        if act(actor, group, verb, bob) != ["WRONG_STATUS"]:
            done.add(str(status))
    assert done == right


def test_the_last_admin_stays(alice: User, bob: User, group: Group) -> None:
    assert act(alice, group, MembershipVerb.LEAVE) == ["LAST_ADMIN"]
    assert act(alice, group, MembershipVerb.CHANGE_ROLE, alice, role=GroupRole.MANAGER) == ["LAST_ADMIN"]
    assert act(alice, group, MembershipVerb.CHANGE_ROLE, alice, role=GroupRole.ADMIN) == ["active"]
    put(bob, group, "invited", "admin")
    assert act(alice, group, MembershipVerb.LEAVE) == ["LAST_ADMIN"]
    act(bob, group, MembershipVerb.ACCEPT)
    assert act(alice, group, MembershipVerb.LEAVE) == ["left"]
    assert act(bob, group, MembershipVerb.LEAVE) == ["LAST_ADMIN"]


@pytest.mark.django_db(transaction=True)
def test_of_two_admins_who_leave_at_once_one_stays(alice: User, bob: User, group: Group) -> None:
    put(bob, group, "active", "admin")
    found = all_at_once([partial(act, user, group, MembershipVerb.LEAVE) for user in (alice, bob)])
    assert sorted(found) == [["LAST_ADMIN"], ["left"]]


def test_the_actions_that_are_reported_to_be_possible_are(alice: User, bob: User, group: Group) -> None:
    policies(alice, group, group_visibility="authenticated", join_requests=True)

    def told(user: User) -> set[str]:
        return set(group_memberships.allowed(user, groups.get(user, group.pk)))

    others = {"add", "approve", "invite", "reject", "remove"}
    assert told(alice) == others | {"change_role", "leave"}
    assert told(bob) == {"request_join"}
    put(bob, group, "invited")
    assert told(bob) == {"accept", "decline", "join"}
    put(bob, group, "active", "manager")
    assert told(bob) == others | {"leave"}
    put(bob, group, "pending")
    assert told(bob) == set()


# ---- many in one request


def test_one_refusal_holds_up_no_other(alice: User, bob: User, charlie: User, group: Group) -> None:
    nobody, gone = User(username="never"), make_user("gone")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    found = act(alice, group, MembershipVerb.ADD, bob, nobody, gone, charlie)
    assert found == ["active", "IDENTITY_NOT_FOUND", "IDENTITY_NOT_FOUND", "active"]


def test_a_right_that_is_missing_refuses_the_whole_request(alice: User, bob: User, charlie: User, group: Group) -> None:
    put(bob, group, "active", "manager")
    both = [MembershipAction(MembershipVerb.ADD, charlie.pk), MembershipAction(MembershipVerb.CHANGE_ROLE, alice.pk)]
    with pytest.raises(GroupForbiddenError):
        group_memberships.act(bob, group.pk, both)
    assert activation_status(charlie, group) is None


def test_a_request_is_bounded_and_names_each_once(alice: User, bob: User, group: Group) -> None:
    twice = [MembershipAction(MembershipVerb.ADD, bob.pk), MembershipAction(MembershipVerb.INVITE, bob.pk)]
    many = [MembershipAction(MembershipVerb.ADD, uuid.uuid4()) for _ in range(group_memberships.MAX_ACTIONS + 1)]
    for actions in ([], twice, many):
        with pytest.raises(GroupInvalidError):
            group_memberships.act(alice, group.pk, actions)
    assert activation_status(bob, group) is None


def test_a_group_is_full_one_day(alice: User, bob: User, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_memberships, "MAX_MEMBERS", 2)
    dora = make_user("dora")
    assert act(alice, group, MembershipVerb.ADD, bob, dora) == ["active", "LIMIT_EXCEEDED"]
    assert act(alice, group, MembershipVerb.INVITE, dora) == ["LIMIT_EXCEEDED"]
    policies(alice, group, group_visibility="authenticated", join_requests=True)
    assert act(dora, group, MembershipVerb.REQUEST_JOIN) == ["LIMIT_EXCEEDED"]
    assert act(bob, group, MembershipVerb.LEAVE) == ["left"]
    assert act(dora, group, MembershipVerb.REQUEST_JOIN) == ["pending"]


def test_a_request_costs_the_same_questions_before_its_rows(
    alice: User, group: Group, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    people = [make_user(f"user{number}") for number in range(5)]
    with django_assert_max_num_queries(9 + len(people)):
        act(alice, group, MembershipVerb.ADD, *people)


# ---- details that members give of themselves


def test_a_group_wants_to_know_before_it_lets_in(alice: User, bob: User, charlie: User, group: Group) -> None:
    policies(alice, group, group_visibility="authenticated", join_requests=True, signup_fields=["institution", "city"])
    assert act(bob, group, MembershipVerb.REQUEST_JOIN) == ["FIELDS_MISSING"]
    assert act(bob, group, MembershipVerb.REQUEST_JOIN, city="x" * 257, institution="y") == ["FIELDS_INVALID"]
    assert act(bob, group, MembershipVerb.REQUEST_JOIN, city="Oslo", institution="Example", shoe_size=44) == ["pending"]
    assert Membership.objects.get(user=bob).fields == {"institution": "Example", "city": "Oslo"}
    assert act(alice, group, MembershipVerb.INVITE, charlie) == ["invited"]
    assert act(charlie, group, MembershipVerb.ACCEPT) == ["FIELDS_MISSING"]
    groups.set_fields(charlie, group.pk, {"institution": "Example", "city": "Bergen"})
    assert act(charlie, group, MembershipVerb.ACCEPT) == ["active"]


def test_only_who_is_joining_may_answer_the_questions_of_a_group(alice: User, bob: User, group: Group) -> None:
    policies(alice, group, group_visibility="authenticated")
    with pytest.raises(GroupForbiddenError):
        groups.set_fields(bob, group.pk, {"city": "Oslo"})
    put(bob, group, "left")
    with pytest.raises(GroupForbiddenError):
        groups.set_fields(bob, group.pk, {"city": "Oslo"})
    for wrong in (7, "a\nb", ["Oslo"]):
        with pytest.raises(GroupInvalidError):
            groups.set_fields(alice, group.pk, {"city": wrong})
    groups.set_fields(alice, group.pk, {"city": "Oslo", "state": "", "zip": None})
    assert Membership.objects.get(user=alice).fields == {"city": "Oslo"}
