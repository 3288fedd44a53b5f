"""Certificates by OAuth from a real server: the whole way, with a user who logs in and consents."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import escape, unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.test import Client as WebClient

from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import X509Credential
from identity.issuers import oauth
from identity.issuers.oauth_clients import OAuthClient
from identity.issuers.oauth_errors import (
    BAD_ANSWER,
    CERTIFICATE_NOT_USABLE,
    ISSUER_MISMATCH,
    SERVER_NOT_TRUSTED,
    STATE_MISMATCH,
    OAuthRefusedError,
)
from tests.gridftp.authority import Authority
from tests.identity_providers.oauth_server import CONFIDENTIAL, OAuthSite
from tests.refusals import raises_refusal

HERE = ["127.0.0.1"]


@pytest.fixture
def trust(authority: Authority) -> TrustFolder:
    return TrustFolder(authority.certificates)


@pytest.fixture
def client() -> OAuthClient:
    return OAuthClient(settings.PUBLIC_URL)


@pytest.fixture
def begun(oauth_site: OAuthSite, trust: TrustFolder, client: OAuthClient) -> oauth.OAuthAttempt:
    return begin(oauth_site, trust, client)


@pytest.fixture
def finish(trust: TrustFolder, client: OAuthClient) -> Callable[..., X509Credential]:
    def with_defaults(begun: oauth.OAuthAttempt, answer: oauth.UserAnswer, **changes) -> X509Credential:
        values: dict[str, Any] = {"code": answer.code, "state": answer.state, "issuer": answer.issuer, "trust": trust}
        values |= {"lifetime": timedelta(hours=2), "now": datetime.now(UTC), **changes}
        return oauth.finish(begun.secret, HERE, values.pop("client", client), **values)

    return with_defaults


def begin(site: OAuthSite, trust: TrustFolder, client: OAuthClient) -> oauth.OAuthAttempt:
    server = oauth.parse_server(site.url)
    return oauth.begin(server, HERE, client, redirect_uri=site.redirect_uri, trust=trust)


def shown_line(landed_at: str) -> str:
    """Return the line that our callback page shows to the user for copying."""
    parts = urlsplit(landed_at)
    response = WebClient().get(f"{parts.path}?{parts.query}")
    found = re.search(r"<pre>(.*)</pre>", response.content.decode())
    assert found, response.content
    return unescape(found[1])


def consented(site: OAuthSite, begun: oauth.OAuthAttempt) -> oauth.UserAnswer:
    return oauth.read_answer(shown_line(site.consent(begun.url)))


def test_a_user_who_consents_gets_a_certificate_for_a_key_that_was_born_here(oauth_site, begun, finish, authority):
    credential = finish(begun, consented(oauth_site, begun))
    assert credential.identity == authority.user_subject(oauth_site.username)
    assert not credential.is_proxy
    left = credential.expires_at - datetime.now(UTC)
    assert timedelta(hours=1, minutes=58) < left <= timedelta(hours=2)


def test_a_client_with_a_secret_shows_it(oauth_site, trust, finish, authority):
    client = OAuthClient(CONFIDENTIAL, oauth_site.clients[CONFIDENTIAL])
    begun = begin(oauth_site, trust, client)
    credential = finish(begun, consented(oauth_site, begun), client=client)
    assert credential.identity == authority.user_subject(oauth_site.username)


def test_a_client_with_a_wrong_secret_is_refused_with_the_reason(oauth_site, trust, finish):
    client = OAuthClient(CONFIDENTIAL, "wrong")
    begun = begin(oauth_site, trust, client)
    with pytest.raises(OAuthRefusedError) as caught:
        finish(begun, consented(oauth_site, begun), client=client)
    assert caught.value.answer == "invalid_client"


def test_the_question_has_a_challenge_and_not_its_verifier(begun):
    query = parse_qs(urlsplit(begun.url).query)
    kept = json.loads(begun.secret)
    assert query["code_challenge_method"] == ["S256"]
    assert kept["verifier"] not in begun.url
    assert query["state"] == [begun.state]
    assert begun.state not in repr(begun)
    assert kept["verifier"] not in repr(begun)


def test_a_user_who_refuses_reads_so_on_the_page(oauth_site, begun):
    landed = urlsplit(oauth_site.consent(begun.url, allow=False))
    response = WebClient().get(f"{landed.path}?{landed.query}")
    assert response.status_code == 400
    assert "did not allow it" in response.content.decode()
    with pytest.raises(OAuthRefusedError):
        oauth.read_answer(landed.query)


def test_a_code_serves_once(oauth_site, begun, finish):
    answer = consented(oauth_site, begun)
    finish(begun, answer)
    with pytest.raises(OAuthRefusedError) as caught:
        finish(begun, answer)
    assert caught.value.answer == "invalid_grant"


def test_a_code_that_somebody_else_asked_for_is_worth_nothing(oauth_site, trust, client, begun, finish):
    """The attacker's own code, smuggled into the victim's activation: the verifier does not fit."""
    attackers = begin(oauth_site, trust, client)
    stolen = consented(oauth_site, attackers)
    with pytest.raises(OAuthRefusedError) as caught:
        finish(begun, stolen, state=begun.state)
    assert caught.value.answer == "invalid_grant"


def test_an_answer_with_another_state_is_refused_before_the_code_goes_anywhere(oauth_site, begun, finish):
    answer = consented(oauth_site, begun)
    for state in ("", "wrong", begun.state + "x", "ü"):
        with raises_refusal(STATE_MISMATCH):
            finish(begun, answer, state=state)
    finish(begun, answer)


def test_an_answer_of_another_issuer_is_refused(oauth_site, begun, finish):
    answer = consented(oauth_site, begun)
    assert answer.issuer == oauth_site.url
    for issuer in ("https://evil.example.org", "", oauth_site.url + "/x"):
        with raises_refusal(ISSUER_MISMATCH):
            finish(begun, answer, issuer=issuer)


def test_a_certificate_of_an_authority_that_is_not_trusted_is_refused(oauth_site, begun, finish, tmp_path):
    """It was trusted for TLS when the activation began, and is gone from the folder when the certificate comes."""
    answer = consented(oauth_site, begun)
    other = Authority(tmp_path / "other", name="Other", namespace="/O=Grid/OU=Other")
    with raises_refusal(SERVER_NOT_TRUSTED):
        finish(begun, answer, trust=TrustFolder(other.certificates))
    no_policy = tmp_path / "no-policy"
    no_policy.mkdir()
    for path in oauth_site.authority.certificates.glob("*.0"):
        (no_policy / path.name).write_bytes(path.read_bytes())
    for path in oauth_site.authority.certificates.glob("*.signing_policy"):
        policy = path.read_text().replace("/OU=Waybill Test/*", "/OU=Elsewhere/*")
        (no_policy / path.name).write_text(policy)
    with raises_refusal(CERTIFICATE_NOT_USABLE):
        finish(begun, answer, trust=TrustFolder(no_policy))


def test_the_page_shows_the_line_and_nothing_else_that_is_in_the_query():
    page = WebClient().get("/oauth/callback?code=abc&state=def&iss=https%3A%2F%2Fa.example&x=<script>alert(1)</script>")
    text = page.content.decode()
    assert "code=abc&amp;state=def&amp;iss=https%3A%2F%2Fa.example" in text
    assert "script" not in text
    assert page["Cache-Control"] == "no-store"
    assert page["Referrer-Policy"] == "no-referrer"
    assert page["Content-Security-Policy"].startswith("default-src 'none'")
    assert page["X-Frame-Options"] == "DENY"
    assert "Set-Cookie" not in page
    assert "href" not in text


def test_the_line_says_where_the_answer_came_and_nobody_else_can():
    server = oauth.parse_server("https://oauth.example.org/oauth2")
    place = oauth.place_of(server)
    query = "code=abc&state=def&place=0123456789abcdef"
    line = "code=abc&state=def"
    assert f"<pre>{escape(line)}</pre>" in WebClient().get(f"/oauth/callback?{query}").content.decode()
    line += f"&place={place}"
    assert f"<pre>{escape(line)}</pre>" in WebClient().get(f"/oauth/callback/{place}?{query}").content.decode()
    assert oauth.read_answer(line) == oauth.UserAnswer("abc", "def", "", place)
    assert oauth.read_answer(f"https://w.example/oauth/callback/{place}?{query}").place == place
    assert WebClient().get(f"/oauth/callback/{place}0?{query}").status_code == 404


@pytest.mark.parametrize("name", ["code", "state", "iss", "error", "error_description"])
def test_the_page_reflects_no_markup(name):
    hostile = "\"'><img src=x onerror=alert(1)>"
    query = {"code": "abc", "state": "def", name: hostile}
    text = WebClient().get("/oauth/callback", query).content.decode()
    assert "<img" not in text
    assert "onerror" not in text or "%3Cimg" in text


def test_the_page_leaves_nothing_of_the_query_in_a_log(caplog):
    caplog.set_level(logging.DEBUG)
    for query in ("code=kept-to-ourselves&state=s", "code=kept-to-ourselves&code=b", "error=kept-to-ourselves"):
        WebClient().get(f"/oauth/callback?{query}")
    WebClient().post("/oauth/callback?code=kept-to-ourselves")
    assert "/oauth/callback" in caplog.text
    assert "kept-to-ourselves" not in caplog.text


def test_the_page_takes_nothing_but_get(client):
    assert WebClient().post("/oauth/callback", {"code": "abc"}).status_code == 405


@pytest.mark.parametrize("query", ["", "state=x", "code=", "code=a&code=b", "code=a&state=b&state=c"])
def test_a_query_without_one_code_is_no_answer(query):
    response = WebClient().get(f"/oauth/callback?{query}")
    assert response.status_code == 400
    assert "<pre>" not in response.content.decode()


@pytest.mark.parametrize("text", ["", "  ", "code=", "code=a&code=b", "a\nb", "ü", "x" * 10_000, "state=1&code="])
def test_what_is_no_answer_is_refused(text):
    with raises_refusal(BAD_ANSWER):
        oauth.read_answer(text)


def test_an_answer_may_be_pasted_as_a_bare_code_or_as_the_whole_address():
    assert oauth.read_answer(" abc ") == oauth.UserAnswer("abc")
    pasted = oauth.read_answer("https://w.example/oauth/callback?code=a%2Fb&state=s&iss=https%3A%2F%2Fi.example")
    assert pasted == oauth.UserAnswer("a/b", "s", "https://i.example")
