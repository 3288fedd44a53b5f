"""`waybill endpoint`: the operator lists, shows and deletes endpoints of all users."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from deploy.stack.errors import StackError
from endpoints import registry
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import make_user, submit
from tests.integration.rest import Api
from tests.integration.tasks.test_operator_holds import waybill

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commands_here")]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert waybill("endpoint", *words) == 0
    return capsys.readouterr().out.splitlines()


def test_a_list_has_all_endpoints_with_their_tasks(
    alice: User, ep1: Endpoint, ep2: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(alice, ep1, ep2)
    lines = said(capsys, "list")
    assert lines[-1] == f"{Endpoint.objects.count()} endpoints"
    [line] = [line for line in lines if line.startswith(str(ep1.pk))]
    assert registry.canonical_name(ep1) in line
    assert line.endswith("1 queued")


def test_a_list_asks_for_all_tasks_at_once(alice: User, ep1: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(20):
        registry.create(alice, {"name": f"more-{number}"})
    with CaptureQueriesContext(connection) as few:
        said(capsys, "list", "--server", "nowhere.example.org")
    with CaptureQueriesContext(connection) as many:
        said(capsys, "list")
    assert len(many) <= len(few) + 9


def test_a_list_is_of_one_owner_or_of_one_server(
    alice: User, ep1: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    ep1.servers.all().delete()
    ep1.servers.create(scheme="ftp", hostname="only.example.org", port=2811)
    assert said(capsys, "list", "--server", "ONLY.example.org")[0].startswith(str(ep1.pk))
    make_user("nobody")
    assert said(capsys, "list", "--owner", "nobody") == ["0 endpoints"]
    with pytest.raises(StackError, match="there is no user missing"):
        waybill("endpoint", "list", "--owner", "missing")


def test_one_is_shown_by_its_id_and_by_its_name(ep1: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "show", str(ep1.pk))
    assert shown == said(capsys, "show", registry.canonical_name(ep1))
    assert f"{'endpoint':12} {ep1.pk}" in shown
    assert f"{'tasks':12} no unfinished tasks" in shown


@pytest.mark.parametrize("ref", ["", "bare", "nobody#nothing", str(uuid.UUID(int=7)), "\x00", "x" * 600])
def test_what_names_no_endpoint_is_an_error(alice: User, ref: str) -> None:
    registry.create(alice, {"name": "bare"})
    for command in ("show", "delete"):
        with pytest.raises(StackError, match="there is no endpoint"):
            waybill("endpoint", command, ref)
    assert registry.existing().filter(name="bare").exists()


def test_one_is_deleted_with_its_shares(
    alice: User, ep1: Endpoint, ep2: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    share = Endpoint.objects.create(owner=alice, name="share", host=ep1, host_path="/data/")
    assert said(capsys, "delete", str(ep1.pk))[0].endswith("deleted, with 1 shares")
    for gone in (ep1, share):
        assert Api(alice).get(f"/endpoint/{gone.pk}").status == 404
    assert registry.find(str(ep2.pk)) == ep2
