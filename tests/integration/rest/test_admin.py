"""The routes for staff, the commands of the operator, and the user's own deactivation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploy.stack.errors import StackError
from identity.call_origin import OPERATOR, Origin, comes_from
from identity.models import AuditEvent, Invitation, User, UserSession
from identity.sign_up_policy import parse
from tests.integration.deploy.test_key_commands import waybill
from tests.integration.pages import PASSWORD, Browser
from tests.integration.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords", "commands_here")]
USERS = "/v2/api/users"


@pytest.fixture
def staff(bob: User) -> Api:
    bob.is_staff = True
    bob.save()
    return Api(bob, root="", age=0)


@pytest.fixture
def reader(bob: User) -> Api:
    """bob's, by a token, whose use is no sign-in."""
    bob.is_staff = True
    bob.save()
    return Api(bob, root="")


def test_staff_make_change_and_end_users(alice: User, staff: Api) -> None:
    made = staff.post(USERS, {"username": "carol", "email": "carol@example.org"})
    assert (made.status, made.body["email"], made.body["is_staff"]) == (201, "carol@example.org", False)
    one = f"{USERS}/{made.body['id']}"
    assert staff.post(USERS, {"username": "carol"}).status == 409
    assert staff.post(USERS, {"username": "a b"}).status == 400
    assert staff.put(one, {"full_name": "Carol Doe"}).body["full_name"] == "Carol Doe"
    assert [row["username"] for row in staff.get(f"{USERS}?text=doe").body["DATA"]] == ["carol"]
    assert staff.delete(one).status == 409
    assert staff.post(f"{one}/deactivate").body["is_active"] is False
    assert staff.get(f"{USERS}?is_active=0").body["total"] == 1
    assert staff.post(f"{one}/activate").body["is_active"] is True
    staff.post(f"{one}/deactivate")
    assert staff.delete(one).body["code"] == "Deleted"
    assert staff.get(one).status == 404
    acts = AuditEvent.objects.filter(actor="bob").order_by("pk").values_list("what", flat=True)
    assert list(acts) == [
        "user_added", "user_changed", "user_deactivated", "user_activated", "user_deactivated", "user_deleted",
    ]  # fmt: skip


def test_staff_end_the_sessions_of_a_user(alice: User, staff: Api) -> None:
    Browser().sign_in(alice)
    path = f"{USERS}/{alice.pk}/sessions"
    [shown] = staff.get(path).body["DATA"]
    assert shown["way"] == "password"
    assert staff.delete(path).body["message"] == "1 sessions have ended"
    assert not UserSession.objects.filter(user=alice).exists()


def test_staff_invite(staff: Api, settings: Any) -> None:
    assert staff.post("/v2/api/invitations", {}).status == 403
    settings.SIGN_UP = parse("invitation")
    made = staff.post("/v2/api/invitations", {"email": "carol@example.org", "days": 3})
    assert made.status == 201
    assert "/signup/invitation?code=" in made.body["link"]
    assert staff.post("/v2/api/invitations", {"days": 1000}).status == 400
    [row] = staff.get("/v2/api/invitations").body["DATA"]
    assert (row["id"], row["email"]) == (made.body["id"], "carol@example.org")
    assert made.body["link"].partition("code=")[2] not in str(staff.get("/v2/api/invitations").body)
    assert staff.delete(f"/v2/api/invitations/{row['id']}").status == 200
    assert staff.delete(f"/v2/api/invitations/{row['id']}").status == 404
    assert not Invitation.objects.exists()


def test_staff_read_the_audit_log(alice: User, reader: Api) -> None:
    Browser().sign_in(alice)
    page = reader.get("/v2/api/audit?limit=1").body
    assert [row["what"] for row in page["DATA"]] == ["signed_in"]
    # The token of the reader.
    rest = reader.get(f"/v2/api/audit?marker={page['next_marker']}").body["DATA"]
    assert [row["what"] for row in rest] == ["token_made"]
    assert reader.get("/v2/api/audit?since=2999-01-01").body["DATA"] == []
    for query in ("since=yesterday", "user_id=x", "limit=x", "limit=9999"):
        assert reader.get(f"/v2/api/audit?{query}").status == 400
    assert reader.get("/v2/api/audit/export?form=xml").status == 400


def test_staff_export_the_audit_log(alice: User, bob: User, reader: Api) -> None:
    Browser().sign_in(alice)
    bob.set_password(PASSWORD)
    bob.save()
    browser = Browser()
    browser.sign_in(bob)
    answer = browser.client.get("/v2/api/audit/export")
    rows = [json.loads(line) for line in b"".join(answer).decode().splitlines()]
    assert [row["what"] for row in rows] == ["token_made", "signed_in", "signed_in", "audit_exported"]
    answer = browser.client.get("/v2/api/audit/export?form=csv")
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert b"".join(answer).startswith(b"id,time,what")


def test_the_operator_administers_people(alice: User, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        with comes_from(Origin(actor=OPERATOR)):
            assert waybill(*words) == 0
        return capsys.readouterr().out

    assert str(alice.pk) in said("user", "list")
    Browser().sign_in(alice)
    assert "password" in said("user", "sessions", "alice")
    assert "1 sessions" in said("user", "sessions", "alice", "--end")
    assert "not let in" in said("user", "deactivate", "alice", "--reason", "left")
    assert "may sign in again" in said("user", "activate", "alice")
    for words in (("user", "delete", "alice"), ("audit", "export", "--since", "yesterday")):
        with pytest.raises(StackError):
            waybill(*words)
    said("user", "deactivate", "alice")
    assert "is deleted" in said("user", "delete", "alice")
    settings.SIGN_UP = parse("closed")
    with pytest.raises(StackError):
        waybill("invite")
    settings.SIGN_UP = parse("invitation")
    assert "/signup/invitation?code=" in said("invite", "--email", "carol@example.org")
    assert "carol@example.org" in said("invite", "--list")
    said("invite", "--take-back", str(Invitation.objects.get().pk))
    rows = [json.loads(line) for line in said("audit", "export").splitlines()]
    assert {row["actor"] for row in rows if row["what"].startswith("user_")} == {"operator"}
    assert said("audit", "export", "--format", "csv", "--since", "2999-01-01").count("\n") == 1


def test_a_user_deactivates_the_own_account_after_a_recent_sign_in(alice: User) -> None:
    browser = Browser()
    browser.sign_in(alice)
    browser.get("/account")
    session = browser.client.session
    session["signed_in_at"] -= 3600
    session.save()
    assert browser.post("/account/deactivate").headers["Location"].startswith("/signin")
    assert User.objects.get(pk=alice.pk).is_active
    again = Browser()
    again.sign_in(alice)
    again.get("/account")
    assert again.post("/account/deactivate").status_code == 200
    assert "Your account is deactivated" in again.text
    assert not User.objects.get(pk=alice.pk).is_active
    assert browser.get("/account").status_code == 302
