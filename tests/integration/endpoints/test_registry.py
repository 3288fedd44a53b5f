"""The registry of endpoints and who may do what."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from endpoints import registry
from endpoints.addresses.gate import TargetRefusedError
from endpoints.addresses.openings import parse_openings
from endpoints.errors import ENDPOINT_EXISTS, SERVER_EXISTS, EndpointNotFoundError, NotPermittedError
from endpoints.models import Endpoint, Server
from endpoints.permissions import Permission, may
from endpoints.registry import SearchFilters, SearchScope, ServerSpec
from identity.error_categories import InvalidFieldError, NotFoundError
from identity.models import User
from tests.integration.cast import all_at_once, make_endpoint, make_user
from tests.refusals import raises_refusal


def test_an_endpoint_is_found_by_id_full_name_and_own_name(alice: User, ep1: Endpoint) -> None:
    for ref in (str(ep1.pk), str(ep1.pk).upper(), "alice#ep1", "ep1"):
        found = registry.resolve(alice, ref, Permission.MANAGE)
        assert found == ep1
    assert registry.canonical_name(found) == "alice#ep1"


@pytest.mark.parametrize(
    "ref", ["", "#", "alice#", "#ep1", "alice#ep1#", "bob#ep1", "EP1", "ep\0", "x" * 5000, str(uuid.UUID(int=1))]
)
def test_what_is_no_endpoint_is_not_found(alice: User, ep1: Endpoint, ref: str) -> None:
    with pytest.raises(EndpointNotFoundError):
        registry.resolve(alice, ref, Permission.VIEW)


def test_a_private_endpoint_does_not_exist_for_others(charlie: User, ep1: Endpoint) -> None:
    for ref in (str(ep1.pk), "alice#ep1", "ep1"):
        for verb in Permission:
            with pytest.raises(EndpointNotFoundError):
                registry.resolve(charlie, ref, verb)
    assert not any(may(charlie, verb, ep1) for verb in Permission)
    assert registry.search(charlie) == ([], False)
    assert registry.search(charlie, filters=SearchFilters(owner_id=ep1.owner_id)) == ([], False)


def test_a_public_endpoint_can_be_used_but_not_managed_by_others(charlie: User, public: Endpoint) -> None:
    of_users = {
        Permission.VIEW,
        Permission.ACTIVATE,
        Permission.BROWSE,
        Permission.WRITE,
        Permission.TRANSFER_FROM,
        Permission.TRANSFER_TO,
    }
    for verb in of_users:
        assert registry.resolve(charlie, "bob#public", verb) == public
    for verb in set(Permission) - of_users:
        with pytest.raises(NotPermittedError):
            registry.resolve(charlie, "bob#public", verb)
    with pytest.raises(NotPermittedError) as refused:
        registry.update(charlie, "bob#public", {"description": "mine now"})
    assert refused.value.verb is Permission.MANAGE
    for action in (registry.delete, lambda user, ref: registry.remove_server(user, ref, public.servers.get().pk)):
        with pytest.raises(NotPermittedError):
            action(charlie, "bob#public")


def test_an_inactive_user_may_nothing(bob: User, public: Endpoint) -> None:
    bob.is_active = False
    assert not any(may(bob, verb, public) for verb in Permission)


def test_names_are_unique_for_an_owner_and_free_again_after_deletion(alice: User, bob: User, ep1: Endpoint) -> None:
    with raises_refusal(ENDPOINT_EXISTS) as refused:
        registry.create(alice, {"name": "ep1"})
    assert refused.value.facts == {"name": "alice#ep1"}
    make_endpoint(bob, "ep1")
    registry.delete(alice, "ep1")
    with pytest.raises(EndpointNotFoundError):
        registry.resolve(alice, str(ep1.pk), Permission.VIEW)
    assert Endpoint.objects.filter(pk=ep1.pk).exists()
    assert make_endpoint(alice, "ep1") != ep1


def test_a_name_cannot_be_changed_to_one_that_is_taken(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    with raises_refusal(ENDPOINT_EXISTS):
        registry.update(alice, "ep2", {"name": "ep1"})
    assert registry.update(alice, "ep2", {"name": "ep3", "public": True}).name == "ep3"
    assert registry.resolve(alice, "ep3", Permission.VIEW).public


def test_an_endpoint_without_a_name_is_called_by_its_id(alice: User) -> None:
    endpoint = registry.create(alice, {"display_name": "Mine"})
    assert registry.canonical_name(endpoint) == f"alice#{endpoint.pk}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""), ("name", "a b"), ("name", "a#b"), ("name", "a/b"), ("name", "x" * 129), ("name", 5),
        ("name", "\u00fc"), ("name", "a\n"), ("name", str(uuid.UUID(int=1))), ("public", "yes"), ("public", 1),
        ("display_name", 5),
        ("display_name", "x" * 257), ("display_name", "a\nb"), ("description", "a\0b"), ("description", "\ud800"),
        ("default_directory", "share"), ("default_directory", "/a/../b"), ("default_directory", "/a\nb"),
        ("myproxy_server", 5), ("myproxy_server", "a b"), ("myproxy_server", "host:0"),
        ("myproxy_server", "host:99999"),
        ("myproxy_server", "myproxy://host"), ("myproxy_server", "user@host"), ("myproxy_server", "host/path"),
        ("myproxy_server", "0177.0.0.1"), ("myproxy_server", "host\n"), ("myproxy_server", "host:"),
        ("myproxy_dn", "/CN=a\n"), ("myproxy_dn", "x" * 1025),
        ("oauth_server", "http://host/"), ("oauth_server", "host"), ("oauth_server", "https://user@host/"),
        ("oauth_server", "https://host/?a=b"), ("oauth_server", "https://host/#a"), ("oauth_server", "https://"),
        ("oauth_server", "https://0x7f.1/"), ("oauth_server", "https://host/a b"), ("oauth_server", 5),
        ("oauth_server", "https://host:0/"),
        ("data_hosts", "node1"), ("data_hosts", {"a": "b"}), ("data_hosts", ["node1:2811"]), ("data_hosts", [5]),
        ("data_hosts", ["a b"]), ("data_hosts", ["0177.0.0.1"]), ("data_hosts", [""]), ("data_hosts", ["node"] * 33),
    ],
)  # fmt: skip
def test_a_bad_field_is_refused_by_its_name(alice: User, field: str, value: object) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        registry.create(alice, {field: value})
    assert refused.value.field == field
    assert not Endpoint.objects.exists()


def test_an_endpoint_with_a_bad_server_is_not_made_at_all(alice: User) -> None:
    spec = ServerSpec.parse("gsiftp://dtn.example.org")
    with raises_refusal(SERVER_EXISTS):
        registry.create(alice, {"name": "twice"}, [spec, spec])
    assert not Endpoint.objects.exists()


NOT_PUBLIC = ("127.0.0.1", "localhost", "10.1.2.3", "192.168.0.9", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]")


@pytest.mark.parametrize("host", NOT_PUBLIC)
@pytest.mark.parametrize("scheme", ["ftp", "gsiftp", "sshftp", "sftp", "ssh", "ftpes"])
def test_a_server_on_a_network_that_the_operator_has_not_opened_is_refused(
    alice: User, ep1: Endpoint, scheme: str, host: str
) -> None:
    """With a key that is given nothing is read from it, and it is refused all the same."""
    key = f"SHA256:{'A' * 43}" if scheme in ("sftp", "ssh", "ftpes") else ""
    spec = ServerSpec.parse(f"{scheme}://{host}:2811", key)
    (row,) = registry.servers(ep1)
    for attempt in (
        lambda: registry.create(alice, {"name": "inside"}, [spec]),
        lambda: registry.add_server(alice, "ep1", spec),
        lambda: registry.update_server(alice, "ep1", row.pk, spec),
    ):
        # A second server of another scheme is refused for that.
        with pytest.raises((TargetRefusedError, InvalidFieldError)):
            attempt()
    with pytest.raises(TargetRefusedError, match="has not allowed port 2811"):
        registry.create(alice, {"name": "inside"}, [spec])
    assert [registry.server_uri(server) for server in registry.servers(ep1)] == ["ftp://ep1.example.org:2811"]
    assert Endpoint.objects.count() == 1


def test_a_server_on_a_network_that_the_operator_has_opened_is_registered(alice: User, settings: Any) -> None:
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1:2811")
    endpoint = registry.create(alice, {"name": "inside"}, [ServerSpec.parse("gsiftp://127.0.0.1:2811")])
    assert len(registry.servers(endpoint)) == 1
    with pytest.raises(TargetRefusedError):
        registry.add_server(alice, "inside", ServerSpec.parse("gsiftp://127.0.0.1:2812"))


def test_a_server_whose_name_has_no_address_yet_is_registered(alice: User) -> None:
    endpoint = registry.create(alice, {"name": "later"}, [ServerSpec.parse("gsiftp://later.invalid")])
    assert [server.hostname for server in registry.servers(endpoint)] == ["later.invalid"]


@pytest.mark.parametrize(
    ("uri", "hostname", "port"),
    [
        ("gsiftp://dtn1.example.org:2812", "dtn1.example.org", 2812),
        ("gsiftp://DTN1.Example.org", "dtn1.example.org", 2811),
        ("ftp://dtn1.example.org/", "dtn1.example.org", 21),
        ("sshftp://127.0.0.1", "127.0.0.1", 22),
        ("gsiftp://[2001:db8::1]:2811", "2001:db8::1", 2811),
    ],
)
def test_the_address_of_a_server_is_read_and_written(uri: str, hostname: str, port: int) -> None:
    spec = ServerSpec.parse(uri)
    assert (spec.hostname, spec.port) == (hostname, port)
    assert ServerSpec.parse(spec.uri) == spec


@pytest.mark.parametrize(
    "uri",
    [
        "", "dtn.example.org", "http://dtn.example.org", "gsiftp://", "gsiftp://:2811", "gsiftp://h:0", "gsiftp://h:65536",
        "gsiftp://h:x", "gsiftp://h/path", "gsiftp://user@h", "gsiftp://user:pw@h", "gsiftp://h?x", "gsiftp://h#x",
        "gsiftp://h\r\nQUIT", "gsiftp://h\0", "gsiftp://0177.0.0.1", "gsiftp://[::1", "gsiftp://a b",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_server_is_refused(uri: str) -> None:
    with pytest.raises(InvalidFieldError):
        ServerSpec.parse(uri)


def test_servers_are_added_and_removed(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    added = registry.add_server(alice, "ep1", ServerSpec.parse("ftp://dtn2.example.org:2811"))
    assert [registry.server_uri(server) for server in registry.servers(ep1)] == [
        "ftp://ep1.example.org:2811",
        "ftp://dtn2.example.org:2811",
    ]
    with raises_refusal(SERVER_EXISTS):
        registry.add_server(alice, "ep1", ServerSpec.parse("ftp://dtn2.example.org:2811"))
    with pytest.raises(NotFoundError):
        registry.remove_server(alice, "ep2", added.pk)
    registry.remove_server(alice, "ep1", added.pk)
    assert len(registry.servers(ep1)) == 1


def test_all_servers_of_an_endpoint_have_one_scheme(alice: User, ep1: Endpoint) -> None:
    gsi, ftp = ServerSpec.parse("gsiftp://dtn.example.org"), ServerSpec.parse("ftp://dtn.example.org")
    with pytest.raises(InvalidFieldError, match="ftp and gsiftp"):
        registry.create(alice, {"name": "mixed"}, [gsi, ftp])
    with pytest.raises(InvalidFieldError, match="ftp and gsiftp"):
        registry.add_server(alice, "ep1", gsi)
    added = registry.add_server(alice, "ep1", ftp)
    with pytest.raises(InvalidFieldError, match="ftp and gsiftp"):
        registry.update_server(alice, "ep1", added.pk, gsi)
    registry.remove_server(alice, "ep1", ep1.servers.exclude(pk=added.pk).get().pk)
    registry.update_server(alice, "ep1", added.pk, gsi)
    assert [server.scheme for server in registry.servers(ep1)] == ["gsiftp"]


def test_servers_of_two_schemes_that_are_added_at_one_time_do_not_both_stay(transactional_db: None) -> None:
    alice = make_user("alice")
    for name in ("one", "two", "three"):
        endpoint = registry.create(alice, {"name": name})
        specs = [ServerSpec.parse("gsiftp://a.example.org"), ServerSpec.parse("ftp://b.example.org")] * 2
        all_at_once([partial(registry.add_server, alice, str(endpoint.pk), spec) for spec in specs])
        assert len({server.scheme for server in registry.servers(endpoint)}) == 1


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("myproxy_server", "MyProxy.Example.org", "myproxy.example.org:7512"),
        ("myproxy_server", "192.0.2.1:7513", "192.0.2.1:7513"),
        ("myproxy_server", "[2001:db8::1]", "[2001:db8::1]:7512"),
        ("myproxy_server", None, ""),
        ("myproxy_dn", "/O=Grid/CN=myproxy", "/O=Grid/CN=myproxy"),
        ("oauth_server", "https://OAuth.Example.org:443/oauth2/", "https://oauth.example.org/oauth2"),
        ("oauth_server", "https://oauth.example.org:8443", "https://oauth.example.org:8443"),
        ("oauth_server", "", ""),
        ("data_hosts", ["Node1.Example.org", "192.0.2.7", "node1.example.org"], ["node1.example.org", "192.0.2.7"]),
        ("data_hosts", None, []),
    ],
)
def test_hosts_that_endpoints_name_are_kept_in_one_spelling(
    alice: User, ep1: Endpoint, field: str, given: object, kept: object
) -> None:
    assert getattr(registry.update(alice, "ep1", {field: given}), field) == kept
    assert getattr(Endpoint.objects.get(pk=ep1.pk), field) == kept


def test_a_search_matches_the_beginnings_of_words_and_all_terms(alice: User, bob: User, charlie: User) -> None:
    registry.create(alice, {"name": "ep1", "display_name": "Petrel Lustre", "organization": "Argonne", "public": True})
    registry.create(
        bob, {"name": "ep2", "description": "tape of the observatory", "keywords": "sky,stars (100%)", "public": True}
    )
    registry.create(bob, {"name": "hidden", "display_name": "Petrel secret"})

    def names(fulltext: str) -> list[str]:
        return sorted(endpoint.name for endpoint in registry.search(charlie, fulltext=fulltext)[0])

    assert names("petrel") == ["ep1"]
    assert names("PETR arg") == ["ep1"]
    assert names("etrel") == []
    assert names("petrel tape") == []
    assert names("stars") == ["ep2"]
    assert names("alice#ep1") == ["ep1"]
    assert names("bob") == ["ep2"]
    assert names("") == ["ep1", "ep2"]
    assert names("(100%)") == ["ep2"]
    for hostile in (".*", "\\", "[", "%", "_", "(", "'; DROP TABLE", "\0", "\\m"):
        assert names(hostile) in ([], ["ep2"], ["ep1", "ep2"])


def test_scopes_and_pages_of_a_search(alice: User, bob: User, ep1: Endpoint, ep2: Endpoint, public: Endpoint) -> None:
    assert registry.search(alice, limit=2) == ([ep1, ep2], True)
    assert registry.search(alice, limit=2, offset=2) == ([public], False)
    assert registry.search(alice, scope=SearchScope.MINE) == ([ep1, ep2], False)
    assert registry.search(alice, filters=SearchFilters(owner_id=bob.pk)) == ([public], False)
    assert registry.search(alice, scope=SearchScope.SHARED_WITH_ME) == ([], False)
    assert registry.search(bob) == ([public], False)


def test_the_database_itself_refuses_what_the_code_should_never_write(ep1: Endpoint) -> None:
    bad = [
        lambda: Endpoint.objects.create(owner=ep1.owner, name="ep1"),
        lambda: Endpoint.objects.create(owner=ep1.owner, name=""),
        lambda: Endpoint.objects.create(owner=ep1.owner, name="x", max_sessions=5),
        lambda: Server.objects.create(endpoint=ep1, scheme="gsiftp", hostname="h", port=0),
        lambda: Server.objects.create(endpoint=ep1, scheme="gsiftp", hostname="h", port=65536),
    ]
    for write in bad:
        with pytest.raises(IntegrityError), transaction.atomic():
            write()


PINNED = "SHA256:" + "x" * 43


@pytest.mark.parametrize("scheme", ["sftp", "sshftp", "ftp", "gsiftp", "ftpes"])
def test_only_endpoints_of_ssh_servers_have_a_jump_host(alice: User, scheme: str) -> None:
    """Others would be connected to directly, and yet need the jump host's credential."""
    subject = PINNED if scheme in ("sftp", "sshftp", "ftpes") else ""
    other, ssh = ServerSpec("inner", 2222, scheme, subject), ServerSpec("inner", 22, "ssh", PINNED)
    registry.create(alice, {"name": "bastion"}, [ServerSpec("gate.example.org", 22, "ssh", PINNED)])
    refusal = f"Only ssh servers are reached through a jump host: {scheme} servers would"
    with pytest.raises(InvalidFieldError, match=refusal):
        registry.create(alice, {"name": "inner", "jump_host": "bastion"}, [other])
    assert not Endpoint.objects.filter(name="inner").exists()

    registry.create(alice, {"name": "inner"}, [other])
    with pytest.raises(InvalidFieldError, match=refusal):
        registry.update(alice, "inner", {"jump_host": "bastion"})
    [row] = registry.servers(registry.resolve(alice, "inner", Permission.MANAGE))
    registry.update_server(alice, "inner", row.pk, ssh)
    registry.update(alice, "inner", {"jump_host": "bastion"})
    with pytest.raises(InvalidFieldError, match=refusal):
        registry.update_server(alice, "inner", row.pk, other)
    registry.remove_server(alice, "inner", row.pk)
    with pytest.raises(InvalidFieldError, match=refusal):
        registry.add_server(alice, "inner", other)
    registry.add_server(alice, "inner", ssh)
