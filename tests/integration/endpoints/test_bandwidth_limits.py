"""The bandwidth limits of an endpoint: set by its managers through REST, the page and the ssh shell, seen by others."""

from __future__ import annotations

from typing import Any

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.pages import PASSWORD, Browser
from tests.integration.rest import Api, assert_error
from tests.integration.shared import make_share
from tests.shell_context import Shell

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]

DAY = {"from": "08:00", "to": "18:00", "time_zone": "Europe/Berlin", "days": ["mon", "fri"]}
LIMITS = [{"limit": 5_000_000, "peer": None, **DAY}]
TEXT = "5000000 time=08:00-18:00 zone=Europe/Berlin days=mon,fri"


def limits(endpoint: Endpoint) -> Any:
    endpoint.refresh_from_db()
    return endpoint.bandwidth_limits


def test_rest_sets_shows_and_clears_them(alice: User, ep1: Endpoint) -> None:
    api = Api(alice)
    assert api.get("/endpoint/ep1").body["bandwidth_limits"] == []
    assert api.put("/endpoint/ep1", {"bandwidth_limits": [{"limit": 5_000_000, **DAY}]}).status == 200
    assert limits(ep1) == api.get("/endpoint/ep1").body["bandwidth_limits"] == LIMITS
    api.put("/endpoint/ep1", {"description": "another field"})
    assert limits(ep1) == LIMITS
    refused = api.put("/endpoint/ep1", {"bandwidth_limits": [{"limit": 5}]})
    assert_error(refused, 400, "ClientError.BadRequest")
    assert "bandwidth_limits[0].limit" in refused.body["message"]
    assert limits(ep1) == LIMITS
    assert api.put("/endpoint/ep1", {"bandwidth_limits": None}).status == 200
    assert limits(ep1) == []


def test_only_managers_set_them(alice: User, bob: User, charlie: User, ep1: Endpoint) -> None:
    Api(alice).put("/endpoint/ep1", {"public": True, "bandwidth_limits": LIMITS})
    for user in (bob, charlie):
        assert_error(Api(user).put("/endpoint/alice%23ep1", {"bandwidth_limits": []}), 403, "PermissionDenied")
        assert Shell(user).run("endpoint-modify alice#ep1 --bandwidth-limit off").status != 0
    assert Api(bob).get("/endpoint/alice%23ep1").body["bandwidth_limits"] == LIMITS
    bob.set_password(PASSWORD)
    bob.save()
    browser = Browser()
    browser.sign_in(bob)
    browser.get(f"/endpoints/{ep1.pk}")
    assert TEXT in browser.text
    assert 'name="bandwidth_limits"' not in browser.page
    assert limits(ep1) == LIMITS


def test_a_shared_endpoint_has_those_of_its_host(alice: User, ep1: Endpoint) -> None:
    Api(alice).put("/endpoint/ep1", {"bandwidth_limits": LIMITS})
    share = make_share(ep1, "share")
    refused = Api(alice).put(f"/endpoint/{share.pk}", {"bandwidth_limits": [{"limit": 1_000_000}]})
    assert_error(refused, 400, "ClientError.BadRequest")
    assert Api(alice).get(f"/endpoint/{share.pk}").body["bandwidth_limits"] == LIMITS
    assert limits(share) == []


def test_the_shell_sets_them_as_text(alice: User, ep1: Endpoint) -> None:
    shell = Shell(alice)
    shell.ok(f"endpoint-modify ep1 --bandwidth-limit '{TEXT}' --bandwidth-limit 9000000")
    assert limits(ep1)[:1] == LIMITS
    assert shell.ok("endpoint-details ep1 -f bandwidth_limits") == f"Bandwidth Limits: {TEXT}, 9000000\n"
    assert "Expected LIMIT" in shell.fails("endpoint-modify ep1 --bandwidth-limit '5000000 at=night'", status=2)
    shell.fails("endpoint-modify ep1 --bandwidth-limit fast")
    assert limits(ep1)[:1] == LIMITS
    shell.ok("endpoint-modify ep1 --bandwidth-limit off")
    assert limits(ep1) == []


def test_the_page_sets_them_line_by_line_and_keeps_what_was_refused(alice: User, ep1: Endpoint) -> None:
    browser = Browser()
    browser.sign_in(alice)
    here = f"/endpoints/{ep1.pk}"
    browser.get(here)
    browser.post(f"{here}/edit", bandwidth_limits=f"{TEXT}\r\n\r\n9000000\r\n")
    assert limits(ep1)[:1] == LIMITS
    assert len(limits(ep1)) == 2
    browser.get(here)
    assert TEXT in browser.page
    assert browser.post(f"{here}/edit", bandwidth_limits="7000000 days=someday").status_code == 400
    assert len(limits(ep1)) == 2
    browser.get(here)
    browser.post(f"{here}/edit", bandwidth_limits="")
    assert limits(ep1) == []
