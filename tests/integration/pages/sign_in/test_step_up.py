"""A demand of an endpoint on pages: its sentence, and a link that signs in as it demands and comes back."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from endpoints.models import Endpoint
from identity.federation import saml_directory
from identity.models import User
from tests.identity_providers.lying_saml import LyingInstitution
from tests.integration.cast import later, submit
from tests.integration.pages import PASSWORD, Browser
from tests.integration.provider import CALLBACK, make
from transferapi.tasks.models import Task
from webui import frame

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


@pytest.fixture
def browser(alice: User) -> Browser:
    """alice, who signed in 31 minutes ago."""
    browser = Browser()
    browser.sign_in(alice)
    grow_old(browser)
    return browser


def grow_old(browser: Browser) -> None:
    session = browser.client.session
    session["signed_in_at"] -= 31 * 60
    session.save()


def demand(endpoint: Endpoint, *domains: str, minutes: int | None = 30) -> None:
    fields: dict[str, Any] = {"authentication_timeout_mins": minutes, "authentication_domains": list(domains) or None}
    Endpoint.objects.filter(pk=endpoint.pk).update(**fields)


def link(browser: Browser) -> str:
    [found] = re.findall(r'href="(/signin\?again=1[^"]+)"', browser.page)
    return unescape(found)


def test_the_link_of_a_page_signs_in_again_and_comes_back(alice: User, ep1: Endpoint, browser: Browser) -> None:
    demand(ep1)
    path = f"/transfer?origin_id={ep1.pk}&origin_path=%2Fa+b%2F&plain=1"
    browser.get(path)
    assert "This endpoint asks for a sign-in in the last 30 minutes." in browser.text
    assert "Activate this endpoint" not in browser.text
    browser.get(link(browser))
    [after] = re.findall(r'name="next" value="([^"]+)"', browser.page)[:1]
    assert unescape(after) == path
    answer = browser.post("/signin", username="alice", password=PASSWORD, next=unescape(after))
    assert answer.headers["Location"] == path
    browser.get(path)
    assert "asks for a sign-in" not in browser.text


def test_the_page_names_a_second_factor(ep1: Endpoint, browser: Browser) -> None:
    Endpoint.objects.filter(pk=ep1.pk).update(mfa_required=True)
    factor = "This endpoint asks for a second factor: a passkey, or a one-time code after the password."
    browser.get(f"/transfer?origin_id={ep1.pk}&plain=1")
    assert factor in browser.text
    assert "in the last" not in browser.text
    assert parse_qs(urlsplit(link(browser)).query)["again"] == ["1"]
    demand(ep1)
    browser.get(f"/transfer?origin_id={ep1.pk}&plain=1")
    assert f"in the last 30 minutes. {factor}" in browser.text
    session = browser.client.session
    session["signed_in_at"] += 31 * 60
    session["origin"] = {**session["origin"], "way": "second"}
    session.save()
    browser.get(f"/transfer?origin_id={ep1.pk}&plain=1")
    assert "This endpoint asks" not in browser.text


def test_the_sign_in_page_names_demanded_domains_that_are_known_here(
    ep1: Endpoint, browser: Browser, settings: Any
) -> None:
    settings.PUBLIC_URL = "https://waybill.example.net"
    demand(ep1, "waybill.example.net", "elsewhere.example.org")
    browser.get(f"/transfer?origin_id={ep1.pk}&plain=1")
    assert "an identity of waybill.example.net, elsewhere.example.org in the last 30 minutes." in browser.text
    address = link(browser)
    assert parse_qs(urlsplit(address).query)["domain"] == ["waybill.example.net", "elsewhere.example.org"]
    browser.get(address)
    assert "Use an identity of waybill.example.net." in browser.text
    browser.get("/signin?again=1&domain=call+0900+for+help")
    assert "0900" not in browser.text
    assert "Use an identity" not in browser.text


@pytest.fixture
def university(settings: Any) -> None:
    settings.SAML_METADATA = ("/metadata.xml",)
    metadata = LyingInstitution("", "").metadata(scopes=("example.edu", "waybill.example.net"))
    saml_directory.refresh("/metadata.xml", metadata, [], must_be_signed=False)


@pytest.mark.usefixtures("university")
def test_a_demanded_domain_of_an_institution_leads_to_it(ep1: Endpoint, browser: Browser, settings: Any) -> None:
    settings.PUBLIC_URL = "https://waybill.example.net"
    demand(ep1, "Example.EDU", "elsewhere.example.org")
    browser.get(f"/transfer?origin_id={ep1.pk}&plain=1")
    browser.get(link(browser))
    assert "Use an identity of example.edu." in browser.text
    [found] = re.findall(r'href="(/signin/institution[^"]+)"', browser.page)
    query = parse_qs(urlsplit(unescape(found)).query)
    assert (query["q"], query["fresh"]) == (["example.edu"], ["required"])
    assert query["next"][0].startswith("/transfer?")
    browser.get(unescape(found))
    assert "Example University" in browser.text
    # Our own domain is that of no institution, and a text that is none is looked for nowhere.
    browser.get("/signin?again=1&domain=waybill.example.net&domain=%00&domain=call+0900")
    assert "Use an identity of waybill.example.net." in browser.text
    assert "/signin/institution?next=/transfer" in browser.page.replace("%2F", "/")
    assert "q=" not in browser.page.partition('href="/signin/institution')[2].partition('"')[0]


@pytest.mark.usefixtures("university")
def test_a_program_that_demands_a_domain_leads_to_the_institution(bob: User, browser: Browser) -> None:
    asked = (
        f"/v2/oauth2/authorize?{make(bob, CALLBACK).question('openid', session_required_single_domain='example.edu')}"
    )
    to = browser.get(asked).headers["Location"]
    assert parse_qs(urlsplit(to).query)["domain"] == ["example.edu"]
    browser.get(to)
    assert "Use an identity of example.edu." in browser.text
    assert "q=example.edu&amp;fresh=asked" in browser.page


def test_a_form_leads_back_to_the_page_with_the_form(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    failed = {"status": "FAILED", "phase": "done", "fatal_error_code": "EXPIRED", "completion_time": later(0)}
    Task.objects.filter(pk=task.pk).update(**failed)
    demand(ep1)
    first = frame.first_page()
    for referrer, after in {
        "http://testserver/activity?state=failed": "/activity?state=failed",
        "https://evil.example/activity": first,
        "http://testserver//evil.example/x": first,
        "http://[": first,
        "": first,
    }.items():
        browser = Browser(HTTP_REFERER=referrer)
        browser.sign_in(alice)
        grow_old(browser)
        browser.get(f"/activity/{task.pk}/again")
        [submission] = re.findall(r'name="submission_id" value="([^"]+)"', browser.page)[:1]
        answer = browser.post(f"/activity/{task.pk}/again", submission_id=submission)
        assert answer.status_code == 409, referrer
        assert "This endpoint asks for a sign-in in the last 30 minutes." in browser.text
        assert parse_qs(urlsplit(link(browser)).query)["next"] == [after]
    assert Task.objects.count() == 1
