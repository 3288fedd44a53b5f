"""The servers to which workers connect, and the gate before them."""

from __future__ import annotations

from typing import Any

import pytest

from endpoints.gridftp.faults import FaultError
from endpoints.models import Endpoint
from workers.sessions import address_gate

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("scheme", ["gsiftp", "ftp", "ftpes", "sshftp", "sftp", "ssh"])
def test_only_ssh_goes_through_a_jump_host_and_so_around_the_gate(ep1: Endpoint, ep2: Endpoint, scheme: str) -> None:
    """The name of an ssh server is resolved by the jump host, and no connection of ours goes there."""
    ep1.servers.update(scheme=scheme)
    ep1.jump_host = ep2
    ep1.save()
    assert {place.through_jump_host for place in address_gate.places(ep1)} == {scheme == "ssh"}


def test_a_place_that_is_connected_to_passes_the_gate(settings: Any) -> None:
    settings.ALLOW_TARGETS = ()
    with pytest.raises(FaultError, match=r"169\.254\.169\.254"):
        address_gate.resolve("169.254.169.254", 21)
    assert not address_gate.accepts(("169.254.169.254", 21))
