"""The pages for staff: invitations, the audit log, and the sessions of a user."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from identity import audit as audit_log
from identity import sign_up
from identity.audit import What
from identity.models import AuditEvent, Invitation, User, UserSession
from identity.sign_up_policy import parse
from tests.integration.cast import make_user
from tests.integration.pages import PASSWORD, Browser
from transferapi.tasks.notify.mails.account import _SUBJECTS
from webui.console import audit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
EVIL = '<img src=x onerror="alert(1)">\u202egnp.exe'
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def staff(bob: User) -> Browser:
    """bob is of the staff."""
    bob.set_password(PASSWORD)
    bob.is_staff = True
    bob.save()
    browser = Browser()
    browser.sign_in(bob)
    return browser


@pytest.fixture
def is_by_invitation(settings: Any) -> None:
    settings.SIGN_UP = parse("invitation")


def rows(browser: Browser) -> list[str]:
    """The first cells of the table."""
    cells = re.findall(r'<th scope="row"><span>([^<]+)', browser.page)
    assert cells or "No act matches" in browser.text or 'role="alert"' in browser.page
    return cells


# ---- who


@pytest.mark.parametrize(
    "path",
    ["invitations", "audit", "audit.csv", "audit.jsonl", "users/{alice}/sessions"],
)
def test_only_staff_see_the_pages(alice: User, path: str) -> None:
    path = f"/console/{path.format(alice=alice.pk)}"
    assert Browser().get(path).headers["Location"].startswith("/signin")
    hers = Browser()
    hers.sign_in(alice)
    assert hers.get(path).status_code == 403
    assert not AuditEvent.objects.filter(what=What.AUDIT_EXPORTED).exists()


@pytest.mark.usefixtures("is_by_invitation")
def test_only_staff_change_something(alice: User, bob: User) -> None:
    made, _link = sign_up.invite(None)
    his, hers = Browser(), Browser()
    his.sign_in(alice)
    hers.sign_in(alice)
    hers.get("/account")
    for path in ("invitations", f"invitations/{made.pk}/withdraw", f"users/{alice.pk}/sessions/end"):
        assert hers.post(f"/console/{path}", confirmed="yes", days="7").status_code == 403
        # A form of another site has no token.
        assert Browser().client.post(f"/console/{path}", {"confirmed": "yes"}).status_code == 403
    assert Invitation.objects.count() == 1
    assert UserSession.objects.filter(user=alice).count() == 2


# ---- invitations


@pytest.mark.usefixtures("is_by_invitation")
def test_an_invitation_is_made_shown_once_used_and_withdrawn(staff: Browser) -> None:
    staff.get("/console/invitations")
    assert "No invitation is open" in staff.text
    assert staff.post("/console/invitations", email="carol@example.org", days="3").status_code == 200
    found = re.search(r'id="link"[^>]* value="([^"]+)"', staff.page)
    assert found
    row = Invitation.objects.get()
    assert row.expires_at - row.made_at == timedelta(days=3)
    stranger = Browser()
    assert stranger.get(found[1][found[1].index("/signup") :]).status_code in (200, 302)
    code = found[1].partition("code=")[2]
    staff.get("/console/invitations")
    assert code not in staff.page
    assert "carol@example.org" in staff.text
    path = f"/console/invitations/{row.pk}/withdraw"
    staff.post(path)
    assert "Withdraw this invitation?" in staff.text
    assert Invitation.objects.exists()
    assert staff.post(path, confirmed="yes").headers["Location"] == "/console/invitations"
    assert not Invitation.objects.exists()
    staff.get("/console/invitations")
    assert "The invitation is withdrawn." in staff.text
    assert staff.post(path, confirmed="yes").status_code == 404


@pytest.mark.usefixtures("is_by_invitation")
@pytest.mark.parametrize(
    "fields",
    [{"email": "no address"}, {"days": "0"}, {"days": "91"}, {"days": "x"}, {"days": "-1"}, {"email": EVIL}],
)
def test_a_wrong_form_makes_nothing_and_stays_filled(staff: Browser, fields: dict[str, str]) -> None:
    staff.get("/console/invitations")
    assert staff.post("/console/invitations", **fields).status_code == 400
    assert 'role="alert"' in staff.page
    assert "<img src=x" not in staff.page
    assert not Invitation.objects.exists()
    if fields.get("email") == "no address":
        assert 'value="no address"' in staff.page


def test_where_sign_up_is_closed_there_is_no_form(staff: Browser, settings: Any) -> None:
    settings.SIGN_UP = parse("closed")
    staff.get("/console/invitations")
    assert 'name="email"' not in staff.page
    assert "Sign-up is closed" in staff.text
    staff.get("/account")
    assert staff.post("/console/invitations", days="7").status_code == 403


# ---- the audit log


def test_every_act_has_words() -> None:
    assert {*map(str, audit.ACTS)} == {*map(str, What), *_SUBJECTS}


def test_the_audit_log_is_filtered_by_user_act_and_time(staff: Browser, alice: User, bob: User) -> None:
    audit_log.record(What.ROLE_GIVEN, alice, {"role": EVIL}, actor=bob)
    audit_log.record("an_act_of_tomorrow", alice)
    there = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    for query, found in {
        "": ["an_act_of_tomorrow", "Role given", "Signed in"],
        "user=alice": ["an_act_of_tomorrow", "Role given"],
        f"user={alice.pk}": ["an_act_of_tomorrow", "Role given"],
        "user=bob": ["Role given", "Signed in"],
        "what=role_given": ["Role given"],
        "what=nonsense%00": [],
        f"user={NOBODY}": [],
        f"since={there}": [],
        f"until={there}&what=signed_in": ["Signed in"],
        f"until={there}%2B02:00": [],
        "before=nonsense&what=signed_in": ["Signed in"],
        "before=1": [],
    }.items():
        assert staff.get(f"/console/audit?{query}").status_code == 200, query
        assert rows(staff) == found, query
        assert "<img src=x" not in staff.page
        assert "\u202e" not in staff.page


@pytest.mark.parametrize("query", ["user=nobody", "user=%00", "since=yesterday", "until=0001-01-01T00:00%2B12:00"])
@pytest.mark.parametrize("form", ["", ".csv"])
def test_a_filter_that_makes_no_sense_shows_no_row_and_exports_none(staff: Browser, query: str, form: str) -> None:
    assert staff.get(f"/console/audit{form}?{query}").status_code == 400
    assert 'role="alert"' in staff.page
    assert rows(staff) == []
    assert not AuditEvent.objects.filter(what=What.AUDIT_EXPORTED).exists()


def test_the_audit_log_has_pages_that_keep_the_filter(
    staff: Browser, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "ROWS", 2)
    for number in range(4):
        audit_log.record(What.ROLE_GIVEN, alice, {"number": number})
    staff.get("/console/audit?user=alice")
    assert "number 3" in staff.text
    found = re.search(r'href="(/console/audit\?[^"]+)" rel="next"', staff.page)
    assert found
    audit_log.record(What.ROLE_GIVEN, alice, {"number": 4})
    staff.get(found[1].replace("&amp;", "&"))
    # Rows that were written meanwhile move nothing.
    assert re.findall(r"number (\d)", staff.text) == ["1", "0"]
    assert 'rel="next"' not in staff.page
    assert "First page" in staff.text


def test_the_download_has_what_the_filter_selects_and_is_recorded(staff: Browser, alice: User) -> None:
    audit_log.record(What.ROLE_GIVEN, alice, {"role": "=cmd()"})
    answer = staff.client.get("/console/audit.jsonl?user=alice")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="audit.jsonl"'
    [row] = [json.loads(line) for line in b"".join(answer).splitlines()]
    assert (row["what"], row["details"]) == ("role_given", {"role": "=cmd()"})
    text = b"".join(staff.client.get("/console/audit.csv?what=signed_in")).decode()
    assert re.findall(r",signed_in,|,role_given,", text) == [",signed_in,"]
    assert AuditEvent.objects.filter(what=What.AUDIT_EXPORTED, actor="bob").count() == 2


def test_names_of_users_that_were_deleted_stay(staff: Browser) -> None:
    gone = make_user("gone")
    audit_log.record(What.USER_DELETED, gone)
    User.objects.filter(pk=gone.pk).delete()
    staff.get("/console/audit")
    staff.get(f"/console/audit?user={gone.pk}")
    assert rows(staff) == ["User deleted"]
    assert "gone" in staff.text


# ---- sessions


def test_staff_see_and_end_the_sessions_of_a_user(staff: Browser, alice: User) -> None:
    hers = Browser(HTTP_USER_AGENT=f"Mozilla Firefox/140.0 Linux {EVIL}")
    hers.sign_in(alice)
    path = f"/console/users/{alice.pk}/sessions"
    staff.get("/console/users?q=alice")
    assert f'href="{path}"' in staff.page
    staff.get(path)
    assert "Firefox on Linux" in staff.text
    assert str(hers.client.session.session_key) not in staff.page
    assert "<img src=x" not in staff.page
    staff.post(f"{path}/end")
    assert "End all sessions of alice?" in staff.text
    assert hers.get("/account").status_code == 200
    assert staff.post(f"{path}/end", confirmed="yes").headers["Location"] == path
    assert hers.get("/account").headers["Location"].startswith("/signin")
    staff.get(path)
    assert "One session has ended." in staff.text
    assert "No session is open" in staff.text
    assert AuditEvent.objects.get(what=What.SESSION_ENDED).actor == "bob"


def test_a_user_who_is_not_there_has_no_sessions(staff: Browser) -> None:
    assert staff.get(f"/console/users/{NOBODY}/sessions").status_code == 404
    staff.get("/account")
    assert staff.post(f"/console/users/{NOBODY}/sessions/end", confirmed="yes").status_code == 404
