"""Access rules over REST: given, shown, changed, taken back."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from endpoints.models import AccessRule, Endpoint, Role
from endpoints.sharing import access_rules
from endpoints.sharing.access_rules import RuleSpec
from identity.models import Group, Membership, User
from tests.integration.cast import all_at_once, make_endpoint, make_user
from tests.integration.rest import Answer, Api, assert_error
from tests.integration.shared import give, make_share
from transferapi.tasks.models import Mail
from transferapi.tasks.notify.mails import task as task_mails

pytestmark = pytest.mark.django_db

ACCESS = "/endpoint/share/access"


@pytest.fixture
def share(alice: User, ep1: Endpoint) -> Endpoint:
    return make_share(ep1, "share")


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


def create(api: Api, **more: object) -> Answer:
    document = {"DATA_TYPE": "access", "principal_type": "all_authenticated_users", "path": "/", "permissions": "r"}
    return api.post(ACCESS, {**document, **more})


def rows(api: Api) -> list[dict[str, object]]:
    found: list[dict[str, object]] = api.get("/endpoint/share/access_list").body["DATA"]
    return found


def test_a_rule_is_given_shown_changed_and_taken_back(api: Api, alice: User, bob: User, share: Endpoint) -> None:
    answer = create(
        api, principal_type="identity", principal=str(bob.pk), path="/~/in//deep", permissions="rw",
        expiration_date="2090-01-31T00:00:00Z",
    )  # fmt: skip
    assert answer.status == 201
    assert (answer.body["DATA_TYPE"], answer.body["code"]) == ("access_create_result", "Created")
    one = f"{ACCESS}/{answer.body['access_id']}"
    shown = api.get(one).body
    assert shown.pop("create_time")
    assert shown == {
        "DATA_TYPE": "access", "id": answer.body["access_id"], "principal_type": "identity",
        "principal": str(bob.pk), "path": "/in/deep/", "permissions": "rw",
        "expiration_date": "2090-01-31T00:00:00+00:00", "notify_email": None, "notify_message": None,
        "role_id": None, "role_type": None,
    }  # fmt: skip
    assert AccessRule.objects.get().created_by == alice
    changed = api.put(one, {"DATA_TYPE": "access", "permissions": "r"})
    assert (changed.status, changed.body["code"]) == (200, "Updated")
    assert (api.get(one).body["permissions"], api.get(one).body["expiration_date"]) == (
        "r",
        "2090-01-31T00:00:00+00:00",
    )
    # A document that was read can be written back; null removes the date.
    assert api.put(one, api.get(one).body).status == 200
    assert api.put(one, {**api.get(one).body, "expiration_date": None}).status == 200
    assert api.get(one).body["expiration_date"] is None
    assert Api(bob).get(f"/endpoint/{share.pk}").status == 200
    assert api.delete(one).body["code"] == "Deleted"
    assert_error(api.get(one), 404, "ClientError.NotFound")
    assert_error(api.delete(one), 404, "ClientError.NotFound")
    assert_error(Api(bob).get(f"/endpoint/{share.pk}"), 404, "EndpointNotFound")


def test_a_list_shows_first_who_needs_no_rule_by_a_role(
    api: Api, alice: User, bob: User, charlie: User, share: Endpoint
) -> None:
    manager = Role.objects.create(endpoint=share, principal_type="identity", principal=bob.pk, role="access_manager")
    Role.objects.create(endpoint=share, principal_type="identity", principal=charlie.pk, role="activity_monitor")
    rule = give(share, charlie, "/in/")
    listed = api.get("/endpoint/share/access_list").body
    assert (listed["DATA_TYPE"], listed["length"], listed["endpoint"]) == ("access_list", 3, str(share.pk))
    owner, managing, given = listed["DATA"]
    for row, role_type, principal in ((owner, "administrator", alice), (managing, "access_manager", bob)):
        assert (row["id"], row["path"], row["permissions"]) == (None, "/", "rw")
        assert (row["role_type"], row["principal"]) == (role_type, str(principal.pk))
    assert managing["role_id"] == str(manager.pk)
    assert api.get(f"/endpoint/share/role/{owner['role_id']}").body["principal"] == str(alice.pk)
    assert (given["id"], given["role_id"]) == (str(rule.pk), None)
    # An access manager sees and gives as the owner does; others do not.
    assert Api(bob).get(f"/endpoint/{share.pk}/access_list").body["DATA"] == listed["DATA"]
    assert_error(Api(charlie).get(f"/endpoint/{share.pk}/access_list"), 403, "PermissionDenied")


def test_rules_may_be_for_groups_and_for_everybody(api: Api, bob: User, charlie: User, share: Endpoint) -> None:
    group = Group.objects.create(name="people")
    Membership.objects.create(group=group, user=bob, status="active")
    assert create(api, principal_type="group", principal=str(group.pk)).status == 201
    assert Api(bob).get(f"/endpoint/{share.pk}").status == 200
    assert_error(Api(charlie).get(f"/endpoint/{share.pk}"), 404)
    for everybody in ("all_authenticated_users", "anonymous"):
        for principal in ("", None):
            answer = create(api, principal_type=everybody, principal=principal, path=f"/{principal}/")
            assert answer.status == 201, answer.body
            assert api.get(f"{ACCESS}/{answer.body['access_id']}").body["principal"] == ""
    assert Api(charlie).get(f"/endpoint/{share.pk}").status == 200


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"principal_type": "user"}, "principal_type"), ({"principal_type": None}, "principal_type"),
        ({"principal_type": "identity"}, "principal"),
        ({"principal_type": "identity", "principal": "bob"}, "principal"),
        ({"principal_type": "identity", "principal": str(uuid.UUID(int=9))}, "principal"),
        ({"principal_type": "group", "principal": str(uuid.UUID(int=9))}, "principal"),
        ({"principal": str(uuid.UUID(int=9))}, "principal"),
        ({"path": None}, "path"), ({"path": "in"}, "path"), ({"path": "/in/.."}, "path"), ({"path": "/\udcff"}, "path"),
        ({"path": "/" + "x/" * 3000}, "path"), ({"path": ["/"]}, "path"),
        ({"permissions": "w"}, "permissions"), ({"permissions": "RW"}, "permissions"),
        ({"permissions": None}, "permissions"),
        ({"expiration_date": "2020-01-01"}, "expiration_date"), ({"expiration_date": "soon"}, "expiration_date"),
        ({"notify_email": "nobody"}, "notify_email"),
        ({"notify_email": "a@example.org\nBcc: b@example.org"}, "notify_email"),
        ({"notify_message": "x" * 3000}, "notify_message"),
        ({"notify_message": "\x1b[0m"}, "notify_message"), ({"DATA_TYPE": "role"}, "DATA_TYPE"),
    ],
)  # fmt: skip
def test_what_makes_no_rule_is_refused_by_name(api: Api, share: Endpoint, more: dict[str, object], named: str) -> None:
    answer = create(api, **more)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(f"{named}:")
    assert not AccessRule.objects.exists()


def test_a_user_who_is_shut_out_is_given_nothing(api: Api, bob: User, share: Endpoint) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert_error(create(api, principal_type="identity", principal=str(bob.pk)), 400, "ClientError.BadRequest")


def test_one_principal_has_one_rule_for_a_path(api: Api, bob: User, share: Endpoint) -> None:
    assert create(api, path="/in").status == 201
    for path in ("/in", "/in/", "/~/in", "//in//"):
        assert_error(create(api, path=path, permissions="rw"), 409, "Exists")
    assert create(api, path="/in", principal_type="identity", principal=str(bob.pk)).status == 201
    assert create(api, path="/in/deeper").status == 201


def test_a_share_has_a_bounded_number_of_rules(api: Api, share: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    assert access_rules.MAX_RULES == 1000
    monkeypatch.setattr(access_rules, "MAX_RULES", 2)
    assert [create(api, path=f"/{number}").status for number in range(2)] == [201, 201]
    assert_error(create(api, path="/2"), 409, "ClientError.LimitExceeded")


def test_rules_that_are_given_at_one_moment_do_not_exceed_it(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = make_user("alice")
    share = make_share(make_endpoint(alice, "ep1"), "share")
    monkeypatch.setattr(access_rules, "MAX_RULES", 3)

    def one(number: int) -> AccessRule:
        return access_rules.create(alice, str(share.pk), RuleSpec("anonymous", None, f"/{number}/", "r"))

    all_at_once([lambda number=number: one(number) for number in range(8)])  # type: ignore[misc]
    assert AccessRule.objects.count() == 3


def test_there_are_rules_on_shared_endpoints_only(api: Api, ep1: Endpoint) -> None:
    for answer in (
        api.get("/endpoint/ep1/access_list"),
        api.post("/endpoint/ep1/access", {"principal_type": "anonymous", "path": "/", "permissions": "r"}),
    ):
        assert_error(answer, 400, "ClientError.BadRequest")
        assert "not a shared endpoint" in answer.body["message"]


@pytest.mark.parametrize(
    "change",
    [{"path": "/other/"}, {"principal": str(uuid.UUID(int=9))}, {"principal_type": "anonymous"}],
    ids=["path", "principal", "principal_type"],
)
def test_whom_a_rule_is_for_and_where_stays(api: Api, bob: User, share: Endpoint, change: dict[str, str]) -> None:
    rule = give(share, bob, "/in/")
    answer = api.put(f"{ACCESS}/{rule.pk}", {**change, "permissions": "rw"})
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(f"{next(iter(change))}:")
    rule.refresh_from_db()
    assert rule.permissions == "r"
    assert api.put(f"{ACCESS}/{rule.pk}", {"path": "/in", "permissions": "rw"}).status == 200


def test_a_rule_does_not_end_in_the_past(api: Api, bob: User, share: Endpoint) -> None:
    rule = give(share, bob, expires_at=timezone.now() - timedelta(days=1))
    one = f"{ACCESS}/{rule.pk}"
    assert_error(api.put(one, {"expiration_date": "2020-01-01"}), 400, "ClientError.BadRequest")
    assert_error(Api(bob).get(f"/endpoint/{share.pk}"), 404)
    assert [row["id"] for row in rows(api)][1:] == [str(rule.pk)]
    assert api.put(one, {"expiration_date": "2090-01-01"}).status == 200
    assert Api(bob).get(f"/endpoint/{share.pk}").status == 200


def test_a_rule_of_one_share_is_not_found_at_another(api: Api, bob: User, share: Endpoint, ep1: Endpoint) -> None:
    rule = give(make_share(ep1, "other"), bob)
    for ref in (str(rule.pk), "x", "0", str(uuid.uuid4())):
        for answer in (api.get(f"{ACCESS}/{ref}"), api.put(f"{ACCESS}/{ref}", {}), api.delete(f"{ACCESS}/{ref}")):
            assert_error(answer, 404, "ClientError.NotFound")
    assert AccessRule.objects.count() == 1


def test_who_has_access_may_not_give_any(bob: User, charlie: User, share: Endpoint) -> None:
    rule = give(share, bob, write=True)
    api, place = Api(bob), f"/endpoint/{share.pk}/access"
    document = {"principal_type": "identity", "principal": str(charlie.pk), "path": "/", "permissions": "r"}
    for answer in (api.post(place, document), api.put(f"{place}/{rule.pk}", {}), api.delete(f"{place}/{rule.pk}")):
        assert_error(answer, 403, "PermissionDenied")
    assert AccessRule.objects.count() == 1


# ---- mails


@pytest.fixture
def bobs_address(bob: User) -> str:
    bob.email = "bob@example.org"
    bob.save()
    return bob.email


def test_a_user_gets_a_mail_of_a_new_rule_where_that_is_requested(
    api: Api, bob: User, share: Endpoint, bobs_address: str
) -> None:
    to_bob = {"principal_type": "identity", "principal": str(bob.pk)}
    create(api, **to_bob, path="/quiet/")
    assert not Mail.objects.exists()
    create(
        api, **to_bob, path="/in/", permissions="rw", notify_email="Bob@Example.org",
        notify_message="Have fun!\nalice", expiration_date="2090-01-31",
    )  # fmt: skip
    mail = Mail.objects.get()
    assert mail.user == bob
    assert mail.subject == "Waybill: alice shares alice#share with you"
    for words in ("read and change the folder /in/", "Have fun!", str(share.pk), "2090-01-31 00:00:00 UTC"):
        assert words in mail.body
    assert str(share.host_id) not in mail.body
    assert "/shared" not in mail.body


def test_mail_goes_to_nobody_whom_the_rule_is_not_for(
    api: Api, bob: User, charlie: User, share: Endpoint, bobs_address: str
) -> None:
    group = Group.objects.create(name="people")
    Membership.objects.create(group=group, user=bob, status="invited")
    for principal_type, principal in (
        ("identity", str(charlie.pk)), ("group", str(group.pk)), ("all_authenticated_users", None), ("anonymous", None),
    ):  # fmt: skip
        answer = create(api, principal_type=principal_type, principal=principal, notify_email=bobs_address)
        assert answer.status == 201
    assert not Mail.objects.exclude(next_try_at=None).exists()
    Membership.objects.update(status="active")
    in_group = {"principal_type": "group", "principal": str(group.pk), "path": "/group/"}
    assert create(api, **in_group, notify_email=bobs_address).status == 201
    assert Mail.objects.exclude(next_try_at=None).get().user == bob


def test_no_answer_reveals_whose_an_address_is(
    api: Api, alice: User, bob: User, charlie: User, share: Endpoint, bobs_address: str
) -> None:
    """Not by its words, not by what is shown later, and not by how much is done for it."""
    User.objects.filter(pk=charlie.pk).update(email="charlie@example.org")
    told = []
    for number, address in enumerate((bobs_address, "charlie@example.org", "nobody@example.org")):
        rule = {"principal_type": "identity", "principal": str(bob.pk), "path": f"/{number}/"}
        with CaptureQueriesContext(connection) as queries:
            answer = create(api, **rule, notify_email=address)
        shown = api.get(f"/endpoint/{share.pk}/access/{answer.body['access_id']}").body
        assert shown["notify_email"] == address
        statements = [query["sql"].partition(" ")[0] for query in queries.captured_queries]
        told.append((answer.status, answer.body["message"], answer.body["code"], sorted(shown), statements))
    assert told[0] == told[1] == told[2]
    assert Mail.objects.exclude(next_try_at=None).count() == 1


def test_nobody_is_flooded_with_mails_of_new_rules(api: Api, bob: User, share: Endpoint, bobs_address: str) -> None:
    for number in range(task_mails.MAX_ACCESS_MAILS + 5):
        answer = create(
            api, principal_type="identity", principal=str(bob.pk), path=f"/{number}/", notify_email=bobs_address
        )
        assert answer.status == 201
    assert Mail.objects.count() == task_mails.MAX_ACCESS_MAILS
    Mail.objects.update(created_at=datetime.now(UTC) - timedelta(days=2))
    create(api, principal_type="identity", principal=str(bob.pk), path="/later/", notify_email=bobs_address)
    assert Mail.objects.count() == task_mails.MAX_ACCESS_MAILS + 1
