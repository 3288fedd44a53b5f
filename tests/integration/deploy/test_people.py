"""Users that an operator adds and changes with `waybill user add` and `waybill user set`."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from deploy import cli
from deploy.stack.errors import StackError
from identity import users
from identity.models import User
from identity.users import USER_INVALID, UserDetails, UserExistsError
from tests.refusals import raises_refusal
from transferapi.config import load

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commands_here")]


def waybill(*words: str) -> Any:
    arguments: argparse.Namespace = cli.parser().parse_args(["user", *words])
    return cli.carry_out(load({}), arguments)


def test_the_address_of_a_user_who_is_there_is_set_changed_and_taken_away(alice: User, capsys: Any) -> None:
    for address in ("alice@example.org", "alice@lab.example.org", ""):
        assert waybill("set", "alice", "--email", address) == 0
        alice.refresh_from_db()
        assert alice.email == address
        assert capsys.readouterr().out == f"alice: {address or 'no mail address'}\n"


def test_what_is_not_said_stays(alice: User) -> None:
    waybill("set", "alice", "--email", "alice@example.org", "--full-name", "Alice Ärmel")
    waybill("set", "alice", "--active", "no")
    alice.refresh_from_db()
    assert (alice.email, alice.get_full_name(), alice.is_active) == ("alice@example.org", "Alice Ärmel", False)
    waybill("set", "alice", "--active", "yes")
    alice.refresh_from_db()
    assert alice.is_active
    with pytest.raises(StackError, match="nothing was said"):
        waybill("set", "alice")


@pytest.mark.parametrize(
    "said",
    [
        UserDetails(email="no address"),
        UserDetails(email="a@example.org, b@example.org"),
        UserDetails(email="a@example.org\nBcc: b@example.org"),
        UserDetails(email="a" * 300 + "@example.org"),
        UserDetails(full_name="two\nlines"),
        UserDetails(full_name="x" * 151),
    ],
)
def test_what_cannot_be_an_address_or_a_name_changes_nothing(alice: User, said: UserDetails) -> None:
    with raises_refusal(USER_INVALID):
        users.change(User.objects.get(pk=alice.pk), said)
    with raises_refusal(USER_INVALID):
        users.add("bob", said)
    alice.refresh_from_db()
    assert (alice.email, alice.get_full_name()) == ("", "")
    assert not User.objects.filter(username="bob").exists()


def test_add_names_set_for_one_who_is_there(alice: User) -> None:
    with pytest.raises(UserExistsError):
        users.add("alice", UserDetails())
    with pytest.raises(StackError, match="`waybill user set alice` changes"):
        waybill("add", "alice", "--email", "alice@example.org")
    with pytest.raises(StackError, match="there is no user 'bob'"):
        waybill("set", "bob", "--email", "bob@example.org")


def test_staff_are_appointed_and_dismissed(alice: User) -> None:
    assert not alice.is_staff
    for word in ("yes", "no"):
        assert waybill("set", "alice", "--staff", word) == 0
        waybill("set", "alice", "--full-name", "Alice")
        alice.refresh_from_db()
        assert alice.is_staff == (word == "yes")
