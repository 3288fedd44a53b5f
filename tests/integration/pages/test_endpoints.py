"""The pages of endpoints: each form does what REST does, for those who may, and for nobody else."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from endpoints import pause_rules, registry
from endpoints.models import AccessRule, Endpoint, PauseRule, Role
from identity import groups
from identity import linked_identities as linked
from identity.models import User
from identity.proven_identities import Proven
from tests.integration.cast import make_endpoint, submit
from tests.integration.pages import PASSWORD, Browser
from tests.integration.shared import give, make_share

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


@pytest.fixture
def as_user() -> Callable[[User], Browser]:
    def sign_in(user: User) -> Browser:
        user.set_password(PASSWORD)
        user.save()
        browser = Browser()
        browser.sign_in(user)
        return browser

    return sign_in


AsUser = Callable[[User], Browser]


def test_the_list_shows_the_endpoints_of_a_scope_and_the_forms_find_more(
    as_user: AsUser, alice: User, bob: User
) -> None:
    make_endpoint(alice, "mine")
    make_endpoint(bob, "public-one", public=True)
    make_endpoint(bob, "secret-one")
    browser = as_user(alice)
    browser.get("/endpoints")
    assert "alice#mine" in browser.text
    assert "public-one" not in browser.text
    browser.get("/endpoints?scope=all&text=one")
    assert "public-one" in browser.text
    assert "secret-one" not in browser.page
    browser.get("/endpoints?text=nothing-of-this-name")
    assert "No endpoint matches" in browser.text


def test_the_list_opens_on_what_the_user_has(as_user: AsUser, alice: User, bob: User) -> None:
    used = make_endpoint(bob, "sample", public=True)
    browser = as_user(alice)
    browser.get("/endpoints")
    assert re.search(r'href="\?scope=my-endpoints" aria-current', browser.page), "there is nothing else yet"
    submit(alice, used, used, ("/a", "/b"))
    browser.get("/endpoints")
    assert "bob#sample" in browser.text
    make_endpoint(alice, "own")
    browser.get("/endpoints")
    assert "alice#own" in browser.text
    assert "bob#sample" not in browser.text
    browser.get("/endpoints?scope=recently-used")
    assert "bob#sample" in browser.text


@pytest.mark.parametrize("query", ["scope=%00", "offset=-1", "offset=99999999", "text=%00", "text=" + "x+" * 150])
def test_a_wrong_query_of_the_list_is_no_failure(as_user: AsUser, alice: User, query: str) -> None:
    browser = as_user(alice)
    assert browser.get(f"/endpoints?{query}").status_code in (200, 400)


def test_an_endpoint_is_added_and_changed_and_deleted_by_forms(as_user: AsUser, alice: User) -> None:
    browser = as_user(alice)
    browser.get("/endpoints/new")
    answer = browser.post("/endpoints/new", name="dtn", server="dtn1.example.org", public="on")
    endpoint = Endpoint.objects.get(owner=alice)
    assert answer.headers["Location"] == f"/endpoints/{endpoint.pk}"
    assert (endpoint.name, endpoint.public) == ("dtn", True)
    assert [registry.server_uri(row) for row in registry.servers(endpoint)] == ["gsiftp://dtn1.example.org:2811"]
    here = f"/endpoints/{endpoint.pk}"
    browser.get(here)
    browser.post(f"{here}/edit", display_name="Our DTN", default_directory="/data/", force_verify="on")
    endpoint.refresh_from_db()
    assert (endpoint.display_name, endpoint.default_directory) == ("Our DTN", "/data/")
    assert (endpoint.public, endpoint.force_verify) == (False, True)
    browser.get(here)
    browser.post(f"{here}/servers", server="gsiftp://dtn2.example.org:2812/")
    second = registry.servers(endpoint)[1]
    assert browser.post(f"{here}/servers", server="ftp://dtn3.example.org").status_code == 400
    assert "one scheme" in browser.text
    browser.post(f"{here}/servers/{second.pk}/remove", confirmed="yes")
    assert len(registry.servers(endpoint)) == 1
    assert browser.post(f"{here}/delete", name="wrong").status_code == 400
    assert "Type alice#dtn to delete the endpoint." in browser.text
    assert browser.post(f"{here}/delete", name="alice#dtn").headers["Location"] == "/endpoints"
    assert not registry.existing().exists()


def test_a_wrong_form_keeps_what_was_typed_and_names_the_error(as_user: AsUser, alice: User) -> None:
    browser = as_user(alice)
    browser.get("/endpoints/new")
    assert browser.post("/endpoints/new", name="two words", server="dtn1.example.org").status_code == 400
    assert 'value="two words"' in browser.page
    assert not Endpoint.objects.exists()


def test_a_folder_is_shared_with_bob_until_access_is_removed(as_user: AsUser, alice: User, bob: User) -> None:
    host = make_endpoint(alice, "host")
    browser = as_user(alice)
    browser.get(f"/endpoints/{host.pk}")
    answer = browser.post(f"/endpoints/{host.pk}/shares", path="/~/results", display_name="Results")
    share = Endpoint.objects.get(host=host)
    assert answer.headers["Location"] == f"/endpoints/{share.pk}#rules"
    browser.get(f"/endpoints/{share.pk}")
    form = {"whom": "identity", "user": "bob", "path": "/", "permissions": "rw", "until": "2099-12-31"}
    browser.post(f"/endpoints/{share.pk}/rules", **form)
    rule = AccessRule.objects.get()
    assert (rule.principal, rule.permissions) == (bob.pk, "rw")
    assert rule.expires_at == datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC)
    his = as_user(bob)
    his.get("/endpoints?scope=shared-with-me")
    assert "Results" in his.text
    his.get(f"/endpoints/{share.pk}")
    assert "Who has access" not in his.text
    browser.get(f"/endpoints/{share.pk}")
    assert "bob" in browser.text
    browser.post(f"/endpoints/{share.pk}/rules/{rule.pk}/remove", confirmed="yes")
    assert not AccessRule.objects.exists()
    assert his.get(f"/endpoints/{share.pk}").status_code == 404


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"whom": "identity", "user": "nobody"}, "There is no user with this name."),
        ({"whom": "group", "group": "x"}, "Expected the id of a user or of a group"),
        ({"whom": "identity", "user": "bob", "until": "soon"}, "Expected a date."),
        ({"whom": "identity", "user": "bob", "path": "../x"}, "path"),
        ({"whom": "identity", "user": "bob", "permissions": "rwx"}, "permissions"),
    ],
)
def test_wrong_access_is_refused_with_the_reason(
    as_user: AsUser, alice: User, bob: User, fields: dict[str, str], words: str
) -> None:
    share = make_share(make_endpoint(alice, "host"), "share")
    browser = as_user(alice)
    browser.get(f"/endpoints/{share.pk}")
    assert browser.post(f"/endpoints/{share.pk}/rules", **fields).status_code == 400
    assert words in browser.text
    assert not AccessRule.objects.exists()


def test_a_linked_identity_is_named_and_not_shown_as_an_id(as_user: AsUser, alice: User, bob: User) -> None:
    share = make_share(make_endpoint(alice, "host"), "share")
    proven = Proven.of("oidc:https://id.example.org", "subject 1", "bob@lab.example.org", time.time())
    identity = linked.link(bob, proven, time.time())
    AccessRule.objects.filter(pk=give(share, bob).pk).update(principal=identity.pk)
    Role.objects.create(endpoint=share, principal_type="identity", principal=identity.pk, role="activity_monitor")
    browser = as_user(alice)
    browser.get(f"/endpoints/{share.pk}")
    for section in ("rules", "roles"):
        shown = browser.page.split(f'id="{section}"')[1].split("</section>")[0]
        assert "bob@lab.example.org" in shown
        assert f"{identity.pk}</" not in shown


def test_roles_are_given_to_users_and_groups_and_the_owner_stays(as_user: AsUser, alice: User, bob: User) -> None:
    endpoint = make_endpoint(alice, "ep")
    team = groups.create(alice, name="The team").group
    browser = as_user(alice)
    here = f"/endpoints/{endpoint.pk}"
    browser.get(here)
    browser.post(f"{here}/roles", whom="identity", user="bob", role="activity_monitor")
    browser.post(f"{here}/roles", whom="group", group=str(team.pk), role="administrator")
    assert {row.principal for row in Role.objects.all()} == {bob.pk, team.pk}
    assert browser.post(f"{here}/roles", whom="identity", user="bob", role="access_manager").status_code == 400
    for row in Role.objects.all():
        browser.post(f"{here}/roles/{row.pk}/remove", confirmed="yes")
    assert not Role.objects.exists()
    browser.get(here)
    assert "/remove" not in browser.page.split('id="roles"')[1].split("</section>")[0]


def test_the_name_of_a_group_is_shown_to_those_who_see_the_group(as_user: AsUser, alice: User, bob: User) -> None:
    endpoint = make_endpoint(alice, "ep")
    for name, visibility in (("hidden-team", "private"), ("open-team", "authenticated")):
        policies = groups.Policies(group_visibility=visibility)
        team = groups.create(bob, name=name, policies=policies).group
        Role.objects.create(endpoint=endpoint, principal_type="group", principal=team.pk, role="activity_monitor")
    browser = as_user(alice)
    browser.get(f"/endpoints/{endpoint.pk}")
    assert "open-team" in browser.text
    assert "hidden-team" not in browser.page


def test_a_refused_form_on_the_page_keeps_what_was_typed(as_user: AsUser, alice: User) -> None:
    share = make_share(make_endpoint(alice, "host"), "share")
    browser = as_user(alice)
    browser.get(f"/endpoints/{share.pk}")
    rule = {"whom": "identity", "user": "nobody-here", "path": "/typed/", "permissions": "rw", "until": "2099-12-31"}
    assert browser.post(f"/endpoints/{share.pk}/rules", **rule).status_code == 400
    for typed in ('value="nobody-here"', 'value="/typed/"', 'value="2099-12-31"', '<option value="rw" selected>'):
        assert typed in browser.page
    assert browser.post(f"/endpoints/{share.pk}/edit", display_name="x" * 300, description="a text").status_code == 400
    assert "x" * 300 in browser.page
    assert ">a text</textarea>" in browser.page


def test_operations_are_paused_and_go_on(as_user: AsUser, alice: User, bob: User) -> None:
    endpoint = make_endpoint(alice, "ep", public=True)
    browser = as_user(alice)
    here = f"/endpoints/{endpoint.pk}"
    browser.get(here)
    browser.post(f"{here}/pauses", operation="pause_ls", message="The tape is away.")
    rule = PauseRule.objects.get()
    assert [flag for flag in pause_rules.FLAGS if getattr(rule, flag)] == ["pause_ls"]
    his = as_user(bob)
    his.get(here)
    assert "The tape is away." in his.text
    assert his.post(f"{here}/pauses/{rule.pk}/remove").status_code == 404
    browser.get(here)
    browser.post(f"{here}/pauses/{rule.pk}/remove")
    assert not PauseRule.objects.exists()


FORMS = {
    "edit": {"display_name": "x"},
    "servers": {"server": "dtn9.example.org"},
    "roles": {"whom": "identity", "user": "charlie", "role": "administrator"},
    "pauses": {"operation": "pause_ls"},
    "delete": {"name": "alice#ep"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("public", [True, False])
def test_no_form_works_for_others(as_user: AsUser, alice: User, charlie: User, form: str, public: bool) -> None:
    endpoint = make_endpoint(alice, "ep", public=public)
    browser = as_user(charlie)
    answer = browser.get(f"/endpoints/{endpoint.pk}")
    assert answer.status_code == (200 if public else 404)
    assert f"/endpoints/{endpoint.pk}/{form}" not in browser.page
    answer = browser.post(f"/endpoints/{endpoint.pk}/{form}", **FORMS[form])
    assert answer.status_code == (403 if public else 404)
    endpoint.refresh_from_db()
    assert (endpoint.display_name, endpoint.deleted_at, endpoint.servers.count()) == ("ep", None, 1)
    assert not Role.objects.exists()
    assert not PauseRule.objects.exists()


def test_who_only_reads_a_share_does_not_see_its_host(as_user: AsUser, alice: User, bob: User) -> None:
    host = make_endpoint(alice, "the-host")
    share = make_share(host, "share", "/very/private/")
    give(share, bob)
    browser = as_user(bob)
    browser.get(f"/endpoints/{share.pk}")
    assert "the-host" not in browser.page
    assert "/very/private/" not in browser.page


def test_names_from_people_are_shown_as_text(as_user: AsUser, alice: User) -> None:
    endpoint = make_endpoint(alice, "ep")
    Endpoint.objects.filter(pk=endpoint.pk).update(
        display_name="<img src=x onerror=alert(1)>", description="<script>alert(1)</script>\u202egnp"
    )
    browser = as_user(alice)
    browser.get(f"/endpoints/{endpoint.pk}")
    assert "<img src=x" not in browser.page
    assert "<script>alert" not in browser.page
    browser.get("/endpoints")
    assert "<img src=x" not in browser.page


def test_the_list_leads_to_the_transfer_page_with_the_endpoint(as_user: AsUser, alice: User) -> None:
    endpoint = make_endpoint(alice, "ep")
    browser = as_user(alice)
    browser.get("/endpoints")
    [there] = [part.split('"')[0] for part in browser.page.split('href="') if part.startswith("/transfer?")]
    browser.get(there)
    assert str(endpoint.pk) in browser.page


def test_a_host_key_that_nobody_has_confirmed_is_reported_and_confirmed_by_those_who_manage(
    as_user: AsUser, alice: User, bob: User
) -> None:
    key = "SHA256:" + "k" * 43
    spec = registry.ServerSpec("host.example.org", 22, "sftp", key)
    endpoint = registry.create(alice, {"name": "lab", "public": True}, [spec])
    [row] = registry.servers(endpoint)
    here, place = f"/endpoints/{endpoint.pk}", f"/endpoints/{endpoint.pk}/servers/{row.pk}/host-key"
    browser, other = as_user(alice), as_user(bob)
    browser.get(here)
    assert "Nobody has confirmed" not in browser.text
    row.host_key_confirmed = False
    row.save()
    for one in (browser, other):
        one.get(here)
        assert "Nobody has confirmed this host key yet" in one.text
    assert "I have compared it" in browser.text
    assert "I have compared it" not in other.text
    other.post(place, fingerprint=key)
    row.refresh_from_db()
    assert not row.host_key_confirmed
    browser.post(place, fingerprint=key)
    row.refresh_from_db()
    assert (row.subject, row.host_key_confirmed) == (key, True)
    browser.get(here)
    assert "The host key is confirmed." in browser.text
