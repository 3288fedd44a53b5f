"""Activation with a MyProxy server that lies: about its address, and about the time that its credential is valid."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from endpoints import registry
from endpoints.activation import status as activation
from endpoints.addresses.openings import parse_openings
from endpoints.models import Endpoint
from endpoints.server_spec import ServerSpec
from identity.models import User
from tests.conformance.issuers.test_myproxy_lies import give
from tests.gridftp.authority import Authority
from tests.identity_providers.lying_myproxy import Caller, LyingServer, server_context
from tests.integration.activated import activate
from tests.integration.rest import Answer, Api, assert_error
from tests.servers.rebinding_names import RebindingNames

pytestmark = pytest.mark.django_db

Lie = Callable[..., LyingServer]
#: `RebindingNames` gives it its addresses.
NAME = "rebind.example.org"
PASSPHRASE = "correct horse battery"


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create(username="alice")


@pytest.fixture
def place(alice: User, settings: Any, authority: Authority) -> Endpoint:
    settings.CERTIFICATES = authority.certificates
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    return registry.create(alice, {"name": "place"}, [ServerSpec("gsi.example.org", 2811)])


def activated(alice: User, server: LyingServer, **more: object) -> Answer:
    """The answer to an activation with the server of this name."""
    more = {"hostname": f"{NAME}:{server.port}", "lifetime_in_hours": 2, **more}
    return activate(Api(alice), "place", "myproxy", username="al", passphrase=PASSPHRASE, **more)


def test_a_name_that_gets_a_private_address_after_its_check_leads_nowhere_else(
    lie: Lie,
    alice: User,
    place: Endpoint,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = lie(partial(give, authority=authority), server_context(authority.issue_host([NAME])))
    with socket.create_server(("127.0.0.2", server.port)) as inside:
        inside.settimeout(0.2)
        names = RebindingNames(monkeypatch, "127.0.0.1", "127.0.0.2")
        answer = activated(alice, server)
        assert (answer.status, answer.code, names.asked) == (200, "Activated.MyProxyCredential", 1), answer.body
        assert_error(activated(alice, server), 502, "ExternalError.ConnectFailed")
        with pytest.raises(TimeoutError):
            inside.accept()


def test_a_name_that_leads_to_another_server_gets_no_passphrase(
    lie: Lie,
    alice: User,
    place: Endpoint,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name server that lies finds a server with a certificate of its own."""
    server = lie(Caller.request, server_context(authority.issue_host(["evil.example.org"])))
    RebindingNames(monkeypatch, "127.0.0.1")
    assert_error(activated(alice, server), 502, "ExternalError.MyProxy.WrongServer")
    server.close()
    assert bytes(server.told) == b""


def test_a_credential_that_is_valid_for_longer_than_was_asked_is_forgotten_in_time(
    lie: Lie,
    alice: User,
    place: Endpoint,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    RebindingNames(monkeypatch, "127.0.0.1")
    began = datetime.now(UTC)
    for hours, asked in ((2, 2), (12, "")):
        server = lie(partial(give, authority=authority, days=3000), server_context(authority.issue_host([NAME])))
        answer = activated(alice, server, lifetime_in_hours=asked)
        assert 3600 * hours - 60 < answer.body["expires_in"] <= 3600 * hours, answer.body
    expires_at = activation.logins(alice.pk, place).expires_at
    assert expires_at is not None
    assert expires_at - began < timedelta(hours=12, minutes=1)


def test_a_credential_that_ends_at_once_is_refused(
    lie: Lie,
    alice: User,
    place: Endpoint,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = lie(partial(give, authority=authority, days=20 / 86400), server_context(authority.issue_host([NAME])))
    RebindingNames(monkeypatch, "127.0.0.1")
    answer = activated(alice, server)
    assert answer.status == 400, answer.body
    assert "valid for less than" in answer.body["message"]
    assert PASSPHRASE not in str(answer.body)
