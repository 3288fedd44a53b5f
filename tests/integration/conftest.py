"""The cast, on a real database."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from deploy.endpoint.authority import Authority, Identity
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import make_endpoint, make_user
from tests.integration.pages import PASSWORD


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
def trusting(settings: Any, authority: Authority) -> None:
    """The service believes the authority of the tests."""
    settings.CERTIFICATES = authority.certificates


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
    """As gsi1."""
    return make_endpoint(alice, "gsi2", public=True, scheme="gsiftp")


@pytest.fixture
def alices(identity_of: Callable[..., Identity]) -> Identity:
    return identity_of("alice")


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
def passwords(alice: User, redis_server: Any, settings: Any) -> None:
    """alice has one, nobody has tried any, and hashing (which has a test of its own) takes no time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()
    alice.set_password(PASSWORD)
    alice.save()
