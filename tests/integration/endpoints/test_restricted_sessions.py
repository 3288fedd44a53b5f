"""A session whose key is restricted to some endpoints: for all services, the other endpoints do not exist."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from endpoints import bookmarks, managed_endpoints, operations, pause_rules, registry
from endpoints.activation import services as activation
from endpoints.errors import ENDPOINTS_FIXED, BookmarkNotFoundError, EndpointNotFoundError, NotPermittedError
from endpoints.files import downloads
from endpoints.files.uploads import Upload
from endpoints.models import Endpoint
from endpoints.permissions import Permission, in_reach, is_restricted, may, restricted_to
from endpoints.registry import SearchFilters, SearchScope, ServerSpec
from endpoints.sharing import access, access_rules, roles, shares
from endpoints.sharing.access_rules import RuleSpec
from identity.error_categories import NotFoundError
from identity.models import User
from tests.integration.cast import submit, submit_delete, transfer_request
from tests.integration.shared import give, make_share
from tests.refusals import raises_refusal
from transferapi.tasks import moves, queries, removal, submission
from transferapi.tasks.errors import TASKS_NOT_PERMITTED, TOO_MANY_PENDING, RequestError, TaskNotFoundError
from transferapi.tasks.forecast import services as forecast
from transferapi.tasks.forecast.model import ForecastWork
from transferapi.tasks.managers import actions, managed_tasks, pauses
from transferapi.tasks.managers.managed_tasks import ManagedTaskFilter
from transferapi.tasks.models import Task
from transferapi.tasks.queries import TaskFilter
from transferapi.tasks.states import Phase

pytestmark = pytest.mark.django_db
WORK = ForecastWork(1, 1)


@pytest.fixture
def share(ep2: Endpoint) -> Endpoint:
    """alice's, of her ep2."""
    return make_share(ep2, "share")


def delete_files(user: User, ref: str) -> object:
    return submission.submit_delete(user, submission.DeleteRequest(uuid.uuid4(), ref, ["/old"]))


def give_all(user: User, ref: str) -> object:
    return access_rules.create(user, ref, RuleSpec("all_authenticated_users", None, "/", "r"))


#: Calls with the user and the name of an endpoint: every way of the services to an endpoint.
WAYS: dict[str, Callable[[User, str], object]] = {
    "view": lambda user, ref: registry.resolve(user, ref, Permission.VIEW),
    "show": bookmarks.show_endpoint,
    "bookmark": lambda user, ref: bookmarks.create(user, name="new", endpoint=ref, path="/"),
    "list": lambda user, ref: operations.list_directory(user, ref, "/"),
    "stat": lambda user, ref: operations.stat(user, ref, "/"),
    "make a folder": lambda user, ref: operations.make_directory(user, ref, "/new"),
    "make a link": lambda user, ref: operations.make_symlink(user, ref, "one", "/other"),
    "rename": lambda user, ref: operations.rename(user, ref, "/one", "/other"),
    "download": lambda user, ref: downloads.open_file(user, ref, "/file"),
    "upload": lambda user, ref: Upload(user, ref, "/file"),
    "change": lambda user, ref: registry.update(user, ref, {"description": "taken"}),
    "delete": registry.delete,
    "add a server": lambda user, ref: registry.add_server(user, ref, ServerSpec.parse("ftp://new.example.org")),
    "change a server": lambda user, ref: registry.update_server(user, ref, 1, ServerSpec.parse("ftp://h.example.org")),
    "remove a server": lambda user, ref: registry.remove_server(user, ref, 1),
    "requirements": activation.requirements,
    "activate": lambda user, ref: activation.activate(user, ref, []),
    "autoactivate": activation.autoactivate,
    "deactivate": activation.deactivate,
    "share": lambda user, ref: shares.create(user, ref, "/folder/", {"name": "mine"}),
    "list shares": shares.mine,
    "list the shares of all": shares.of_host,
    "list rules": access_rules.of_share,
    "read a rule": lambda user, ref: access_rules.get(user, ref, str(uuid.uuid4())),
    "give access": give_all,
    "list roles": roles.of_endpoint,
    "give a role": lambda user, ref: roles.create(user, ref, "identity", str(user.pk), "activity_monitor"),
    "monitor": managed_endpoints.get,
    "monitor shares": managed_endpoints.shares_on,
    "monitor rules": managed_endpoints.access_rules,
    "monitor tasks": lambda user, ref: managed_tasks.list_tasks(user, ManagedTaskFilter(endpoint=ref)),
    "list pause rules": pause_rules.listed,
    "pause": lambda user, ref: pause_rules.create(user, ref, {"message": "stop"}),
    "pauses": pause_rules.effective_by_ref,
    "delete files": delete_files,
    "forecast from": lambda user, ref: forecast.before(user, ref, "ep1", WORK),
    "forecast to": lambda user, ref: forecast.before(user, "ep1", ref, WORK),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ref", ["ep2", "alice#ep2", "share", "uuid"])
def test_no_way_leads_to_another_endpoint_or_share(
    alice: User, ep1: Endpoint, ep2: Endpoint, share: Endpoint, way: str, ref: str
) -> None:
    name = str(ep2.pk) if ref == "uuid" else ref
    with restricted_to([ep1.pk]), pytest.raises(EndpointNotFoundError):
        WAYS[way](alice, name)


def test_the_named_endpoint_is_used_as_ever(alice: User, bob: User, ep1: Endpoint, ep2: Endpoint) -> None:
    with restricted_to([ep1.pk]):
        assert {verb for verb in Permission if may(alice, verb, ep1)} == set(Permission)
        assert not any(may(alice, verb, ep2) for verb in Permission)
        assert registry.resolve(alice, "ep1", Permission.MANAGE) == ep1
        assert not may(bob, Permission.VIEW, ep1)
        assert registry.update(alice, "ep1", {"description": "new"}).description == "new"


def test_a_share_and_its_host_are_two_endpoints(alice: User, bob: User, ep2: Endpoint, share: Endpoint) -> None:
    """bob uses the share by a rule; that its owner may share from the host is no matter of bob's session."""
    give(share, bob, write=True)
    with restricted_to([share.pk]):
        assert access.of(bob, registry.resolve(bob, "alice#share", Permission.WRITE), Permission.WRITE).host == ep2
        assert registry.resolve(alice, "share", Permission.MANAGE) == share
        with pytest.raises(EndpointNotFoundError):
            registry.resolve(alice, "ep2", Permission.VIEW)
    with restricted_to([ep2.pk]):
        for user in (alice, bob):
            with pytest.raises(EndpointNotFoundError):
                registry.resolve(user, "alice#share", Permission.VIEW)
            with pytest.raises(NotPermittedError):
                access.of(user, share, Permission.BROWSE)
        assert shares.mine(alice, "ep2") == []
        assert shares.of_host(alice, "ep2").rows == []
        assert managed_endpoints.shares_on(alice, "ep2") == []
    assert shares.mine(alice, "ep2") == shares.of_host(alice, "ep2").rows == [share]


@pytest.mark.parametrize("scope", SearchScope)
def test_no_search_finds_another_endpoint(alice: User, ep1: Endpoint, share: Endpoint, scope: SearchScope) -> None:
    among = list(Endpoint.objects.values_list("pk", flat=True))
    everything, _ = registry.search(alice, scope=scope, among=among)
    with restricted_to([ep1.pk]):
        found, _ = registry.search(alice, scope=scope, among=among)
        hosted, _ = registry.search(alice, scope=scope, among=among, filters=SearchFilters(host="ep2"))
        assert managed_endpoints.monitored(alice) == [ep1]
    assert found == [row for row in everything if row == ep1]
    assert hosted == []


def test_a_restricted_session_creates_no_endpoint_and_no_share(alice: User, ep1: Endpoint) -> None:
    """It could not reach the new one; and a share would give others what the key was restricted to."""
    with restricted_to([ep1.pk]):
        with raises_refusal(ENDPOINTS_FIXED):
            registry.create(alice, {"name": "new"}, [ServerSpec.parse("ftp://new.example.org")])
        with raises_refusal(ENDPOINTS_FIXED):
            shares.create(alice, "ep1", "/folder/", {"name": "new"})
    assert Endpoint.objects.count() == 1


def test_a_deleted_host_takes_its_shares_along_also_where_the_session_does_not_reach_them(
    alice: User, ep2: Endpoint, share: Endpoint
) -> None:
    with restricted_to([ep2.pk]):
        assert registry.delete(alice, "ep2").shares == 1
    assert not registry.existing().exists()


def test_bookmarks_of_other_endpoints_are_not_there(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    mine, other = (bookmarks.create(alice, name=name, endpoint=name, path="/") for name in ("ep1", "ep2"))
    with restricted_to([ep1.pk]):
        assert bookmarks.all_of(alice) == [mine]
        for forbidden in (
            lambda: bookmarks.get(alice, other.pk),
            lambda: bookmarks.update(alice, other.pk, name="taken"),
            lambda: bookmarks.delete(alice, other.pk),
        ):
            with pytest.raises(BookmarkNotFoundError):
                forbidden()
        with pytest.raises(EndpointNotFoundError):
            bookmarks.show_endpoint(alice, str(ep2.pk))
    assert bookmarks.all_of(alice) == [mine, other]


def test_pause_rules_of_other_endpoints_are_not_there(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    rule = pause_rules.create(alice, "ep2", {"message": "stop"})
    with restricted_to([ep1.pk]):
        assert pause_rules.listed(alice) == []
        for forbidden in (pause_rules.get, pause_rules.delete):
            with pytest.raises(NotFoundError):
                forbidden(alice, str(rule.pk))


# ---- tasks


@pytest.mark.parametrize(
    ("source", "destination"), [("ep1", "ep2"), ("ep2", "ep1"), ("ep1", "share"), ("share", "ep1")]
)
def test_a_transfer_needs_both_endpoints(
    alice: User, ep1: Endpoint, ep2: Endpoint, share: Endpoint, source: str, destination: str
) -> None:
    places = {"ep1": ep1, "ep2": ep2, "share": share}
    request = transfer_request(places[source], places[destination])
    with restricted_to([ep1.pk]):
        for forbidden in (submission.submit_transfer, submission.check_transfer):
            with pytest.raises(EndpointNotFoundError):
                forbidden(alice, request)
    with restricted_to([ep1.pk, places[source].pk, places[destination].pk]):
        assert submission.submit_transfer(alice, request)[1]


def test_a_repeated_submission_does_not_reveal_a_task_at_other_endpoints(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    known = uuid.uuid4()
    submit(alice, ep1, ep2, submission_id=known)
    with restricted_to([ep1.pk]), pytest.raises(RequestError):
        submission.submit_transfer(alice, transfer_request(ep1, ep1, submission_id=known))


@pytest.fixture
def hidden_tasks(alice: User, ep1: Endpoint, ep2: Endpoint, share: Endpoint) -> list[Task]:
    """alice's tasks at endpoints that are not all in reach of a session with ep1."""
    ways = [(ep1, ep2), (ep2, ep1), (ep1, share), (share, ep1)]
    return [*(submit(alice, *way) for way in ways), submit_delete(alice, ep2), submit_delete(alice, share)]


#: Calls with the user and a task.
TASK_WAYS: dict[str, Callable[[User, uuid.UUID], object]] = {
    "read": queries.get,
    "events": queries.events,
    "transfers": queries.successful_transfers,
    "skipped": queries.skipped_errors,
    "pauses": pauses.info,
    "cancel": moves.cancel,
    "modify": lambda user, task: moves.update(user, task, label="taken"),
    "resume": moves.resume,
    "remove": removal.remove,
    "monitor": managed_tasks.get,
    "monitor events": managed_tasks.events,
    "pause as a manager": lambda user, task: actions.pause(user, [task], "stop"),
    "cancel as a manager": lambda user, task: actions.cancel(user, [task], "stop"),
}


@pytest.mark.parametrize("way", TASK_WAYS)
def test_a_task_that_touches_another_endpoint_is_not_there(
    alice: User, ep1: Endpoint, hidden_tasks: list[Task], way: str
) -> None:
    with restricted_to([ep1.pk]):
        for task in hidden_tasks:
            with pytest.raises(TaskNotFoundError):
                TASK_WAYS[way](alice, task.pk)
    assert not Task.objects.exclude(phase=Phase.QUEUED).exists()


def test_lists_have_only_the_tasks_within_the_restriction(alice: User, ep1: Endpoint, hidden_tasks: list[Task]) -> None:
    mine = [submit(alice, ep1, ep1), submit_delete(alice, ep1)]
    with restricted_to([ep1.pk]):
        page = queries.list_tasks(alice, TaskFilter())
        assert ({task.pk for task in page.rows}, page.total) == ({task.pk for task in mine}, 2)
        assert queries.list_tasks(alice, TaskFilter(), limit=1).total == 2
        named = queries.list_tasks(alice, TaskFilter(task_ids=[task.pk for task in hidden_tasks]))
        assert (named.rows, named.total) == ([], 0)
        assert queries.endpoints_of(alice, unfinished=True) == {ep1.pk}
        with raises_refusal(TASKS_NOT_PERMITTED):
            managed_tasks.list_tasks(alice, ManagedTaskFilter(task_ids=[hidden_tasks[0].pk]))
        overseen, _ = managed_tasks.list_tasks(alice, ManagedTaskFilter(endpoint="ep1"))
        assert {seen.task.pk for seen in overseen} == {task.pk for task in mine}
    assert queries.list_tasks(alice, TaskFilter()).total == 8


def test_tasks_out_of_sight_still_count_for_the_limit_of_a_user(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    settings.LIMITS = replace(settings.LIMITS, pending_tasks=1)
    submit(alice, ep2, ep2)
    with restricted_to([ep1.pk]), raises_refusal(TOO_MANY_PENDING):
        submit(alice, ep1, ep1)


# ---- the restriction itself


def test_a_restriction_ends_with_its_block_and_is_only_narrowed_inside_it(ep1: Endpoint, ep2: Endpoint) -> None:
    with restricted_to([ep1.pk]):
        with restricted_to([ep1.pk, ep2.pk]):
            assert (in_reach(ep1.pk), in_reach(ep2.pk)) == (True, False)
        with restricted_to(None):
            assert not in_reach(ep2.pk)
        with restricted_to([ep2.pk]):
            assert not in_reach(ep1.pk)
            assert not in_reach(ep2.pk)
        with pytest.raises(ZeroDivisionError), restricted_to([]):
            _ = 1 / 0
        assert in_reach(ep1.pk)
    assert not is_restricted()
    with restricted_to(None):
        assert in_reach(ep1.pk, ep2.pk, None)


def test_the_restriction_of_one_session_is_none_of_another(ep1: Endpoint) -> None:
    """Each session calls in a thread of its own."""
    seen: list[bool] = []
    with restricted_to([ep1.pk]):
        thread = threading.Thread(target=lambda: seen.append(is_restricted()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_no_restriction_costs_no_condition(alice: User, ep1: Endpoint) -> None:
    before = str(Task.objects.filter(queries._shown_to(alice)).query)
    with restricted_to([ep1.pk]):
        assert len(str(Task.objects.filter(queries._shown_to(alice)).query)) > len(before)
    assert str(Task.objects.filter(queries._shown_to(alice)).query) == before
