"""Permissions of each user on an endpoint and on its shares."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from endpoints import permissions, registry
from endpoints.errors import EndpointNotFoundError
from endpoints.models import AccessRule, Endpoint, Role
from endpoints.permissions import Permission, RoleName, may
from identity.models import Group, Membership, User

pytestmark = pytest.mark.django_db

DATA = {Permission.BROWSE, Permission.WRITE, Permission.TRANSFER_FROM, Permission.TRANSFER_TO}
READ = {Permission.VIEW, Permission.BROWSE, Permission.TRANSFER_FROM}
ON_SHARES = set(Permission) - {Permission.ACTIVATE, Permission.SHARE}


@pytest.fixture
def share(alice: User, ep1: Endpoint) -> Endpoint:
    """alice's, of her ep1."""
    return Endpoint.objects.create(owner=alice, name="share", host=ep1, host_path="/shared/")


def verbs(user: User, endpoint: Endpoint) -> set[Permission]:
    """Permissions of the user on the endpoint as the database has it now."""
    fresh = Endpoint.objects.select_related("owner", "host__owner").get(pk=endpoint.pk)
    return {verb for verb in Permission if may(user, verb, fresh)}


def give(share: Endpoint, to: User | Group | str, permissions: str = "r", path: str = "/", **more: Any) -> AccessRule:
    kind = to if isinstance(to, str) else "identity" if isinstance(to, User) else "group"
    principal = None if isinstance(to, str) else to.pk
    return AccessRule.objects.create(
        endpoint=share, principal_type=kind, principal=principal, path=path, permissions=permissions, **more
    )


def appoint(endpoint: Endpoint, who: User | Group, role: str) -> Role:
    kind = "identity" if isinstance(who, User) else "group"
    return Role.objects.create(endpoint=endpoint, principal_type=kind, principal=who.pk, role=role)


def group_of(*members: User, status: str = "active") -> Group:
    group = Group.objects.create(name="people")
    for member in members:
        Membership.objects.create(group=group, user=member, status=status)
    return group


# ---- endpoints that are no shares


@pytest.mark.parametrize(
    ("role", "wanted"),
    [
        (RoleName.ADMINISTRATOR, set(Permission)),
        (RoleName.ACTIVITY_MANAGER, {Permission.VIEW, Permission.OVERSEE, Permission.CONTROL}),
        (RoleName.ACTIVITY_MONITOR, {Permission.VIEW, Permission.OVERSEE}),
    ],
)
def test_a_role_gives_what_it_is_for(
    bob: User, charlie: User, ep1: Endpoint, role: str, wanted: set[Permission]
) -> None:
    appoint(ep1, bob, role)
    assert verbs(bob, ep1) == wanted
    assert verbs(charlie, ep1) == set()
    appoint(ep1, group_of(charlie), role)
    assert verbs(charlie, ep1) == wanted


def test_a_role_at_one_endpoint_is_none_at_another(bob: User, ep1: Endpoint, ep2: Endpoint) -> None:
    appoint(ep1, bob, RoleName.ADMINISTRATOR)
    assert verbs(bob, ep2) == set()


def test_nobody_shares_folders_of_a_public_endpoint_but_those_who_run_it(
    bob: User, public: Endpoint, alice: User
) -> None:
    assert Permission.SHARE not in verbs(alice, public)
    assert Permission.SHARE in verbs(bob, public)


def test_all_share_folders_of_a_public_endpoint_whose_owner_allows_it(
    alice: User, bob: User, charlie: User, public: Endpoint
) -> None:
    public.allow_guest_collections = True
    public.save()
    mine = Endpoint.objects.create(owner=alice, name="mine", host=public, host_path="/mine/")
    give(mine, charlie)
    assert verbs(charlie, mine) == READ
    public.allow_guest_collections = False
    public.save()
    assert verbs(charlie, mine) == set()
    assert verbs(alice, mine) == verbs(bob, mine) == {Permission.VIEW, Permission.MANAGE}


def test_a_closed_endpoint_lets_nobody_share_by_a_word_alone(bob: User, ep1: Endpoint) -> None:
    ep1.allow_guest_collections = True
    assert verbs(bob, ep1) == set()


# ---- shares


def test_the_owner_of_a_share_does_all_but_what_is_done_at_its_host(alice: User, share: Endpoint) -> None:
    assert verbs(alice, share) == ON_SHARES


def test_without_a_rule_there_is_nothing(bob: User, charlie: User, share: Endpoint) -> None:
    give(share, charlie)
    assert verbs(bob, share) == set()


def test_rules_add_up(bob: User, share: Endpoint) -> None:
    give(share, bob, "r", "/a/")
    assert verbs(bob, share) == READ
    give(share, bob, "rw", "/b/")
    assert verbs(bob, share) == DATA | {Permission.VIEW}


@pytest.mark.parametrize("everybody", ["all_authenticated_users", "anonymous"])
def test_what_is_for_everybody_is_for_each(bob: User, charlie: User, share: Endpoint, everybody: str) -> None:
    give(share, everybody, "rw")
    assert verbs(bob, share) == verbs(charlie, share) == DATA | {Permission.VIEW}


@pytest.mark.parametrize("status", ["invited", "pending", "rejected", "removed", "left", "declined"])
def test_only_active_members_of_a_group_have_what_it_is_given(
    bob: User, charlie: User, share: Endpoint, status: str
) -> None:
    group = group_of(bob)
    Membership.objects.create(group=group, user=charlie, status=status)
    give(share, group, "rw")
    appoint(share, group, RoleName.ACTIVITY_MONITOR)
    assert verbs(bob, share) == DATA | {Permission.VIEW, Permission.OVERSEE}
    assert verbs(charlie, share) == set()
    Membership.objects.filter(user=bob).update(status=status)
    assert verbs(bob, share) == set()


def test_the_id_of_a_user_is_not_taken_for_that_of_a_group(bob: User, share: Endpoint) -> None:
    group = Group.objects.create(id=bob.pk, name="of the same id")
    give(share, group, "rw")
    appoint(share, group, RoleName.ADMINISTRATOR)
    assert verbs(bob, share) == set()


def test_a_rule_ends_with_its_day(bob: User, share: Endpoint) -> None:
    now = timezone.now()
    rule = give(share, bob, expires_at=now + timedelta(hours=1))
    assert verbs(bob, share) == READ
    assert permissions.active_rules(bob, share, now + timedelta(minutes=59)) == [rule]
    assert permissions.active_rules(bob, share, now + timedelta(hours=1)) == []
    AccessRule.objects.filter(pk=rule.pk).update(expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert verbs(bob, share) == set()


@pytest.mark.parametrize(
    ("role", "wanted"),
    [
        (RoleName.ADMINISTRATOR, ON_SHARES),
        (RoleName.ACCESS_MANAGER, DATA | {Permission.VIEW, Permission.GRANT}),
        (RoleName.ACTIVITY_MANAGER, {Permission.VIEW, Permission.OVERSEE, Permission.CONTROL}),
        (RoleName.ACTIVITY_MONITOR, {Permission.VIEW, Permission.OVERSEE}),
    ],
)
def test_roles_on_a_share(bob: User, share: Endpoint, ep1: Endpoint, role: str, wanted: set[Permission]) -> None:
    appoint(share, bob, role)
    assert verbs(bob, share) == wanted
    assert verbs(bob, ep1) == set()


@pytest.mark.parametrize(
    ("role", "wanted"),
    [
        (RoleName.ADMINISTRATOR, {Permission.VIEW, Permission.OVERSEE, Permission.CONTROL, Permission.MANAGE}),
        (RoleName.ACTIVITY_MANAGER, {Permission.VIEW, Permission.OVERSEE, Permission.CONTROL}),
        (RoleName.ACTIVITY_MONITOR, {Permission.VIEW, Permission.OVERSEE}),
    ],
)
def test_those_who_run_the_host_do_not_read_what_others_share_of_it(
    bob: User, share: Endpoint, ep1: Endpoint, role: str, wanted: set[Permission]
) -> None:
    appoint(ep1, bob, role)
    assert verbs(bob, share) == wanted


def test_who_uses_a_public_host_sees_nothing_of_what_is_shared_from_it(
    alice: User, bob: User, public: Endpoint
) -> None:
    share = Endpoint.objects.create(owner=bob, name="share", host=public, host_path="/shared/")
    assert verbs(alice, share) == set()


def test_a_public_share_is_seen_by_all_and_read_by_those_with_a_rule(bob: User, charlie: User, share: Endpoint) -> None:
    Endpoint.objects.filter(pk=share.pk).update(public=True)
    assert verbs(bob, share) == {Permission.VIEW}
    give(share, bob, "rw")
    assert verbs(bob, share) == DATA | {Permission.VIEW}
    assert verbs(charlie, share) == {Permission.VIEW}


def test_a_user_who_is_shut_out_may_nothing_and_lets_nobody_in(alice: User, bob: User, share: Endpoint) -> None:
    give(share, bob, "rw")
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert verbs(User.objects.get(pk=bob.pk), share) == set()
    User.objects.update(is_active=True)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert verbs(User.objects.get(pk=bob.pk), share) == set()


def test_a_share_of_a_deleted_host_is_nobodys_but_its_owners(
    alice: User, bob: User, share: Endpoint, ep1: Endpoint
) -> None:
    give(share, bob, "rw")
    Endpoint.objects.filter(pk=ep1.pk).update(deleted_at=timezone.now())
    assert verbs(alice, share) == {Permission.VIEW, Permission.MANAGE}
    assert verbs(bob, share) == set()
    Endpoint.objects.filter(pk=share.pk).update(deleted_at=timezone.now())
    assert verbs(alice, share) == set()


def test_a_share_sleeps_while_its_host_does_not_let_its_owner_in(
    alice: User, bob: User, charlie: User, ep1: Endpoint
) -> None:
    role = appoint(ep1, bob, RoleName.ADMINISTRATOR)
    share = Endpoint.objects.create(owner=bob, name="share", host=ep1, host_path="/shared/")
    give(share, charlie, "rw")
    appoint(share, charlie, RoleName.ADMINISTRATOR)
    assert verbs(bob, share) == verbs(charlie, share) == ON_SHARES
    role.delete()
    assert verbs(charlie, share) == set()
    # Its owner, and who runs the host, can still take it away.
    assert verbs(bob, share) == verbs(alice, share) == {Permission.VIEW, Permission.MANAGE}
    appoint(ep1, bob, RoleName.ACTIVITY_MANAGER)
    assert verbs(charlie, share) == set()
    Endpoint.objects.filter(pk=ep1.pk).update(public=True)
    assert verbs(charlie, share) == set()
    Endpoint.objects.filter(pk=ep1.pk).update(allow_guest_collections=True)
    assert verbs(charlie, share) == ON_SHARES


def test_deleting_a_host_deletes_what_is_shared_from_it(alice: User, bob: User, share: Endpoint, ep1: Endpoint) -> None:
    give(share, bob)
    registry.delete(alice, "ep1")
    for user in (alice, bob):
        with pytest.raises(EndpointNotFoundError):
            registry.resolve(user, str(share.pk), Permission.VIEW)
    share.refresh_from_db()
    assert share.deleted_at is not None


def test_a_rule_for_nobody_opens_nothing(bob: User, share: Endpoint) -> None:
    AccessRule.objects.create(
        endpoint=share, principal_type="identity", principal=uuid.uuid4(), path="/", permissions="rw"
    )
    assert verbs(bob, share) == set()
