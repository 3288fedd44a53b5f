"""Endpoints demand how old a sign-in is, and of which domain; clients learn what to ask for; tasks go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints import assurance, registry
from endpoints.errors import StepUpRequiredError
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from endpoints.sharing import access_rules, shares
from endpoints.sharing.access_rules import RuleSpec
from identity import linked_identities as linked
from identity import tokens, user_names
from identity.error_categories import InvalidFieldError
from identity.models import LinkedIdentity, OneTimeCodeSecret, User
from identity.proven_identities import Proven
from identity.sign_in_proof import Background, Present, SignInProof, proven_by
from tests.integration.cast import submit, take, transfer_request
from tests.integration.pages import Browser
from tests.integration.rest import Api
from transferapi.tasks.worker import endpoint_access
from transferapi.timers import running
from transferapi.timers import services as timers
from transferapi.timers.models import Timer
from transferapi.timers.schedule import Schedule

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


def demand(endpoint: Endpoint, **fields: Any) -> Endpoint:
    Endpoint.objects.filter(pk=endpoint.pk).update(**fields)
    endpoint.refresh_from_db()
    return endpoint


def signed_in(minutes: float = 0, identity: str = "", way: str = "password") -> SignInProof:
    return SignInProof(datetime.now(UTC) - timedelta(minutes=minutes), way, identity or "alice@127.0.0.1")


def link(user: User, username: str = "alice@example.org", subject: str = "s-1") -> LinkedIdentity:
    return linked.link(user, Proven.of("oidc:https://id.example", subject, username, time.time()), time.time())


@pytest.fixture
def strict(alice: User, ep1: Endpoint) -> Endpoint:
    link(alice)
    link(alice, "alice@evil.example.org", "s-2")
    link(alice, "alice@example.org@evil.net", "s-3")
    return demand(ep1, authentication_timeout_mins=30, authentication_domains=["example.org"])


@pytest.mark.parametrize(
    ("found", "is_enough"),
    [
        (lambda: None, False),
        (lambda: signed_in(), False),
        (lambda: signed_in(identity="alice@example.org"), True),
        (lambda: signed_in(29, "alice@EXAMPLE.org"), True),
        (lambda: signed_in(31, "alice@example.org"), False),
        (lambda: signed_in(0, "alice@evil.example.org"), False),
        (lambda: signed_in(0, "alice@example.org@evil.net"), False),
        (Background, True),
    ],
)
def test_a_demand_is_met_by_a_sign_in_of_the_domain_that_is_new_enough(
    alice: User, strict: Endpoint, found: Callable[[], Present], is_enough: bool
) -> None:
    """The time of a sign-in is that of the test, not of its collection."""
    with proven_by(found):
        for verb in (Permission.BROWSE, Permission.WRITE, Permission.TRANSFER_FROM, Permission.TRANSFER_TO):
            if is_enough:
                assert registry.resolve(alice, "ep1", verb) == strict
            else:
                with pytest.raises(StepUpRequiredError):
                    registry.resolve(alice, "ep1", verb)
        # The document shows the demand, so that its readers can meet it.
        assert registry.resolve(alice, "ep1", Permission.VIEW) == strict


def test_an_identity_that_is_no_longer_linked_meets_no_demand(alice: User, bob: User, strict: Endpoint) -> None:
    row = linked.of(alice)[0]
    with proven_by(lambda: signed_in(identity="alice@example.org")):
        assert registry.resolve(alice, "ep1", Permission.BROWSE) == strict
        linked.unlink(alice, row.pk)
        link(bob, row.username, row.subject)
        with pytest.raises(StepUpRequiredError):
            registry.resolve(alice, "ep1", Permission.BROWSE)


def test_a_demand_without_a_domain_asks_for_no_identity(
    alice: User, ep1: Endpoint, django_assert_num_queries: Any
) -> None:
    found = signed_in(identity="alice@gone.example")
    place = demand(ep1, authentication_timeout_mins=30)
    with proven_by(lambda: found), django_assert_num_queries(0):
        assurance.check(alice, Permission.BROWSE, place)
    demand(ep1, authentication_domains=["gone.example"])
    with proven_by(lambda: found), django_assert_num_queries(1), pytest.raises(StepUpRequiredError):
        assurance.check(alice, Permission.BROWSE, place)


def test_a_name_of_this_service_is_of_its_domain(alice: User, ep1: Endpoint, settings: Any) -> None:
    settings.PUBLIC_URL = "https://waybill.example.net"
    demand(ep1, authentication_domains=["waybill.example.net"])
    with proven_by(lambda: signed_in(identity=user_names.identity_name(alice))):
        assert registry.resolve(alice, "ep1", Permission.BROWSE) == ep1


@pytest.mark.parametrize("found", [lambda: signed_in(identity="alice@example.org"), Background], ids=["now", "timer"])
def test_a_user_name_with_the_domain_of_somebody_else_proves_nothing_about_that_domain(
    alice: User, ep1: Endpoint, found: Callable[[], Present]
) -> None:
    """A directory may name its users as it likes: the name is one of the demanded domain once a provider says so."""
    User.objects.filter(pk=alice.pk).update(username="alice@example.org")
    alice.refresh_from_db()
    assert user_names.identity_name(alice) == "alice@example.org"
    demand(ep1, authentication_domains=["example.org"])
    with proven_by(found):
        with pytest.raises(StepUpRequiredError):
            registry.resolve(alice, str(ep1.pk), Permission.BROWSE)
        link(alice)
        assert registry.resolve(alice, str(ep1.pk), Permission.BROWSE) == ep1


@pytest.mark.parametrize(("way", "is_enough"), [
    ("passkey", True), ("second", True), ("code", True), ("password", False), ("provider", False), ("link", False),
    ("certificate", False), ("", False),
])  # fmt: skip
def test_a_demand_for_a_second_factor_is_met_by_a_passkey_or_a_code(
    alice: User, ep1: Endpoint, way: str, is_enough: bool
) -> None:
    demand(ep1, mfa_required=True)
    OneTimeCodeSecret.objects.create(user=alice, key_id="k", sealed=b"s", confirmed_at=datetime.now(UTC))
    share = shares.create(alice, str(ep1.pk), "/data/", {"name": "shared", "display_name": "shared"})
    for place in (ep1, share):
        with proven_by(lambda: signed_in(24 * 60, way=way)):
            if is_enough:
                assert registry.resolve(alice, str(place.pk), Permission.BROWSE) == place
            else:
                with pytest.raises(StepUpRequiredError):
                    registry.resolve(alice, str(place.pk), Permission.BROWSE)
        with proven_by(Background):
            assert registry.resolve(alice, str(place.pk), Permission.TRANSFER_FROM) == place
    demand(ep1, authentication_timeout_mins=30)
    with proven_by(lambda: signed_in(31, way=way)), pytest.raises(StepUpRequiredError):
        registry.resolve(alice, str(ep1.pk), Permission.BROWSE)


def test_a_share_demands_what_its_host_demands(alice: User, bob: User, ep1: Endpoint) -> None:
    share = shares.create(alice, str(ep1.pk), "/data/", {"name": "shared", "display_name": "shared"})
    access_rules.create(alice, str(share.pk), RuleSpec("identity", str(bob.pk), "/", "r"))
    demand(ep1, authentication_timeout_mins=5)
    with proven_by(lambda: signed_in(6)), pytest.raises(StepUpRequiredError):
        registry.resolve(bob, str(share.pk), Permission.BROWSE)
    with proven_by(lambda: signed_in(4)):
        assert registry.resolve(bob, str(share.pk), Permission.BROWSE) == share


def run_timer(timer: Timer) -> str:
    """Run it now; the code of the refusal, "" for none."""
    now = datetime.now(UTC)
    Timer.objects.filter(pk=timer.pk).update(next_run=now, status="loaded", refused_in_a_row=0, last_task=None)
    assert running.run_due(10, now) == 1
    timer.refresh_from_db()
    return str(timer.last_error["code"]) if timer.last_error else ""


def test_a_timer_that_is_older_than_the_demand_goes_on_only_for_who_could_meet_it(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    """A timer lives for years: who has made one before the demand, or for the identity of an employer that is left."""
    plan = Schedule(datetime.now(UTC) + timedelta(hours=1), 3600)
    timer = timers.create(alice, name=None, plan=plan, request=transfer_request(ep1, ep2))
    assert run_timer(timer) == ""
    demand(ep1, authentication_domains=["example.org"], authentication_timeout_mins=30)
    assert run_timer(timer) == "AuthorizationRequired"
    row = link(alice)
    assert run_timer(timer) == ""
    linked.unlink(alice, row.pk)
    assert run_timer(timer) == "AuthorizationRequired"
    demand(ep1, authentication_domains=None, mfa_required=True)
    assert run_timer(timer) == "AuthorizationRequired"
    OneTimeCodeSecret.objects.create(user=alice, key_id="k", sealed=b"s", confirmed_at=datetime.now(UTC))
    assert run_timer(timer) == ""
    demand(ep1, mfa_required=False, authentication_timeout_mins=1)
    assert run_timer(timer) == "", "nobody is there who could sign in again"


def test_tasks_that_were_submitted_go_on(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    demand(ep1, authentication_timeout_mins=1)
    with pytest.raises(StepUpRequiredError):
        submit(alice, ep1, ep2)
    grant = take(task)
    assert grant.task_id == task.pk
    assert endpoint_access.present_access(alice.pk, ep1.pk, next(iter(grant.accesses)), is_delete=False) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"authentication_timeout_mins": 0},
        {"authentication_timeout_mins": "30"},
        {"authentication_timeout_mins": True},
        {"authentication_timeout_mins": 10**9},
        {"authentication_domains": "example.org"},
        {"authentication_domains": ["exa mple"]},
        {"authentication_domains": [7]},
        {"authentication_domains": ["example.org"] * 21},
    ],
)
def test_a_demand_that_is_none_is_refused(alice: User, ep1: Endpoint, fields: dict[str, object]) -> None:
    with pytest.raises(InvalidFieldError):
        registry.update(alice, "ep1", fields)


# ---- on the wire


def refusal(api: Api) -> Any:
    answer = api.get("/operation/endpoint/ep1/ls")
    assert (answer.status, answer.body["code"]) == (403, "AuthorizationRequired")
    return answer


def test_clients_learn_what_to_ask_for(alice: User, ep1: Endpoint) -> None:
    api = Api(alice)
    changed = {"DATA_TYPE": "endpoint", "authentication_timeout_mins": 30}
    assert api.put(f"/endpoint/{ep1.pk}", changed).status == 200
    assert api.get(f"/endpoint/{ep1.pk}").body["authentication_timeout_mins"] == 30
    answer = refusal(api)
    parameters = answer.body["authorization_parameters"]
    assert parameters["session_required_identities"] == [str(alice.pk)]
    assert (parameters["prompt"], "30 minutes" in parameters["session_message"]) == ("login", True)
    header = answer.headers["WWW-Authenticate"]
    assert header.startswith('Bearer error="insufficient_user_authentication"')
    assert header.endswith("max_age=1800")
    api.put(f"/endpoint/{ep1.pk}", {**changed, "authentication_domains": ["Example.org"]})
    assert refusal(api).body["authorization_parameters"]["session_required_single_domain"] == ["example.org"]
    assert "session_required_mfa" not in refusal(api).body["authorization_parameters"]
    assert api.put(f"/endpoint/{ep1.pk}", {**changed, "mfa_required": True}).status == 200
    assert api.get(f"/endpoint/{ep1.pk}").body["mfa_required"] is True
    answer = refusal(api)
    assert answer.body["authorization_parameters"]["session_required_mfa"] is True
    assert "by a passkey or by a one-time code" in answer.body["message"]
    # null keeps a flag.
    api.put(f"/endpoint/{ep1.pk}", {"DATA_TYPE": "endpoint", "mfa_required": None})
    assert api.get(f"/endpoint/{ep1.pk}").body["mfa_required"] is True
    api.put(f"/endpoint/{ep1.pk}", {"DATA_TYPE": "endpoint", "mfa_required": False})
    none = {"DATA_TYPE": "endpoint", "authentication_timeout_mins": None, "authentication_domains": None}
    api.put(f"/endpoint/{ep1.pk}", none)
    assert api.get("/operation/endpoint/ep1/ls").body["code"] != "AuthorizationRequired"


@pytest.fixture
def browser(alice: User) -> Browser:
    browser = Browser()
    browser.sign_in(alice)
    return browser


def test_a_session_of_the_pages_meets_a_demand_while_it_is_new(alice: User, ep1: Endpoint, browser: Browser) -> None:
    demand(ep1, authentication_timeout_mins=30)
    path = f"/v0.10/operation/endpoint/{ep1.pk}/ls"
    # Then the address gate refuses: it was allowed.
    assert browser.client.get(path).status_code == 502
    session = browser.client.session
    session["signed_in_at"] -= 31 * 60
    session.save()
    assert browser.client.get(path).json()["code"] == "AuthorizationRequired"
    # A token that comes with a new session counts alone.
    session["signed_in_at"] += 31 * 60
    session.save()
    token = tokens.issue(alice)
    assert browser.client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == 403
