"""A directory manages users and groups by SCIM (RFC 7643, RFC 7644), and nothing else."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
import redis
from django.test import Client

from deploy.stack.errors import StackError
from deploy.stack.redis import Redis
from identity import deactivation, group_memberships, groups, tokens
from identity.group_memberships import MembershipAction, MembershipVerb
from identity.groups import GroupForbiddenError
from identity.models import ApiToken, AuditEvent, Group, Membership, ScimToken, ScimUser, User
from identity.scim import clients
from tests.integration.deploy.test_key_commands import waybill
from transferapi.rest.http import parsing, rate_limit
from transferapi.rest.scim import filters
from transferapi.rest.scim.errors import MEDIA_TYPE, ScimRequestError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commands_here")]
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Directory:
    """A client of SCIM, as a directory is one."""

    def __init__(self, name: str = "entra", **more: Any) -> None:
        self.token = clients.make_token(name, **more).value
        self._client = Client(raise_request_exception=False)

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        kind: str = MEDIA_TYPE,
        **query: Any,
    ) -> tuple[int, Any]:
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        answer = self._client.generic(
            method,
            f"/scim/v2/{path}",
            data,
            kind,
            headers={"Authorization": f"Bearer {self.token}"},
            query_params=query,
        )
        assert answer.headers["Content-Type"] == MEDIA_TYPE
        found: Any = json.loads(answer.content) if answer.content else None
        if answer.status_code >= 400:
            assert found is not None
            assert found["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
            assert found["status"] == str(answer.status_code)
            assert found["detail"]
        return answer.status_code, found

    def user(self, name: str, /, **more: Any) -> dict[str, Any]:
        status, found = self("POST", "Users", {"schemas": [USER], "userName": name, **more})
        assert status == 201, found
        return dict(found)

    def group(self, name: str, /, *members: str, **more: Any) -> dict[str, Any]:
        rows = [{"value": one} for one in members]
        status, found = self("POST", "Groups", {"displayName": name, "members": rows, **more})
        assert status == 201, found
        return dict(found)

    def patch(self, path: str, *operations: dict[str, Any]) -> tuple[int, Any]:
        return self("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})

    def members(self, group: dict[str, Any]) -> set[str]:
        return {row["value"] for row in self("GET", f"Groups/{group['id']}")[1]["members"]}


@pytest.fixture
def entra(db: None) -> Directory:
    return Directory()


def test_a_directory_makes_finds_changes_and_ends_a_user(entra: Directory) -> None:
    made = entra.user(
        "carol",
        externalId="x1",
        name={"givenName": "Carol", "familyName": "Doe"},
        emails=[{"value": "home@example.org", "type": "home"}, {"value": "c@example.org", "primary": True}],
        active=True,
        nickName="C",
    )
    assert (made["displayName"], made["externalId"], made["active"]) == ("Carol Doe", "x1", True)
    assert made["emails"] == [{"value": "c@example.org", "type": "work", "primary": True}]
    one = f"Users/{made['id']}"
    assert made["meta"]["location"].endswith(f"/scim/v2/{one}")
    assert entra("GET", one) == (200, made)
    status, found = entra("PUT", one, {"userName": "carol", "displayName": "C. Doe", "active": "False"})
    assert (status, found["displayName"], found["active"]) == (200, "C. Doe", False)
    assert "emails" not in found
    assert "externalId" not in found
    assert entra("DELETE", one) == (204, None)
    for method in ("GET", "DELETE"):
        assert entra(method, one)[0] == 404
    assert entra("GET", "Users")[1]["totalResults"] == 0
    again = entra.user("carol")
    assert (again["id"], again["active"]) == (made["id"], True)
    rows = AuditEvent.objects.filter(username="carol").order_by("pk")
    assert {row.actor for row in rows} == {"scim:entra"}
    assert [row.what for row in rows] == [
        "user_added", "user_changed", "user_deactivated", "user_changed", "user_activated",
    ]  # fmt: skip


def test_filters_and_pages(entra: Directory) -> None:
    for number in range(5):
        entra.user(f"u{number}", externalId=f"X{number}", emails=[{"value": f"u{number}@example.org"}], displayName="U")

    def found(text: str, **more: Any) -> list[str]:
        status, page = entra("GET", "Users", filter=text, **more)
        assert status == 200, page
        assert page["itemsPerPage"] == len(page["Resources"])
        return [row["userName"] for row in page["Resources"]]

    assert found('userName eq "U1"') == ["u1"]
    assert found('externalId eq "X2"') == ["u2"]
    assert found('externalId eq "x2"') == []
    assert found('emails.value eq "u3@example.org"') == ["u3"]
    assert found(f'{USER}:userName Eq "u1" AND active eq true') == ["u1"]
    assert found('active eq "False"') == []
    assert found('displayName eq "u" and userName eq "u4"') == ["u4"]
    assert found('userName eq "a\\"b"') == []
    assert found("", startIndex=2, count=2) == ["u1", "u2"]
    assert found("", startIndex=-3, count=-1) == []
    assert entra("GET", "Users", count=0)[1]["totalResults"] == 5
    row = entra("GET", "Users", attributes="userName", count=1)[1]["Resources"][0]
    assert set(row) == {"schemas", "id", "userName"}


@pytest.mark.parametrize(
    "text",
    [
        'userName co "a"', "userName pr", 'userName eq "a" or active eq true', 'not (userName eq "a")',
        'userName eq "a', "userName eq 7", 'password eq "x"', '(userName eq "a")', 'userName eq "a" and',
        'userName eq "\\u0000"',
        'userName eq "\\ud800"', 'userName eq "\\q"', 'emails[type eq "work"] eq "x"', "\0", "(" * 999,
        " and ".join(['userName eq "a"'] * 11), 'userName eq "' + "a" * 1000 + '"',
    ],
)  # fmt: skip
def test_other_filters_are_refused(entra: Directory, text: str) -> None:
    for kind in ("Users", "Groups"):
        status, found = entra("GET", kind, filter=text)
        assert (status, found["scimType"]) == (400, "invalidFilter")


@pytest.mark.timeout(60)
def test_a_filter_takes_time_by_its_length_only() -> None:
    """A pattern that backtracks would take longer than the test may."""
    for bomb in ('a eq "' + "\\" * 990, "a" * 1000, 'a eq "' + '\\"' * 490, " " * 999 + "x"):
        with pytest.raises(ScimRequestError):
            filters.parse(bomb)


def test_forms_of_entra_and_okta(entra: Directory) -> None:
    made = entra.user("carol", emails=[{"value": "c@example.org"}])
    one = f"Users/{made['id']}"
    status, found = entra.patch(
        one,
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "new@example.org"},
        {"op": "Add", "path": 'phoneNumbers[type eq "work"].value', "value": "1"},
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "Add", "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department", "value": "P"},
        {"op": "Replace", "value": {"displayName": "Carol", "name.givenName": "C", "externalId": "e"}},
    )
    assert (status, found["active"], found["emails"][0]["value"]) == (200, False, "new@example.org")
    assert (found["displayName"], found["externalId"]) == ("Carol", "e")
    assert entra.patch(one, {"op": "replace", "value": {"active": True}})[1]["active"] is True
    found = entra.patch(one, {"op": "remove", "path": "externalId"}, {"op": "remove", "path": "emails"})[1]
    assert "emails" not in found
    assert "externalId" not in found
    dave = entra.user("dave")["id"]
    group = entra.group("Physics", made["id"])
    here = f"Groups/{group['id']}"
    entra.patch(here, {"op": "Add", "path": "members", "value": [{"$ref": None, "value": dave}]})
    assert entra.members(group) == {made["id"], dave}
    entra.patch(here, {"op": "Remove", "path": "members", "value": [{"value": dave}]})
    assert entra.members(group) == {made["id"]}
    entra.patch(here, {"op": "add", "path": "members", "value": {"value": dave}})
    entra.patch(here, {"op": "remove", "path": f'members[value eq "{made["id"]}"]'})
    assert entra.members(group) == {dave}
    entra.patch(here, {"op": "replace", "value": {"id": group["id"], "displayName": "Optics"}})
    assert entra("GET", here, excludedAttributes="members")[1]["displayName"] == "Optics"
    assert "members" not in entra("GET", here, excludedAttributes="members")[1]
    found = entra("GET", "Groups", filter=f'id eq "{group["id"]}" and members eq "{dave}"')[1]
    assert found["totalResults"] == 1
    assert entra("PUT", here, {"displayName": "Optics", "members": []})[1]["members"] == []


@pytest.mark.parametrize(
    ("operation", "scim_type"),
    [
        ({"op": "copy", "path": "active"}, "invalidSyntax"),
        ({"op": "remove"}, "noTarget"),
        ({"op": "replace", "path": "unknown", "value": 1}, "invalidPath"),
        ({"op": "replace", "path": "emails[", "value": 1}, "invalidPath"),
        ({"op": "replace", "path": "emails[type]", "value": 1}, "invalidFilter"),
        ({"op": "replace", "path": "a" * 1001, "value": 1}, "invalidPath"),
        ({"op": "replace", "path": "active", "value": "maybe"}, "invalidValue"),
        ({"op": "replace", "path": "displayName", "value": "a\0b"}, "invalidValue"),
        ({"op": "replace", "path": "displayName", "value": "x" * 151}, "invalidValue"),
        ({"op": "replace", "path": "emails", "value": [{"value": "no address"}]}, "invalidValue"),
        ({"op": "replace", "path": "userName", "value": "other"}, "mutability"),
        ({"op": "remove", "path": "active"}, "mutability"),
        ({"op": "replace", "value": 7}, "invalidValue"),
        (7, "invalidSyntax"),
    ],
)
def test_bad_patches_change_nothing(entra: Directory, operation: Any, scim_type: str) -> None:
    made = entra.user("carol")
    one = f"Users/{made['id']}"
    status, found = entra.patch(one, {"op": "replace", "path": "active", "value": False}, operation)
    assert (status, found["scimType"]) == (400, scim_type)
    assert entra("GET", one)[1] == made


def test_a_deactivation_is_that_of_everywhere(entra: Directory) -> None:
    made = entra.user("carol")
    carol = User.objects.get(username="carol")
    tokens.issue(carol)
    entra.patch(f"Users/{made['id']}", {"op": "replace", "path": "active", "value": False})
    carol.refresh_from_db()
    assert not carol.is_active
    assert not ApiToken.objects.exists()


def test_whom_others_deactivated_a_directory_does_not_activate(entra: Directory) -> None:
    made = entra.user("carol")
    one = f"Users/{made['id']}"
    carol = User.objects.get(username="carol")
    for activated_between in (False, True):
        if activated_between:
            deactivation.activate(None, carol)
            entra.patch(one, {"op": "replace", "path": "active", "value": False})
            deactivation.activate(None, carol)
        deactivation.deactivate(None, carol)
        assert entra.patch(one, {"op": "replace", "path": "active", "value": True})[0] == 403
        assert not User.objects.get(pk=carol.pk).is_active


@pytest.mark.parametrize("ended_by", ["active", "DELETE"])
def test_whom_others_shut_out_after_it_a_directory_does_not_activate(entra: Directory, ended_by: str) -> None:
    """The directory ends an account, then staff learn of misuse: a synchronisation must not bring the person back."""
    made = entra.user("carol")
    one = f"Users/{made['id']}"
    if ended_by == "DELETE":
        assert entra("DELETE", one)[0] == 204
    else:
        entra.patch(one, {"op": "replace", "path": "active", "value": False})
    carol = User.objects.get(username="carol")
    deactivation.deactivate(None, carol, "misuse")
    deactivation.deactivate(None, carol, "misuse")
    if ended_by == "DELETE":
        assert entra("POST", "Users", {"schemas": [USER], "userName": "carol"})[0] == 403
    else:
        assert entra.patch(one, {"op": "replace", "path": "active", "value": True})[0] == 403
        assert entra("PUT", one, {"userName": "carol", "active": True})[0] == 403
    assert not User.objects.get(pk=carol.pk).is_active
    acts = AuditEvent.objects.filter(what="user_deactivated", username="carol").order_by("pk")
    assert [row.details["reason"] for row in acts] == ["the directory deactivated the user", "misuse"]
    deactivation.activate(None, carol)
    assert User.objects.get(pk=carol.pk).is_active


def test_users_of_others_and_staff_are_out_of_reach(entra: Directory, alice: User) -> None:
    okta = Directory("okta")
    foreign, own = okta.user("carol", externalId="1"), entra.user("dave", externalId="1")
    group = okta.group("Physics", foreign["id"])
    admin = User.objects.get(username="dave")
    User.objects.filter(pk=admin.pk).update(is_staff=True)
    theirs = entra.group("Mine")
    for ref in (foreign["id"], str(alice.pk), own["id"], "x", str(uuid.uuid4())):
        one = f"Users/{ref}"
        assert entra("GET", one)[0] == 404
        assert entra("PUT", one, {"userName": "carol", "active": False})[0] == 404
        assert entra.patch(one, {"op": "replace", "path": "active", "value": False})[0] == 404
        assert entra("DELETE", one)[0] == 404
        status, found = entra.patch(f"Groups/{theirs['id']}", {"op": "add", "path": "members", "value": {"value": ref}})
        assert (status, found["scimType"]) == (400, "invalidValue")
    for name in ("carol", "alice", "ALICE", "dave"):
        status, found = entra("POST", "Users", {"userName": name})
        assert (status, found["scimType"]) == (409, "uniqueness")
    for wrong in ("admin", "deleted-x", "", "a b", "a#b", None, 7):
        assert entra("POST", "Users", {"userName": wrong})[0] == 400
    for method, body in (("GET", None), ("PUT", {"displayName": "x"}), ("DELETE", None)):
        assert entra(method, f"Groups/{group['id']}", body)[0] == 404
    assert entra("GET", "Users")[1]["Resources"] == []
    assert User.objects.filter(is_active=True).count() == 3
    assert okta.members(group) == {foreign["id"]}


def test_no_attribute_gives_more_than_the_schema(entra: Directory, alice: User) -> None:
    okta = Directory("okta")
    theirs = okta.group("Physics", okta.user("dave")["id"])
    more = {
        "id": str(alice.pk), "is_staff": True, "isStaff": True, "is_superuser": True, "password": "secret",
        "roles": [{"value": "admin"}], "groups": [{"value": theirs["id"]}], "client": "okta", "suspended": True,
        "meta": {"location": "https://evil.example.org"}, "scim_client": "okta", "takes_over": True,
    }  # fmt: skip
    made = entra.user("carol", **more)
    carol = User.objects.get(username="carol")
    assert made["id"] == str(carol.pk) != str(alice.pk)
    assert "evil" not in made["meta"]["location"]
    for method in ("PUT", "PATCH"):
        body = {"userName": "carol", **more}
        if method == "PATCH":
            for name, value in more.items():
                entra.patch(f"Users/{made['id']}", {"op": "replace", "path": name, "value": value})
                entra.patch(f"Users/{made['id']}", {"op": "add", "value": {name: value}})
        else:
            assert entra(method, f"Users/{made['id']}", body)[0] == 200
        carol.refresh_from_db()
        assert (carol.is_staff, carol.is_superuser, carol.has_usable_password()) == (False, False, False)
        assert not Membership.objects.filter(user=carol).exists()
    entra("POST", "Users", {"userName": "alice", **more})
    assert not ScimUser.objects.filter(user=alice).exists()
    assert okta.members(theirs) != {made["id"]}


def test_filters_find_nothing_of_another_directory(entra: Directory, alice: User) -> None:
    okta = Directory("okta")
    dave = okta.user("dave", externalId="1", emails=[{"value": "dave@example.org"}])
    okta.group("Physics", dave["id"], externalId="2")
    for text in (
        f'id eq "{dave["id"]}"', 'userName eq "dave"', 'externalId eq "1"', 'emails eq "dave@example.org"',
        'emails.value eq "DAVE@example.org"', "active eq true", 'userName eq "alice"', f'id eq "{alice.pk}"',
    ):  # fmt: skip
        status, found = entra("GET", "Users", filter=text)
        assert (status, found["totalResults"]) == (200, 0), text
        assert okta("GET", "Users", filter=text)[1]["totalResults"] <= 1
    for text in ('displayName eq "Physics"', 'externalId eq "2"', f'members eq "{dave["id"]}"'):
        assert entra("GET", "Groups", filter=text)[1]["totalResults"] == 0, text
        assert okta("GET", "Groups", filter=text)[1]["totalResults"] == 1, text


def test_a_directory_takes_over_by_name_where_the_operator_allows_it(alice: User, bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(is_staff=True)
    entra = Directory(takes_over=True)
    assert entra.user("alice", displayName="Alice")["id"] == str(alice.pk)
    assert entra("POST", "Users", {"userName": "bob"})[0] == 409
    assert entra("POST", "Users", {"userName": "alice"})[0] == 409
    assert AuditEvent.objects.filter(what="user_taken_over", user_id=alice.pk, actor="scim:entra").exists()


def test_people_do_not_change_groups_of_a_directory(entra: Directory) -> None:
    made = entra.user("carol")
    carol = User.objects.get(username="carol")
    group = uuid.UUID(entra.group("Physics", made["id"])["id"])
    assert [one.group.pk for one in groups.mine(carol)] == [group]
    Membership.objects.update(role="admin")
    with pytest.raises(GroupForbiddenError):
        group_memberships.act(carol, group, [MembershipAction(MembershipVerb.LEAVE, carol.pk)])
    with pytest.raises(GroupForbiddenError):
        groups.update(carol, group, name="Mine")
    with pytest.raises(GroupForbiddenError):
        groups.delete(carol, group)
    assert group_memberships.allowed(carol, groups.get(carol, group)) == set()
    assert entra("DELETE", f"Groups/{group}") == (204, None)
    assert not Group.objects.exists()


def test_a_deleted_user_leaves_the_groups_of_the_directory(entra: Directory) -> None:
    made = entra.user("carol")
    group = entra.group("Physics", made["id"])
    entra("DELETE", f"Users/{made['id']}")
    assert entra.members(group) == set()
    entra.user("carol")
    assert entra.members(group) == set()


def test_a_directory_that_adds_and_deletes_users_all_day_fills_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of deleted users stay: tasks and the audit log name them."""
    monkeypatch.setattr("identity.scim.users.EVER", 2)
    small = Directory("small", max_users=2)
    for number in range(4):
        assert small("DELETE", f"Users/{small.user(f'person{number}')['id']}")[0] == 204
    status, refused = small("POST", "Users", {"userName": "person4"})
    assert (status, "those included that it has deleted" in refused["detail"]) == (403, True)
    assert User.objects.filter(username__startswith="person").count() == 4
    assert small("POST", "Users", {"userName": "person0"})[0] == 201, "one of before comes back"


def test_bounds(entra: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Directory("small", max_users=1)
    small.user("carol")
    assert small("POST", "Users", {"userName": "dave"})[0] == 403
    assert entra("POST", "Users", raw=b"{" + b" " * parsing.MAX_BODY + b"}")[0] == 413
    assert entra("POST", "Users", raw=b"[" * 90_000)[0] == 400
    assert entra("POST", "Users", raw=b"not JSON")[0] == 400
    assert entra("POST", "Users", {}, kind="text/plain")[0] == 415
    assert entra("POST", "Users", [])[0] == 400
    group = entra.group("Physics")
    one = f"Groups/{group['id']}"
    many = [{"value": str(uuid.UUID(int=number))} for number in range(10_001)]
    assert entra.patch(one, {"op": "add", "path": "members", "value": many})[0] == 400
    assert entra.patch(one, *[{"op": "add", "path": "members", "value": []}] * 1001)[0] == 400
    assert entra("POST", "Users", {"userName": "e", "emails": [{"value": "a@example.org"}] * 51})[0] == 400
    monkeypatch.setattr("identity.scim.groups.MAX_GROUPS", 1)
    assert entra("POST", "Groups", {"displayName": "More"})[0] == 403
    dave, erin = entra.user("dave")["id"], entra.user("erin")["id"]
    monkeypatch.setattr("identity.scim.groups.MAX_MEMBERS", 1)
    assert entra.patch(one, {"op": "add", "path": "members", "value": [{"value": dave}, {"value": erin}]})[0] == 403
    assert entra.members(group) == set()
    monkeypatch.setattr("identity.scim.groups.MAX_GROUPS", 9)
    monkeypatch.setattr("identity.scim.groups.MAX_SHOWN", 1)
    for name in ("A", "B", "C"):
        entra.group(name, dave)
    page = entra("GET", "Groups")[1]
    assert ([row["displayName"] for row in page["Resources"]], page["totalResults"]) == (["A"], 4)
    assert entra("GET", "Groups", excludedAttributes="members")[1]["itemsPerPage"] == 4


def test_an_external_id_is_there_once_in_a_directory(entra: Directory) -> None:
    entra.user("carol", externalId="1")
    dave = entra.user("dave")
    for status, found in (
        entra("POST", "Users", {"userName": "erin", "externalId": "1"}),
        entra.patch(f"Users/{dave['id']}", {"op": "add", "path": "externalId", "value": "1"}),
    ):
        assert (status, found["scimType"]) == (409, "uniqueness")
    assert not User.objects.filter(username="erin").exists()
    entra.group("Physics", externalId="1")
    assert entra("POST", "Groups", {"displayName": "Optics", "externalId": "1"})[0] == 409


def test_only_tokens_of_directories_are_accepted(entra: Directory, alice: User) -> None:
    good = entra.token
    for wrong in ("", "x", good[:-1], good + "\udcff" * 2, tokens.issue(alice), good * 9):
        answer = Client().get(
            "/scim/v2/Users", headers={"Authorization": f"Bearer {wrong}".encode(errors="replace").decode("latin-1")}
        )
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert good not in answer.content.decode()
    answer = Client().get("/v2/api/tokens", headers={"Authorization": f"Bearer {good}"})
    assert answer.status_code == 401
    assert not ScimToken.objects.filter(digest=good.encode()).exists()


def test_a_directory_is_bounded_in_requests(entra: Directory, settings: Any, redis_server: Redis) -> None:
    rate_limit._script.cache_clear()
    settings.RATE_LIMIT = 1
    other = Directory("other")
    with redis.Redis.from_url(redis_server.url()) as client:
        client.flushdb()
    assert 429 in [entra("GET", "Users")[0] for _ in range(200)]
    assert other("GET", "Users")[0] == 200
    rate_limit._script.cache_clear()


def test_discovery(entra: Directory) -> None:
    assert entra("GET", "ServiceProviderConfig")[1]["patch"] == {"supported": True}
    assert [row["id"] for row in entra("GET", "ResourceTypes")[1]["Resources"]] == ["User", "Group"]
    assert entra("GET", "ResourceTypes/User")[1]["endpoint"] == "/Users"
    assert entra("GET", f"Schemas/{USER}")[1]["name"] == "User"
    assert entra("GET", "Schemas/x")[0] == 404
    assert entra("GET", "Schemas", filter='name eq "x"')[0] == 403
    assert entra("POST", "Bulk", {})[0] == 501
    assert entra("GET", "Nothing")[0] == 404
    assert entra("DELETE", "Users")[0] == 405


def test_the_operator_makes_lists_and_revokes_tokens(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert waybill("scim", "token", "entra", "--users", "5", "--take-over", "yes") == 0
    token = capsys.readouterr().out.strip()
    found = clients.authenticate(token)
    assert found is not None
    assert (found.name, found.max_users, found.takes_over) == ("entra", 5, True)
    waybill("scim", "token", "entra")
    second = capsys.readouterr().out.strip()
    waybill("scim", "list")
    listed = capsys.readouterr().out
    assert listed.count("entra") == 2
    assert token not in listed
    first = ScimToken.objects.order_by("created_at")[0]
    waybill("scim", "revoke", "entra", "--token", str(first.pk))
    assert clients.authenticate(token) is None
    assert clients.authenticate(second) is not None
    waybill("scim", "revoke", "entra")
    assert clients.authenticate(second) is None
    for words in (("revoke", "entra"), ("token", "No Name"), ("token", "entra", "--users", "0")):
        with pytest.raises(StackError):
            waybill("scim", *words)
    for _ in range(clients.MAX_TOKENS):
        waybill("scim", "token", "entra")
    with pytest.raises(StackError):
        waybill("scim", "token", "entra")
