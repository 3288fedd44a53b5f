"""The audit log: append-only by the database, complete, without secrets, bounded, and exported row by row."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import DatabaseError, connection, transaction

from identity import audit, audit_export, call_origin, tokens
from identity.audit import What
from identity.audit_export import Selection
from identity.clock import moment
from identity.models import AuditEvent, User
from identity.users import NOT_STAFF
from tests.integration.pages import PASSWORD, Browser
from tests.refusals import raises_refusal

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


def acts() -> list[tuple[str, str, str, str]]:
    rows = AuditEvent.objects.order_by("pk")
    return [(row.what, row.username, row.actor, row.way) for row in rows]


def age(days: float) -> None:
    """Make all rows older. A replica fires no triggers."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE identity_auditevent SET at = at - %s * interval '1 day'", [days])


# ---- append-only


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE identity_auditevent SET what = 'nothing'",
        "UPDATE identity_auditevent SET at = at - interval '1 year'",
        "DELETE FROM identity_auditevent",
        "TRUNCATE identity_auditevent",
    ],
)
def test_the_database_refuses_to_change_or_delete_a_row(alice: User, statement: str) -> None:
    audit.record(What.SIGNED_IN, alice)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert acts() == [("signed_in", "alice", "", "")]


def test_a_row_cannot_be_dated_back_so_that_it_could_be_deleted(alice: User) -> None:
    AuditEvent.objects.create(what="x", at=moment() - timedelta(days=900))
    assert moment() - AuditEvent.objects.get().at < timedelta(minutes=1)


def test_old_rows_are_deleted_as_the_operator_says(alice: User, settings: Any) -> None:
    audit.record(What.SIGNED_IN, alice)
    age(40)
    audit.record(What.SIGNED_OUT, alice)
    settings.AUDIT_DAYS = 0
    assert audit_export.delete_old() == 0
    settings.AUDIT_DAYS = 41
    assert audit_export.delete_old() == 0
    settings.AUDIT_DAYS = 39
    assert audit_export.delete_old() == 1
    assert [what for what, *_ in acts()] == ["signed_out"]


def test_the_log_outlives_the_user(alice: User) -> None:
    audit.record(What.SIGNED_IN, alice)
    key = alice.pk
    alice.delete()
    assert AuditEvent.objects.get(user_id=key).username == "alice"


# ---- what is recorded


def test_sign_ins_their_refusals_and_sign_outs(alice: User) -> None:
    browser = Browser(REMOTE_ADDR="192.0.2.7")
    for username, password in (("alice", "wrong words"), ("my password\nby mistake", "x"), ("alice", PASSWORD)):
        browser.get("/signin")
        browser.post("/signin", username=username, password=password)
    browser.get("/account")
    browser.post("/signout")
    assert acts() == [
        ("sign_in_refused", "alice", "", "password"),
        ("sign_in_refused", "", "", "password"),
        ("signed_in", "alice", "", "password"),
        ("signed_out", "alice", "", ""),
    ]
    assert set(AuditEvent.objects.values_list("address", flat=True)) == {"192.0.2.7"}
    with connection.cursor() as cursor:
        cursor.execute("SELECT t::text FROM identity_auditevent t")
        text = str(cursor.fetchall())
    assert not any(secret in text for secret in ("wrong words", "by mistake", PASSWORD))


def test_changes_of_ways_to_sign_in_name_the_operator_where_it_was_one(alice: User) -> None:
    row, token = tokens.make(alice, "backup")
    with call_origin.comes_from(call_origin.Origin(actor=call_origin.OPERATOR)):
        tokens.make(alice, "by hand")
    tokens.revoke_own(alice, row.pk)
    assert [(what, actor) for what, _user, actor, _way in acts()] == [
        ("token_made", ""),
        ("token_made", "operator"),
        ("token_revoked", ""),
    ]
    assert AuditEvent.objects.filter(details__contains={"name": "backup"}).count() == 2
    assert token.value not in str(list(AuditEvent.objects.values_list("details", flat=True)))


def test_an_act_and_its_row_are_one_transaction(alice: User) -> None:
    with transaction.atomic():
        audit.record(What.USER_CHANGED, alice)
        transaction.set_rollback(True)
    assert not acts()


def test_values_are_short_and_of_one_line(alice: User) -> None:
    audit.record(What.SIGNED_IN, alice, {f"d{n}": "a\n\0\udcff" + "x" * 9000 for n in range(50)})
    details = AuditEvent.objects.get().details
    assert len(details) == audit.MAX_DETAILS
    assert all(len(text) <= audit.MAX_DETAIL and text.isprintable() for text in details.values())


# ---- bounds


def test_strangers_do_not_fill_the_log(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.delete("audit:refusals")
    monkeypatch.setattr(audit, "MOST_REFUSALS", 3)
    for _ in range(9):
        audit.record_refusal(None, "password")
    assert len(acts()) == 3
    audit.record(What.SIGNED_IN, alice)
    assert len(acts()) == 4
    cache.delete("audit:refusals")


def test_one_network_neither_fills_the_log_nor_hides_another(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr(audit, "MOST_OF_A_NETWORK", 2)
    monkeypatch.setattr(audit, "MOST_REFUSALS", 5)
    for number in range(9):
        audit.record_refusal(None, "password", f"2001:db8::{number}")
    with call_origin.comes_from(call_origin.Origin("192.0.2.1")):
        audit.record_refusal(None, "password")
    audit.record_refusal(None, "password", "192.0.2.2")
    networks = [row.address for row in AuditEvent.objects.order_by("pk")]
    assert networks == ["2001:db8::0", "2001:db8::1", "192.0.2.1", "192.0.2.2"]
    cache.clear()


def test_one_user_does_not_fill_the_log(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_ACTS", 2)
    for _ in range(2):
        audit.record_act(What.ROLE_GIVEN, alice, actor=alice)
    with raises_refusal(audit.TOO_MANY_ACTS):
        audit.record_act(What.ROLE_GIVEN, alice, actor=alice)
    for _ in range(5):
        audit.record_once(What.TOKENS_GIVEN, alice, "a client", {"grant": "refresh_token"})
    assert [what for what, *_ in acts()] == ["role_given"] * 2 + ["tokens_given"]


# ---- export


@pytest.fixture
def staff(alice: User) -> User:
    alice.is_staff = True
    alice.save()
    return alice


def test_only_staff_read_the_log(bob: User) -> None:
    with raises_refusal(NOT_STAFF):
        audit_export.page(bob, Selection())
    with raises_refusal(NOT_STAFF):
        audit_export.export(bob, Selection(), "jsonl")
    assert not acts()


def test_an_export_has_every_row_once_and_is_itself_recorded(
    staff: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_export, "BATCH", 3)
    for number in range(10):
        audit.record(What.SIGNED_IN, bob, {"number": number})
    parts = list(audit_export.export(staff, Selection(), "jsonl"))
    assert max(part.count("\n") for part in parts) == 3
    rows = [json.loads(line) for line in "".join(parts).splitlines()]
    assert [row["details"].get("number") for row in rows] == [*map(str, range(10)), None]
    assert (rows[-1]["what"], rows[-1]["actor"]) == ("audit_exported", "alice")
    assert set(rows[0]) == set(audit_export.COLUMNS)
    again = list(csv.reader(io.StringIO("".join(audit_export.export(None, Selection(what="signed_in"), "csv")))))
    assert again[0] == list(audit_export.COLUMNS)
    assert len(again) == 11


def test_no_cell_is_a_formula(staff: User) -> None:
    User.objects.create(username="=cmd()")
    audit.record(What.SIGNED_IN, User.objects.get(username="=cmd()"))
    row = list(csv.reader(io.StringIO("".join(audit_export.export(staff, Selection(what="signed_in"), "csv")))))[1]
    assert row[audit_export.COLUMNS.index("username")] == "'=cmd()"


def test_a_selection(staff: User, bob: User) -> None:
    audit.record(What.SIGNED_IN, bob)
    age(2)
    audit.record(What.SIGNED_OUT, bob)
    audit.record(What.USER_CHANGED, staff, actor=bob)
    now = moment()

    def found(**wanted: Any) -> list[str]:
        return [row.what for row in audit_export.page(staff, Selection(**wanted))]

    assert found() == ["user_changed", "signed_out", "signed_in"]
    assert found(until=now - timedelta(days=1)) == ["signed_in"]
    assert found(since=now - timedelta(days=1)) == ["user_changed", "signed_out"]
    assert found(user=staff.pk) == ["user_changed"]
    assert found(user=bob.pk) == ["user_changed", "signed_out", "signed_in"]
    assert found(what="signed_in") == ["signed_in"]
    newest = audit_export.page(staff, Selection(), limit=1)
    assert [row.what for row in audit_export.page(staff, Selection(), before=newest[0].pk)] == [
        "signed_out",
        "signed_in",
    ]
