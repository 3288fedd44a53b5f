"""The address that an agent names to other agents in its network."""

from __future__ import annotations

import pytest

from endpoints.gridftp.agent.own_address import own_address


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost:8000", "https://no.such.host.invalid"])
def test_loopback_and_no_way_to_the_service_are_no_address_for_others(url: str) -> None:
    assert own_address(url) == ""
