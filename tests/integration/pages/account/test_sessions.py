"""The account page: sessions, webhooks, credentials and mails, of the user and of nobody else."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.models import Endpoint
from identity import password_sign_in, sessions
from identity.hidden import Secret
from identity.models import Credential, Passkey, User, UserSession
from identity.vault import store as vault
from tests.integration.pages import PASSWORD, Browser
from tests.integration.rest import Api, assert_error
from transferapi.tasks.models import Delivery, Webhook
from transferapi.tasks.notify import mail_preferences, webhooks
from webui.account.sessions import device_words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile Safari/604.1"


@pytest.fixture
def browser(alice: User) -> Browser:
    """alice's, on her account page."""
    return at_account(alice)


def at_account(user: User, **environ: Any) -> Browser:
    found = Browser(**environ)
    found.sign_in(user)
    found.get("/account")
    return found


def refs(browser: Browser) -> list[str]:
    browser.get("/account")
    return re.findall(r"/account/sessions/(\w{32})/end", browser.page)


def test_sessions_are_listed_with_device_and_address_and_this_one_is_marked(alice: User) -> None:
    here = at_account(alice, HTTP_USER_AGENT=FIREFOX)
    at_account(alice, HTTP_USER_AGENT=IPHONE, REMOTE_ADDR="192.0.2.7")
    here.get("/account")
    assert "Firefox on Linux this one" in here.text
    assert "Safari on iPhone" in here.text
    assert "192.0.2.7" in here.text
    assert "with your password" in here.text
    # The key of a session signs in: no page has it.
    for row in UserSession.objects.filter(user=alice):
        assert row.session_key not in here.page
        assert row.begun_at is not None


def test_one_session_is_ended_and_then_all_others(browser: Browser, alice: User) -> None:
    phone, laptop, tablet = (at_account(alice) for _ in range(3))
    ended = refs(browser)[0]
    assert browser.post(f"/account/sessions/{ended}/end").headers["Location"] == "/account#sessions"
    alive = [one for one in (phone, laptop, tablet) if one.get("/account").status_code == 200]
    assert len(alive) == 2
    browser.get("/account")
    browser.post("/account/sessions/others/end", confirmed="yes")
    assert all(one.get("/account").status_code == 302 for one in alive)
    browser.get("/account")
    assert "2 other sessions have ended." in browser.text
    assert refs(browser) == []


def test_nobody_ends_the_session_of_another(browser: Browser, bob: User) -> None:
    password_sign_in.set_password(bob, Secret(PASSWORD))
    other = at_account(bob)
    at_account(bob)
    [ref] = refs(other)
    for wrong in (ref, "0" * 32, "nonsense"):
        assert browser.post(f"/account/sessions/{wrong}/end").status_code == 404
    assert UserSession.objects.filter(user=bob).count() == 2
    browser.post("/account/sessions/others/end", confirmed="yes")
    assert UserSession.objects.filter(user=bob).count() == 2


def test_a_session_that_is_not_used_ends(browser: Browser, alice: User) -> None:
    UserSession.objects.update(last_used_at=datetime.now(UTC) - sessions.IDLE + timedelta(minutes=2))
    assert browser.get("/account").status_code == 200
    assert datetime.now(UTC) - UserSession.objects.get(user=alice).last_used_at < timedelta(minutes=1)  # type: ignore[operator]
    UserSession.objects.update(last_used_at=datetime.now(UTC) - sessions.IDLE)
    assert sessions.open_sessions(alice) == []
    assert browser.get("/account").status_code == 302
    assert not UserSession.objects.filter(user=alice).exists()


def test_sessions_that_nobody_uses_are_deleted(browser: Browser) -> None:
    sessions.delete_expired()
    assert UserSession.objects.count() == 1
    UserSession.objects.update(last_used_at=datetime.now(UTC) - sessions.IDLE - timedelta(minutes=1))
    sessions.delete_expired()
    assert not UserSession.objects.exists()


def test_a_new_password_by_the_operator_ends_all_sessions(browser: Browser, alice: User) -> None:
    password_sign_in.set_password(alice, Secret("given by the operator 1"))
    assert browser.get("/account").status_code == 302
    assert not UserSession.objects.filter(user=alice).exists()


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (FIREFOX, "Firefox on Linux"),
        (IPHONE, "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/130.0 Safari/537.36 Edg/130.0", "Edge on Windows"),
        ("curl/8.5.0", "curl"),
        ("", "Unknown device"),
        ("<script>alert(1)</script>" * 10, ("<script>alert(1)</script>" * 10)[:40]),
    ],
)
def test_a_browser_is_shown_by_the_names_that_people_know(agent: str, words: str) -> None:
    assert device_words(agent) == words


def test_what_a_browser_says_of_itself_is_text(alice: User) -> None:
    browser = at_account(alice, HTTP_USER_AGENT="<img src=x onerror=alert(1)>\x1b[1m" + "x" * 9000)
    assert "<img src=x" not in browser.page
    assert "\x1b" not in UserSession.objects.get(user=alice).browser


# ---- webhooks


@pytest.fixture
def _reachable(settings: Any) -> None:
    from endpoints.addresses.openings import parse_openings

    settings.ALLOW_WEBHOOKS = parse_openings("127.0.0.1")


@pytest.mark.usefixtures("_reachable")
def test_a_webhook_is_added_tested_and_removed(browser: Browser, alice: User) -> None:
    answer = browser.post("/account/webhooks", url="https://127.0.0.1/hook", statuses="SUCCEEDED")
    assert answer.status_code == 200, browser.text
    assert "whsec_" in browser.page
    [row] = webhooks.listing(alice)
    assert row.statuses == ["SUCCEEDED"]
    browser.get("/account")
    assert "whsec_" not in browser.page
    assert "https://127.0.0.1/hook Done" in browser.text
    assert browser.post(f"/account/webhooks/{row.pk}/test").status_code == 302
    assert Delivery.objects.get(webhook=row).body["type"] == webhooks.TEST
    Webhook.objects.update(disabled_at=datetime.now(UTC), last_error="It answered with status 503.")
    browser.get("/account")
    assert "disabled: It answered with status 503." in browser.text
    browser.post(f"/account/webhooks/{row.pk}/enable")
    assert Webhook.objects.get().disabled_at is None
    browser.post(f"/account/webhooks/{row.pk}/remove", confirmed="yes")
    assert webhooks.listing(alice) == []


@pytest.mark.parametrize("url", ["nonsense", "http://10.0.0.1/", "https://10.0.0.1/", ""])
def test_an_address_that_cannot_be_stays_in_its_field_with_the_reason(browser: Browser, url: str) -> None:
    assert browser.post("/account/webhooks", url=url).status_code == 400
    assert f'id="webhook-url" name="url" type="url" value="{url}"' in browser.page
    assert 'id="webhook-url-wrong"' in browser.page
    assert not Webhook.objects.exists()


@pytest.mark.usefixtures("_reachable")
def test_nobody_touches_the_webhook_of_another(browser: Browser, bob: User) -> None:
    row, _ = webhooks.create(bob, "https://127.0.0.1/bob")
    for form in ("test", "enable", "remove"):
        assert browser.post(f"/account/webhooks/{row.pk}/{form}", confirmed="yes").status_code == 404
    assert "127.0.0.1/bob" not in browser.page
    assert webhooks.listing(bob) == [row]


# ---- credentials


def credential(user: User, bound_to: str, **fields: Any) -> Credential:
    known = {"kind": "x509", "subject": "/CN=Alice", "stored_at": datetime.now(UTC), "sealed": b"x"}
    return Credential.objects.create(user=user, bound_to=bound_to, **{**known, **fields})


def test_credentials_are_listed_with_their_end_and_removed(browser: Browser, alice: User, gsi: Endpoint) -> None:
    row = credential(alice, vault.endpoint_binding(gsi.pk), expires_at=datetime.now(UTC) - timedelta(hours=1))
    credential(alice, "myproxy:m.example.org:7512", subject="/CN=Alice/CN=proxy")
    browser.get("/account")
    assert f'href="/endpoints/{gsi.pk}/activate"' in browser.page
    assert "alice#gsi" in browser.text
    assert "expired" in browser.text
    assert "m.example.org:7512" in browser.text
    assert browser.post(f"/account/credentials/{row.pk}/remove", confirmed="yes").status_code == 302
    assert browser.post(f"/account/credentials/{row.pk}/remove", confirmed="yes").status_code == 400
    assert Credential.objects.filter(user=alice).count() == 1


def test_nobody_removes_the_credential_of_another(browser: Browser, bob: User) -> None:
    row = credential(bob, "myproxy:bob.example.org:7512")
    assert browser.post(f"/account/credentials/{row.pk}/remove", confirmed="yes").status_code == 400
    assert browser.post(f"/account/credentials/{uuid.uuid4()}/remove", confirmed="yes").status_code == 400
    assert "bob.example.org" not in browser.page
    assert Credential.objects.filter(pk=row.pk).exists()


# ---- mails


def test_mails_are_turned_off_and_on(alice: User) -> None:
    alice.email = "alice@example.org"
    alice.save()
    browser = at_account(alice)
    assert "alice@example.org" in browser.text
    browser.post("/account/mails", enabled="no")
    assert not mail_preferences.enabled(alice)
    browser.get("/account")
    assert "You get no mails about tasks." in browser.text
    browser.post("/account/mails", enabled="yes")
    assert mail_preferences.enabled(alice)


def test_the_language_of_mails_is_that_of_the_first_sign_in_and_can_be_chosen(alice: User) -> None:
    alice.email = "alice@example.org"
    alice.save()
    browser = Browser(HTTP_ACCEPT_LANGUAGE="de")
    browser.sign_in(alice)
    alice.refresh_from_db()
    assert alice.language == "de"
    browser.get("/account")
    assert '<option value="de" lang="de" selected>' in browser.page
    browser.post("/account/mails/language", language="en")
    alice.refresh_from_db()
    assert alice.language == "en"
    browser.post("/preferences", language="de")
    alice.refresh_from_db()
    assert alice.language == "de"
    assert browser.post("/account/mails/language", language="xx").status_code == 400
    alice.refresh_from_db()
    assert alice.language == "de"


def test_who_has_no_address_learns_that_mails_need_one(browser: Browser) -> None:
    assert "This service has no mail address of you" in browser.text


# ---- forms


@pytest.mark.parametrize(
    ("path", "fields", "kept"),
    [
        ("/account/tokens", {"label": "nightly", "days": "7000"}, 'value="nightly"'),
        ("/account/apps", {"name": "gateway", "redirect_uris": "http://x.example/"}, 'value="http://x.example/"'),
        ("/account/ssh-keys", {"public_key": "x", "label": "mine", "days": "0", "commands": "ls"}, 'value="ls"'),
        ("/account/ssh-keys", {"public_key": "ssh-ed25519 A", "label": "m", "days": "5"}, ">ssh-ed25519 A</textarea>"),
    ],
)
def test_a_refused_form_keeps_what_was_typed(browser: Browser, path: str, fields: dict[str, str], kept: str) -> None:
    assert browser.post(path, **fields).status_code == 400
    assert kept in browser.page


def test_a_private_key_that_was_pasted_is_not_shown_again(browser: Browser) -> None:
    browser.post("/account/ssh-keys", public_key="-----BEGIN OPENSSH PRIVATE KEY----- abc", label="x", days="0")
    assert "This is a private key." in browser.text
    assert "BEGIN OPENSSH" not in browser.page


def test_no_password_is_written_back(browser: Browser) -> None:
    browser.post("/account/password", old="my old secret", new="my new secret words", repeated="different")
    assert "secret" not in re.sub(r"(?i)client secret|an id and a secret", "", browser.page)


def test_keys_of_hardware_tokens_are_refused_with_the_reason(browser: Browser) -> None:
    line = "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIA=="
    assert "Keys of hardware tokens (sk-ssh-..., sk-ecdsa-...) do not work here" in browser.text
    browser.post("/account/ssh-keys", public_key=line, label="yubikey", days="0")
    assert "Keys of hardware tokens (sk-...) cannot sign in here" in browser.text


def test_the_secret_of_codes_is_a_picture_to_scan_and_no_request_has_it(browser: Browser) -> None:
    browser.post("/account/codes", password=PASSWORD)
    [svg] = re.findall(r'<svg viewBox="0 0 \d+ \d+" class="qr">.*?</svg>', browser.page)
    assert set(re.findall(r"<(\w+)", svg)) == {"svg", "path"}
    assert "img" not in re.findall(r"<(\w+)[^>]*otpauth", browser.page)


def test_the_account_page_is_german_too(alice: User) -> None:
    browser = at_account(alice, HTTP_ACCEPT_LANGUAGE="de")
    for words in ("Ihr Konto", "Passkeys", "Sitzungen", "Ihr Nutzername hier"):
        assert words in browser.text
    browser.post("/account/password", old="x", new="a", repeated="b")
    assert "Die beiden neuen Passwörter sind verschieden." in browser.text


# ---- REST


def test_sessions_and_passkeys_are_listed_and_ended_over_rest(browser: Browser, alice: User, bob: User) -> None:
    Passkey.objects.create(user=alice, label="laptop", credential_id=b"1", public_key=b"1")
    api, other = Api(alice, root=""), Api(bob, root="")
    [session] = api.get("/v2/api/sessions").body["DATA"]
    assert (session["way"], session["address"], session["is_this"]) == ("password", "127.0.0.1", False)
    [key] = api.get("/v2/api/passkeys").body["DATA"]
    assert (key["label"], key["copied_time"]) == ("laptop", None)
    for path in (f"/v2/api/sessions/{session['id']}", f"/v2/api/passkeys/{key['id']}"):
        assert_error(other.delete(path), 404, "ClientError.NotFound")
        assert api.delete(path).code == "Deleted"
        assert_error(api.delete(path), 404, "ClientError.NotFound")
    assert browser.get("/account").status_code == 302
    assert other.get("/v2/api/sessions").body["DATA"] == []


def test_a_session_sees_itself_over_rest(browser: Browser) -> None:
    found = json.loads(browser.client.get("/v2/api/sessions").content)["DATA"]
    assert [one["is_this"] for one in found] == [True]
