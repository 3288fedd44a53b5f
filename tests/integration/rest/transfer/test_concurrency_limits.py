"""A user who activates at servers that hang does not take the web server's threads from other users."""

from __future__ import annotations

import contextlib
import uuid

import pytest

from endpoints import concurrency_limits, registry
from endpoints.errors import TooManyWaitingError
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.activated import activate, requirements_of
from tests.integration.rest import Api, assert_error

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("trusting")]

_MYPROXY = {"hostname": "127.0.0.1", "username": "alice", "passphrase": "a passphrase"}


def test_a_user_whose_servers_hang_waits_alone(alice: User, bob: User, gsi: Endpoint) -> None:
    registry.update(alice, "gsi", {"public": True, "oauth_server": "https://127.0.0.1/oauth2"})
    with contextlib.ExitStack() as stack:
        for _ in range(concurrency_limits.ACTIVATIONS.per_user):
            stack.enter_context(concurrency_limits.RequestSlot(alice.pk, concurrency_limits.ACTIVATIONS))
        refused = activate(Api(alice), "gsi", "myproxy", **_MYPROXY)
        assert_error(refused, 429, "ClientError.TooManyRequests")
        assert int(refused.headers["Retry-After"]) > 0
        line = {"code": "code=abc&state=def"}
        assert_error(activate(Api(alice), "gsi", "oauth", **line), 429, "ClientError.TooManyRequests")
        assert requirements_of(Api(alice), "gsi")["DATA"]
        # The request of bob reaches the address gate, which refuses this address to everybody.
        assert_error(activate(Api(bob), "alice%23gsi", "myproxy", **_MYPROXY), 502, "ExternalError.ConnectFailed")
    assert_error(activate(Api(alice), "gsi", "myproxy", **_MYPROXY), 502, "ExternalError.ConnectFailed")


def test_listings_side_by_side_have_a_bound_too(alice: User, bob: User, ep1: Endpoint) -> None:
    registry.update(alice, "ep1", {"public": True})
    with contextlib.ExitStack() as stack:
        for _ in range(concurrency_limits.OPERATIONS.per_user):
            stack.enter_context(concurrency_limits.RequestSlot(alice.pk, concurrency_limits.OPERATIONS))
        assert_error(Api(alice).get("/operation/endpoint/ep1/ls", path="/"), 429, "ClientError.TooManyRequests")
        assert Api(bob).get("/operation/endpoint/alice%23ep1/ls", path="/").status == 502
    assert Api(alice).get("/operation/endpoint/ep1/ls", path="/").status == 502


@pytest.mark.parametrize("share", [concurrency_limits.ACTIVATIONS, concurrency_limits.OPERATIONS])
def test_all_users_together_leave_some_threads_to_others(share: concurrency_limits.ConcurrencyLimit) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(share.total):
            stack.enter_context(concurrency_limits.RequestSlot(uuid.uuid4(), share))
        with pytest.raises(TooManyWaitingError), concurrency_limits.RequestSlot(uuid.uuid4(), share):
            pass
    with pytest.raises(OSError, match="an error in between"), concurrency_limits.RequestSlot(uuid.uuid4(), share):
        raise OSError("an error in between")
    assert not concurrency_limits._waiting
