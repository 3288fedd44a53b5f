"""`waybill user show`, `unlink` and `recover`: the account of a user, for the operator."""

from __future__ import annotations

import time
from typing import Any

import pytest

from deploy import cli
from deploy.stack.errors import StackError
from identity import linked_identities as linked
from identity import tokens
from identity.call_origin import OPERATOR, Origin, comes_from
from identity.models import AuditEvent, LinkedIdentity, Passkey, RecoveryLink, User
from identity.proven_identities import Proven
from tests.integration.provider import CALLBACK, make
from transferapi.config import load

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commands_here")]


def waybill(*words: str) -> Any:
    arguments = cli.parser().parse_args(["user", *words])
    with comes_from(Origin(actor=OPERATOR)):
        return cli.carry_out(load({}), arguments)


@pytest.fixture
def identity(alice: User) -> LinkedIdentity:
    proven = Proven.of("oidc:https://id.example.org", "alice-1", "al@lab.example.org", time.time())
    return linked.link(alice, proven, time.time())


def test_a_user_is_shown_with_all_ways_to_sign_in_and_all_programs(
    alice: User, identity: LinkedIdentity, capsys: Any
) -> None:
    Passkey.objects.create(user=alice, label="laptop\x1b[2J", credential_id=b"1", public_key=b"2")
    token, secret = tokens.make(alice, "nightly")
    portal = make(alice, CALLBACK, name="A portal")
    portal.tokens(alice, "openid")
    assert waybill("show", "alice@127.0.0.1") == 0
    shown = capsys.readouterr().out
    assert f"identity  {identity.pk}  al@lab.example.org  oidc:https://id.example.org  used " in shown
    for words in ("alice  ", "one-time codes  off", "passkey  laptop", f"token  {token.pk}  nightly  never used",
                  f"application  {portal.id}  A portal  since "):  # fmt: skip
        assert words in shown, words
    assert secret.value not in shown
    assert "\x1b" not in shown


def test_an_identity_is_unlinked_also_the_last_way_to_sign_in(
    alice: User, identity: LinkedIdentity, capsys: Any
) -> None:
    User.objects.filter(pk=alice.pk).update(password="!")
    for wrong in ("nonsense", str(alice.pk)):
        with pytest.raises(StackError, match="waybill user show"):
            waybill("unlink", "alice", wrong)
    assert waybill("unlink", "alice", str(identity.pk)) == 0
    assert not LinkedIdentity.objects.exists()
    assert AuditEvent.objects.get(what="identity_unlinked").actor == OPERATOR


def test_the_removal_of_passkeys_and_the_link_by_mail_are_in_the_audit_log(
    alice: User, settings: Any, capsys: Any
) -> None:
    with pytest.raises(StackError, match="No mail can be sent"):
        waybill("recover", "alice")
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    User.objects.filter(pk=alice.pk).update(email="alice@example.org")
    Passkey.objects.create(user=alice, label="laptop", credential_id=b"1", public_key=b"2")
    assert waybill("no-passkeys", "alice") == 0
    assert waybill("recover", "alice") == 0
    assert RecoveryLink.objects.filter(user=alice).exists()
    for what in ("passkeys_removed", "recovery_sent"):
        assert AuditEvent.objects.get(what=what).actor == OPERATOR
    with pytest.raises(StackError, match="half hour"):
        waybill("recover", "alice")
