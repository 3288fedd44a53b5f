"""Shared endpoints over REST: made, shown, listed, changed, deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from endpoints import registry
from endpoints.errors import TOO_MANY_ENDPOINTS
from endpoints.models import AccessRule, Endpoint, Role
from endpoints.sharing import shares
from identity.models import User
from identity.vault import store as vault
from identity.vault.store import CredentialKind
from tests.integration.cast import all_at_once, make_endpoint, make_user
from tests.integration.rest import Api, assert_error
from tests.integration.shared import give, make_share
from tests.refusals import raises_refusal

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


def test_a_share_is_made_of_a_folder_of_ones_own_endpoint(api: Api, alice: User, ep1: Endpoint) -> None:
    document = {
        "DATA_TYPE": "shared_endpoint", "host_endpoint": str(ep1.pk), "host_path": "/~/data//results",
        "display_name": "The results", "description": "of last year", "name": "results",
    }  # fmt: skip
    answer = api.post("/shared_endpoint", document)
    assert answer.status == 201
    assert answer.body["code"] == "Created"
    shown = api.get(f"/endpoint/{answer.body['id']}").body
    wanted = {
        "entity_type": "GCP_guest_collection", "canonical_name": "alice#results", "display_name": "The results",
        "description": "of last year", "host_endpoint": "alice#ep1", "host_endpoint_id": str(ep1.pk),
        "host_endpoint_display_name": "ep1", "host_path": "/~/data/results/", "mapped_collection_id": str(ep1.pk),
        "sharing_target_endpoint": str(ep1.pk), "sharing_target_root_path": "/~/data/results/", "shareable": False,
        "acl_available": True, "acl_editable": True, "my_effective_roles": ["administrator"], "public": False,
        "default_directory": "/", "is_globus_connect": False, "DATA": [], "activated": True, "expires_in": -1,
        "non_functional": False,
    }  # fmt: skip
    assert {name: shown[name] for name in wanted} == wanted


@pytest.mark.parametrize("reference", ["ep1", "alice#ep1"])
def test_the_host_may_be_named_in_all_ways(api: Api, ep1: Endpoint, reference: str) -> None:
    for field in ("host_endpoint", "host_endpoint_id"):
        answer = api.post("/shared_endpoint", {field: reference, "host_path": "/"})
        assert answer.status == 201, answer.body
        assert api.get(f"/endpoint/{answer.body['id']}").body["host_endpoint_id"] == str(ep1.pk)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"host_path": None}, "host_path"), ({"host_path": "data"}, "host_path"), ({"host_path": ""}, "host_path"),
        ({"host_path": "/a/../.."}, "host_path"), ({"host_path": "/a\nb"}, "host_path"),
        ({"host_path": "/a\udcff"}, "host_path"), ({"host_path": "/" + "x" * 256}, "host_path"),
        ({"host_path": 7}, "host_path"), ({"host_endpoint": None}, "host_endpoint"),
        ({"myproxy_server": "myproxy.example.org"}, "myproxy_server"), ({"oauth_server": "https://x"}, "oauth_server"),
        ({"network_use": "aggressive"}, "network_use"), ({"max_concurrency": 4}, "max_concurrency"),
        ({"name": "no blanks"}, "name"), ({"DATA_TYPE": "transfer"}, "DATA_TYPE"),
    ],
)  # fmt: skip
def test_what_a_share_cannot_be_is_refused_by_name(
    api: Api, ep1: Endpoint, more: dict[str, object], named: str
) -> None:
    answer = api.post("/shared_endpoint", {"host_endpoint": "ep1", "host_path": "/data/", **more})
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(f"{named}:")
    assert not Endpoint.objects.filter(host=ep1).exists()


def test_who_may_use_an_endpoint_may_not_share_from_it(alice: User, bob: User, public: Endpoint) -> None:
    refused = Api(alice).post("/shared_endpoint", {"host_endpoint": "bob#public", "host_path": "/"})
    assert_error(refused, 403, "PermissionDenied")
    Role.objects.create(endpoint=public, principal_type="identity", principal=alice.pk, role="administrator")
    made = Api(alice).post("/shared_endpoint", {"host_endpoint": "bob#public", "host_path": "/"})
    assert made.status == 201
    assert Api(alice).get(f"/endpoint/{made.body['id']}").body["owner_string"] == "alice@127.0.0.1"


def test_a_share_is_not_shared_again_and_has_no_servers(api: Api, bob: User, ep1: Endpoint) -> None:
    share = make_share(ep1, "share")
    give(share, bob, write=True)
    for who in (api, Api(bob)):
        answer = who.post("/shared_endpoint", {"host_endpoint": str(share.pk), "host_path": "/"})
        assert_error(answer, 400, "ClientError.BadRequest")
    answer = api.post("/endpoint/share/server", {"hostname": "dtn.example.org"})
    assert_error(answer, 400, "ClientError.BadRequest")
    assert "no servers of its own" in answer.body["message"]
    assert api.get("/endpoint/share/server_list").body["DATA"] == []
    assert_error(Api(bob).post(f"/endpoint/{share.pk}/server", {"hostname": "dtn.example.org"}), 403)


def test_who_creates_and_deletes_endpoints_all_day_fills_no_table(
    api: Api, alice: User, ep1: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of deleted endpoints stay for the history of tasks."""
    monkeypatch.setattr(registry, "MAX_NEW", 4)
    for _ in range(3):
        made = api.post("/shared_endpoint", {"host_endpoint": "ep1", "host_path": "/a/"})
        assert made.status == 201, made.body
        assert api.delete(f"/endpoint/{made.body['id']}").status == 200
    for document, route in (
        ({"host_endpoint": "ep1", "host_path": "/a/"}, "/shared_endpoint"),
        ({"display_name": "new"}, "/endpoint"),
    ):
        refused = api.post(route, document)
        assert_error(refused, 409, "ClientError.LimitExceeded")
        assert "in a day" in refused.body["message"]
    assert Endpoint.objects.filter(owner=alice).count() == 4
    Endpoint.objects.filter(owner=alice).update(created_at=datetime.now(UTC) - timedelta(days=1, minutes=1))
    assert api.post("/shared_endpoint", {"host_endpoint": "ep1", "host_path": "/a/"}).status == 201


def test_shares_count_among_the_endpoints_that_a_user_may_have(
    api: Api, alice: User, ep1: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_ENDPOINTS", 2)
    shares.create(alice, "ep1", "/a/", {})
    with raises_refusal(TOO_MANY_ENDPOINTS):
        shares.create(alice, "ep1", "/b/", {})
    answer = api.post("/shared_endpoint", {"host_endpoint": "ep1", "host_path": "/b/"})
    assert_error(answer, 409, "ClientError.LimitExceeded")


def test_a_name_that_is_taken_is_taken(api: Api, ep1: Endpoint) -> None:
    answer = api.post("/shared_endpoint", {"host_endpoint": "ep1", "host_path": "/b/", "name": "ep1"})
    assert_error(answer, 409, "Exists")


# ---- what is shown


def test_which_folder_of_whose_endpoint_it_is_only_those_learn_who_have_a_part_in_it(
    api: Api, alice: User, bob: User, charlie: User, ep1: Endpoint
) -> None:
    share = make_share(ep1, "share")
    give(share, bob)
    Role.objects.create(endpoint=share, principal_type="identity", principal=charlie.pk, role="access_manager")
    hidden = ("host_endpoint", "host_endpoint_display_name", "host_path", "sharing_target_root_path")
    shown = Api(bob).get(f"/endpoint/{share.pk}").body
    assert {shown[name] for name in hidden} == {None}
    assert shown["host_endpoint_id"] == str(ep1.pk)
    assert (shown["acl_editable"], shown["my_effective_roles"]) == (False, [])
    assert_error(Api(bob).get(f"/endpoint/{ep1.pk}"), 404, "EndpointNotFound")
    managed = Api(charlie).get(f"/endpoint/{share.pk}").body
    assert (managed["host_endpoint"], managed["host_path"]) == ("alice#ep1", "/shared/")
    assert (managed["acl_editable"], managed["my_effective_roles"]) == (True, ["access_manager"])
    assert api.get("/endpoint/ep1").body["shareable"] is True


def test_a_share_is_activated_when_its_owner_is_active_at_the_host(alice: User, bob: User, gsi: Endpoint) -> None:
    share = make_share(gsi, "share")
    give(share, bob)
    api = Api(bob)

    def activation_status() -> tuple[bool, bool]:
        document = api.get(f"/endpoint/{share.pk}").body
        [row] = api.get("/endpoint_search", filter_scope="shared-with-me").body["DATA"]
        assert row["expires_in"] == pytest.approx(document["expires_in"], abs=5)
        assert {**row, "expires_in": None} == {**document, "expires_in": None}
        return document["activated"], document["expires_in"] > 0

    def autoactivate() -> tuple[str, object]:
        body = api.post(f"/endpoint/{share.pk}/autoactivate").body
        return body["code"], body["subject"]

    # bob's own credential, wherever it may serve, is nothing here.
    until = datetime.now(UTC) + timedelta(hours=1)
    vault.store(bob, vault.endpoint_binding(gsi.pk), CredentialKind.X509, b"x", subject="/CN=bob", expires_at=until)
    assert activation_status() == (False, False)
    assert autoactivate() == ("AutoActivationFailed", None)
    vault.store(alice, vault.endpoint_binding(gsi.pk), CredentialKind.X509, b"x", subject="/CN=alice", expires_at=until)
    assert activation_status() == (True, True)
    assert autoactivate() == ("AlreadyActivated", None)
    requirements = api.get(f"/endpoint/{share.pk}/activation_requirements").body
    assert (requirements["activated"], requirements["DATA"]) == (True, [])
    for verb in ("activate", "deactivate"):
        assert_error(Api(alice).post("/endpoint/share/" + verb, {"DATA": []}), 403, "PermissionDenied")


# ---- lists


def test_those_who_run_a_host_see_what_is_shared_from_it_in_pages(
    api: Api, alice: User, bob: User, charlie: User, ep1: Endpoint
) -> None:
    made = {str(make_share(ep1, f"share{number}").pk) for number in range(5)}
    make_share(make_endpoint(alice, "other"), "elsewhere")
    Role.objects.create(endpoint=ep1, principal_type="identity", principal=charlie.pk, role="activity_monitor")
    for who in (api, Api(charlie)):
        seen: list[str] = []
        token = None
        for rows in (2, 2, 1):
            page = who.get(
                f"/endpoint/{ep1.pk}/shared_endpoint_list", max_results=2, **({"next_token": token} if token else {})
            ).body
            assert page["DATA_TYPE"] == "shared_endpoint_list"
            assert len(page["shared_endpoints"]) == rows
            seen += [row["id"] for row in page["shared_endpoints"]]
            token = page["next_token"]
        assert token is None
        assert set(seen) == made
        assert len(seen) == 5
    whole = api.get("/endpoint/ep1/shared_endpoint_list").body
    assert {row["id"] for row in whole["shared_endpoints"]} == made
    assert whole["next_token"] is None
    assert_error(Api(bob).get(f"/endpoint/{ep1.pk}/shared_endpoint_list"), 404, "EndpointNotFound")
    assert_error(api.get("/endpoint/ep1/shared_endpoint_list", next_token="x"), 400, "ClientError.BadRequest")


def test_ones_own_shares_of_an_endpoint_are_a_list_of_endpoints(
    api: Api, alice: User, bob: User, ep1: Endpoint
) -> None:
    Role.objects.create(endpoint=ep1, principal_type="identity", principal=bob.pk, role="administrator")
    make_share(ep1, "b")
    make_share(ep1, "a")
    make_share(ep1, "bobs", owner=bob)
    found = api.get("/endpoint/ep1/my_shared_endpoint_list").body
    assert (found["DATA_TYPE"], [row["name"] for row in found["DATA"]]) == ("endpoint_list", ["a", "b"])
    assert found["DATA"][0] == api.get("/endpoint/a").body
    bobs = Api(bob).get(f"/endpoint/{ep1.pk}/my_shared_endpoint_list", fields="name").body["DATA"]
    assert bobs == [{"DATA_TYPE": "endpoint", "name": "bobs"}]


# ---- changed, deleted


def test_the_document_of_a_share_is_changed_as_that_of_any_endpoint(api: Api, ep1: Endpoint) -> None:
    share = make_share(ep1, "share")
    changes = {"display_name": "New", "public": True, "default_directory": "/in/", "name": "new"}
    assert api.put("/endpoint/share", changes).status == 200
    document = api.get("/endpoint/new").body
    assert {name: document[name] for name in changes} == changes
    assert document["id"] == str(share.pk)
    # A document that was read can be written back.
    assert api.put("/endpoint/new", document).status == 200
    assert api.get("/endpoint/new").body == document


@pytest.mark.parametrize(
    "change",
    [
        {"host_path": "/other/"}, {"host_endpoint": "ep2"}, {"host_endpoint_id": "alice#ep2"},
        {"myproxy_server": "myproxy.example.org"}, {"network_use": "minimal"},
    ],
)  # fmt: skip
def test_what_is_shared_stays_what_it_is(api: Api, ep1: Endpoint, change: dict[str, str]) -> None:
    make_share(ep1, "share")
    answer = api.put("/endpoint/share", {**change, "display_name": "x"})
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(f"{next(iter(change))}:")
    assert api.get("/endpoint/share").body["display_name"] == "share"


def test_a_share_is_worked_as_hard_as_its_host_may_be(api: Api, ep1: Endpoint) -> None:
    make_share(ep1, "share")
    api.put("/endpoint/ep1", {"network_use": "minimal"})
    document = api.get("/endpoint/share").body
    assert (document["network_use"], document["max_concurrency"]) == ("minimal", 1)
    assert api.put("/endpoint/share", document).status == 200


def test_a_share_is_deleted_alone_and_with_its_host(api: Api, bob: User, ep1: Endpoint) -> None:
    first, second = make_share(ep1, "first"), make_share(ep1, "second")
    for share in (first, second):
        give(share, bob)
    assert_error(Api(bob).delete(f"/endpoint/{first.pk}"), 403, "PermissionDenied")
    assert api.delete("/endpoint/first").status == 200
    assert_error(Api(bob).get(f"/endpoint/{first.pk}"), 404, "EndpointNotFound")
    assert Api(bob).get(f"/endpoint/{second.pk}").status == 200
    answer = api.delete("/endpoint/ep1")
    assert answer.status == 200
    assert "1 shared endpoint" in answer.body["message"]
    assert_error(Api(bob).get(f"/endpoint/{second.pk}"), 404, "EndpointNotFound")
    assert AccessRule.objects.filter(endpoint=second).exists()


def test_who_runs_the_host_may_take_a_share_of_it_away(bob: User, alice: User, ep1: Endpoint) -> None:
    role = Role.objects.create(endpoint=ep1, principal_type="identity", principal=bob.pk, role="administrator")
    share = make_share(ep1, "bobs", owner=bob)
    role.delete()
    assert Api(alice).delete(f"/endpoint/{share.pk}").status == 200


def test_nothing_is_shared_from_an_endpoint_that_is_deleted_at_the_same_moment(transactional_db: None) -> None:
    alice = make_user("alice")
    for number in range(4):
        host = make_endpoint(alice, f"host{number}")
        all_at_once(
            [
                lambda ref=str(host.pk): shares.create(alice, ref, "/a/", {}),  # type: ignore[misc]
                lambda ref=str(host.pk): registry.delete(alice, ref),  # type: ignore[misc]
                lambda ref=str(host.pk): shares.create(alice, ref, "/b/", {}),  # type: ignore[misc]
            ]
        )
        assert not Endpoint.objects.filter(host=host, deleted_at__isnull=True).exists()
