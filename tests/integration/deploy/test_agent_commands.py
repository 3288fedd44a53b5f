"""`waybill agents`: a new authority for the certificates of agents, while the computers go on."""

from __future__ import annotations

from typing import Any

import pytest

from deploy import cli
from deploy.stack.errors import StackError
from endpoints.connect import authority, certificates
from endpoints.connect.errors import AgentRefusedError
from endpoints.connect.setup_keys import IssuedSetupKey
from endpoints.gridftp.agent.keys import AgentKey
from endpoints.models import AgentAuthority
from tests.integration.endpoints.test_connect_setup import key, renew, set_up
from transferapi.config import load

__all__ = ["key"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commands_here")]


def waybill(*words: str) -> int:
    return cli.carry_out(load({}), cli.parser().parse_args(["agents", *words]))


def test_a_new_authority_signs_and_computers_go_on(key: IssuedSetupKey, capsys: pytest.CaptureFixture[str]) -> None:
    assert waybill("status") == 0
    assert "no authority yet" in capsys.readouterr().out
    pair = AgentKey.new()
    old = set_up(key, pair)
    assert waybill("rotate") == 0
    [newer, older] = authority.trusted()
    assert capsys.readouterr().out.splitlines() == [
        f"{authority.name_of(newer)} signs, valid until {newer.not_valid_after_utc:%Y-%m-%d}",
        f"{authority.name_of(older)} is trusted, valid until {older.not_valid_after_utc:%Y-%m-%d}",
    ]
    certificates.agent_of(old.chain)
    renewed = renew(pair, old.chain)
    assert waybill("rotate", "--leaked") == 0
    assert "2 older ones are trusted no more" in capsys.readouterr().out
    for chain in (old.chain, renewed.chain):
        with pytest.raises(AgentRefusedError) as refused:
            certificates.agent_of(chain)
        assert refused.value.flaw == "foreign"


def test_without_a_key_of_the_vault_nothing_changes(key: IssuedSetupKey, settings: Any) -> None:
    pair = AgentKey.new()
    held = set_up(key, pair)
    settings.VAULT_KEYS = []
    with pytest.raises(StackError, match="key"):
        waybill("rotate", "--leaked")
    assert AgentAuthority.objects.count() == 1
    certificates.agent_of(held.chain)
