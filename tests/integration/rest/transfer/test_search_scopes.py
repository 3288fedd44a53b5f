"""The results of each scope of a search, which are exactly the endpoints that `permissions.may` lets the user view."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from endpoints import permissions, registry
from endpoints.models import AccessRule, Endpoint, Role
from endpoints.permissions import Permission, RoleName, may
from endpoints.registry import SearchFilters, SearchScope
from identity.models import Group, Membership, User
from tests.integration.cast import make_endpoint, make_user, submit
from tests.integration.rest import Api
from tests.integration.shared import give, make_share
from transferapi.tasks.models import Task

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(alice: User, bob: User, charlie: User) -> dict[str, Endpoint]:
    """alice's two endpoints and what is shared from them, bob's public one, and what charlie has."""
    made = {name: make_endpoint(alice, name) for name in ("ep1", "ep2")}
    made["public"] = make_endpoint(bob, "public", public=True)
    made["hers"] = make_share(made["ep1"], "hers")
    made["bobs"] = make_share(made["ep1"], "bobs")
    give(made["bobs"], bob)
    made["groups"] = make_share(made["ep1"], "groups")
    group = Group.objects.create(name="people")
    Membership.objects.create(group=group, user=bob, status="active")
    AccessRule.objects.create(
        endpoint=made["groups"], principal_type="group", principal=group.pk, path="/", permissions="r"
    )
    made["everybodys"] = make_share(made["ep2"], "everybodys")
    AccessRule.objects.create(
        endpoint=made["everybodys"], principal_type="all_authenticated_users", path="/", permissions="r"
    )
    made["managed"] = make_share(made["ep2"], "managed")
    Role.objects.create(
        endpoint=made["managed"], principal_type="identity", principal=bob.pk, role=RoleName.ADMINISTRATOR
    )
    Role.objects.create(endpoint=made["ep2"], principal_type="identity", principal=bob.pk, role="activity_monitor")
    return made


def found(user: User, scope: str = "all", **filters: object) -> set[str]:
    rows, more = registry.search(user, scope=SearchScope(scope), filters=SearchFilters(**filters))  # type: ignore[arg-type]
    assert not more
    return {row.name for row in rows}


def test_each_scope_holds_what_its_name_says(world: dict[str, Endpoint], alice: User, bob: User, charlie: User) -> None:
    shares = {"hers", "bobs", "groups", "everybodys", "managed"}
    assert found(alice) == {*world}
    assert found(bob) == {*world} - {"ep1", "hers"}
    assert found(charlie) == {"public", "everybodys"}
    assert found(alice, "my-endpoints") == {*world} - {"public"}
    assert found(alice, "my-gcp-endpoints") == {"ep1", "ep2"}
    assert found(alice, "shared-by-me") == shares
    assert found(alice, "shared-with-me") == set()
    assert found(alice, "administered-by-me") == {*world} - {"public"}
    assert found(bob, "my-endpoints") == found(bob, "my-gcp-endpoints") == {"public"}
    assert found(bob, "shared-by-me") == set()
    assert found(bob, "shared-with-me") == {"bobs", "groups", "managed"}
    assert found(bob, "administered-by-me") == {"public", "managed"}
    assert found(charlie, "shared-with-me") == found(charlie, "administered-by-me") == set()


def test_the_scopes_of_tasks_hold_the_endpoints_of_the_users_own_tasks(
    world: dict[str, Endpoint], alice: User, bob: User
) -> None:
    api, bobs = Api(alice), Api(bob)
    task = submit(alice, world["ep1"], world["ep2"])

    def names(api: Api, scope: str) -> set[str]:
        return {row["name"] for row in api.get("/endpoint_search", filter_scope=scope).body["DATA"]}

    assert names(api, "in-use") == names(api, "recently-used") == {"ep1", "ep2"}
    assert names(bobs, "in-use") == names(bobs, "recently-used") == set()
    assert api.get("/endpoint/ep1").body["in_use"] is True
    assert api.get("/endpoint/hers").body["in_use"] is False
    assert bobs.get("/endpoint/alice%23ep2").body["in_use"] is False
    Task.objects.filter(pk=task.pk).update(
        status="FAILED", phase="done", completion_time=timezone.now(), fatal_error_code="CANCELED"
    )
    assert names(api, "in-use") == set()
    assert names(api, "recently-used") == {"ep1", "ep2"}
    Task.objects.filter(pk=task.pk).update(request_time=timezone.now() - timedelta(days=40))
    assert names(api, "recently-used") == set()


def test_filters_narrow_a_search(world: dict[str, Endpoint], alice: User, bob: User) -> None:
    assert found(bob, owner_id=bob.pk) == {"public"}
    assert found(bob, entity_types=["GCP_guest_collection"]) == {"bobs", "groups", "everybodys", "managed"}
    assert found(bob, entity_types=["GCP_mapped_collection", "GCSv5_endpoint"]) == {"ep2", "public"}
    assert found(bob, entity_types=["GCSv5_endpoint"]) == set()
    assert found(alice, host=str(world["ep1"].pk)) == {"hers", "bobs", "groups"}
    assert found(alice, host="ep1") == found(alice, host="alice#ep1") == {"hers", "bobs", "groups"}
    # A host that the user may not view yields no results.
    assert found(bob, host=str(world["ep1"].pk)) == found(bob, host="alice#ep1") == set()
    assert found(bob, host="alice#ep2") == {"everybodys", "managed"}


def test_a_share_that_nobody_gets_at_is_distinguished_from_others(
    world: dict[str, Endpoint], alice: User, bob: User
) -> None:
    role = Role.objects.create(
        endpoint=world["ep1"], principal_type="identity", principal=bob.pk, role=RoleName.ADMINISTRATOR
    )
    make_share(world["ep1"], "sleepy", owner=bob)
    assert "sleepy" in found(bob, non_functional=False)
    role.delete()
    assert found(bob, non_functional=True) == found(alice, non_functional=True) == {"sleepy"}
    assert "sleepy" not in found(bob, non_functional=False)
    document = Api(bob).get("/endpoint/sleepy").body
    assert (document["non_functional"], document["non_functional_endpoint_id"]) == (True, str(world["ep1"].pk))


@pytest.mark.parametrize("seed", range(12))
def test_a_search_shows_what_its_user_may_view_and_nothing_else(db: None, seed: int) -> None:
    """Constellations of chance: the rule for rows is the rule for one endpoint."""
    chance = random.Random(seed)
    users = [make_user(f"user{number}") for number in range(5)]
    groups = [Group.objects.create(name=f"group{number}") for number in range(3)]
    statuses = ["active", "active", "invited", "left"]
    Membership.objects.bulk_create(
        Membership(group=group, user=user, status=chance.choice(statuses))
        for group in groups
        for user in users
        if chance.random() < 0.5
    )
    gone = datetime(2025, 1, 1, tzinfo=UTC)
    hosts, shares = [], []
    for number in range(8):
        host = Endpoint(owner=chance.choice(users), name=f"host{number}", public=chance.random() < 0.4)
        host.allow_guest_collections = chance.random() < 0.6
        host.deleted_at = gone if chance.random() < 0.15 else None
        hosts.append(host)
    for number in range(24):
        host = chance.choice(hosts)
        share = Endpoint(
            owner=host.owner if chance.random() < 0.5 else chance.choice(users),
            name=f"share{number}", host=host, host_path="/s/", public=chance.random() < 0.2,
        )  # fmt: skip
        share.deleted_at = gone if chance.random() < 0.1 else None
        shares.append(share)
    Endpoint.objects.bulk_create([*hosts, *shares])

    def principal() -> dict[str, object]:
        group = chance.random() < 0.4
        one = chance.choice(groups) if group else chance.choice(users)
        return {"principal_type": "group" if group else "identity", "principal": one.pk}

    Role.objects.bulk_create(
        (
            Role(endpoint=chance.choice([*hosts, *shares]), role=chance.choice(list(RoleName)), **principal())
            for _ in range(30)
        ),
        ignore_conflicts=True,
    )
    ends = [None, None, gone, datetime(2090, 1, 1, tzinfo=UTC)]
    for _ in range(25):
        to = {"principal_type": "all_authenticated_users"} if chance.random() < 0.1 else principal()
        rule = AccessRule(
            endpoint=chance.choice(shares), path="/", permissions="r", expires_at=chance.choice(ends), **to
        )
        AccessRule.objects.bulk_create([rule], ignore_conflicts=True)
    User.objects.filter(pk=chance.choice(users).pk).update(is_active=chance.random() < 0.5)

    rows = list(Endpoint.objects.select_related("owner", "host__owner"))
    non_functional = permissions.non_functional_among(rows)
    for user in User.objects.all():
        allowed = {row.pk for row in rows if may(user, Permission.VIEW, row)}
        shown = Endpoint.objects.filter(permissions.visible(user), deleted_at__isnull=True)
        assert set(shown.values_list("pk", flat=True)) == allowed
        assert shown.count() == len(allowed)
        assert {row.pk for row in registry.search(user)[0]} == allowed
        for scope in SearchScope:
            assert {row.pk for row in registry.search(user, scope=scope, among=[row.pk for row in rows])[0]} <= allowed
        held = permissions.roles_at(user, rows)
        assert held == {row.pk: permissions.roles(user, row) for row in rows}
    assert non_functional == {row.pk for row in rows if row.host_id and not permissions.is_functional(row)}


def test_a_page_of_shares_costs_a_handful_of_questions_however_long_it_is(alice: User, bob: User) -> None:
    api = Api(bob)
    host = make_endpoint(alice, "host", scheme="gsiftp")
    costs = []
    api.get("/submission_id")  # writes when the token was used last
    for number in range(1, 41):
        owner = make_user(f"user{number}")
        Role.objects.create(endpoint=host, principal_type="identity", principal=owner.pk, role="administrator")
        give(make_share(host, f"share{number}", owner=owner), bob)
        if number in (2, 40):
            with CaptureQueriesContext(
                connection,
            ) as asked:
                rows = api.get("/endpoint_search", filter_scope="shared-with-me").body["DATA"]
            assert len(rows) == number
            costs.append(len(asked))
    assert costs[0] == costs[1] <= 10
