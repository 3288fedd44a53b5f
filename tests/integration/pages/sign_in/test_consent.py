"""The page that asks whether an application may act for a user, and the one that shows a code."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import HttpResponseBase
from django.test import Client

from identity.models import SignIn, User
from identity.provider import scopes
from tests.integration.pages import PASSWORD, Browser
from tests.integration.provider import CALLBACK, App, answered, make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
LOOPBACK = "http://localhost:5555"


@pytest.fixture
def portal(bob: User) -> App:
    return make(bob, CALLBACK)


@pytest.fixture
def browser(alice: User) -> Browser:
    """alice's, signed in."""
    found = Browser()
    found.sign_in(alice)
    return found


def address(app: App, scope: str = scopes.TRANSFER_ALL, redirect_uri: str = CALLBACK, **more: str) -> str:
    return f"/v2/oauth2/authorize?{app.question(scope, redirect_uri, **more)}"


def sent_to(answer: HttpResponseBase) -> dict[str, str]:
    """The query of where the browser is sent, which is the application."""
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(CALLBACK + "?")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    return answered(answer.headers["Location"])


def test_who_is_not_signed_in_signs_in_and_comes_back(alice: User, portal: App) -> None:
    browser, asked = Browser(), address(portal, state="s")
    to = browser.get(asked).headers["Location"]
    assert to.startswith("/signin?next=%2Fv2%2Foauth2%2Fauthorize%3F")
    browser.get(to)
    # The page after this one may answer the application at once: browsers would hold that against the form.
    answer = browser.post("/signin", username="alice", password=PASSWORD, next=asked)
    assert (answer.status_code, answer.headers["Location"]) == (302, asked)
    assert browser.get(asked).status_code == 200


def test_the_page_says_who_wants_what_and_where_the_answer_goes(browser: Browser, portal: App) -> None:
    answer = browser.get(address(portal, f"openid {scopes.TRANSFER_ALL}", access_type="offline"))
    assert answer.status_code == 200
    for words in ("portal asks to act for you", "signed in as alice", "know who you are", "portal.example.org"):
        assert words in browser.text, words
    assert scopes.KNOWN[scopes.TRANSFER_ALL].words in browser.text
    assert "while you are away" in browser.text
    assert "form-action 'self' https://portal.example.org" in answer.headers["Content-Security-Policy"]


def test_services_that_are_not_here_are_named_in_one_line(browser: Browser, portal: App) -> None:
    others = [f"https://auth.globus.org/scopes/service{number}/all" for number in range(8)]
    browser.get(address(portal, " ".join([scopes.TRANSFER_ALL, *others])))
    told = "services that are not here (service0, service1, service2, service3, service4, service5 (+2))"
    assert browser.text.count(told) == 1
    browser.get(address(portal, others[0]))
    assert "(service0): its tokens for them open nothing" in browser.text
    assert "it may" not in browser.text
    browser.get(address(portal, f"openid offline_access {scopes.TRANSFER_ALL}"))
    assert "services that are not here" not in browser.text
    assert "while you are away" in browser.text


def test_a_yes_gives_the_application_a_code_that_is_good(browser: Browser, portal: App, alice: User) -> None:
    asked = address(portal, state="s 1&")
    browser.get(asked)
    told = sent_to(browser.post(asked, answer="allow"))
    assert told["state"] == "s 1&"
    form = {"grant_type": "authorization_code", "code": told["code"], "redirect_uri": CALLBACK}
    assert portal.token(**form).body["resource_server"] == scopes.TRANSFER
    assert SignIn.objects.get().user == alice


def test_a_refused_consent_is_reported_to_the_application_and_gives_it_nothing(browser: Browser, portal: App) -> None:
    asked = address(portal, state="s")
    browser.get(asked)
    told = sent_to(browser.post(asked, answer="deny"))
    assert (told["error"], told["state"]) == ("access_denied", "s")
    assert "code" not in told


@pytest.mark.parametrize("words", [{}, {"answer": "maybe"}])
def test_neither_yes_nor_no_is_asked_again(browser: Browser, portal: App, words: dict[str, str]) -> None:
    asked = address(portal)
    browser.get(asked)
    assert browser.post(asked, **words).status_code == 400
    assert "asks to act for you" in browser.text


def test_a_yes_without_the_token_of_the_session_is_none(browser: Browser, portal: App) -> None:
    browser.page = ""
    assert browser.post(address(portal), answer="allow").status_code == 403
    assert not SignIn.objects.exists()


def test_a_yes_of_nobody_leads_to_the_sign_in_page(portal: App) -> None:
    browser = Browser()
    browser.get("/signin")
    answer = browser.post(address(portal), answer="allow")
    assert answer.headers["Location"].startswith("/signin?")


@pytest.mark.parametrize(
    "wrong",
    [
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": CALLBACK + "/../x"},
        {"redirect_uri": "javascript:alert(1)"},
        {"client_id": "1b671a64-40d5-491e-99b0-da01ff1f3341"},
        {"client_id": ""},
    ],
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_wrong_client_or_address_sends_nobody_anywhere(
    browser: Browser, portal: App, wrong: dict[str, str], method: str
) -> None:
    fields = {"client_id": portal.id, "redirect_uri": CALLBACK, "response_type": "code", **wrong}
    asked = f"/v2/oauth2/authorize?{urlencode(fields)}"
    answer = browser.get(asked) if method == "get" else browser.post(asked, answer="allow")
    if method == "post":
        browser.get("/account")
        answer = browser.post(asked, answer="allow")
    assert answer.status_code == 400
    assert "Location" not in answer.headers
    assert ". You have been sent nowhere" in browser.text
    assert ".." not in browser.text
    assert "evil.example" not in answer.headers["Content-Security-Policy"]


def test_an_application_gets_the_errors_of_its_own_requests(browser: Browser, portal: App) -> None:
    assert sent_to(browser.get(address(portal, "no-such-scope")))["error"] == "invalid_scope"


def test_prompt_login_asks_for_the_password_once_for_each_question(browser: Browser, alice: User, portal: App) -> None:
    asked = address(portal, prompt="login")
    for _ in range(2):
        to = browser.get(asked).headers["Location"]
        assert "again=1" in to
        assert browser.get(to).status_code == 200
        assert "needs that you sign in once more" in browser.text
        assert browser.post("/signin", username="alice", password=PASSWORD, next=asked).headers["Location"] == asked
        assert browser.get(asked).status_code == 200
        assert "code" in sent_to(browser.post(asked, answer="allow"))


def test_a_password_for_one_question_does_not_serve_another(browser: Browser, alice: User, portal: App) -> None:
    asked, other = address(portal, prompt="login"), address(portal, prompt="login", state="other")
    browser.get(browser.get(asked).headers["Location"])
    browser.post("/signin", username="alice", password=PASSWORD, next=asked)
    assert browser.get(other).status_code == 302
    browser.get(asked)
    assert browser.post(other, answer="allow").headers["Location"].startswith("/signin?")


def test_an_old_sign_in_is_renewed_where_the_application_wants_a_new_one(browser: Browser, portal: App) -> None:
    assert browser.get(address(portal, max_age="3600")).status_code == 200
    session = browser.client.session
    session["signed_in_at"] -= 7200
    session["signed_in_for"] = ""
    session.save()
    assert browser.get(address(portal, max_age="3600")).headers["Location"].startswith("/signin?")
    assert browser.get(address(portal)).status_code == 200


def test_prompt_none_shows_nothing(browser: Browser, portal: App) -> None:
    assert sent_to(Browser().get(address(portal, prompt="none")))["error"] == "login_required"
    assert sent_to(browser.get(address(portal, prompt="none")))["error"] == "consent_required"


def test_what_was_allowed_before_needs_no_second_click(browser: Browser, portal: App, alice: User) -> None:
    browser.get("/account")
    portal.tokens(alice, f"openid {scopes.TRANSFER_ALL}", access_type="online")
    asked = address(portal, f"openid {scopes.TRANSFER_ALL}")
    for again in (asked, address(portal), address(portal, prompt="none")):
        assert "code" in sent_to(browser.get(again))
    offline = address(portal, access_type="offline")
    for more in (address(portal, prompt="consent"), address(portal, scopes.GROUPS_ALL), offline):
        assert browser.get(more).status_code == 200
    portal.tokens(alice, scopes.TRANSFER_ALL)
    assert "code" in sent_to(browser.get(offline))
    browser.get("/account")
    browser.post(f"/account/apps/{portal.id}/withdraw", confirmed="yes")
    assert browser.get(asked).status_code == 200


def test_a_program_that_others_could_pretend_to_be_is_asked_about_each_time(browser: Browser, bob: User) -> None:
    app = make(bob, LOOPBACK, public=True)
    asked = address(app, redirect_uri=LOOPBACK, code_challenge="v" * 43, code_challenge_method="S256")
    for _ in range(2):
        assert browser.get(asked).status_code == 200
        assert browser.post(asked, answer="allow").status_code == 302


def test_what_was_allowed_is_seen_and_taken_back(browser: Browser, portal: App, alice: User) -> None:
    browser.get("/account")
    tokens = portal.tokens(alice, scopes.TRANSFER_ALL)
    browser.get("/account")
    assert "portal , since" in browser.text
    assert scopes.KNOWN[scopes.TRANSFER_ALL].words in browser.text
    client, headers = Client(), {"Authorization": f"Bearer {tokens['access_token']}"}
    assert client.get("/v0.10/task_list", headers=headers).status_code == 200
    assert browser.post(f"/account/apps/{portal.id}/withdraw", confirmed="yes").headers["Location"] == "/account#given"
    assert client.get("/v0.10/task_list", headers=headers).status_code == 401
    assert portal.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"]).status == 400
    assert browser.post(f"/account/apps/{portal.id}/withdraw", confirmed="yes").status_code == 404
    assert browser.post("/account/apps/nonsense/withdraw", confirmed="yes").status_code == 404


def test_somebody_else_can_answer(browser: Browser, alice: User, charlie: User, portal: App) -> None:
    charlie.set_password(PASSWORD)
    charlie.save()
    asked = address(portal)
    browser.get(asked)
    to = browser.post(asked, answer="other").headers["Location"]
    browser.get(to)
    browser.post("/signin", username="charlie", password=PASSWORD, next=asked)
    browser.get(asked)
    assert "signed in as charlie" in browser.text
    browser.post(asked, answer="allow")
    form = {"user": charlie.pk}
    assert not SignIn.objects.exclude(**form).exists()


def test_a_question_for_another_user_cannot_be_allowed(browser: Browser, alice: User, portal: App) -> None:
    asked = address(portal, session_required_identities="charlie")
    browser.get(browser.get(asked).headers["Location"])
    browser.post("/signin", username="alice", password=PASSWORD, next=asked)
    browser.get(asked)
    assert "It asks for somebody else: charlie" in browser.text
    assert "Allow" not in browser.page.replace("Allow access", "").replace("Allow it only", "")
    assert browser.post(asked, answer="allow").status_code == 400
    assert not SignIn.objects.exists()


def test_an_application_is_shown_by_its_name_and_not_by_its_markup(browser: Browser, bob: User) -> None:
    app = make(bob, CALLBACK, name='<b onclick="x">Evil & Co</b>')
    browser.get(address(app, session_message="<i>hello</i>"))
    assert "&lt;b onclick=" in browser.page
    assert "&lt;i&gt;hello" in browser.page


def test_a_program_on_this_machine_is_answered_there(browser: Browser, bob: User) -> None:
    app = make(bob, LOOPBACK, public=True)
    asked = address(app, redirect_uri=LOOPBACK, code_challenge="v" * 43, code_challenge_method="S256")
    answer = browser.get(asked)
    assert "form-action 'self' http://localhost:5555" in answer.headers["Content-Security-Policy"]
    assert browser.post(asked, answer="allow").headers["Location"].startswith(LOOPBACK + "?")


# ---- the page that shows a code


def test_a_code_is_shown_to_be_copied_and_goes_nowhere_else() -> None:
    browser = Browser()
    answer = browser.get("/v2/web/auth-code?code=abc-DEF_123&state=_default")
    assert answer.status_code == 200
    assert 'value="abc-DEF_123"' in browser.page
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "href" not in browser.page.partition("<main")[2]
    # A browser would send its forms as those of another site, and lose the code.
    assert "<form" not in browser.page


@pytest.mark.parametrize(
    "query", ["", "code=", "code=" + "x" * 300, "code=a%00b", "code=a%0Ab", "error=access_denied", "error=x&code=abc"]
)
def test_without_a_code_the_page_says_why(query: str) -> None:
    browser = Browser()
    assert browser.get(f"/v2/web/auth-code?{query}").status_code == 400
    assert "No code" in browser.text
    if "access_denied" in query:
        assert "You did not allow it." in browser.text


def test_a_link_cannot_put_its_own_words_on_the_page() -> None:
    browser = Browser()
    browser.get("/v2/web/auth-code?error=Call+0800+now&error_description=Call+0800+now")
    assert "0800" not in browser.page


def test_markup_in_a_code_is_text(settings: Any) -> None:
    browser = Browser()
    browser.get('/v2/web/auth-code?code="><script>x</script>')
    assert "<script>" not in browser.page
