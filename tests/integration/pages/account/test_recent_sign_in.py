"""Ways in, and programs that act for a user, are made by a recent sign-in alone, and leave a trace."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from identity.models import ApiToken, AuditEvent, CertificateSubject, ClientSecret, SshPublicKey, User
from identity.provider import applications
from identity.provider.applications import ApplicationSpec
from identity.sign_in_proof import RECENT
from tests.integration.identity.test_ssh_keys import new_line
from tests.integration.pages import Browser
from tests.integration.rest import Answer, Api, assert_error, read
from transferapi.tasks.models import Mail
from webui.console.audit import act_words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
SUBJECT = "/O=Grid/CN=Alice"


@pytest.fixture
def browser(alice: User) -> Browser:
    """alice's, on her account page."""
    found = Browser()
    found.sign_in(alice)
    found.get("/account")
    return found


def grow_old(browser: Browser) -> None:
    session = browser.client.session
    session["signed_in_at"] -= RECENT + 1
    session.save()


def by_session(browser: Browser, method: str, path: str, body: object) -> Answer:
    [token] = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.page))
    data, headers = json.dumps(body).encode(), {"X-CSRFToken": token}
    return read(browser.client.generic(method, path, data, "application/json", headers=headers))


@pytest.mark.parametrize(
    ("path", "section", "fields"),
    [
        ("tokens", "tokens", {"label": "nightly", "days": "0"}),
        ("certificates", "certificates", {"subject": SUBJECT}),
        ("apps", "apps", {"name": "gateway"}),
        ("apps/{app}/secret", "apps", {}),
        ("ssh-keys", "ssh-keys", {"label": "laptop", "days": "0"}),
    ],
)
def test_an_old_session_makes_no_way_in_that_outlives_it(
    browser: Browser, alice: User, path: str, section: str, fields: dict[str, str]
) -> None:
    app, _secret = applications.make(alice, ApplicationSpec("known"))
    fields = {**fields, "public_key": new_line()} if section == "ssh-keys" else fields
    grow_old(browser)
    answer = browser.post(f"/account/{path.format(app=app.client_id)}", **fields)
    assert answer.headers["Location"] == f"/signin?next=%2Faccount%23{section}&again=1&fresh=required"
    assert not ApiToken.objects.exists()
    assert not CertificateSubject.objects.exists()
    assert not SshPublicKey.objects.exists()
    assert applications.of_user(alice) == [app]
    assert ClientSecret.objects.count() == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("tokens", {"label": "nightly"}),
        ("ssh_keys", {"public_key": "key"}),
        ("certificate_subjects", {"subject": SUBJECT}),
        ("clients", {"client": {"name": "gateway"}}),
        ("clients/{app}/credentials", {"credential": {"name": "second"}}),
    ],
)
def test_an_old_session_makes_none_by_rest_either(
    browser: Browser, alice: User, path: str, body: dict[str, Any]
) -> None:
    app, _secret = applications.make(alice, ApplicationSpec("known"))
    body = {"public_key": new_line()} if path == "ssh_keys" else body
    path = f"/v2/api/{path.format(app=app.client_id)}"
    fresh = by_session(browser, "POST", path, body)
    assert fresh.status == 403 if path.endswith("subjects") else fresh.status == 201, fresh.body
    grow_old(browser)
    refused = by_session(browser, "POST", path, body)
    assert_error(refused, 403, "PermissionDenied")
    assert "sign in again" in refused.body["message"]
    # A way in is taken back at any time.
    assert by_session(browser, "DELETE", f"/v2/api/clients/{app.client_id}", {}).status == 200


def test_an_old_session_leads_no_application_to_another_address(browser: Browser, alice: User) -> None:
    app, _secret = applications.make(alice, ApplicationSpec("known", redirect_uris=["https://a.example/"]))
    grow_old(browser)
    change = {"client": {"redirect_uris": ["https://evil.example/"]}}
    assert by_session(browser, "PUT", f"/v2/api/clients/{app.client_id}", change).status == 403
    assert applications.find(alice, app.client_id).redirect_uris == "https://a.example/"


def test_a_token_makes_no_way_in_that_outlives_it(alice: User) -> None:
    refused = Api(alice, root="").post("/v2/api/tokens", {"label": "second"})
    assert_error(refused, 403, "PermissionDenied")
    assert "no sign-in" in refused.body["message"]
    assert ApiToken.objects.count() == 1


def test_what_happens_to_applications_is_recorded_and_mailed_to_the_owner(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.org")
    alice.refresh_from_db()
    app, _secret = applications.make(alice, ApplicationSpec("gateway"))
    row, second = applications.new_secret(app, "second")
    applications.delete_secret(app, str(row.pk))
    applications.change(app, ApplicationSpec("gateway", redirect_uris=["https://a.example/"]))
    applications.delete(app)
    kinds = ["application_made", "secret_added", "secret_removed", "application_changed", "application_removed"]
    rows = AuditEvent.objects.filter(username="alice").order_by("pk")
    assert [(one.what, one.details) for one in rows] == [(kind, {"name": "gateway"}) for kind in kinds]
    assert all(act_words(kind) != kind for kind in (*kinds, "passkeys_removed", "client_admitted", "client_removed"))
    mails = list(Mail.objects.order_by("pk").values_list("subject", "body"))
    assert [subject for subject, _body in mails] == [
        "Waybill: an application of yours was made",
        "Waybill: an application of yours has a new secret",
        "Waybill: a secret of an application of yours was deleted",
        "Waybill: an application of yours was changed",
        "Waybill: an application of yours was deleted",
    ]
    assert all(": gateway.\n" in body for _subject, body in mails)
    assert "Whoever has its secret may do what you may do." in mails[0][1]
    assert second.value not in str(mails)


def test_a_session_that_its_user_ends_leaves_a_row(browser: Browser, alice: User) -> None:
    others = [Browser(), Browser(), Browser()]
    for other in others:
        other.sign_in(alice)
    listed = Api(alice, root="").get("/v2/api/sessions").body["DATA"]
    assert len(listed) == 4
    assert Api(alice, root="").call("DELETE", f"/v2/api/sessions/{listed[0]['id']}").status == 200
    browser.sign_in(alice)
    browser.get("/account")
    browser.post("/account/sessions/others/end", confirmed="yes")
    rows = AuditEvent.objects.filter(what="session_ended").order_by("pk")
    assert [(row.username, row.actor) for row in rows] == [("alice", ""), ("alice", "")]
    assert rows[0].details == {"sessions": "1"}
    assert int(rows[1].details["sessions"]) >= 2
