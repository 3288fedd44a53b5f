"""A demand for a new sign-in, and people of other providers: an old session of the provider does not meet it."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import HttpResponseBase

from endpoints.models import Endpoint
from identity import linked_identities
from identity.federation import openid, saml_directory
from identity.federation.freshness import SKEW, Fresh
from identity.federation.providers import parse_providers
from identity.models import Institution, LinkedIdentity, User
from identity.proven_identities import Proven
from tests.identity_providers.lying_openid import LyingOpenId, led_to
from tests.identity_providers.lying_saml import ENTITY, LyingInstitution, encoded
from tests.identity_providers.pysaml2_idp import ENTITY as PYSAML2
from tests.identity_providers.pysaml2_idp import XMLSEC, Pysaml2Idp
from tests.integration.pages import Browser
from tests.integration.pages.sign_in.test_consent import address, sent_to
from tests.integration.pages.sign_in.test_institutions import answered, idp, pem
from tests.integration.pages.sign_in.test_providers import come_back, linked, op, user_in
from tests.integration.provider import CALLBACK, App, make

__all__ = ["idp", "linked", "op"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
HOUR = 3600
NOT_ASKED = "did not ask you to sign in again"
UNKNOWN = "does not say when you signed in there"


def signed_in(
    op: LyingOpenId,
    asked_before: float | None,
    demand: str = "",
    browser: Browser | None = None,
    after: str = "/account",
) -> tuple[Browser, HttpResponseBase]:
    """A sign-in at a provider that has asked the person so many seconds ago, or does not say when."""
    browser = browser or Browser()
    browser.get(f"/signin?again=1&fresh={demand}")
    assert (f'name="fresh" value="{demand}"' in browser.page) is (demand in ("asked", "required"))
    seen = browser.post("/signin/with/lab", next=after, **({"fresh": demand} if demand else {}))
    assert seen.status_code == 200, browser.text
    op.claims["auth_time"] = None if asked_before is None else int(time.time() - asked_before)
    return browser, come_back(browser, op.authorize(led_to(browser)))


def since_sign_in(browser: Browser) -> float:
    return time.time() - float(browser.client.session["signed_in_at"])


def test_only_where_it_is_demanded_the_provider_is_asked_to_ask_again(op: LyingOpenId, linked: LinkedIdentity) -> None:
    for demand in ("", "nonsense"):
        signed_in(op, 0, demand)
        assert not {"prompt", "max_age"} & op.asked.keys()
    for demand in ("asked", "required"):
        signed_in(op, 0, demand)
        assert (op.asked["prompt"], op.asked["max_age"]) == ("login", f"{SKEW:.0f}")
    # One that says which values it knows may refuse others (Google has no `login`).
    op.metadata = {"prompt_values_supported": ["none", "consent"]}
    openid.forget()
    signed_in(op, 0, "required")
    assert op.asked["max_age"] == f"{SKEW:.0f}"
    assert "prompt" not in op.asked


def test_a_session_is_as_old_as_the_sign_in_at_the_provider(
    op: LyingOpenId, linked: LinkedIdentity, ep1: Endpoint
) -> None:
    Endpoint.objects.filter(pk=ep1.pk).update(authentication_timeout_mins=5)
    page = f"/transfer?origin_id={ep1.pk}&plain=1"
    for asked_before, is_enough in ((HOUR, False), (None, False), (-HOUR, True), (60, True)):
        browser, seen = signed_in(op, asked_before)
        assert seen.status_code == 302
        browser.get(page)
        assert ("This endpoint asks for a sign-in in the last 5 minutes." not in browser.text) is is_enough
        assert since_sign_in(browser) >= max(0, (HOUR if asked_before is None else asked_before) - 5)
        if not is_enough:
            assert "fresh=required" in browser.page
        # The rule for a new way to sign in, too.
        browser.get("/account")
        to = browser.post("/signin/with/lab", link="1")
        assert (to.status_code == 200) is is_enough
        assert is_enough or "again=1&fresh=required" in to.headers["Location"]


@pytest.mark.parametrize(("asked_before", "reason"), [(HOUR, NOT_ASKED), (SKEW + 30, NOT_ASKED), (None, UNKNOWN)])
def test_where_a_time_is_required_an_old_session_of_the_provider_is_refused(
    op: LyingOpenId, linked: LinkedIdentity, asked_before: float | None, reason: str
) -> None:
    browser, seen = signed_in(op, asked_before, "required")
    assert seen.status_code == 403
    assert reason in browser.text
    assert user_in(browser) is None
    # The page that says so still demands it.
    assert 'name="fresh" value="required"' in browser.page
    browser, seen = signed_in(op, 0, "required")
    assert seen.status_code == 302
    assert since_sign_in(browser) < 30 + SKEW


def test_what_is_no_time_is_none(op: LyingOpenId, linked: LinkedIdentity) -> None:
    for wrong in ("now", True, -5, 1e300, [1], float("nan")):
        op.claims = {"auth_time": wrong}
        browser = Browser()
        browser.get("/signin?again=1&fresh=required")
        browser.post("/signin/with/lab", next="/account", fresh="required")
        assert come_back(browser, op.authorize(led_to(browser))).status_code == 403
        assert UNKNOWN in browser.text


def test_the_time_is_that_of_the_identity_token_and_not_of_the_userinfo(
    op: LyingOpenId, linked: LinkedIdentity
) -> None:
    op.userinfo |= {"auth_time": int(time.time())}
    browser, seen = signed_in(op, None, "required")
    assert seen.status_code == 403
    assert UNKNOWN in browser.text


def test_a_program_that_wants_a_new_sign_in_does_not_get_an_old_session_of_the_provider(
    op: LyingOpenId, linked: LinkedIdentity, bob: User
) -> None:
    portal = make(bob, CALLBACK)
    asked = address(portal, "openid", prompt="login")
    browser = Browser()
    to = browser.get(asked).headers["Location"]
    assert parse_qs(urlsplit(to).query)["fresh"] == ["asked"]
    browser, seen = signed_in(op, HOUR, "asked", after=asked)
    assert seen.status_code == 403
    assert NOT_ASKED in browser.text
    # To take the demand out of the form gains nothing.
    browser, _ = signed_in(op, HOUR, "", after=asked)
    assert browser.get(asked).headers["Location"].startswith("/signin?")
    browser, _ = signed_in(op, None, "", after=asked)
    assert browser.get(asked).headers["Location"].startswith("/signin?")
    browser, _ = signed_in(op, 0, "asked", after=asked)
    assert browser.get(asked).status_code == 200
    at = float(browser.client.session["signed_in_at"])
    assert token_of(portal, browser.post(asked, answer="allow"))["auth_time"] == int(at)
    # A program that has not asked gets the time of an old session of the provider.
    plain = address(portal, "openid")
    browser, _ = signed_in(op, HOUR, "", after=plain)
    # The consent is known.
    assert time.time() - token_of(portal, browser.get(plain))["auth_time"] >= HOUR


def test_a_provider_that_never_says_when_meets_no_age_and_gives_no_time(
    op: LyingOpenId, linked: LinkedIdentity, bob: User
) -> None:
    portal = make(bob, CALLBACK)
    asked = address(portal, "openid", prompt="login")
    browser, _ = signed_in(op, None, "asked", after=asked)
    assert browser.get(asked).status_code == 200
    assert "auth_time" not in token_of(portal, browser.post(asked, answer="allow"))
    aged = address(portal, "openid", max_age="3600")
    browser, _ = signed_in(op, None, "asked", after=aged)
    to = browser.get(aged).headers["Location"]
    assert parse_qs(urlsplit(to).query)["fresh"] == ["required"]
    # An age is met by a time alone: of the session of the provider, too.
    browser, _ = signed_in(op, 60, "", after=aged)
    assert sent_to(browser.get(aged))["code"]
    browser, _ = signed_in(op, 2 * HOUR, "", after=aged)
    assert browser.get(aged).headers["Location"].startswith("/signin?")


def token_of(portal: App, seen: HttpResponseBase) -> dict[str, Any]:
    """The claims of the identity token that the program gets."""
    code = sent_to(seen)["code"]
    answer = portal.token(grant_type="authorization_code", code=code, redirect_uri=CALLBACK)
    body = answer.body["id_token"].split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def test_github_does_not_say_when(op: LyingOpenId, settings: Any) -> None:
    """OAuth2 alone has no time (RFC 6749)."""
    settings.PROVIDERS = parse_providers("github ID SECRET name=lab")
    browser = Browser()
    browser.get("/signin?again=1&fresh=required")
    browser.post("/signin/with/lab", next="/account", fresh="required")
    assert not {"prompt", "max_age"} & parse_qs(urlsplit(led_to(browser)).query).keys()
    assert Proven.of("oauth2:https://github.com", "1", "octocat@github.com", time.time()).authenticated_at is None


# ---- SAML


@pytest.mark.parametrize(
    ("asked_before", "reason"), [(HOUR, NOT_ASKED), (SKEW + 30, NOT_ASKED), (None, UNKNOWN), (0, "")]
)
def test_an_institution_is_asked_to_ask_again(
    idp: LyingInstitution, alice: User, asked_before: float | None, reason: str
) -> None:
    proven = Proven.of(f"saml:{ENTITY}", "eppn:alice@example.edu", "alice@example.edu", time.time())
    linked_identities.link(alice, proven, time.time())
    idp.asked_before = asked_before
    browser = Browser()
    browser.get("/signin?again=1&fresh=required&next=/activity")
    assert '/signin/institution?next=/activity&amp;fresh=required"' in browser.page.replace("%2F", "/")
    browser.get("/signin/institution?q=university&fresh=required")
    assert browser.page.count('name="fresh" value="required"') == 2
    begin = f"/signin/institution/{Institution.objects.get().pk}"
    browser.post(begin, next="/activity", fresh="required")
    assert 'ForceAuthn="true"' in idp.asked(led_to(browser))
    seen = answered(browser, encoded(idp.honest()))
    assert (user_in(browser) is None) is bool(reason)
    assert reason in browser.text
    assert seen.status_code == (403 if reason else 302)
    other = Browser()
    other.get("/signin/institution?q=university")
    other.post(begin, next="/activity")
    assert "ForceAuthn" not in idp.asked(led_to(other))
    answered(other, encoded(idp.honest()))
    assert user_in(other) == str(alice.pk)
    assert since_sign_in(other) >= max(0, (HOUR if asked_before is None else asked_before) - 5)


@pytest.mark.skipif(XMLSEC is None, reason="needs xmlsec1, which tests/install-tools.sh installs")
@pytest.mark.filterwarnings("ignore")
def test_pysaml2_understands_the_demand_and_says_when(settings: Any, alice: User, tmp_path: Path) -> None:
    settings.SAML_KEY, settings.SAML_METADATA = pem(), ("/pysaml2.xml",)
    ours: Any = Browser().client.get("/saml/metadata")
    idp = Pysaml2Idp(tmp_path)
    idp.learn(ours.content)
    saml_directory.refresh("/pysaml2.xml", idp.metadata, [], must_be_signed=False)
    proven = Proven.of(f"saml:{PYSAML2}", "targeted-id:pysaml2-persistent-1", "alice@example.edu", time.time())
    linked_identities.link(alice, proven, time.time())
    for demand, asked_at, is_in in (("", 1e9, True), ("required", 1e9, False), ("required", None, True)):
        browser = Browser()
        browser.get(f"/signin/institution?q=pysaml2&fresh={demand}")
        browser.post(f"/signin/institution/{Institution.objects.get().pk}", next="/activity", fresh=demand)
        query = {name: values[0] for name, values in parse_qs(urlsplit(led_to(browser)).query).items()}
        said = idp.answer(query, {}, asked_at=asked_at, sign_assertion=True, sign_response=False)
        answered(browser, encoded(said))
        assert idp.forced is bool(demand)
        assert (user_in(browser) is not None) is is_in, browser.text
        if is_in:
            assert since_sign_in(browser) > (HOUR if asked_at else -1)


def test_a_demand_is_one_of_three() -> None:
    assert [Fresh.read(text) for text in ("asked", "required", "", "x", None)] == [
        Fresh.ASKED, Fresh.REQUIRED, Fresh.ANY, Fresh.ANY, Fresh.ANY,
    ]  # fmt: skip
