"""Values that a newer version has written and this one does not know are shown as they are, and nothing fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from endpoints.models import Endpoint, Role
from identity import audit, tokens
from identity.models import Group, Membership, User
from identity.vault import store as vault
from tests.integration.cast import submit, transfer_request
from tests.integration.pages import PASSWORD, Browser
from tests.integration.rest import Api
from tests.integration.shared import give, make_share
from tests.refusals import raises_refusal
from tests.shell_context import Shell
from transferapi.tasks import moves
from transferapi.tasks.errors import UNKNOWN_STATE
from transferapi.tasks.models import File, Item, Task
from transferapi.timers import services as timers
from transferapi.timers.schedule import Schedule

NEW = "tmrw"
#: Constraints of this version that a newer one would have replaced by wider ones.
CONSTRAINTS = {
    "task_status_and_phase_agree": "tasks_task",
    "task_completion_time_iff_done": "tasks_task",
    "task_transfer_has_destination": "tasks_task",
    "access_rule_principal_where_needed": "endpoints_accessrule",
}
#: Table, column and value of each column with the values of an enum; rows are those of `stage`.
COLUMNS: tuple[tuple[str, str, str | int], ...] = (
    ("tasks_task", "phase", NEW),
    ("tasks_task", "status", NEW),
    ("tasks_task", "type", NEW),
    ("tasks_task", "nice_status", NEW),
    ("tasks_task", "canceled_by_admin", NEW),
    ("tasks_task", "data_way", NEW),
    ("tasks_event", "code", NEW),
    ("tasks_file", "state", 7),
    ("tasks_file", "kind", 7),
    ("tasks_file", "error_code", NEW),
    ("endpoints_endpoint", "network_use", NEW),
    ("endpoints_server", "scheme", NEW),
    ("endpoints_role", "role", NEW),
    ("endpoints_role", "principal_type", NEW),
    ("endpoints_accessrule", "principal_type", NEW),
    ("endpoints_accessrule", "permissions", "x"),
    ("identity_group", "group_visibility", NEW),
    ("identity_group", "group_members_visibility", NEW),
    ("identity_membership", "role", NEW),
    ("identity_membership", "status", NEW),
    ("identity_credential", "kind", NEW),
    ("timers_timer", "status", NEW),
    ("timers_timer", "schedule", '{"type": "cron", "cron": "0 2 * * 1-5"}'),
    ("identity_auditevent", "what", NEW),
)
#: Routes whose documents have the value.
SHOWN = {
    ("tasks_task", "status"): "/task/{task}",
    ("tasks_task", "type"): "/task/{task}",
    ("tasks_task", "nice_status"): "/task/{task}",
    ("tasks_event", "code"): "/task/{task}/event_list",
    ("endpoints_server", "scheme"): "/endpoint/{source}/server_list",
    ("endpoints_role", "role"): "/endpoint/{source}/role_list",
}


@pytest.fixture
def stage(alice: User, bob: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    """A row in each of the tables, of alice, who is staff."""
    alice.is_staff = True
    alice.save()
    task, now = submit(alice, ep1, ep2), datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for name, table in CONSTRAINTS.items():
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    timers.create(alice, name="t", plan=Schedule(now), request=transfer_request(ep1, ep2), now=now)
    place = f"endpoint:{ep1.pk}"
    vault.store(alice, place, vault.CredentialKind.PASSWORD, b"x", subject="x", expires_at=now + timedelta(days=1))
    share = make_share(ep1, "share")
    give(share, bob)
    Role.objects.create(endpoint=ep1, principal_type="identity", principal=bob.pk, role="administrator")
    group = Group.objects.create(name="g")
    for user in (alice, bob):
        Membership.objects.create(group=group, user=user, role="admin", status="active")
    item = Item.objects.get(task=task)
    File.objects.create(task=task, item=item, source_path="/a", destination_path="/b", key=b"k" * 16)
    audit.record(audit.What.USER_ADDED, alice)
    return task


def addresses(task: Task) -> tuple[list[str], list[str], list[str]]:
    """Routes of the API, pages, and commands of the shell that show the rows."""
    source, group = task.source_id, Group.objects.get().pk
    share = Endpoint.objects.get(host=source).pk
    api = ["/task_list", "/endpoint_search?filter_scope=my-endpoints", "/bookmark_list"]
    for part in ("", "/event_list", "/successful_transfers", "/skipped_errors", "/pause_info", "/forecast"):
        api.append(f"/task/{task.pk}{part}")
    for endpoint in (source, share):
        for part in ("", "/server_list", "/role_list", "/access_list", "/activation_requirements"):
            api.append(f"/endpoint/{endpoint}{part}")
    pages = ["/activity", f"/activity/{task.pk}", "/transfer", "/endpoints", "/timers", "/groups", f"/groups/{group}"]
    pages += [
        f"/endpoints/{source}",
        f"/endpoints/{share}",
        f"/endpoints/{source}/activate",
        "/account",
        "/console",
        "/console/audit",
    ]
    shell = ["status", f"details {task.pk}", f"details -t {task.pk}", f"events -a {task.pk}", "endpoint-list -v"]
    shell += ["endpoint-details ep1", "endpoint-role-list ep1", "server-list ep1", "history", f"acl-list {share}"]
    return api, pages, shell


def one_of_each_table() -> list[list[tuple[str, str, str | int]]]:
    """The columns in groups, in which each table comes once: fewer tests ask for every page."""
    groups: list[list[tuple[str, str, str | int]]] = []
    for column in COLUMNS:
        free = next((group for group in groups if column[0] not in {table for table, _, _ in group}), None)
        if free is None:
            groups.append([column])
        else:
            free.append(column)
    return groups


@pytest.mark.parametrize("columns", one_of_each_table(), ids=lambda columns: columns[0][1])
def test_an_unknown_value_is_shown_and_fails_nothing(
    stage: Task, passwords: None, alice: User, columns: list[tuple[str, str, str | int]]
) -> None:
    with connection.cursor() as cursor:
        # Without the trigger of the audit log.
        cursor.execute("SET LOCAL session_replication_role = replica")
        for table, column, value in columns:
            more = ", settled_at = now()" if (table, column) == ("tasks_file", "state") else ""
            cursor.execute(f"UPDATE {table} SET {column} = %s{more}", [value])
            assert cursor.rowcount, f"{table} is empty"
        cursor.execute("SET LOCAL session_replication_role = origin")
    api, pages, shell = addresses(stage)
    client, browser = Client(raise_request_exception=False), Browser(HTTP_ACCEPT="text/html")
    headers = {"Authorization": f"Bearer {tokens.issue(alice)}"}
    answers: dict[str, Any] = {path: client.get(f"/v0.10{path}", headers=headers) for path in api}
    answers |= {path: client.get(path, headers=headers) for path in ("/v2/groups/my_groups", "/jobs/")}
    assert browser.sign_in(alice, PASSWORD).status_code == 302
    answers |= {path: browser.get(path) for path in pages}
    assert {path: answer.status_code for path, answer in answers.items() if answer.status_code >= 500} == {}
    assert {path: answers[path].status_code for path in ("/jobs/", "/timers")} == {"/jobs/": 200, "/timers": 200}
    lines = {line: Shell(alice).run(line).err for line in shell}
    assert {line: text for line, text in lines.items() if "The service failed" in text} == {}
    for table, column, value in columns:
        if place := SHOWN.get((table, column)):
            shown = answers[place.format(task=stage.pk, source=stage.source_id)]
            assert f'"{value}"' in shown.content.decode(), (table, column)


def test_a_task_in_an_unknown_phase_is_not_moved(stage: Task, alice: User) -> None:
    Task.objects.update(phase=NEW)
    with raises_refusal(UNKNOWN_STATE):
        moves.cancel(alice, stage.pk)
    answer = Api(alice).post(f"/task/{stage.pk}/cancel")
    assert (answer.status, answer.code) == (409, "Conflict")
    assert Task.objects.get().phase == NEW
