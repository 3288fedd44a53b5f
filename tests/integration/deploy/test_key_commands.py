"""`waybill key add`, `list` and `remove`, and `waybill user no-codes` and `no-passkeys`."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from deploy import cli
from deploy.stack.errors import StackError
from endpoints.models import Endpoint
from identity import one_time_codes, ssh_keys
from identity.models import AuditEvent, Passkey, User
from tests.integration.identity.test_ssh_keys import new_line
from transferapi.config import load

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commands_here")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "key.pub"
    path.write_text(f"{new_line()} alice@laptop\n")
    return path


def waybill(*words: str) -> Any:
    arguments = cli.parser().parse_args(words)
    return cli.carry_out(load({}), arguments)


def test_a_key_is_added_listed_and_removed(alice: User, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert waybill("key", "add", "alice", str(file)) == 0
    [key] = ssh_keys.list_of(alice)
    assert capsys.readouterr().out == f"{key.fingerprint} signs in as alice.\n"
    assert (key.label, key.expires_at, key.restrictions.commands) == ("alice@laptop", None, None)
    assert waybill("key", "list", "alice") == 0
    assert capsys.readouterr().out == f"{key.fingerprint}  ssh-ed25519  used never  alice@laptop\n"
    assert waybill("key", "remove", "alice", key.fingerprint) == 0
    assert ssh_keys.list_of(alice) == []
    with pytest.raises(StackError, match="waybill key list"):
        waybill("key", "remove", "alice", key.fingerprint)


def test_restrictions_and_expiry_are_options(
    alice: User, ep1: Endpoint, ep2: Endpoint, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = f"ep1,alice#ep2,{ep1.pk}"
    options = ("--label", "backup", "--expires", "2099-01-31", "--commands", "ls,transfer", "--endpoints", places)
    waybill("key", "add", "alice", str(file), *options)
    [key] = ssh_keys.list_of(alice)
    assert (key.label, key.expires_at) == ("backup", datetime(2099, 1, 31, tzinfo=UTC))
    assert key.restrictions.commands == frozenset({"ls", "transfer"})
    assert key.restrictions.endpoints == frozenset({ep1.pk, ep2.pk})
    capsys.readouterr()
    waybill("key", "list", "alice")
    shown = capsys.readouterr().out
    for part in ("expires 2099-01-31 00:00:00Z", "commands ls,transfer", str(ep1.pk), str(ep2.pk), "backup"):
        assert part in shown


def test_an_expiry_may_be_a_number_of_days(alice: User, file: Path) -> None:
    waybill("key", "add", "alice", str(file), "--expires", "30d")
    [key] = ssh_keys.list_of(alice)
    assert key.expires_at is not None
    assert timedelta(days=29) < key.expires_at - datetime.now(UTC) <= timedelta(days=30)


def test_a_key_comes_from_the_standard_input_too(alice: User, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(file.read_text()))
    waybill("key", "add", "alice", "-")
    assert len(ssh_keys.list_of(alice)) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--expires", "2001-01-01"), "expired already"),
        (("--expires", "soon"), "30d"),
        (("--expires", "99999999999d"), "30d"),
        (("--commands", ""), "Give 1 to"),
        (("--commands", "rm -rf /"), "A command is a name"),
        (("--endpoints", "nowhere"), "No such endpoint 'nowhere'"),
        (("--label", "x" * 129), "A label is one line"),
    ],
)
def test_an_option_that_cannot_be_is_refused(alice: User, file: Path, options: tuple[str, ...], words: str) -> None:
    with pytest.raises(StackError, match=words):
        waybill("key", "add", "alice", str(file), *options)
    assert ssh_keys.list_of(alice) == []


def test_what_is_no_public_key_is_refused(alice: User, tmp_path: Path) -> None:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    private = tmp_path / "key"
    private.write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(*form))
    huge = tmp_path / "huge"
    huge.write_bytes(b"ssh-ed25519 " + b"A" * 1_000_000)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    for name, words in (("key", "private key"), ("huge", "at most 8192"), ("binary", "one line")):
        with pytest.raises(StackError, match=words):
            waybill("key", "add", "alice", str(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        waybill("key", "add", "alice", str(tmp_path / "missing"))
    with pytest.raises(StackError, match="there is no user 'bob'"):
        waybill("key", "add", "bob", str(private))
    assert ssh_keys.list_of(alice) == []


def test_the_operator_turns_the_codes_of_a_user_off(alice: User, capsys: pytest.CaptureFixture[str]) -> None:
    one_time_codes.begin_enrolment(alice)
    assert waybill("user", "no-codes", "alice") == 0
    assert not one_time_codes.enrolling(alice)
    assert capsys.readouterr().out == "alice signs in without one-time codes, as before.\n"


def test_the_operator_removes_the_passkeys_of_a_user(alice: User, capsys: pytest.CaptureFixture[str]) -> None:
    Passkey.objects.create(user=alice, label="lost", credential_id=b"1", public_key=b"1")
    User.objects.filter(pk=alice.pk).update(passkey_after_password=True)
    assert waybill("user", "no-passkeys", "alice") == 0
    assert "1 removed" in capsys.readouterr().out
    assert not Passkey.objects.exists()
    assert User.objects.get(pk=alice.pk).passkey_after_password is False
    assert waybill("user", "no-passkeys", "alice") == 0
    assert list(AuditEvent.objects.values_list("what", "username")) == [("passkeys_removed", "alice")]
