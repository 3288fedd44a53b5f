"""The cast, on a real database."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from pytest_django import DjangoDbBlocker

from endpoints.models import Endpoint
from identity.models import User
from tests.integration import expectations
from tests.integration.cast import make_endpoint, make_user
from tests.integration.expectations import World
from tests.integration.pages import PASSWORD
from tests.integration.rest import Api


@pytest.fixture
def alice(db: None) -> User:
    return make_user("alice")


@pytest.fixture
def bob(db: None) -> User:
    return make_user("bob")


@pytest.fixture
def charlie(db: None) -> User:
    return make_user("charlie")


@pytest.fixture
def ep1(alice: User) -> Endpoint:
    """alice's, private."""
    return make_endpoint(alice, "ep1")


@pytest.fixture
def ep2(alice: User) -> Endpoint:
    """alice's, private."""
    return make_endpoint(alice, "ep2")


@pytest.fixture
def public(bob: User) -> Endpoint:
    """bob's, for everybody."""
    return make_endpoint(bob, "public", public=True)


@pytest.fixture
def gsi(alice: User) -> Endpoint:
    """alice's, private; wants a certificate."""
    return make_endpoint(alice, "gsi", scheme="gsiftp")


@pytest.fixture
def gsi1(alice: User) -> Endpoint:
    """alice's, for everybody; wants a certificate."""
    return make_endpoint(alice, "gsi1", public=True, scheme="gsiftp")


@pytest.fixture
def gsi2(alice: User) -> Endpoint:
    """A second endpoint like gsi1."""
    return make_endpoint(alice, "gsi2", public=True, scheme="gsiftp")


@pytest.fixture
def ssh(alice: User) -> Endpoint:
    """alice's, private; wants an ssh key."""
    return make_endpoint(alice, "ssh", scheme="sshftp")


@pytest.fixture
def ssh_key(tmp_path: Path) -> tuple[str, str]:
    """A key with the passphrase "ssh passphrase", and its fingerprint, both by ssh-keygen."""
    path = tmp_path / "key"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "ssh passphrase", "-f", str(path)]
    subprocess.run(words, check=True, timeout=30)
    told = subprocess.run(["ssh-keygen", "-lf", str(path)], check=True, capture_output=True, text=True, timeout=30)
    return path.read_text(), told.stdout.split()[1]


@pytest.fixture
def commands_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """`waybill` commands, called in this process, use the database of the test in place of that of `make up`."""
    monkeypatch.setattr("deploy.commands.base.use_embedded_stack", lambda: None)


@pytest.fixture
def passwords(alice: User, redis_server: Any, settings: Any) -> None:
    """alice has one, nobody has tried any, and hashing (which has a test of its own) takes no time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()
    alice.set_password(PASSWORD)
    alice.save()


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    """The cast and the stage, made once: each test runs in a savepoint of this transaction and is rolled back."""
    with django_db_blocker.unblock(), transaction.atomic():
        users = {name: make_user(name) for name in ("alice", "bob", "charlie")}
        apis = {name: Api(user, root="") for name, user in users.items()}
        yield World(users, expectations.stage_of(users["alice"], users["bob"]), {**apis, "nobody": Api(root="")})
        transaction.set_rollback(True)
