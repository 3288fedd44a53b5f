"""The vault: what is kept comes back to who may have it, opens nowhere else, and goes when it should."""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import QuerySet

from endpoints.activation import status as activation
from endpoints.models import Endpoint
from identity.models import Credential, PendingSecret, User
from identity.signals import credential_stored
from identity.vault import store as vault
from identity.vault.errors import (
    BAD_BINDING,
    CREDENTIAL_GONE,
    SECRET_TOO_LARGE,
    SECRETS_TOO_LARGE,
    TOO_MANY_CREDENTIALS,
    USER_GONE,
    VAULT_SEAL_BROKEN,
    VaultError,
    VaultKeyMissingError,
    VaultKeyNotConfiguredError,
)
from identity.vault.keys import new_key, parse_keys
from identity.vault.store import CredentialInfo, CredentialKind
from tests.integration.cast import all_at_once, make_user, submit
from tests.refusals import kind_of, raises_refusal
from transferapi.config import CHECKOUT

BROKEN = (VAULT_SEAL_BROKEN, VaultKeyMissingError.refusal)

SECRET = b"-----BEGIN PRIVATE KEY-----\nthe-secret-of-alice\n-----END PRIVATE KEY-----\n"
EP1 = vault.endpoint_binding(uuid.UUID(int=1))
MYPROXY = vault.myproxy_binding("myproxy.example.org", 7512)
T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


LATER = at(1000)


def keep(user: User, bound_to: str = EP1, secret: bytes = SECRET, *, until: datetime | None = LATER, **more: Any):
    more.setdefault("now", T0)
    more.setdefault("kind", CredentialKind.X509)
    kind = more.pop("kind")
    return vault.store(user, bound_to, kind, secret, subject="/O=Grid/CN=Alice", expires_at=until, **more)


def find(user: User, *bound_to: str, seconds: float = 0) -> CredentialInfo | None:
    return vault.find(user.pk, bound_to or [EP1], at(seconds))


def found(user: User, *bound_to: str, seconds: float = 0) -> CredentialInfo:
    held = find(user, *bound_to, seconds=seconds)
    assert held is not None
    return held


def test_what_was_stored_comes_back_and_is_not_readable_in_the_database(alice: User) -> None:
    held = keep(alice)
    assert found(alice) == held
    assert (held.subject, held.expires_at, held.kind, held.stored_at) == (
        "/O=Grid/CN=Alice",
        at(1000),
        CredentialKind.X509,
        T0,
    )
    assert vault.reveal(held) == SECRET
    assert b"alice" not in bytes(Credential.objects.get().sealed)


def test_nobody_else_finds_it(alice: User, charlie: User) -> None:
    held = keep(alice)
    assert find(charlie) is None
    stolen = CredentialInfo(
        held.id, charlie.pk, held.bound_to, held.kind, held.subject, held.expires_at, held.stored_at
    )
    with raises_refusal(CREDENTIAL_GONE):
        vault.reveal(stolen)


def test_the_one_that_lives_longest_is_found_first(alice: User) -> None:
    keep(alice, EP1, until=at(50))
    shared = keep(alice, MYPROXY, until=at(100))
    assert found(alice, EP1, MYPROXY) == shared
    endless = keep(alice, EP1, until=None)
    assert found(alice, EP1, MYPROXY) == endless
    assert vault.find(alice.pk, [], T0) is None
    assert vault.find_all(alice.pk, [EP1, MYPROXY], T0) == [endless, shared]
    assert vault.find_all(alice.pk, [EP1, MYPROXY]) == [endless], "the other one has expired long ago"


def test_an_expired_one_is_not_found_and_then_deleted(alice: User) -> None:
    keep(alice, EP1, until=at(10))
    keep(alice, MYPROXY, until=None)
    assert find(alice, seconds=9.9) is not None
    assert find(alice, seconds=10) is None
    assert vault.expire(at(9.9)) == 0
    assert vault.expire(at(10)) == 1
    assert [row.bound_to for row in Credential.objects.all()] == [MYPROXY]


def test_expiry_is_done_in_bounded_portions(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "EXPIRE_ROWS", 2)
    for _ in range(5):
        keep(alice, vault.endpoint_binding(uuid.uuid4()))
    assert [vault.expire(at(2000)) for _ in range(4)] == [2, 2, 1, 0]


def test_what_is_forgotten_is_gone_at_once_with_what_was_pending(alice: User, bob: User) -> None:
    held = keep(alice)
    keep(bob)
    vault.keep_pending(alice, "key", EP1, b"half", lifetime=timedelta(hours=1))
    assert vault.forget(alice, EP1) is True
    assert vault.forget(alice, EP1) is False
    with raises_refusal(CREDENTIAL_GONE):
        vault.reveal(held)
    assert PendingSecret.objects.count() == 0
    assert find(bob) is not None


def test_when_an_endpoint_goes_everybodys_credentials_for_it_go(alice: User, bob: User) -> None:
    keep(alice)
    keep(bob)
    keep(bob, MYPROXY)
    assert vault.forget_all(EP1) == 2
    assert find(bob, MYPROXY) is not None


def test_the_credentials_of_a_deleted_user_are_deleted(alice: User) -> None:
    keep(alice)
    vault.keep_pending(alice, "key", EP1, b"half", lifetime=timedelta(hours=1))
    gone = alice.pk
    alice.delete()
    assert (Credential.objects.count(), PendingSecret.objects.count()) == (0, 0)
    with raises_refusal(USER_GONE):
        vault.store(gone, EP1, CredentialKind.SSH, b"late", subject="", expires_at=None)
    with raises_refusal(USER_GONE):
        vault.keep_pending(gone, "key", EP1, b"late", lifetime=timedelta(hours=1))


def test_a_new_one_takes_the_place_of_the_old_and_is_newer_even_when_the_clock_goes_back(alice: User) -> None:
    first = keep(alice, now=at(5))
    second = keep(alice, secret=b"new", now=at(3))
    third = keep(alice, secret=b"newer", now=at(5))
    assert first.stored_at < second.stored_at < third.stored_at
    assert Credential.objects.count() == 1
    assert vault.reveal(found(alice)) == b"newer"
    assert vault.reveal(first) == b"newer", "who found the one before gets what took its place"


def test_one_of_another_kind_is_not_given_to_who_found_the_one_before(alice: User) -> None:
    held = keep(alice)
    keep(alice, kind=CredentialKind.SSH)
    with raises_refusal(CREDENTIAL_GONE):
        vault.reveal(held)


@pytest.mark.parametrize("how", ["user", "bound_to", "kind", "sealed"])
def test_a_row_that_was_changed_in_the_database_does_not_open(alice: User, bob: User, how: str) -> None:
    mine, other = keep(alice), keep(bob, MYPROXY, b"bob's")
    rows = Credential.objects.filter(pk=mine.id)
    changes: dict[str, Any] = {
        "user": {"user": bob},
        "bound_to": {"bound_to": MYPROXY},
        "kind": {"kind": "ssh"},
        "sealed": {"sealed": Credential.objects.get(pk=other.id).sealed},
    }
    rows.update(**changes[how])
    row = rows.get()
    held = CredentialInfo(
        row.pk, row.user_id, row.bound_to, CredentialKind(row.kind), row.subject, row.expires_at, row.stored_at
    )
    with raises_refusal(VAULT_SEAL_BROKEN, match="was changed"):
        vault.reveal(held)
    assert vault.status().broken == 1


def test_rows_that_swapped_their_ids_do_not_open(alice: User) -> None:
    mine = keep(alice)
    Credential.objects.filter(pk=mine.id).update(id=uuid.uuid4())
    with raises_refusal(VAULT_SEAL_BROKEN):
        vault.reveal(found(alice))


@pytest.mark.parametrize("octets", [b"", b"\x01", b"\x02" + b"x" * 100, b"\x01" + bytes(36)])
def test_octets_that_are_no_envelope_are_reported_as_such(alice: User, octets: bytes) -> None:
    held = keep(alice)
    Credential.objects.update(sealed=octets)
    with pytest.raises(VaultError, check=lambda error: error.refusal in BROKEN):
        vault.reveal(held)


def test_without_its_key_a_credential_stays_shut_and_is_kept(alice: User, settings: Any) -> None:
    held, keys = keep(alice), settings.VAULT_KEYS
    settings.VAULT_KEYS = parse_keys(new_key())
    with pytest.raises(VaultKeyMissingError, match="does not have") as missing:
        vault.reveal(held)
    assert missing.value.key_id == keys[0].name
    assert vault.status().missing == 1
    settings.VAULT_KEYS = (*settings.VAULT_KEYS, *keys)
    assert vault.reveal(held) == SECRET
    assert vault.status().missing == 0


def test_without_any_key_nothing_is_stored_and_what_is_public_is_found(alice: User, settings: Any) -> None:
    held = keep(alice)
    settings.VAULT_KEYS = ()
    for action in (
        lambda: keep(alice, MYPROXY),
        lambda: vault.reveal(held),
        lambda: vault.keep_pending(alice, "key", EP1, b"half", lifetime=timedelta(hours=1)),
        lambda: vault.rotate(),
    ):
        with pytest.raises(VaultKeyNotConfiguredError, match="WAYBILL_VAULT_KEY"):
            action()
    assert found(alice) == held
    assert (vault.status().missing, vault.status().broken) == (1, 0)
    assert vault.forget(alice, EP1)


def test_without_any_key_endpoints_that_need_no_credential_work(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    settings.VAULT_KEYS = ()
    assert activation.activation_status(alice.pk, ep1).active
    assert submit(alice, ep1, ep2).status == "ACTIVE"
    assert vault.expire() == 0
    assert not vault.forget(alice, EP1)


def test_a_secret_has_a_largest_size(alice: User) -> None:
    keep(alice, secret=b"x" * vault.MAX_SECRET_OCTETS)
    with raises_refusal(SECRET_TOO_LARGE, match="256 KiB"):
        keep(alice, secret=b"x" * (vault.MAX_SECRET_OCTETS + 1))
    with raises_refusal(SECRET_TOO_LARGE):
        vault.keep_pending(alice, "key", EP1, b"x" * 100_000, lifetime=timedelta(hours=1))
    assert len(vault.reveal(found(alice))) == vault.MAX_SECRET_OCTETS


def test_a_user_has_a_largest_number_of_them_and_may_still_renew(
    alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault, "MAX_CREDENTIALS", 2)
    keep(alice, EP1)
    keep(alice, MYPROXY)
    with raises_refusal(TOO_MANY_CREDENTIALS, match="2 credentials already"):
        keep(alice, vault.myproxy_binding("third.example.org", 1))
    keep(alice, EP1, b"renewed")
    keep(bob, EP1)


def test_all_credentials_of_a_user_together_are_bounded_and_may_still_be_renewed(
    alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault, "MAX_USER_OCTETS", 3000)
    keep(alice, EP1, b"x" * 2000)
    with raises_refusal(SECRETS_TOO_LARGE, match="together"):
        keep(alice, MYPROXY, b"x" * 1500)
    keep(alice, EP1, b"y" * 2500)
    keep(bob, MYPROXY, b"x" * 1500)


@pytest.mark.parametrize(
    "bound_to", ["", "endpoint:", "x" * 2000, "myproxy:h:1\0", "myproxy:h:1\n", "ftp://x", EP1 + "x"]
)
def test_what_is_no_binding_is_refused(alice: User, bound_to: str) -> None:
    with raises_refusal(BAD_BINDING):
        keep(alice, bound_to)


def test_a_hostile_subject_is_kept_as_something_that_can_be_shown(alice: User) -> None:
    held = vault.store(
        alice, EP1, CredentialKind.X509, SECRET, subject="/CN=a\0b\x1b[2J\udcff" + "é" * 9999, expires_at=None
    )
    assert held.subject.startswith("/CN=a\\x00b\\x1b[2J\\udcff")
    assert len(held.subject) == vault.MAX_SUBJECT_CHARACTERS
    assert found(alice).subject == held.subject


@pytest.fixture
def heard() -> Iterator[list[tuple[Any, str]]]:
    told: list[tuple[Any, str]] = []

    def listen(sender: object, user_id: uuid.UUID, bound_to: str, **_: object) -> None:
        told.append((user_id, bound_to))

    credential_stored.connect(listen)
    yield told
    credential_stored.disconnect(listen)


@pytest.mark.django_db(transaction=True)
def test_listeners_hear_of_it_once_it_is_committed(alice: User, heard: list[Any]) -> None:
    with transaction.atomic():
        keep(alice)
        assert heard == []
    assert heard == [(alice.pk, EP1)]
    with transaction.atomic():
        keep(alice)
        transaction.set_rollback(True)
    assert len(heard) == 1


@pytest.mark.django_db(transaction=True)
def test_a_listener_that_fails_does_not_undo_it(alice: User, caplog: pytest.LogCaptureFixture) -> None:
    def listen(sender: object, **_: object) -> None:
        raise ZeroDivisionError

    credential_stored.connect(listen)
    try:
        keep(alice)
    finally:
        credential_stored.disconnect(listen)
    assert vault.reveal(found(alice)) == SECRET
    assert "the-secret-of-alice" not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_for_one_binding_one_is_kept_and_whole(alice: User) -> None:
    for _ in range(10):
        Credential.objects.all().delete()
        secrets = [b"a" * 9000, b"b" * 9000, b"c" * 9000]
        stored = all_at_once([partial(keep, alice, secret=secret, now=None) for secret in secrets])
        assert all(isinstance(held, CredentialInfo) for held in stored), stored
        assert len({held.stored_at for held in stored}) == 3
        last = found(alice)
        assert last.stored_at == max(held.stored_at for held in stored)
        assert vault.reveal(last) == secrets[[held.stored_at for held in stored].index(last.stored_at)]


@pytest.mark.django_db(transaction=True)
def test_storing_forgetting_rotating_and_expiring_at_once_leave_no_half_of_anything(alice: User, settings: Any) -> None:
    for round_number in range(10):
        keep(alice, secret=b"old")
        settings.VAULT_KEYS = parse_keys(new_key() + "," + "\n".join([new_key()]))[:1] + settings.VAULT_KEYS[:2]
        results = all_at_once(
            [
                lambda: keep(alice, secret=b"new"),
                lambda: vault.forget(alice, EP1),
                vault.rotate,
                lambda: vault.expire(T0),
                lambda: vault.status().broken,
            ]
        )
        assert not [result for result in results if isinstance(result, Exception)], (round_number, results)
        assert results[4] == 0
        held = find(alice)
        assert held is None or vault.reveal(held) == b"new", "what was stored last, or nothing"


@pytest.mark.django_db(transaction=True)
def test_the_largest_number_holds_when_many_store_at_once(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "MAX_CREDENTIALS", 3)
    bindings = [vault.endpoint_binding(uuid.uuid4()) for _ in range(8)]
    results = all_at_once([partial(keep, alice, bound_to) for bound_to in bindings])
    assert sum(kind_of(result) is TOO_MANY_CREDENTIALS for result in results) == 5
    assert Credential.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_a_user_who_is_deleted_meanwhile_leaves_nothing(db: None) -> None:
    for number in range(10):
        user = make_user(f"user{number}")
        results = all_at_once(
            [partial(keep, user), User.objects.filter(pk=user.pk).delete, partial(keep, user, MYPROXY)]
        )
        assert kind_of(results[0]) in (CredentialInfo, USER_GONE), results
        assert isinstance(results[1], tuple), results
        assert Credential.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_a_database_that_fails_shows_no_secret(alice: User) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(DatabaseError) as caught:
            keep(alice)
    ours = f"{CHECKOUT}/identity/"
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(caught.tb) if frame.f_code.co_filename.startswith(ours)]
    shown = [repr(value) for variables in frames for value in variables.values() if not isinstance(value, QuerySet)]
    assert "Hidden(***)" in shown
    assert not any("the-secret" in text for text in shown)
