"""`waybill client`: what the operator's commands make of applications."""

from __future__ import annotations

import pytest
from oauth2_provider.models import Application

from deploy import cli
from deploy.stack.errors import StackError
from identity.models import AuditEvent, User
from identity.provider import clients
from transferapi.config import load

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commands_here")]
ID = "8b8060fd-610e-4a74-885e-1051c71ad473"


def waybill(*words: str) -> int:
    arguments = cli.parser().parse_args(words)
    return cli.carry_out(load({}), arguments)


def test_a_program_is_admitted_by_its_id_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--label", "Parsl", "--redirect-uri", "https://a.example/back", "--redirect-uri", "https://b.example/back")
    assert waybill("client", "add", "--id", ID, *words) == 0
    found = clients.find(ID)
    assert found is not None
    assert (found.name, found.user, clients.is_confidential(found)) == ("Parsl", None, False)
    for uri in (clients.GLOBUS_CODE_PAGE, "https://a.example/back", "https://b.example/back", "http://localhost:1/"):
        assert clients.allows_redirect(found, uri, ""), uri
    assert ID in capsys.readouterr().out
    with pytest.raises(StackError, match="already"):
        waybill("client", "add", "--id", ID)
    assert waybill("client", "remove", "--id", ID) == 0
    assert clients.find(ID) is None
    with pytest.raises(StackError, match="No such client"):
        waybill("client", "remove", "--id", ID)


def test_what_the_operator_admits_and_removes_is_in_the_audit_log() -> None:
    waybill("client", "add", "--id", ID, "--label", "Parsl")
    waybill("client", "remove", "--id", ID)
    rows = AuditEvent.objects.order_by("pk")
    assert [(row.what, row.details["client_id"], row.details["application"]) for row in rows] == [
        ("client_admitted", ID, "Parsl"),
        ("client_removed", ID, "Parsl"),
    ]


def test_the_page_of_globus_can_be_refused() -> None:
    waybill("client", "add", "--id", ID, "--no-globus-page")
    found = clients.find(ID)
    assert found is not None
    assert not clients.allows_redirect(found, clients.GLOBUS_CODE_PAGE, "")


def test_the_application_of_a_user_is_made_as_before(alice: User, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("alice", "alice@127.0.0.1"):
        assert waybill("client", name, "--label", "nightly") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("=")[0] for line in lines] == ["GLOBUS_CLI_CLIENT_ID", "GLOBUS_CLI_CLIENT_SECRET"] * 2
    assert {row.user for row in Application.objects.filter(name="nightly")} == {alice}
    for words in (("alice", "--id", ID), ("nobody",)):
        with pytest.raises(StackError):
            waybill("client", *words)
    assert clients.find(ID) is None
