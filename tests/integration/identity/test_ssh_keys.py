"""The ssh keys of users: effective at once, bounded, restricted, and never those of others."""

from __future__ import annotations

import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.db import connection

from identity import ssh_keys
from identity.error_categories import RefusedError
from identity.models import SshPublicKey, User
from identity.ssh_public_keys import (
    KEY_EXISTS,
    KeyFieldInvalidError,
    KeyInvalidError,
    KeyNotFoundError,
    KeyRestrictions,
    checked,
)
from tests.refusals import raises_refusal

HOUR = timedelta(hours=1)


def new_line() -> str:
    """The line of a new public key."""
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


@pytest.fixture
def line() -> str:
    return new_line()


@pytest.mark.django_db
def test_a_key_signs_in_from_the_moment_it_is_added_until_it_is_removed(alice: User, line: str) -> None:
    key = ssh_keys.add(alice, f"{line} alice@laptop")
    assert (key.label, key.line, key.restrictions) == ("alice@laptop", line, KeyRestrictions())
    found = ssh_keys.find("alice", key.blob)
    assert found == key
    assert ssh_keys.list_of(alice) == [key]
    ssh_keys.remove(alice, key.fingerprint)
    assert ssh_keys.find("alice", key.blob) is None
    assert ssh_keys.list_of(alice) == []
    with pytest.raises(KeyNotFoundError):
        ssh_keys.remove(alice, key.id)


@pytest.mark.django_db
def test_a_key_signs_in_nobody_else(alice: User, bob: User, line: str) -> None:
    key = ssh_keys.add(alice, line)
    for name, blob in (
        *(("bob", key.blob), ("", key.blob), ("Alice", key.blob), ("alice\0", key.blob), ("a" * 1000, key.blob)),
        *(("alice", key.blob[:-1]), ("alice", b""), ("alice", key.blob + b"\0"), ("alice", b"x" * 10_000_000)),
    ):
        assert ssh_keys.find(name, blob) is None
    for ref in (key.id, str(key.id), key.fingerprint):
        with pytest.raises(KeyNotFoundError):
            ssh_keys.remove(bob, ref)
    assert ssh_keys.find("alice", key.blob) == key


@pytest.mark.django_db
def test_one_key_may_belong_to_two_users_and_the_user_name_decides(alice: User, bob: User, line: str) -> None:
    """A person with two accounts has one laptop. Each account has its own restrictions."""
    ssh_keys.add(alice, line)
    ssh_keys.add(bob, line, restrictions=checked(["ls"], None))
    blob = ssh_keys.list_of(alice)[0].blob
    of_alice, of_bob = ssh_keys.find("alice", blob), ssh_keys.find("bob", blob)
    assert of_alice is not None
    assert of_bob is not None
    assert (of_alice.user, of_alice.restrictions.commands) == (alice, None)
    assert (of_bob.user, of_bob.restrictions.commands) == (bob, frozenset({"ls"}))
    ssh_keys.remove(bob, of_bob.fingerprint)
    assert ssh_keys.find("alice", blob) == of_alice


@pytest.mark.django_db
def test_an_expired_key_and_the_keys_of_an_inactive_user_sign_in_nobody(alice: User, line: str) -> None:
    key = ssh_keys.add(alice, line, expires_at=datetime.now(UTC) + HOUR)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert ssh_keys.find("alice", key.blob) is None
    assert ssh_keys.find_again(key) is None
    User.objects.filter(pk=alice.pk).update(is_active=True)
    assert ssh_keys.find_again(key) == key
    SshPublicKey.objects.update(expires_at=datetime.now(UTC))
    assert ssh_keys.find("alice", key.blob) is None
    assert [one.fingerprint for one in ssh_keys.list_of(alice)] == [key.fingerprint]


@pytest.mark.django_db
def test_the_last_use_is_recorded_to_the_minute(alice: User, line: str) -> None:
    key = ssh_keys.add(alice, line)
    ssh_keys.used(key)
    first = ssh_keys.list_of(alice)[0]
    assert first.last_used_at is not None
    ssh_keys.used(first)
    assert ssh_keys.list_of(alice)[0].last_used_at == first.last_used_at
    SshPublicKey.objects.update(last_used_at=first.last_used_at - HOUR)
    ssh_keys.used(ssh_keys.list_of(alice)[0])
    assert ssh_keys.list_of(alice)[0].last_used_at > first.last_used_at  # type: ignore[operator]


@pytest.mark.django_db
def test_restrictions_come_back_as_they_were_given(alice: User, line: str) -> None:
    places = [uuid.uuid4(), uuid.uuid4()]
    ssh_keys.add(alice, line, "backup", checked(["ls", "transfer"], [str(place) for place in places]))
    assert ssh_keys.list_of(alice)[0].restrictions == KeyRestrictions(frozenset({"ls", "transfer"}), frozenset(places))


@pytest.mark.parametrize(
    ("commands", "endpoints", "field"),
    [
        ([], None, "commands"),
        (["ls;rm"], None, "commands"),
        (["LS"], None, "commands"),
        (["l" * 33], None, "commands"),
        ([f"c{number}" for number in range(65)], None, "commands"),
        (None, [], "endpoints"),
        (None, ["go#ep1"], "endpoints"),
        (None, [str(uuid.uuid4()) for _ in range(101)], "endpoints"),
    ],
)
def test_restrictions_that_restrict_to_nothing_or_have_no_bound_are_refused(
    commands: list[str] | None, endpoints: list[str] | None, field: str
) -> None:
    with pytest.raises(KeyFieldInvalidError) as caught:
        checked(commands, endpoints)
    assert caught.value.field == field


@pytest.mark.django_db
def test_a_key_is_added_once_and_only_with_a_label_and_a_time_that_can_be(alice: User, line: str) -> None:
    for label in ("x" * 129, "two\nlines"):
        with pytest.raises(KeyFieldInvalidError):
            ssh_keys.add(alice, line, label)
    with pytest.raises(KeyFieldInvalidError):
        ssh_keys.add(alice, line, expires_at=datetime.now(UTC))
    with pytest.raises(KeyInvalidError):
        ssh_keys.add(alice, f"{line}\n{new_line()}")
    key = ssh_keys.add(alice, f"{line} {'comment ' * 100}")
    assert len(key.label) == ssh_keys.MAX_LABEL
    with raises_refusal(KEY_EXISTS) as caught:
        ssh_keys.add(alice, line, "again", checked(["ls"], None))
    assert caught.value.facts == {"fingerprint": key.fingerprint}


@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_do_not_pass_the_limit(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_keys, "MOST", 3)
    refused: list[RefusedError] = []

    def add() -> None:
        try:
            ssh_keys.add(alice, new_line())
        except RefusedError as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ssh_keys.list_of(alice)), len(refused)) == (3, 3)


@pytest.mark.django_db
@pytest.mark.parametrize("ref", ["", "SHA256:", "MD5:aa", "x" * 10_000, "SHA256:\0", "\ud800", "0"])
def test_a_reference_to_no_key_is_refused(alice: User, line: str, ref: str) -> None:
    ssh_keys.add(alice, line)
    with pytest.raises(KeyNotFoundError):
        ssh_keys.remove(alice, ref)
