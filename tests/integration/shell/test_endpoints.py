"""The commands of the shell about endpoints and their servers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints import registry
from endpoints.models import Agent, Endpoint, Role, Server
from endpoints.permissions import Permission, restricted_to
from endpoints.sharing import shares
from identity.models import User
from identity.vault import store as vault
from tests.integration.activated import proxy_of, push
from tests.integration.cast import make_endpoint, submit
from tests.integration.rest import Api
from tests.integration.shared import give, make_share
from tests.shell_context import Shell

pytestmark = pytest.mark.django_db


@pytest.fixture
def shell(alice: User) -> Shell:
    return Shell(alice)


def own_names(user: User) -> list[str]:
    return [row.name for row in registry.search(user, scope=registry.SearchScope.MINE)[0]]


# ---- endpoint-list


def test_the_list_pads_names_to_the_longest_and_shows_the_time_left(
    shell: Shell, ep1: Endpoint, gsi: Endpoint, trusting: None, alices: CertificateFiles
) -> None:
    assert shell.ok("endpoint-list") == "ep1 -       \ngsi -       \n"
    assert push(Api(shell.user), "gsi", proxy_of(alices, hours=2)).status == 200
    first, second = shell.ok("endpoint-list").splitlines()
    assert first == "ep1 -       "
    name, left = second.split(" ")
    assert (name, left[:3], len(left)) == ("gsi", "01:", 8)


def test_ones_own_names_are_not_qualified_and_those_of_others_are(
    shell: Shell, alice: User, bob: User, ep1: Endpoint, public: Endpoint
) -> None:
    share = make_share(make_endpoint(bob, "host"), "share")
    assert shell.ok("endpoint-list").split() == ["ep1", "-"]
    give(share, alice)
    submit(alice, ep1, public)
    assert shell.ok("endpoint-list").split()[::2] == ["ep1", "bob#public", "bob#share"]
    assert shell.ok("endpoint-list bob#public") == "bob#public -       \n"


def test_an_unknown_endpoint_is_an_error_for_those_who_may_not_see_it(
    shell: Shell, ep1: Endpoint, bob: User, charlie: User
) -> None:
    assert shell.ok("endpoint-list ep1") == "ep1 -       \n"
    assert shell.fails("endpoint-list nix") == "Error: No such endpoint 'nix'\n"
    for user in (bob, charlie):
        assert Shell(user).fails(f"endpoint-list {ep1.pk}").startswith("Error: No such endpoint")
        assert Shell(user).ok("endpoint-list") == ""


def test_the_public_names_are_one_on_a_line(shell: Shell, alice: User, ep1: Endpoint, public: Endpoint) -> None:
    registry.update(alice, "ep1", {"public": True})
    assert shell.ok("endpoint-list -p") == "ep1\nbob#public\n"


RECORD = """\
Name                : ep1
Host(s)             : gsiftp://a.example.org:2811, gsiftp://b.example.org:3000
Subject(s)          : /O=Grid/CN=b
MyProxy Server      : myproxy.example.org:7512
Credential Status   : n/a
Credential Expires  : n/a
Credential Subject  : n/a
Credential Time Left: n/a
"""


def test_the_verbose_list_is_a_record_that_begins_with_the_historical_fields(shell: Shell) -> None:
    shell.ok("endpoint-add ep1 -p a.example.org")
    shell.ok("endpoint-add ep1 -p gsiftp://b.example.org:3000/ -s /O=Grid/CN=b")
    shell.ok("endpoint-modify ep1 --myproxy-server=myproxy.example.org")
    fields = "name,hosts,subjects,myproxy_server,credential_status,credential_expires,credential_subject"
    assert shell.ok(f"endpoint-list -v -f {fields},credential_time_left ep1") == RECORD
    whole = shell.ok("endpoint-list -v ep1")
    rows = [line.split(":")[0].strip() for line in whole.splitlines()]
    assert rows[:8] == [line.split(":")[0].strip() for line in RECORD.splitlines()]
    assert whole.endswith("\n\n")


def test_a_field_alone_is_its_value_or_with_v_its_key_and_value(shell: Shell, ep1: Endpoint) -> None:
    assert shell.ok("endpoint-list -f hosts ep1") == "ftp://ep1.example.org:2811\n"
    assert shell.ok("endpoint-list -v -f hosts ep1") == "Host(s): ftp://ep1.example.org:2811\n"
    assert shell.ok("endpoint-list -v -f legacy_name ep1") == "Name: ep1\n"
    assert shell.ok("endpoint-list -f name,credential_status -O csv ep1") == "ep1,ACTIVE\n"
    assert shell.ok("endpoint-list -O kv ep1") == "name=ep1\ncredential_time_left=n/a\n"
    assert "the fields are name, hosts, subjects" in shell.fails("endpoint-list -f nonsense", status=2)


def test_the_credential_status_is_active_expired_or_never(
    shell: Shell, alice: User, ep1: Endpoint, gsi: Endpoint, trusting: None, alices: CertificateFiles
) -> None:
    def status(name: str) -> str:
        return shell.ok(f"endpoint-details {name} -f credential_status,credential_subject -O csv").strip()

    assert (status("ep1"), status("gsi")) == ("ACTIVE,n/a", "n/a,n/a")
    push(Api(alice), "gsi", proxy_of(alices))
    assert status("gsi").startswith("ACTIVE,/O=Grid/OU=Waybill Test/")
    assert vault.expire(datetime.now(UTC) + timedelta(hours=2)) == 1
    assert status("gsi") == "EXPIRED,n/a"
    assert shell.ok("endpoint-details gsi -f credential_time_left") == "Credential Time Left: n/a\n"


# ---- endpoint-details, endpoint-search


def test_details_are_a_block_with_the_keys_of_the_third_generation(shell: Shell, ep1: Endpoint) -> None:
    lines = shell.ok("endpoint-details ep1").splitlines()
    keys = [line.partition(":")[0].strip() for line in lines]
    assert keys[:7] == [
        "ID", "Owner", "Legacy Name", "Display Name", "Host Endpoint", "Host Endpoint Name", "Credential Status",
    ]  # fmt: skip
    assert lines[0].split(": ")[1] == str(ep1.pk)
    assert lines[2].split(": ")[1] == "alice#ep1"
    assert len({line.index(":") for line in lines if line and not line.startswith("Host(s)")} | {0}) >= 2
    assert shell.ok("endpoint-details ep1 alice#ep1").count("\n\n") == 2
    assert shell.ok("endpoint-details ep1 -f name") == "Legacy Name: alice#ep1\n"


def test_the_limits_are_integers_also_where_none_is_set(shell: Shell, ep1: Endpoint) -> None:
    line = "endpoint-details ep1 -f max_parallelism,max_concurrency -O csv"
    assert shell.ok(line) == "64,64\n"
    custom = "--max-concurrency 4 --preferred-concurrency 2 --max-parallelism 8 --preferred-parallelism 4"
    shell.ok(f"endpoint-modify ep1 --network-use custom {custom}")
    assert shell.ok(line) == "8,4\n"


def test_details_as_json_are_the_document_of_rest(shell: Shell, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    assert shell.run("endpoint-details ep1 -O json").json == Api(alice).get("/endpoint/ep1").body
    of_rest = Api(alice).get("/endpoint_search", filter_scope="my-endpoints").body["DATA"]
    assert shell.run("endpoint-search --scope=my-endpoints -O json").json == of_rest
    assert shell.run("endpoint-list -O json").json == of_rest


def test_a_search_finds_words_and_shows_records(
    shell: Shell, alice: User, charlie: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    registry.update(alice, "ep2", {"description": "The archive of the beamline", "public": True})
    assert shell.ok("endpoint-search beam arch -f legacy_name") == "Legacy Name: alice#ep2\n"
    assert shell.ok("endpoint-search --scope=my-endpoints -f name -O csv") == "alice#ep1\nalice#ep2\n"
    assert Shell(charlie).ok("endpoint-search ep -f name -O csv") == "alice#ep2\n"
    assert shell.ok("endpoint-search nothing-like-this") == ""
    assert "a text is missing" in shell.fails("endpoint-search", status=2)
    assert "'nix' is not one of all, my-endpoints" in shell.fails("endpoint-search x --scope nix", status=2)


def test_the_host_of_a_share_is_shown_only_to_those_who_may_know_it(
    shell: Shell, bob: User, charlie: User, ep1: Endpoint
) -> None:
    share = make_share(ep1, "share")
    give(share, bob)
    line = "endpoint-details alice#share -f host_endpoint,host_endpoint_name,host_path,credential_subject -O csv"
    assert shell.ok(line) == f"{ep1.pk},alice#ep1,/shared/,n/a\n"
    assert Shell(bob).ok(line) == "n/a,n/a,n/a,n/a\n"
    assert Shell(charlie).fails(line) == "Error: No such endpoint 'alice#share'\n"


# ---- endpoint-add


def test_endpoint_create_is_another_name_of_endpoint_add(shell: Shell) -> None:
    assert shell.ok("endpoint-create cluster -p dtn1.example.org") == ""
    assert shell.ok("server-list cluster") != ""
    assert "endpoint-create" not in shell.ok("help")
    assert shell.ok("man endpoint-create").splitlines()[1:] == shell.ok("man endpoint-add").splitlines()[1:]


def test_a_repeated_endpoint_add_adds_servers_and_prints_nothing(shell: Shell, alice: User) -> None:
    assert shell.ok("endpoint-add dtn -p dtn1.example.org -p dtn2.example.org:3000") == ""
    assert shell.ok("endpoint-add alice#dtn -p gsiftp://dtn3.example.org:2812/ -s /O=Grid/CN=dtn3") == ""
    assert shell.ok("server-list dtn -f uri,subject -O csv") == (
        "gsiftp://dtn1.example.org:2811,n/a\n"
        "gsiftp://dtn2.example.org:3000,n/a\n"
        "gsiftp://dtn3.example.org:2812,/O=Grid/CN=dtn3\n"
    )
    assert shell.fails("endpoint-add dtn") == "Error: An endpoint named 'alice#dtn' exists already\n"
    assert "exists already" in shell.fails("endpoint-add dtn -p d.example.org --public")
    assert "has the server" in shell.fails("endpoint-add dtn -p new.example.org -p dtn1.example.org")
    assert "new.example.org" not in shell.ok("server-list dtn")


def test_an_endpoint_with_a_display_name_prints_its_id(shell: Shell, alice: User, ep1: Endpoint) -> None:
    out = shell.ok("endpoint-add -n 'My data' -p dtn.example.org --public")
    prefix, _, endpoint_id = out.strip().rpartition(" ")
    assert prefix == "Endpoint ID:"
    found = registry.resolve(alice, endpoint_id, Permission.MANAGE)
    assert (found.display_name, found.name, found.public) == ("My data", endpoint_id, True)
    out = shell.ok("endpoint-add -n 'Shared' --sharing ep1/~/some%20folder/")
    share = registry.resolve(alice, out.split()[-1], Permission.MANAGE)
    assert (share.host, share.host_path) == (ep1, "/~/some folder/")
    assert shell.ok("endpoint-add named --sharing ep1:/data") == ""
    assert shell.fails("endpoint-add x --sharing ep1").startswith("Error: Missing '/': 'ep1'\n")
    made = shell.run("endpoint-add json -p h.example.org -O json").json
    of_rest = Api(alice).post("/endpoint", {"name": "rest"}).body
    assert set(made) | {"resource"} == set(of_rest)
    assert made["canonical_name"] == "alice#json"


def test_a_setup_key_is_the_last_line_and_another_replaces_it_until_the_computer_is_refused(
    shell: Shell, alice: User
) -> None:
    [first] = shell.ok("endpoint-add --gc laptop").splitlines()
    assert first.startswith("wb1.")
    *_, second = shell.ok("endpoint-add laptop --gc").splitlines()
    assert second.startswith("wb1.")
    assert first != second
    shown = shell.ok("endpoint-add -n 'My laptop' --gc").splitlines()
    assert [line[:4] for line in shown] == ["Endp", "wb1."]
    assert shell.ok("endpoint-remove laptop --gc") == "The computer is refused from now on\n"
    assert Agent.objects.get(endpoint__name="laptop").revoked_at is not None
    registry.create(alice, {"name": "dtn"}, [registry.ServerSpec("dtn.example.org")])
    assert "only personal endpoints have an agent" in shell.fails("endpoint-add dtn --gc")
    assert "only personal endpoints have an agent" in shell.fails("endpoint-remove dtn --gc")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("endpoint-add laptop --gc -p a.example.org", "takes the place of a server"),
        ("endpoint-add -n x --s3", "no endpoints on S3"),
        ("endpoint-add -n x --managed-endpoint", "no subscriptions"),
        ("endpoint-add -n x --subscription 1", "no subscriptions"),
        ("endpoint-add bob#x -p h.example.org", "would be an endpoint of bob; yours are alice#x"),
        ("endpoint-add 'bad name' -p h.example.org", "name: A name has 1 to 128"),
        ("endpoint-add x -p http://h.example.org", "scheme: "),
        ("endpoint-add x -p 'h example'", "'h example' is no server; write HOST"),
        ("endpoint-add x -p h:99999", "is no server; write HOST"),
        ("endpoint-add x --sharing nix/dir", "No such endpoint 'nix'"),
    ],
)
def test_what_cannot_be_added_is_refused_with_one_line(shell: Shell, alice: User, line: str, words: str) -> None:
    error = shell.fails(line)
    assert words in error
    assert error.count("\n") == 1
    assert own_names(alice) == []


@pytest.mark.parametrize("line", ["endpoint-add", "endpoint-add x --sharing a/b -p h", "endpoint-add a b"])
def test_a_line_without_sense_is_a_usage_error(shell: Shell, line: str) -> None:
    assert "Usage: endpoint-add [OPTIONS] [NAME]" in shell.fails(line, status=2)


# ---- endpoint-modify, endpoint-rename, endpoint-remove


def test_modify_prints_public_and_private_only(shell: Shell, ep1: Endpoint) -> None:
    assert shell.ok("endpoint-modify --public ep1") == "Set 'ep1' to public\n"
    assert shell.ok("endpoint-modify ep1 --private") == "Set 'ep1' to private\n"
    assert shell.ok('endpoint-modify ep1 --myproxy-server=m.example.org --myproxy-dn="/O=Grid/CN=my proxy"') == ""
    ep1.refresh_from_db()
    assert (ep1.myproxy_server, ep1.myproxy_dn) == ("m.example.org:7512", "/O=Grid/CN=my proxy")
    assert shell.ok("endpoint-modify ep1 --myproxy-server '' --force-verify on -n 'Name 2'") == ""
    ep1.refresh_from_db()
    assert (ep1.myproxy_server, ep1.force_verify, ep1.display_name, ep1.public) == ("", True, "Name 2", False)
    assert "nothing is to be changed" in shell.fails("endpoint-modify ep1", status=2)
    assert "neither on nor off" in shell.fails("endpoint-modify ep1 --force-verify yes", status=2)
    assert "oauth_server: " in shell.fails("endpoint-modify ep1 --oauth-server http://x")


def test_rename_changes_the_name_and_keeps_the_id(shell: Shell, ep1: Endpoint, ep2: Endpoint) -> None:
    assert shell.ok("endpoint-rename ep1 alice#other") == ""
    ep1.refresh_from_db()
    assert ep1.name == "other"
    assert "exists already" in shell.fails("endpoint-rename other ep2")
    assert "yours are" in shell.fails("endpoint-rename other bob#x")


def test_remove_deletes_an_endpoint_or_one_server(shell: Shell, ep1: Endpoint) -> None:
    shell.ok("server-add ep1 ftp://second.example.org")
    assert shell.ok("endpoint-remove ep1 -p second.example.org") == ""
    assert shell.ok("server-list ep1 -f hostname -O csv") == "ep1.example.org\n"
    shares.create(shell.user, "ep1", "/x", {"name": "x"})
    assert shell.ok("endpoint-remove ep1") == "Endpoint deleted successfully, with 1 shared endpoint of it\n"
    assert shell.fails("endpoint-remove ep1") == "Error: No such endpoint 'ep1'\n"


# ---- servers


def test_a_host_key_that_nobody_has_confirmed_is_confirmed_by_writing_it(shell: Shell) -> None:
    key = "SHA256:" + "k" * 43
    shell.ok(f"endpoint-add bare -p ssh://host.example.org -s {key}")
    columns = "server-list bare -f subject,host_key_confirmed -O csv"
    assert shell.ok(columns) == f"{key},True\n"
    Server.objects.update(host_key_confirmed=False)
    shell.ok("server-modify bare host.example.org -p ssh://host2.example.org")
    assert shell.ok(columns) == f"{key},False\n"
    shell.ok(f"server-modify bare host2.example.org -s {key}")
    assert shell.ok(columns) == f"{key},True\n"


def test_servers_are_added_changed_and_removed(shell: Shell, ep1: Endpoint) -> None:
    out = shell.ok("server-add ep1 b.example.org -p c.example.org:2000")
    ids = [int(line.removeprefix("Server ID: ")) for line in out.splitlines()]
    assert len(ids) == 2
    assert shell.ok("server-modify ep1 b.example.org -p b2.example.org:99") == ""
    assert shell.ok(f"server-modify ep1 {ids[1]} -s /CN=c") == ""
    assert shell.ok("server-list ep1 -f id,uri,subject -O csv").splitlines()[1:] == [
        f"{ids[0]},ftp://b2.example.org:99,n/a", f"{ids[1]},ftp://c.example.org:2000,/CN=c",
    ]  # fmt: skip
    assert "Host Key Confirmed" in shell.ok("server-list ep1")
    assert shell.ok("server-remove ep1 ftp://b2.example.org:99/") == ""
    assert "has no server 'b2.example.org'; its servers are ftp://ep1" in shell.fails(
        "server-remove ep1 b2.example.org"
    )
    shell.ok("server-add ep1 c.example.org:2001")
    assert "names several servers of alice#ep1" in shell.fails("server-remove ep1 c.example.org")
    assert "one scheme" in shell.fails("server-add ep1 gsiftp://d.example.org")
    assert "a server is missing" in shell.fails("server-add ep1", status=2)
    assert "nothing is to be changed" in shell.fails("server-modify ep1 c.example.org", status=2)
    of_rest = Api(shell.user).get("/endpoint/ep1/server_list").body["DATA"]
    assert shell.run("server-list ep1 -O json").json == of_rest


# ---- permission


CHANGES = [
    "endpoint-modify {} --public",
    "endpoint-rename {} mine",
    "endpoint-remove {}",
    "endpoint-remove {} -p gsi1.example.org",
    "server-add {} x.example.org",
    "server-modify {} gsi1.example.org -p x.example.org",
    "server-remove {} gsi1.example.org",
]


@pytest.mark.parametrize("line", CHANGES)
def test_only_those_who_manage_an_endpoint_change_it(
    line: str, ep1: Endpoint, gsi1: Endpoint, alice: User, bob: User, charlie: User
) -> None:
    for user in (bob, charlie):
        assert Shell(user).fails(line.format("alice#ep1")) == "Error: No such endpoint 'alice#ep1'\n"
        refused = Shell(user).fails(line.format("alice#gsi1"))
        assert refused == "Error: You do not have permission for this on this endpoint\n"
    Role.objects.create(endpoint=gsi1, principal_type="identity", principal=bob.pk, role="administrator")
    Shell(bob).ok(line.format("alice#gsi1"))


def test_an_error_as_json_has_the_code_of_rest(shell: Shell, alice: User) -> None:
    found: dict[str, Any] = json.loads(shell.fails("endpoint-details nix -O json"))
    assert found["code"] == Api(alice).get("/endpoint/nix").code
    assert set(found) == {"code", "message", "request_id"}


def test_texts_of_others_are_no_commands_to_the_terminal(shell: Shell, bob: User, public: Endpoint) -> None:
    Endpoint.objects.filter(pk=public.pk).update(description="two\nlines \x1b]0;title\x07 \u202e", display_name="a\nb")
    for line in ("endpoint-details bob#public", "endpoint-search public", "endpoint-details bob#public -O kv"):
        out = shell.ok(line)
        assert all(text.isprintable() for text in out.splitlines())
        assert r"two\nlines \x1b]0;title\x07 \u202e" in out
    for line in ("endpoint-details bob#public -O csv", "endpoint-search public -f display_name,description -O csv"):
        assert not {"\x1b", "\x07"} & set(shell.ok(line))
    assert "\x1b" not in shell.run("endpoint-details 'x\x1b[2J'").err
    assert "\x1b" not in shell.run("endpoint-activate 'x\x1b[2J' 'y\x1b[2J'").err


def test_a_restricted_session_sees_its_endpoints_only(
    shell: Shell, ep1: Endpoint, ep2: Endpoint, public: Endpoint
) -> None:
    shell.ok("bookmark-add ep2/x second")
    with restricted_to([ep1.pk]):
        assert shell.ok("endpoint-list").split() == ["ep1", "-"]
        assert shell.ok("endpoint-list -p") == ""
        assert shell.ok("endpoint-search e --scope all -f name -O csv") == "alice#ep1\n"
        assert shell.ok("bookmark-list") == ""
        assert shell.ok("endpoint-activate ep*") == ""
        for line in ("endpoint-details ep2", "endpoint-remove ep2", "server-list bob#public", "endpoint-activate ep2"):
            assert "No such endpoint" in shell.fails(line)
        assert "restricted to some endpoints" in shell.fails("endpoint-add new -p new.example.org")
        assert shell.fails("endpoint-activate e*2") == "Error: No endpoint fits 'e*2'\n"
