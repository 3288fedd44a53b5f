"""The page that activates an endpoint: each form, errors beside their fields, no secret shown again."""

from __future__ import annotations

import re
import uuid
from html import unescape
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.activation import status as activation
from endpoints.activation.forms import _FORMS, Form
from endpoints.models import Endpoint
from identity.models import Credential, User
from tests.gridftp.grid import credential_of
from tests.integration.activated import proxy_of, signed
from tests.integration.cast import later, make_endpoint, submit
from tests.integration.pages import PASSWORD, Browser
from tests.integration.shared import make_share
from transferapi.tasks.models import Task
from webui.endpoint_activation import FORMS, LABELS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords", "trusting")]


@pytest.fixture
def browser(alice: User) -> Browser:
    found = Browser()
    found.sign_in(alice)
    return found


def address(endpoint: Endpoint) -> str:
    return f"/endpoints/{endpoint.pk}/activate"


def test_a_proxy_that_is_pasted_activates_and_says_that_tasks_go_on(
    browser: Browser, alice: User, gsi: Endpoint, alices: CertificateFiles
) -> None:
    task = submit(alice, gsi, gsi, ("/a", "/b"), options={"skip_activation_check": True})
    waiting = {"status": "INACTIVE", "phase": "suspended", "suspended_at": later(0), "waits_at": gsi}
    Task.objects.filter(pk=task.pk).update(**waiting)
    browser.get(f"{address(gsi)}?next=/activity")
    assert browser.page.count('<details class="card form"') == 3
    pem = proxy_of(alices).to_pem().decode().replace("\n", "\r\n")
    answer = browser.post(address(gsi), **{"form": "proxy", "proxy.proxy": pem, "next": "/activity"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/activity")
    assert activation.activation_status(alice.pk, gsi).active
    browser.get(address(gsi))
    assert "alice#gsi is activated. 1 task goes on by itself." in browser.text
    assert "PRIVATE KEY" not in browser.page


def test_a_request_is_signed_without_a_key_leaving_its_machine(
    browser: Browser, alice: User, gsi: Endpoint, alices: CertificateFiles
) -> None:
    browser.get(address(gsi))
    found = re.search(r'id="delegate_proxy-public_key"[^>]*>([^<]+)<', browser.page)
    assert found
    chain = signed({"DATA": [{"name": "public_key", "value": unescape(found[1])}]}, alices)
    assert (
        browser.post(address(gsi), **{"form": "delegate_proxy", "delegate_proxy.proxy_chain": chain}).status_code == 302
    )
    assert activation.activation_status(alice.pk, gsi).active


def test_an_ssh_endpoint_asks_for_a_key(browser: Browser, alice: User) -> None:
    browser.get(address(make_endpoint(alice, "shell", scheme="sshftp")))
    assert "An ssh key" in browser.text
    assert browser.page.count('<details class="card form"') == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"form": "proxy", "proxy.proxy": "nonsense s3cret"}, 'role="alert"'),
        ({"form": "proxy"}, "Fill in one of the forms"),
        ({"form": "myproxy", "myproxy.username": "alice7", "myproxy.passphrase": ""}, "myproxy-passphrase-wrong"),
        ({"form": "myproxy", "myproxy.username": "a\x07", "myproxy.passphrase": "s3cret"}, "myproxy-username-wrong"),
        ({"form": "nonsense", "nonsense.x": "s3cret"}, 'role="alert"'),
        ({"form": "myproxy", "proxy.proxy": "s3cret"}, "Fill in one of the forms"),
    ],
)
def test_a_form_that_is_refused_says_why_beside_its_field_and_shows_no_secret(
    browser: Browser, gsi: Endpoint, fields: dict[str, str], words: str
) -> None:
    browser.get(address(gsi))
    assert browser.post(address(gsi), **fields).status_code in (400, 422)
    assert words in browser.page
    assert "s3cret" not in browser.page
    assert not Credential.objects.exists()


def test_a_name_that_was_given_stays_in_its_field(browser: Browser, gsi: Endpoint) -> None:
    browser.get(address(gsi))
    browser.post(address(gsi), **{"form": "myproxy", "myproxy.username": "alice7"})
    assert 'value="alice7"' in browser.page


def test_a_key_of_long_life_is_refused_in_words(browser: Browser, gsi: Endpoint, alices: CertificateFiles) -> None:
    browser.get(address(gsi))
    pem = credential_of(alices).to_pem().decode()
    assert browser.post(address(gsi), **{"form": "proxy", "proxy.proxy": pem}).status_code == 400
    assert "make a proxy with it" in browser.text


def test_who_may_not_see_the_endpoint_finds_no_page(alice: User, bob: User, gsi: Endpoint) -> None:
    bob.set_password(PASSWORD)
    bob.save()
    browser = Browser()
    assert browser.get(address(gsi)).headers["Location"].startswith("/signin")
    browser.sign_in(bob)
    for path in (address(gsi), f"/endpoints/{uuid.uuid4()}/activate"):
        assert browser.get(path).status_code == 404
    browser.get("/account")
    assert browser.post(address(gsi), **{"form": "proxy", "proxy.proxy": "x"}).status_code == 404


def test_an_endpoint_that_needs_nothing_says_so(browser: Browser, ep1: Endpoint, gsi: Endpoint, settings: Any) -> None:
    browser.get(address(ep1))
    assert "You can use this endpoint without a credential." in browser.text
    assert "travels in clear" in browser.text
    settings.CLEAR_PASSWORDS = False
    browser.get(address(ep1))
    assert "This endpoint needs no credential." in browser.text
    browser.get(address(make_share(gsi, "part")))
    assert "The owner of a shared endpoint activates" in browser.text


def test_every_form_and_every_row_has_words() -> None:
    assert set(FORMS) == set(Form)
    assert {row.name for row in _FORMS} - {"state", "authorization_url"} == set(LABELS)
