"""The pages of agents: the program for everybody, a setup key for its owner, once."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile

import pytest
from django.test import Client

from endpoints.connect import setup
from endpoints.connect.program import program
from endpoints.connect.setup import AgentVersion
from endpoints.gridftp.agent.keys import AgentKey
from endpoints.gridftp.agent.setup_key import SetupKey
from endpoints.models import Agent, Endpoint
from identity.hidden import Secret
from identity.models import User
from tests.integration.pages import PASSWORD, Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


def signed_in(user: User) -> Browser:
    user.set_password(PASSWORD)
    user.save()
    browser = Browser()
    browser.sign_in(user)
    return browser


def shown_key(browser: Browser) -> str:
    found = re.search(r"wb1\.[A-Za-z0-9_-]+", browser.page)
    assert found, browser.text
    return found[0]


@pytest.mark.parametrize("language", ["en", "de"])
def test_everybody_sees_what_the_program_is_and_its_digest(language: str) -> None:
    browser = Browser(HTTP_ACCEPT_LANGUAGE=language)
    assert browser.get("/connect").status_code == 200
    assert program().digest in browser.text
    assert ("Drei Schritte" if language == "de" else "Three steps") in browser.text


def test_the_program_that_is_offered_has_the_digest_that_is_shown() -> None:
    answer = Client().get("/connect/waybill-connect.pyz")
    assert hashlib.sha256(answer.content).hexdigest() == program().digest
    assert zipfile.ZipFile(io.BytesIO(answer.content)).testzip() is None
    again = Client().get("/connect/waybill-connect.pyz", HTTP_IF_NONE_MATCH=answer["ETag"])
    assert again.status_code == 304
    assert Client().post("/connect/waybill-connect.pyz").status_code == 405


def test_a_form_makes_an_endpoint_and_shows_its_setup_key_once(alice: User) -> None:
    browser = signed_in(alice)
    browser.get("/endpoints/new")
    assert "/endpoints/connect" in browser.page
    browser.get("/endpoints/connect")
    assert browser.post("/endpoints/connect", name="laptop", display_name="My laptop").status_code == 201
    key = SetupKey.parse(shown_key(browser))
    endpoint = Endpoint.objects.get(personal=True)
    assert key.endpoint == str(endpoint.pk)
    setup.set_up(Secret(key.secret), AgentKey.new().request("agent"), AgentVersion("1", "Linux"))
    browser.get(f"/endpoints/{endpoint.pk}")
    assert "wb1." not in browser.page
    assert "Not connected" in browser.text
    assert "Add a server" not in browser.text


def test_a_name_that_is_taken_is_refused_in_the_form(alice: User) -> None:
    browser = signed_in(alice)
    for status in (201, 409):
        browser.get("/endpoints/connect")
        assert browser.post("/endpoints/connect", name="laptop").status_code == status
    assert "exists already" in browser.text


def test_the_owner_makes_a_new_key_and_revokes_the_agent(alice: User) -> None:
    browser = signed_in(alice)
    browser.get("/endpoints/connect")
    browser.post("/endpoints/connect", name="laptop")
    key, endpoint = SetupKey.parse(shown_key(browser)), Endpoint.objects.get()
    setup.set_up(Secret(key.secret), AgentKey.new().request("agent"), AgentVersion())
    browser.get(f"/endpoints/{endpoint.pk}")
    assert browser.post(f"/endpoints/{endpoint.pk}/setup-key").status_code == 201
    assert shown_key(browser)
    browser.get(f"/endpoints/{endpoint.pk}")
    assert browser.post(f"/endpoints/{endpoint.pk}/revoke-agent").status_code == 302
    assert Agent.objects.get().revoked_at is not None
    browser.get(f"/endpoints/{endpoint.pk}")
    assert "Revoked" in browser.text


def test_others_get_no_key_and_revoke_nothing(alice: User, bob: User) -> None:
    owner = signed_in(alice)
    owner.get("/endpoints/connect")
    owner.post("/endpoints/connect", name="laptop")
    endpoint, browser = Endpoint.objects.get(), signed_in(bob)
    for path in ("setup-key", "revoke-agent"):
        browser.get("/endpoints/connect")
        assert browser.post(f"/endpoints/{endpoint.pk}/{path}").status_code == 404
    Endpoint.objects.update(public=True)
    browser.get(f"/endpoints/{endpoint.pk}")
    assert "Revoke this computer" not in browser.text
    for path in ("setup-key", "revoke-agent"):
        browser.get("/endpoints/connect")
        assert browser.post(f"/endpoints/{endpoint.pk}/{path}").status_code == 403
    assert Agent.objects.get().revoked_at is None
