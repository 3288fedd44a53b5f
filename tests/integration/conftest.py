"""The cast, on a real database."""

from __future__ import annotations

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import make_endpoint, make_user


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
