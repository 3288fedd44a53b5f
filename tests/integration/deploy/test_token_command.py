"""`waybill token`: the rules are those of every other token."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy import cli
from deploy.stack import prepare
from deploy.stack.errors import StackError
from deploy.stack.home import Home
from identity import tokens
from identity.call_origin import OPERATOR, Origin, comes_from
from identity.models import ApiToken, AuditEvent, User
from transferapi.config import load
from transferapi.tasks.models import Mail

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commands_here")]


@pytest.fixture(autouse=True)
def operator() -> Iterator[None]:
    with comes_from(Origin(actor=OPERATOR)):
        yield


def waybill(*words: str) -> Any:
    return cli.carry_out(load({}), cli.parser().parse_args(["token", *words]))


def days_left(row: ApiToken) -> float:
    assert row.expires_at is not None
    return (row.expires_at - datetime.now(UTC)) / timedelta(days=1)


def test_it_prints_the_token_alone_and_says_beside_it_how_long_it_lasts(alice: User, capsys: Any) -> None:
    assert waybill("alice") == 0
    shown = capsys.readouterr()
    assert tokens.authenticate(shown.out.removesuffix("\n")) == alice
    row = ApiToken.objects.get()
    assert 89.9 < days_left(row) <= 90
    assert f"alice until {row.expires_at:%Y-%m-%d}" in shown.err


def test_the_operator_chooses_another_lifetime_and_a_label(alice: User, capsys: Any) -> None:
    assert waybill("alice", "--days", "7", "--label", "portal") == 0
    assert 6.9 < days_left(ApiToken.objects.get(label="portal")) <= 7
    assert waybill("alice", "--days", "0", "--label", "robot") == 0
    assert ApiToken.objects.get(label="robot").expires_at is None
    assert "until it is revoked" in capsys.readouterr().err


@pytest.mark.parametrize("days", ["-1", "3661", "9" * 30])
def test_a_lifetime_that_no_token_has_is_refused(alice: User, days: str) -> None:
    with pytest.raises(StackError, match="at most 3660"):
        waybill("alice", "--days", days)
    assert not ApiToken.objects.exists()


def test_it_is_in_the_audit_log_and_its_owner_gets_a_mail(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.org")
    assert waybill("alice", "--label", "nightly copy") == 0
    event = AuditEvent.objects.get(what="token_made")
    assert (event.username, event.actor, event.details["name"]) == ("alice", OPERATOR, "nightly copy")
    mail = Mail.objects.get(user=alice)
    assert mail.subject == "Waybill: an API token was made"
    assert "nightly copy" in mail.body
    assert "Those who run this service have done it." in mail.body


def test_it_counts_against_the_bound_of_its_user(alice: User, monkeypatch: Any) -> None:
    monkeypatch.setattr(tokens, "MOST", 3)
    for _ in range(3):
        waybill("alice")
    with pytest.raises(StackError, match="at most 3 tokens"):
        waybill("alice")
    assert ApiToken.objects.count() == 3
    assert AuditEvent.objects.filter(what="token_made").count() == 3


def test_a_deactivated_user_gets_none(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    with pytest.raises(StackError, match="waybill user activate alice"):
        waybill("alice")
    assert not ApiToken.objects.exists()


def test_a_token_of_make_up_replaces_one_whose_file_was_lost(alice: User, tmp_path: Any) -> None:
    home = Home(tmp_path)
    prepare._token(home)
    first = home.read_token()
    prepare._token(home)
    assert home.read_token() == first
    home.token.unlink()
    prepare._token(home)
    assert home.read_token() != first
    assert ApiToken.objects.filter(user__username=prepare.USER).count() == 1
