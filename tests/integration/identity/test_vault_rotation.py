"""A new key: all is sealed anew while others read and write, and what no key opens is counted and kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from identity.models import Credential, PendingSecret, User
from identity.vault import rotation
from identity.vault import store as vault
from identity.vault.keys import VaultKey, new_key, parse_keys
from identity.vault.store import CredentialKind
from transferapi.config import CHECKOUT

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def bindings(count: int) -> list[str]:
    return [vault.endpoint_binding(uuid.uuid4()) for _ in range(count)]


def keep(user: User, bound_to: str, secret: bytes) -> vault.CredentialInfo:
    return vault.store(user, bound_to, CredentialKind.X509, secret, subject="", expires_at=None)


def secrets_of(user: User, places: list[str]) -> list[bytes]:
    found = [vault.find(user.pk, [place], T0) for place in places]
    return [vault.reveal(held) for held in found if held is not None]


@pytest.fixture
def old(settings: Any) -> VaultKey:
    [key] = settings.VAULT_KEYS = parse_keys(new_key())
    return key


def test_all_is_sealed_by_the_new_key_and_the_old_one_may_go(
    alice: User, bob: User, old: VaultKey, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "PAGE", 3)
    places = bindings(10)
    before = [keep(alice, place, place.encode()) for place in places]
    vault.keep_pending(bob, "key", places[0], b"half", lifetime=timedelta(hours=1), more={"a": 1})
    [new] = parse_keys(new_key())
    settings.VAULT_KEYS = (new, old)
    done = vault.rotate()
    assert (done.key_id, done.resealed, done.unopened) == (new.name, 11, 0)
    assert vault.status().rows == {new.name: 11}
    settings.VAULT_KEYS = (new,)
    assert secrets_of(alice, places) == [place.encode() for place in places]
    assert [vault.find(alice.pk, [place], T0) for place in places] == before, "nothing that is public has changed"
    taken = vault.take_pending(bob, "key", places[0])
    assert taken is not None
    assert (taken.secret, taken.more) == (b"half", {"a": 1})
    assert vault.rotate().resealed == 0


def test_what_no_key_opens_is_counted_and_kept(alice: User, old: VaultKey, settings: Any) -> None:
    lost, broken, good = bindings(3)
    keep(alice, lost, b"lost")
    settings.VAULT_KEYS = parse_keys(new_key())
    keep(alice, broken, b"broken")
    keep(alice, good, b"good")
    Credential.objects.filter(bound_to=broken).update(kind="ssh")
    before = bytes(Credential.objects.get(bound_to=lost).sealed)
    settings.VAULT_KEYS = (*parse_keys(new_key()), *settings.VAULT_KEYS)
    done = vault.rotate()
    assert (done.resealed, done.unopened) == (1, 2)
    found = vault.status()
    assert (found.missing, found.broken) == (1, 1)
    assert found.rows[old.name] == 1
    assert bytes(Credential.objects.get(bound_to=lost).sealed) == before


@pytest.mark.django_db(transaction=True)
def test_others_read_and_write_meanwhile(
    alice: User, old: VaultKey, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "PAGE", 5)
    places = bindings(40)
    for place in places:
        keep(alice, place, b"0")
    settings.VAULT_KEYS = (*parse_keys(new_key()), old)
    stop, problems, written = threading.Event(), [], dict.fromkeys(places, 0)

    def work() -> None:
        try:
            while not stop.is_set():
                for place in places:
                    assert secrets_of(alice, [place]) == [b"%d" % written[place]]
                    keep(alice, place, b"%d" % (written[place] + 1))
                    written[place] += 1
        except Exception as error:
            problems.append(error)
        finally:
            connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(5):
            settings.VAULT_KEYS = (*parse_keys(new_key()), *settings.VAULT_KEYS)
            vault.rotate()
    finally:
        stop.set()
        worker.join(60)
    assert problems == []
    vault.rotate()
    settings.VAULT_KEYS = settings.VAULT_KEYS[:1]
    assert secrets_of(alice, places) == [b"%d" % written[place] for place in places]


class Commands:
    """`waybill vault ...` as an operator gives it, with a key file."""

    def __init__(self, url: str, file: Path) -> None:
        self.file = file
        given = {"DATABASE_URL": url, "WAYBILL_VAULT_KEY_FILE": str(file), "WAYBILL_HOME": str(file.parent)}
        self.environment = {**os.environ, **given}

    def run(self, word: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "deploy.cli", "vault", word]
        return subprocess.run(
            words, env=self.environment, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.mark.django_db(transaction=True)
def test_an_operator_changes_the_key_with_three_commands(
    alice: User, database_url: str, tmp_path: Path, settings: Any
) -> None:
    waybill = Commands(database_url, tmp_path / "keys")
    first = waybill.run("key").stdout
    waybill.file.write_text(first)
    settings.VAULT_KEYS, settings.VAULT_KEY_FILE = parse_keys(first), waybill.file
    [place] = bindings(1)
    keep(alice, place, b"secret")
    second = waybill.run("key").stdout
    waybill.file.write_text(second + first)
    done = waybill.run("rotate")
    assert done.stdout == f"1 sealed anew by the key {parse_keys(second)[0].name}.\nThe older keys may go.\n"
    assert done.returncode == 0
    waybill.file.write_text(second)
    assert secrets_of(alice, [place]) == [b"secret"], "this process has read the file again by itself"
    status = waybill.run("status")
    assert status.returncode == 0
    assert "1 kept" in status.stdout
    waybill.file.write_text(first)
    status, rotated = waybill.run("status"), waybill.run("rotate")
    assert (status.returncode, rotated.returncode) == (1, 1)
    assert "1 kept that no key opens" in status.stdout
    assert "1 could not be opened" in rotated.stdout
    outputs = [part for run in (done, status, rotated) for part in (run.stdout, run.stderr)]
    assert not any(key.strip() in output for key in (first, second) for output in outputs)
    assert (Credential.objects.count(), PendingSecret.objects.count()) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_without_a_key_the_commands_say_how_to_make_one(database_url: str, tmp_path: Path) -> None:
    waybill = Commands(database_url, tmp_path / "keys")
    waybill.environment |= {"WAYBILL_VAULT_KEY_FILE": "", "WAYBILL_HOME": str(tmp_path / "home")}
    assert "waybill vault key" in waybill.run("status").stdout
    rotated = waybill.run("rotate")
    assert (rotated.returncode, rotated.stderr.count("waybill vault key")) == (1, 1)
