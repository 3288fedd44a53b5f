"""Endpoints, their servers, and the search, as clients see them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from endpoints.models import Endpoint, Server
from identity.models import User
from tests.integration.cast import make_endpoint
from tests.integration.rest import Api, assert_error


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


def test_an_endpoint_is_made_with_its_servers_and_read_by_all_its_names(api: Api, alice: User) -> None:
    document = {
        "DATA_TYPE": "endpoint",
        "name": "dtn",
        "display_name": "Transfer node",
        "description": "two\nlines",
        "keywords": "physics,\u00fc",
        "public": True,
        "default_directory": "/~/data/",
        "is_globus_connect": False,
        "unknown": {"field": 1},
        "DATA": [
            {"DATA_TYPE": "server", "uri": "ftp://dtn1.example.org"},
            {"hostname": "2600::1", "port": 2812, "scheme": "ftp", "subject": "/CN=dtn"},
        ],
    }
    made = api.post("/endpoint", document)
    assert (made.status, made.code, made.body["DATA_TYPE"]) == (201, "Created", "endpoint_create_result")
    assert made.body["canonical_name"] == "alice#dtn"
    assert "globus_connect_setup_key" in made.body
    key = made.body["id"]
    found = api.get(f"/endpoint/{key}")
    assert found.status == 200
    for reference in (key.upper(), "alice%23dtn", "dtn"):
        assert api.get(f"/endpoint/{reference}").body == found.body
    expected = {
        "DATA_TYPE": "endpoint", "id": key, "name": "dtn", "canonical_name": "alice#dtn", "username": "alice",
        "owner_id": str(alice.pk), "owner_string": "alice@127.0.0.1", "display_name": "Transfer node", "public": True,
        "description": "two\nlines", "keywords": "physics,\u00fc", "organization": None,
        "default_directory": "/~/data/", "entity_type": "GCP_mapped_collection", "is_globus_connect": False,
        "activated": True, "expires_in": -1, "tlsftp_server": None, "gcs_manager_url": None,
        "my_effective_roles": ["administrator"],
    }  # fmt: skip
    assert found.body.items() >= expected.items()
    assert [(row["uri"], row["subject"]) for row in found.body["DATA"]] == [
        ("ftp://dtn1.example.org:21", None),
        ("ftp://[2600::1]:2812", "/CN=dtn"),
    ]


def test_an_endpoint_without_a_name_is_called_by_its_id(api: Api) -> None:
    made = api.post("/endpoint", {"display_name": "mine"}).body
    assert made["canonical_name"] == f"alice#{made['id']}"
    assert api.get(f"/endpoint/{made['id']}").body["name"] == made["id"]


def test_fields_leave_out_the_others(api: Api, ep1: Endpoint) -> None:
    body = api.get(f"/endpoint/{ep1.pk}", fields="id,public").body
    assert body == {"DATA_TYPE": "endpoint", "id": str(ep1.pk), "public": False}


def test_a_name_is_used_once_by_each_user(api: Api, bob: User, ep1: Endpoint) -> None:
    assert_error(api.post("/endpoint", {"name": "ep1"}), 409, "Exists")
    assert Api(bob).post("/endpoint", {"name": "ep1"}).status == 201
    assert api.get("/endpoint/ep1").body["id"] == str(ep1.pk)
    other = api.post("/endpoint", {"name": "other"}).body["id"]
    assert_error(api.put(f"/endpoint/{other}", {"name": "ep1"}), 409, "Exists")


def test_what_goes_wrong_while_an_endpoint_is_made_leaves_none(api: Api) -> None:
    twice = [{"hostname": "a.example.org"}, {"uri": "gsiftp://a.example.org"}]
    assert_error(api.post("/endpoint", {"name": "ep", "DATA": twice}), 409, "Exists")
    many = [{"hostname": f"a{n}.example.org"} for n in range(65)]
    assert_error(api.post("/endpoint", {"name": "ep", "DATA": many}), 400, "ClientError.BadRequest")
    assert not Endpoint.objects.exists()


def test_a_personal_endpoint_has_an_agent_and_no_servers(api: Api, ep1: Endpoint) -> None:
    laptop = {"display_name": "laptop", "is_globus_connect": True}
    made = api.post("/endpoint", laptop)
    assert made.body["globus_connect_setup_key"].startswith("wb1.")
    shown = api.get(f"/endpoint/{made.body['id']}").body
    seen = {name: shown[name] for name in ("is_globus_connect", "activated", "globus_connect_setup_key")}
    assert seen == {"is_globus_connect": True, "activated": True, "globus_connect_setup_key": None}
    assert_error(api.post("/endpoint", laptop | {"DATA": [{"hostname": "a.org"}]}), 400, "ClientError.BadRequest")
    added = api.post(f"/endpoint/{made.body['id']}/server", {"hostname": "a.org"})
    assert_error(added, 400, "ClientError.BadRequest")
    # As `globus gcp update mapped` says of all endpoints.
    assert api.put("/endpoint/ep1", {"is_globus_connect": True, "description": "x"}).status == 200
    assert api.get("/endpoint/ep1").body["is_globus_connect"] is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subscription_id", "DEFAULT"), ("high_assurance", True),
        ("guest_collection_activity_notification_policy", {"status": ["SUCCEEDED"]}),
    ],
)  # fmt: skip
def test_nothing_is_promised_that_is_not_kept(api: Api, ep1: Endpoint, field: str, value: object) -> None:
    document = {"host_endpoint": "ep1", "host_path": "/a/", field: value}
    for answer in (
        api.post("/endpoint", {field: value}),
        api.put("/endpoint/ep1", {field: value}),
        api.post("/shared_endpoint", document),
    ):
        assert_error(answer, 400, "ClientError.BadRequest.NotSupported")
        assert answer.body["message"].startswith(f"{field}: ")
    assert Endpoint.objects.get() == ep1


def test_a_document_that_was_read_can_be_written_back(api: Api, ep1: Endpoint) -> None:
    document = api.get("/endpoint/ep1").body
    assert api.put("/endpoint/ep1", document).status == 200
    assert api.get("/endpoint/ep1").body == document
    headers = {"Accept": "application/xml"}
    written = api.call("GET", "/endpoint/ep1", headers=headers).body
    content = written if isinstance(written, bytes) else None
    assert content is not None
    answer = api.call("PUT", "/endpoint/ep1", raw=content, content_type="application/xml")
    assert answer.status == 200, answer.body
    assert api.get("/endpoint/ep1").body == document


def test_what_users_see_and_what_holds_for_all_transfers_is_kept(api: Api, ep1: Endpoint) -> None:
    said = {
        "user_message": "Down on Sunday.\nBack on Monday.", "user_message_link": "https://dtn.example.org/news",
        "force_encryption": True, "force_verify": True,
    }  # fmt: skip
    assert api.put("/endpoint/ep1", said).status == 200
    assert api.get("/endpoint/ep1").body.items() >= {**said, "disable_verify": False}.items()
    assert_error(api.put("/endpoint/ep1", {"disable_verify": True}), 400, "ClientError.BadRequest")
    assert api.put("/endpoint/ep1", {"disable_verify": True, "force_verify": False}).status == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a b"), ("name", "a#b"), ("name", ""), ("name", "x" * 129), ("name", str(uuid.UUID(int=1))),
        ("name", "\u00fc"), ("display_name", "x" * 257), ("display_name", "a\nb"), ("description", "\0"),
        ("description", "\udcff"), ("default_directory", "data"), ("default_directory", "/../etc"),
        ("default_directory", "/a\n"), ("info_link", "x" * 1025),
        ("user_message", "\0"), ("user_message_link", "javascript:alert(1)"), ("force_verify", "yes"),
    ],
)  # fmt: skip
def test_a_field_that_makes_no_sense_is_refused_by_its_name(api: Api, ep1: Endpoint, field: str, value: object) -> None:
    for answer in (api.post("/endpoint", {field: value}), api.put(f"/endpoint/{ep1.pk}", {field: value})):
        assert_error(answer, 400, "ClientError.BadRequest")
        assert answer.body["message"].startswith(f"{field}: ")


def test_an_endpoint_changes_only_what_the_request_names(api: Api, ep1: Endpoint) -> None:
    before = api.get(f"/endpoint/{ep1.pk}").body
    changes = {"DATA_TYPE": "endpoint", "organization": "A university", "public": True, "name": "renamed", "id": "x"}
    answer = api.put("/endpoint/alice%23ep1", changes)
    assert (answer.status, answer.code, answer.body["id"]) == (200, "Updated", str(ep1.pk))
    changed = {"organization": "A university", "public": True, "name": "renamed", "canonical_name": "alice#renamed"}
    assert api.get(f"/endpoint/{ep1.pk}").body == {**before, **changed}
    assert_error(api.get("/endpoint/ep1"), 404, "EndpointNotFound")
    assert api.put(f"/endpoint/{ep1.pk}", {"organization": None}).status == 200
    assert api.get(f"/endpoint/{ep1.pk}").body["organization"] is None


def test_a_deleted_endpoint_is_gone_and_its_name_free(api: Api, ep1: Endpoint) -> None:
    answer = api.delete("/endpoint/ep1")
    assert (answer.status, answer.code) == (200, "Deleted")
    for reference in ("ep1", str(ep1.pk)):
        assert_error(api.get(f"/endpoint/{reference}"), 404, "EndpointNotFound")
        assert_error(api.delete(f"/endpoint/{reference}"), 404, "EndpointNotFound")
    assert api.post("/endpoint", {"name": "ep1"}).status == 201


def test_autoactivation_of_old_clients_is_always_done(api: Api, ep1: Endpoint) -> None:
    answer = api.call("POST", f"/endpoint/{ep1.pk}/autoactivate", query={"if_expires_in": "3600"})
    assert (answer.status, answer.code, answer.body["expires_in"]) == (200, "AlreadyActivated", -1)
    assert answer.body["DATA_TYPE"] == "activation_result"


# ---- servers


def test_servers_are_added_listed_changed_shown_and_removed(api: Api, ep1: Endpoint) -> None:
    added = api.post("/endpoint/ep1/server", {"hostname": "dtn2.example.org", "port": 2900})
    assert (added.status, added.code, added.body["DATA_TYPE"]) == (201, "Created", "endpoint_server_add_result")
    listing = api.get("/endpoint/ep1/server_list").body
    assert (listing["DATA_TYPE"], listing["length"]) == ("endpoint_server_list", 2)
    assert [row["uri"] for row in listing["DATA"]] == [
        "ftp://ep1.example.org:2811",
        "ftp://dtn2.example.org:2900",
    ]
    place = f"/endpoint/ep1/server/{added.body['id']}"
    assert api.get(place).body == listing["DATA"][1]
    assert api.put(place, {"port": 2901}).code == "Updated"
    assert api.get(place).body["uri"] == "ftp://dtn2.example.org:2901"
    assert api.delete(place).code == "Deleted"
    for answer in (api.get(place), api.put(place, {"port": 1}), api.delete(place)):
        assert_error(answer, 404, "ClientError.NotFound")


def test_a_host_key_is_confirmed_by_name_and_never_by_a_document_that_repeats_it(api: Api, alice: User) -> None:
    key, other = "SHA256:" + "k" * 43, "SHA256:" + "o" * 43
    server = {"DATA_TYPE": "server", "uri": "ssh://host.example.org", "subject": key}
    api.post("/endpoint", {"DATA_TYPE": "endpoint", "name": "bare", "DATA": [server]})
    [row] = Server.objects.filter(endpoint__name="bare")
    place = f"/endpoint/bare/server/{row.pk}"
    assert api.get(place).body["host_key_confirmed"] is True, "it was given"

    Server.objects.filter(pk=row.pk).update(host_key_confirmed=False)
    document = api.get(place).body
    assert document["host_key_confirmed"] is False
    for same in ({"port": 23}, {"port": 24, "subject": key}, document):
        assert api.put(place, same).code == "Updated"
        assert api.get(place).body["host_key_confirmed"] is False
    refused = api.put(place, {"host_key_confirmed": True})
    assert_error(refused, 400, "ClientError.BadRequest")
    assert api.put(place, {"subject": key, "host_key_confirmed": True}).code == "Updated"
    assert api.get(place).body["host_key_confirmed"] is True

    Server.objects.filter(pk=row.pk).update(host_key_confirmed=False)
    api.put(place, {"subject": other})
    assert [api.get(place).body[name] for name in ("subject", "host_key_confirmed")] == [other, True]


def test_a_server_of_another_endpoint_is_none_of_this_one(api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    theirs = Server.objects.get(endpoint=ep2)
    for method, body in (("GET", None), ("PUT", {"port": 1}), ("DELETE", None)):
        answer = api.call(method, f"/endpoint/{ep1.pk}/server/{theirs.pk}", body)
        assert_error(answer, 404, "ClientError.NotFound")
    theirs.refresh_from_db()
    assert theirs.port == 2811


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"hostname": "a b"}, "hostname"), ({"hostname": "a\r\nQUIT"}, "hostname"), ({"hostname": ""}, "hostname"),
        ({"hostname": "a", "port": 0}, "port"), ({"hostname": "a", "port": 65536}, "port"),
        ({"hostname": "a", "port": -(10**30)}, "port"), ({"hostname": "a", "scheme": "http"}, "scheme"),
        ({"hostname": "a", "subject": "x\n"}, "subject"), ({"uri": "gsiftp://"}, "hostname"),
        ({"uri": "gsiftp://h:99999"}, "uri"), ({"uri": "gsiftp://u:p@h"}, "uri"), ({"uri": "gsiftp://h/path"}, "uri"),
        ({"uri": "file:///etc/passwd"}, "uri"), ({"uri": "gsiftp://[::1"}, "uri"), ({}, "hostname"),
    ],
)  # fmt: skip
def test_a_server_that_makes_no_sense_is_refused(api: Api, ep1: Endpoint, document: dict[str, Any], field: str) -> None:
    answer = api.post("/endpoint/ep1/server", document)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert field in answer.body["message"]
    assert ep1.servers.count() == 1


# ---- search


@pytest.fixture
def searched(alice: User, bob: User) -> dict[str, Endpoint]:
    found = {
        "mine": make_endpoint(alice, "alpha-mine"),
        "shown": make_endpoint(alice, "beta-mine", public=True),
        "hers": make_endpoint(bob, "alpha-public", public=True),
        "hidden": make_endpoint(bob, "alpha-hidden"),
    }
    Endpoint.objects.filter(pk=found["hers"].pk).update(organization="Universit\u00e4t", keywords="100% c++ (fast)")
    return found


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"filter_fulltext": "alpha"}, ["mine", "hers"]),
        ({"filter_fulltext": "ALPHA", "filter_scope": "all"}, ["mine", "hers"]),
        ({"filter_fulltext": "alp min"}, ["mine"]),
        ({"filter_fulltext": "lpha"}, []),
        ({"filter_fulltext": "universit\u00e4t"}, ["hers"]),
        ({"filter_fulltext": "100% (fast"}, ["hers"]),
        ({"filter_fulltext": ".*"}, []),
        ({"filter_fulltext": "bob#"}, ["hers"]),
        ({"filter_scope": "my-endpoints"}, ["mine", "shown"]),
        ({"filter_scope": "administered-by-me", "filter_fulltext": "beta"}, ["shown"]),
        ({"filter_scope": "my-gcp-endpoints"}, ["mine", "shown"]),
        ({"filter_scope": "shared-with-me"}, []),
        ({"filter_scope": "recently-used"}, []),
        ({"filter_fulltext": "alpha " * 1000}, ["mine", "hers"]),
        ({"filter_fulltext": "alpha", "filter_entity_type": "GCSv4_share,GCP_mapped_collection"}, ["mine", "hers"]),
        ({"filter_fulltext": "alpha", "filter_entity_type": "GCSv5_endpoint"}, []),
        ({"filter_fulltext": "alpha", "filter_non_functional": "0"}, ["mine", "hers"]),
        ({"filter_fulltext": "alpha", "filter_non_functional": "1"}, []),
        ({"filter_fulltext": "alpha", "filter_host_endpoint": str(uuid.UUID(int=7))}, []),
    ],
)
def test_a_search_finds_what_its_user_may_see(
    api: Api, searched: dict[str, Endpoint], query: dict[str, str], wanted: list[str]
) -> None:
    body = api.get("/endpoint_search", **query).body
    assert {row["id"] for row in body["DATA"]} == {str(searched[name].pk) for name in wanted}
    assert (body["DATA_TYPE"], body["has_next_page"], body["limit"]) == ("endpoint_list", False, 100)


def test_a_search_by_owner_finds_the_endpoints_of_that_owner_alone(
    api: Api, bob: User, searched: dict[str, Endpoint]
) -> None:
    body = api.get("/endpoint_search", filter_fulltext="alpha", filter_owner_id=str(bob.pk)).body
    assert [row["id"] for row in body["DATA"]] == [str(searched["hers"].pk)]


def test_a_search_is_read_page_by_page(api: Api, alice: User) -> None:
    names = [f"ep{number}" for number in range(5)]
    for name in names:
        make_endpoint(alice, name)
    found: list[str] = []
    more = True
    while more:
        query = {"filter_scope": "my-endpoints", "limit": 2, "offset": len(found), "fields": "name"}
        body = api.get("/endpoint_search", **query).body
        found += [row["name"] for row in body["DATA"]]
        more = body["has_next_page"]
        assert len(body["DATA"]) == (2 if more else 1)
    assert found == names


@pytest.mark.parametrize(
    "query",
    [{}, {"filter_scope": "all"}, {"filter_fulltext": "  "}, {"filter_scope": "everything"},
     {"filter_scope": "my-endpoints", "filter_owner_id": "alice"},
     {"filter_fulltext": " ".join(map(str, range(33)))}, {"filter_scope": "my-endpoints", "limit": "many"}],
)  # fmt: skip
def test_a_search_that_is_not_understood_is_refused(api: Api, query: dict[str, str]) -> None:
    assert_error(api.get("/endpoint_search", **query), 400, "ClientError.BadRequest")
